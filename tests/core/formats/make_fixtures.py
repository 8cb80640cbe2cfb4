#!/usr/bin/env python3
"""Makes the small models and the hostile files that the import tests read: make_fixtures.py FOLDER."""

import copy
import io
import json
import os
import pathlib
import pickle
import re
import struct
import sys
import warnings
import zipfile
from typing import Dict, List, NamedTuple, Optional

import torch
import torch.fx
import torch.nn.functional as F

warnings.simplefilter("ignore")
OUT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
import graft_fx


class Block(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width, eps=1e-6)
        self.fc1 = torch.nn.Linear(width, 2 * width)
        self.fc2 = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x)))) * 0.5


class Net(torch.nn.Module):
    """Shared weights, a buffer, sizes, several kinds of modules."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.layers[1].fc1.weight = self.layers[0].fc1.weight
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        b, s, w = x.shape
        return (x * self.scale).view(b, s, 2, w // 2).transpose(1, 2)


class Flat(torch.nn.Module):
    """Straight code: attributes, constants, lists, several results, numbers, results that nobody reads."""

    def __init__(self, writes=False):
        super().__init__()
        self.conv, self.norm, self.writes = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), writes
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x):
        y = self.norm(self.conv(x))
        a, b = y.chunk(2, 1)
        z = torch.cat([a, b.neg()], 1).mean((2, 3)) * self.scale - 1e-5
        torch.exp(z)
        kind = torch.zeros(z.shape[0], 2, dtype=torch.int64)
        if self.writes:
            z.add_(1)
        return z.view(z.shape[0], -1), z[0].size(0), kind, [a, b]


class Chunks(torch.nn.Module):
    """A method that is straight, reads weights and buffers of its own and returns all parts of a list, or some."""

    def __init__(self, first):
        super().__init__()
        self.first = first
        self.weight = torch.nn.Parameter(torch.ones(6))
        self.register_buffer("shift", torch.ones(6))

    def forward(self, x):
        for i in range(5):
            x = torch.relu(x * self.weight + self.shift)
        return torch.split(x, 2)[self.first:], x.shape[0] * 2, x.softmax(-1)


class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(4)

    def forward(self, x):
        y = F.relu(self.bn(self.conv(x)), inplace=True)
        y += self.conv(x)
        z = y.view(-1)
        z.mul_(2.0)
        return y


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x, mask: Optional[torch.Tensor] = None, times: int = 3):
        parts: List[torch.Tensor] = []
        for i in range(times):
            parts.append(self.fc(x) * i)
        if mask is not None:
            x = x + mask
        if bool(x.sum() > 0):
            y = torch.cat(parts, dim=0)
        else:
            y = x
        found: Dict[str, torch.Tensor] = {"a": y, "b": x}
        return found["a"], (found["b"], F.dropout(y, 0.1, self.training))

    @torch.jit.export
    def double(self, x):
        return x * 2


class Pair(torch.nn.Module):
    def forward(self, x):
        a, b = torch.split(x, 2, dim=1)
        values, indices = torch.topk(a, 1)
        return {"sum": a + b, "values": values}, indices


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda a: (self.fc(a).relu(),), lambda a: (self.fc(a) - 1,), (x,))[0]
        return y * 2


class Turns(torch.nn.Module):
    def forward(self, x):
        turn = torch._higher_order_ops.while_loop
        return turn(lambda i, a: i < 5, lambda i, a: (i + 1, a * 2 + i), (torch.tensor(0), x))[1] - 1


class Search(torch.nn.Module):
    """A loop that uses weights, and whose condition uses what is carried and what is not."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x, limit):
        turn = torch._higher_order_ops.while_loop
        more = lambda a, n: (a.abs().max() > limit) & (n < 50)
        return turn(more, lambda a, n: (self.fc(a) * 0.5, n + 1), (x * 8, torch.tensor(0)))


class Counts(torch.nn.Module):
    """Writes to a buffer and to its input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(4))

    def forward(self, x):
        self.n.add_(1)
        x.mul_(2)
        return x + self.n


class Numbers(torch.nn.Module):
    def forward(self, x, times: int, more: float, flag: bool, nothing=None):
        y = x * times + more
        return y if flag else y - 1


class Encoder(torch.nn.Module):
    """What run_decompositions takes apart: linear layers, attention by hand and PyTorch's own, norms, activations."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.q, self.k, self.v, self.o = (torch.nn.Linear(16, 16, bias=i != 1) for i in range(4))
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x, shown):
        q, k, v = (f(self.norm(x)).view(2, 6, 4, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 2.0, dim=-1)
        own = torch.matmul(weights, v)
        theirs = F.scaled_dot_product_attention(q, k, v, shown)
        y = self.o((own + theirs).transpose(1, 2).reshape(2, 6, 16)) + x
        return self.down(F.silu(self.up(y))) + F.hardswish(y)


class Vision(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)


def exported(name, model, inputs):
    """NAME.pt2, and NAME_core.pt2 in the other dialect; beside them the inputs and what PyTorch computes."""
    program = torch.export.export(model, inputs)
    given = [v for v in inputs if isinstance(v, torch.Tensor)]
    torch.save([v.clone() for v in given], OUT / f"{name}_inputs.pt")
    torch.export.save(program, OUT / f"{name}.pt2")
    torch.export.save(program.run_decompositions(), OUT / f"{name}_core.pt2")
    torch.save([program.module()(*copy.deepcopy(inputs))], OUT / f"{name}_expected.pt")


def programs():
    torch.manual_seed(1)
    exported("branches", Branches().eval(), (torch.randn(3, 4),))
    exported("search", Search().eval(), (torch.randn(3, 4), torch.tensor(0.1)))
    exported("turns", Turns(), (torch.randn(3, 4),))
    exported("counts", Counts(), (torch.randn(3, 4),))
    exported("numbers", Numbers(), (torch.randn(3, 4), 2, 1.5, True))
    shown = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    shown[1, :, :, 4:] = False
    exported("encoder", Encoder().eval(), (torch.randn(2, 6, 16), shown))
    exported("vision", Vision().eval(), (torch.randn(1, 3, 8, 8),))


class Sets(torch.nn.Module):
    """Sets attributes of itself and of a module below."""

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(4))

        def forward(self, x):
            self.last = x.sum(0)
            return x

    def __init__(self):
        super().__init__()
        self.inner = Sets.Inner()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count = self.count + 1
        return self.inner(x) * self.count


class SetsInBranch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        if bool(x.sum() > 0):
            self.count = self.count + 1
        return x * self.count


class Repeats(torch.nn.Module):
    """Tracing keeps the number of repeats in a tensor without dimensions, which stays on the CPU."""

    def forward(self, x):
        return x.repeat_interleave(x.shape[1] // 2, dim=2)


class Attentions(torch.nn.Module):
    """Tracing divides embed_dim by num_heads as tensors without dimensions. The size of what the first computes is what the second divides."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(10, 16)
        self.layers = torch.nn.ModuleList(torch.nn.MultiheadAttention(16, 4, batch_first=True) for _ in range(2))

    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            q, out = x.transpose(0, 1), layer.out_proj
            x = torch.nn.functional.multi_head_attention_forward(
                q, q, q, q.shape[2], 4, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0, out.weight, out.bias,
                need_weights=False)[0].transpose(0, 1)
        return x


class Across(torch.nn.Module):
    """Attention of one sequence to another. They have one batch, and lengths that an example may have alike."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, q, k):
        return self.attention(q, k, k, need_weights=False)[0]


def models():
    torch.manual_seed(0)
    torch.jit.trace(Across().eval(), (torch.randn(2, 5, 8), torch.randn(2, 5, 8))).save(OUT / "across.pt")
    torch.jit.trace(Across().eval(), (torch.randn(1, 5, 8), torch.randn(1, 5, 8))).save(OUT / "across_one.pt")
    torch.jit.trace(Attentions().eval(), torch.randint(10, (2, 3))).save(OUT / "attentions.pt")
    torch.jit.trace(Repeats(), torch.randn(1, 4, 2)).save(OUT / "repeats.pt")
    torch.jit.script(Sets()).save(OUT / "sets.pt")
    torch.jit.script(SetsInBranch()).save(OUT / "sets_in_branch.pt")
    net, x = Net().eval(), torch.randn(2, 3, 8)
    torch.jit.trace(net, x).save(OUT / "net.pt")
    dims = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=64)}
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=(dims,)), OUT / "net.pt2")
    graft_fx.save(torch.fx.symbolic_trace(net), str(OUT / "net.fx"), (x,))
    graft_fx.capture(net, (x,), str(OUT / "net_captured.fx"))
    for name, writes in (("flat", False), ("flat_writes", True)):
        flat = torch.jit.trace(Flat(writes).eval(), torch.randn(1, 3, 8, 8))
        torch.jit.freeze(flat).save(OUT / f"{name}.pt")
    for name, first in (("chunks", 0), ("some_chunks", 1)):
        torch.jit.trace(Chunks(first), torch.randn(4, 6)).save(OUT / f"{name}.pt")
    torch.jit.trace(InPlace().eval(), torch.randn(1, 3, 8, 8)).save(OUT / "inplace.pt")
    torch.jit.script(Scripted().eval()).save(OUT / "scripted.pt")
    torch.export.save(torch.export.export(Pair(), (torch.randn(3, 4),)), OUT / "pair.pt2")
    quantized()
    called()
    autocast()

    library = torch.library.Library("fixture_ops", "DEF")
    library.define("fancy(Tensor x, int n) -> (Tensor, Tensor)")
    library.impl("fancy", lambda x, n: (x * n, x + n), "CompositeExplicitAutograd")

    class Custom(torch.nn.Module):
        def forward(self, x):
            a, b = torch.ops.fixture_ops.fancy(x.relu(), 3)
            return a + b

    torch.jit.script(Custom()).save(OUT / "custom.pt")


@torch.jit.script
class Boxes:
    """A TorchScript class, which code makes objects of while it runs."""

    def __init__(self, corners: torch.Tensor, names: List[str]):
        self.corners = corners
        self.names = names
        self.count = 0

    def widths(self) -> torch.Tensor:
        self.count += 1
        return self.corners[:, 1] - self.corners[:, 0]


class Objects(torch.nn.Module):
    """Objects of a class of its own, inside of torch.no_grad() and of a list, and one that a branch reads."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2)

    def forward(self, x):
        with torch.no_grad():
            boxes = Boxes(self.fc(x), ["a", "b"])
        both = [boxes, Boxes(x[:, :2], [])]
        y = boxes.widths() + both[1].widths()
        if bool(y.sum() > 0):
            y = y + boxes.corners[:, 1]
        return y * len(boxes.names) + both[0].corners[:, 0]


class Scores(NamedTuple):
    scores: torch.Tensor
    both: List[torch.Tensor]


class Named(torch.nn.Module):
    def forward(self, x) -> Scores:
        return Scores(x.softmax(-1), [x, x + 1])


class Changed(torch.nn.Module):
    def forward(self, x):
        boxes = Boxes(x, ["a"])
        if bool(x.sum() > 0):
            boxes.corners = x + 1
        return boxes.widths()


class Forked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        started = torch.jit.fork(self.a, x)
        y = self.b(x).relu()
        return torch.jit.wait(started) - y


class Autocast(torch.nn.Module):
    def __init__(self, enabled):
        super().__init__()
        self.fc, self.enabled = torch.nn.Linear(4, 4), enabled

    def forward(self, x):
        y = self.fc(x)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.enabled):
            z = torch.matmul(y, y.t())
        return z.softmax(-1)


class AutocastScripted(torch.nn.Module):
    def __init__(self, enabled):
        super().__init__()
        self.enabled: torch.jit.Final[bool] = enabled

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.enabled):
            z = torch.matmul(x, x.t())
        return z.softmax(-1)


def autocast():
    x = torch.randn(5, 4)
    for name, enabled in (("autocast", True), ("autocast_off", False)):
        model = Autocast(enabled).eval()
        torch.export.save(torch.export.export(model, (x,)), OUT / f"{name}.pt2")
        torch.jit.script(AutocastScripted(enabled)).save(OUT / f"{name}.pt")
        torch.save(model(x), OUT / f"{name}_out.pt")
    torch.save(x, OUT / "autocast_in.pt")


class Packed(torch.nn.Module):
    """PyTorch's function asks whether the lengths are a tensor or a list."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


class Raises(torch.nn.Module):
    """Conditions that are known lead to exceptions, in a branch whose condition is not."""

    def fail(self, o: Optional[torch.Tensor]) -> torch.Tensor:
        if o is None:
            raise ValueError("no offset")
        return torch.neg(o)

    def forward(self, x):
        o: Optional[torch.Tensor] = None
        if x.dim() == 1:
            x = torch.exp(self.fail(o)) + x
        return torch.relu(x)


class Pyramid(torch.nn.Module):
    """A called method sets a list and fills it in a loop."""

    levels: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.turns, self.levels = 3, [torch.zeros(1)]

    def build(self, x: torch.Tensor):
        self.levels = [x]
        for _ in range(self.turns - 1):
            x = F.avg_pool2d(x, 2)
            self.levels.append(x)

    def forward(self, x):
        self.build(x)
        return self.levels[0], self.levels[2]


def called():
    """Scripted models beside what they are called with and what they give."""
    for name, model, x in (
        ("objects", Objects(), (torch.randn(5, 4),)),
        ("forked", Forked(), (torch.randn(5, 4),)),
        ("raises", Raises(), (torch.randn(5, 4),)),
        ("pyramid", Pyramid(), (torch.randn(1, 2, 8, 8),)),
        ("packed", Packed(), (torch.randn(3, 6, 4), torch.tensor([6, 4, 1]))),
    ):
        scripted = torch.jit.script(model.eval())
        scripted.save(OUT / f"{name}.pt")
        torch.save(x, OUT / f"{name}_in.pt")
        torch.save(scripted(*x), OUT / f"{name}_out.pt")
    torch.jit.script(Changed()).save(OUT / "changed.pt")
    torch.jit.script(Named()).save(OUT / "named.pt")


def quantized():
    """Weights that are packed while the file is loaded, by code of the file."""
    import torch.ao.quantization as ao
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
    model, x = ao.QuantWrapper(model).eval(), torch.randn(2, 3, 8, 8)
    torch.backends.quantized.engine = "fbgemm" if "fbgemm" in torch.backends.quantized.supported_engines else "qnnpack"
    model.qconfig = ao.get_default_qconfig(torch.backends.quantized.engine)
    prepared = ao.prepare(model)
    prepared(x)
    converted = ao.convert(prepared)
    torch.jit.trace(converted, x).save(OUT / "quantized.pt")
    torch.save(x, OUT / "quantized_in.pt")
    torch.save(converted(x), OUT / "quantized_out.pt")


def rewritten(name, change, source="net.pt", compress=False):
    """A copy of a good file, its records changed by `change(name, data)` (None: left out)."""
    with zipfile.ZipFile(OUT / source) as z, zipfile.ZipFile(OUT / name, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as out:
        for info in z.infolist():
            data = change(info.filename, z.read(info))
            if data is not None:
                out.writestr(info.filename, data)


def added(name, records, source="net.pt"):
    rewritten(name, lambda n, d: d, source)
    with zipfile.ZipFile(OUT / name, "a") as z:
        for record, data in records:
            z.writestr(record, data)


class Wicked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return x + self.x

    @torch.jit.export
    def __getstate__(self):
        return self.x, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]):
        torch.save(state[0], "/tmp/graft_fixture_was_run")
        self.x = state[0]
        self.training = state[1]


def doubling(loop):
    """Each method calls the one before twice, forty times over."""
    m = type(f"Doubling{loop}", (torch.jit.ScriptModule,), {})()
    m.define("def g0(self, x: Tensor, l: List[Tensor]) -> Tensor:\n  return x\n")
    for i in range(1, 40):
        m.define(f"def g{i}(self, x: Tensor, l: List[Tensor]) -> Tensor:\n  return self.g{i - 1}(self.g{i - 1}(x, l), l)\n")
    turn = "for i in range(n):\n    x = self.g39(x, l)\n  " if loop else "x = self.g39(x, l)\n  "
    m.define(f"def forward(self, x: Tensor, n: int) -> Tensor:\n  l = [x]\n  {turn}return x\n")
    return m


def hostile():
    doubling(True).save(OUT / "doubling_loop.pt")
    doubling(False).save(OUT / "doubling.pt")
    good = (OUT / "net.pt").read_bytes()
    (OUT / "empty.pt").write_bytes(b"")
    (OUT / "page.pt").write_text("\n<!DOCTYPE html><html><body>404</body></html>")
    (OUT / "pointer.pt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    (OUT / "directory.pt").mkdir(exist_ok=True)
    os.utime(OUT / "directory.pt")
    (OUT / "truncated.pt").write_bytes(good[: len(good) // 2])
    (OUT / "bare_pickle.pt").write_bytes(pickle.dumps({"a": 1}))
    (OUT / "noise.pt").write_bytes(bytes(range(256)) * 64)
    torch.save(torch.zeros(3), OUT / "tensor.pt")
    rewritten("short_weight.pt", lambda n, d: d[:8] if n.endswith("data/0") else d)
    rewritten("missing_weight.pt", lambda n, d: None if n.endswith("data/0") else d)
    deep = b"\ndef deep(x):\n  return " + b"(" * 200_000 + b"x" + b")" * 200_000 + b"\n"
    chain = b"\ndef long(x):\n  return x" + b" + x" * 200_000 + b"\n"
    rewritten("deep_code.pt", lambda n, d: d + deep if n.endswith("code/__torch__.py") else d)
    rewritten("long_code.pt", lambda n, d: d + chain if n.endswith("code/__torch__.py") else d)
    for name, line in (("blank_lines", b"\n"), ("comments", b"    #\n"), ("continued", b"\\\n")):
        rewritten(f"{name}.pt", lambda n, d: d + line * 200_000 if n.endswith("code/__torch__.py") else d)
    rewritten("deep_pickle.pt", lambda n, d: b"\x80\x02" + b"(" * 2_000_000 + b"." if n.endswith("data.pkl") else d)
    rewritten("nested_pickle.pt", lambda n, d: b"\x80\x02N" + b"\x85" * 2_000_000 + b"." if n.endswith("data.pkl") else d)
    rewritten("foreign_pickle.pt", lambda n, d: pickle.dumps(OUT, 4) if n.endswith("data.pkl") else d)
    rewritten("bomb.pt", lambda n, d: bytes(200 << 20) if n.endswith("byteorder") else d, compress=True)
    added("traversal.pt", [("net/../../evil", b"x")])
    added("absolute.pt", [("/etc/evil", b"x")])
    added("twice.pt", [("net/data.pkl", b"x")])
    huge = bytearray(good)
    at = huge.rfind(b"PK\x01\x02")
    huge[at + 20 : at + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    (OUT / "absurd_size.pt").write_bytes(bytes(huge))
    torch.jit.script(Wicked()).save(OUT / "setstate.pt")
    pathlib.Path("/tmp/graft_fixture_was_run").unlink(missing_ok=True)

    def program(change):
        return lambda n, d: change(d) if n.endswith("models/model.json") else d

    rewritten("bad_json.pt2", program(lambda d: d[: len(d) // 2]), "net.pt2")
    rewritten("wrong_type.pt2", program(lambda d: d.replace(b'"nodes": [', b'"nodes": 7, "other": [')), "net.pt2")
    rewritten("unknown_dtype.pt2", program(lambda d: d.replace(b'"dtype": 7', b'"dtype": 99')), "net.pt2")
    rewritten("wrong_weights.pt2", lambda n, d: d.replace(b'"as_int": 8', b'"as_int": 800000000000') if "weights_config" in n else d, "net.pt2")
    rewritten("pickled.pt2", lambda n, d: d.replace(b'"use_pickle": false', b'"use_pickle": true') if "weights_config" in n else d, "net.pt2")
    rewritten("deep_json.pt2", program(lambda d: b"[" * 1_000_000), "net.pt2")
    rewritten("bad.fx", lambda n, d: d.replace(b'"aten"', b'"eton"') if n == "graft_fx.json" else d, "net.fx")
    rewritten("short.fx", lambda n, d: d[:4] if n.startswith("weights/") else d, "net.fx")

    def graph(change):
        def changed(name, data):
            if name != "graft_fx.json":
                return data
            document = json.loads(data)
            change(document["graphs"][0]["aten"])
            return json.dumps(document).encode()

        return changed

    def first(nodes, op="call_function"):
        return next(n for n in nodes if n["op"] == op)

    rewritten("cyclic.fx", graph(lambda nodes: first(nodes).update(args=[{"node": first(nodes)["name"]}])), "net.fx")
    rewritten("backwards.fx", graph(lambda nodes: nodes.reverse()), "net.fx")
    rewritten("wrong_type.fx", graph(lambda nodes: first(nodes).update(args=7)), "net.fx")
    rewritten("unknown_kind.fx", graph(lambda nodes: first(nodes).update(args=[{"riddle": 1}])), "net.fx")
    rewritten("unknown_dtype.fx", graph(lambda nodes: first(nodes, "get_attr")["data"].update(dtype="float99")), "net.fx")
    rewritten("negative.fx", graph(lambda nodes: first(nodes, "get_attr")["data"].update(shape=[-16, 8])), "net.fx")
    rewritten("negative_type.fx", graph(lambda nodes: first(nodes)["value"].update(shape=[-16, 8])), "net.fx")
    rewritten("huge_type.fx", graph(lambda nodes: first(nodes)["value"].update(shape=[2**62, 8])), "net.fx")
    rewritten("deep_modules.fx", graph(lambda nodes: first(nodes).update(modules=[[f"k{i}", f"a{i}", "T"] for i in range(5000)])), "net.fx")
    rewritten("overflow.fx", graph(lambda nodes: first(nodes, "get_attr")["data"].update(shape=[2**40, 2**40])), "net.fx")
    rewritten("deep_argument.fx", graph(lambda nodes: first(nodes).update(args=[nested(400)])), "net.fx")
    rewritten("lost_weight.fx", lambda n, d: None if n.startswith("weights/") else d, "net.fx")
    rewritten("deep_json.fx", lambda n, d: b'{"a":' * 200_000 if n == "graft_fx.json" else d, "net.fx")
    rewritten("not_utf8.fx", lambda n, d: d.replace(b"Net", b"N\xfft") if n == "graft_fx.json" else d, "net.fx")
    rewritten("bomb.fx", lambda n, d: b" " * (200 << 20) if n == "graft_fx.json" else d, "net.fx", compress=True)

    def nodes(change):
        def changed(data):
            document = json.loads(data)
            change(document["graph_module"]["graph"]["nodes"])
            return json.dumps(document).encode()

        return program(changed)

    def itself(nodes):
        node = next(n for n in nodes if n["outputs"] and "as_tensor" in n["outputs"][0] and "as_tensor" in n["inputs"][0]["arg"])
        node["inputs"][0]["arg"] = node["outputs"][0]

    rewritten("cyclic.pt2", nodes(itself), "net.pt2")
    rewritten("backwards.pt2", nodes(lambda n: n.reverse()), "net.pt2")
    rewritten("negative.pt2", lambda n, d: d.replace(b'"as_int": 8', b'"as_int": -8') if "weights_config" in n else d, "net.pt2")
    rewritten("negative_type.pt2", program(lambda d: d.replace(b'"as_int": 8}', b'"as_int": -8}')), "net.pt2")
    rewritten("huge_type.pt2", program(lambda d: d.replace(b'"as_int": 8}', b'"as_int": 4611686018427387904}')), "net.pt2")
    tower = b";".join(b"k%d,a%d,T" % (i, i) for i in range(5000))
    rewritten("deep_modules.pt2", program(lambda d: d.replace(b'"nn_module_stack": "', b'"nn_module_stack": "' + tower + b";")), "net.pt2")
    rewritten("offset.pt2", lambda n, d: d.replace(b'"storage_offset": {"as_int": 0}', b'"storage_offset": {"as_int": -1000000}')
              if "weights_config" in n else d, "net.pt2")
    rewritten("not_utf8.pt2", program(lambda d: d.replace(b"layer_norm", b"l\xff\xfeer_norm")), "net.pt2")
    rewritten("empty_range.pt2", program(lambda d: d.replace(b'"max_val": 64', b'"max_val": -7')), "net.pt2")
    rewritten("lost_weight.pt2", lambda n, d: None if n.endswith("weight_0") else d, "net.pt2")
    rewritten("bomb.pt2", program(lambda d: b" " * (200 << 20)), "net.pt2", compress=True)

    rewritten("huge_shape.pt", lambda n, d: d.replace(b"(K\x10K\x08t", b"(K\xffK\xfft") if n.endswith("/data.pkl") else d)
    rewritten("negative_shape.pt", lambda n, d: d.replace(b"(K\x10K\x08t", b"(J\xf0\xff\xff\xffK\x08t") if n.endswith("/data.pkl") else d)
    rewritten("not_utf8.pt", lambda n, d: d.replace(b"def forward", b"def f\xff\xfeward") if n.endswith("code/__torch__.py") else d)
    rewritten("no_code.pt", lambda n, d: None if n.endswith("code/__torch__.py") else d)
    def debug(name, pattern, replacement):
        changed = lambda n, d: re.sub(pattern, replacement, d, flags=re.DOTALL) if n.endswith(".debug_pkl") else d
        rewritten(name, changed)
        assert (OUT / name).read_bytes() != good

    debug("debug_table.pt", rb"\(K\x01K\x02", lambda m: b"(K\xf0K\x02")
    debug("debug_range.pt", rb"\x87q(.)K\x00M..\x87", lambda m: b"\x87q" + m[1] + b"M\xf0\xffM\xff\xff\x87")
    debug("debug_negative.pt", rb"\(K\x01K\x02", lambda m: b"(J\xff\xff\xff\xffK\x02")
    rewritten("debug_noise.pt", lambda n, d: b"\x80\x02K\x01." if n.endswith(".debug_pkl") else d)
    added("odd.pt", [("net/zz", b"x")])
    (OUT / "odd.pt").write_bytes((OUT / "odd.pt").read_bytes().replace(b"net/zz", b"net/\xff\xfe"))


def nested(depth):
    inner = 1
    for _ in range(depth):
        inner = [inner]
    return inner


OUT.mkdir(parents=True, exist_ok=True)
programs()  # before models(), whose operator no decomposition knows
models()
before = {p.name: p.stat().st_mtime_ns for p in OUT.iterdir()}
hostile()
# What tests/e2e/hostile_test.py runs the program on; the records of source lines are left out, the rest is read.
made = [p.name for p in OUT.iterdir() if before.get(p.name) != p.stat().st_mtime_ns and not p.name.startswith("debug_")]
(OUT / "hostile.txt").write_text("\n".join(sorted(made)) + "\n")
