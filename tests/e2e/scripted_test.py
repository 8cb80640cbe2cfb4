"""Scripted models ask their values for ranks and dtypes. Inputs that a user gives answer: rules then match what is chosen, the
program says what it left out, and the model's own checks stay.

    scripted_test.py BUILD_FOLDER
"""

import re
import warnings
from enum import Enum
from typing import Dict, List, Optional

from support import OPERATORS, SOURCE, TestCase, main

import torch
import torch.nn.functional as F
from torch import nn

UP = """
class Up(Rule):
    def pattern(x):
        return F.interpolate(torch.relu(x), scale_factor=2.0, mode="bilinear", align_corners=False)

    def replacement(x):
        return F.interpolate(torch.clamp(x, min=0), scale_factor=2.0, mode="bilinear", align_corners=False)
"""
NORM = """
class Norm(Rule):
    class pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(2, 4)

        def forward(self, x):
            return torch.relu(self.norm(x))
"""


class Resized(nn.Module):
    def forward(self, x):
        return F.interpolate(torch.relu(x), scale_factor=2.0, mode="bilinear", align_corners=False)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        if x.size(0) > 3:
            raise ValueError("too many")
        return torch.relu(self.norm(x))


class Searches(nn.Module):
    """What a `return` or `break` leaves unset has no value on the other way."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        n = 0
        while n < 5:
            if bool(x.sum() > 0):
                x = self.a(x)
            else:
                x = self.b(x)
                if n == 3:
                    break
            n += 1
            if n == 2:
                continue
            x = x + n
        for i in range(4):
            x = x * 0.5
            if bool(x.abs().max() < 0.3):
                return x + i
        return torch.relu(x)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("last", torch.zeros(6))

    def forward(self, x):
        self.calls += 1
        self.mean.mul_(0.5).add_(x.mean((0, 1, 2)))
        return x * self.calls + self.mean


class Replaces(Counts):
    def forward(self, x):
        self.last = self.last + x[0, 0, 0]
        return x - self.last


class Notes(nn.Module):
    """What detection models do: note that something was said, keep a list of tensors, gather lists in a dict that begins empty."""

    anchors: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.anchors = [torch.ones(6), torch.full((6,), 2.0)]
        self.said = False

    def forward(self, xs: List[torch.Tensor], targets: Optional[List[Dict[str, torch.Tensor]]] = None):
        if targets is not None and len(targets) > 5:
            raise ValueError("too many")
        self.anchors = [a * xs[0].amax() for a in self.anchors]
        parts: Dict[str, List[torch.Tensor]] = {}
        for name in ["a", "b"]:
            parts[name] = list((xs[0] + self.anchors[1]).split(1))
        if not self.said:
            warnings.warn("once")
            self.said = True
        return [{"x": p + q} for p, q in zip(parts["a"], parts["b"])]


class Remembers(nn.Module):
    """The second run computes something else."""

    def __init__(self):
        super().__init__()
        self.later = False

    def forward(self, x):
        if self.later:
            x = x * 2
        self.later = True
        return x


class Streams(nn.Module):
    """The first run finds no state; what it shows at the end is for others."""

    state: Optional[torch.Tensor]
    shown: Optional[torch.Tensor]

    def __init__(self, reads: bool):
        super().__init__()
        self.reads, self.state, self.shown = reads, None, None

    def forward(self, x):
        if self.reads:
            state = self.state
            if state is not None:
                x = x + state
            self.state = x
        self.shown = torch.tanh(x)
        return torch.sin(x)


class Lazy(nn.Module):
    """The first run makes a mask for all later ones."""

    mask: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.linear, self.mask = nn.Linear(6, 6), None

    def forward(self, x):
        mask = self.mask
        if mask is None:
            mask = torch.ones(6, 6).tril() * self.linear.weight
            self.mask = mask
        return x @ mask


class Spectrum(nn.Module):
    def forward(self, x):
        z = torch.fft.fft(x)
        return z.conj(), z.conj().imag


class Offsets(nn.Module):
    """An optional dictionary, and a number beside the tensor."""

    def forward(self, x: torch.Tensor, offsets: Optional[Dict[str, torch.Tensor]] = None):
        y = torch.nn.functional.gelu(x) * 2
        if offsets is not None:
            y = y + offsets["b"]
        return y, float(y.sum())


class Sorts(nn.Module):
    """A dictionary of lists that begins empty and grows."""

    def forward(self, x: torch.Tensor) -> Dict[str, List[torch.Tensor]]:
        rows: Dict[str, List[torch.Tensor]] = {}
        for i in range(x.size(0)):
            place = "even" if i % 2 == 0 else "odd"
            if place not in rows:
                rows[place] = []
            rows[place].append(torch.nn.functional.gelu(x[i]) * 2)
        return rows


class Padded(nn.Module):
    """Without gradients, PyTorch's layer leaves padding out by nested tensors."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)


class Recurs(nn.Module):
    """Carried values, branches inside of a loop, a loop inside of a branch, writes to what lives outside."""

    def forward(self, x: torch.Tensor, turns: torch.Tensor):
        h, seen = torch.zeros_like(x), torch.zeros(3, x.size(1))
        first = x.t()[0]
        for i in range(int(turns.item())):
            a = torch.tanh(x + h) * 2 + first.unsqueeze(1)
            b = torch.sigmoid(a) + h
            if bool(b.sum() > 0):
                c = a * b + 1
                for _ in range(i + 1):
                    c = torch.sin(c) * 0.5 + a
                h = c - b
            else:
                h = torch.relu(b) - a * 0.1
            seen[i % 3] = h[0] * 2 + torch.cos(a[1])
        return torch.relu(h) * 0.5 + 1, seen


class Gathers(nn.Module):
    """A loop of one result in front of what reads it beside values that the body reads, too: PyTorch's interpreter would take these
    for used up after the first turn."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x, turns: torch.Tensor):
        b, c, y = self.linear(x), torch.erf(x * 0.1), x
        for i in range(int(turns.item())):
            y = torch.matmul(b, c.t()) + i
        return torch.cat([b, c, y], 1)


class Begins(nn.Module):
    """What a loop carries begins as None."""

    def forward(self, x, turns: torch.Tensor):
        c: Optional[torch.Tensor] = None
        y = x
        for _ in range(int(turns.item())):
            if c is not None:
                y = torch.tanh(y) * c + 1
            c = torch.sigmoid(y) * 0.5 + 0.1
        return y + 1


class Bags(nn.Module):
    """PyTorch's own code raises where offsets are None, and goes on to ask for their rank."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(5, 8)

    def forward(self, places):
        return torch.relu(self.bag(places))


class Pads(nn.Module):
    """PyTorch's function takes a tensor or a list, and asks which of them it was given."""

    def forward(self, x, rows: List[torch.Tensor]):
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return torch.relu(nn.utils.rnn.pad_sequence([x[0], x[1, :2]])) + nn.utils.rnn.pad_sequence(x[0], True, 1.0).sum(), padded


class Raises(nn.Module):
    """Exceptions whose condition is known: in a branch, in a called method, in a loop, in both branches, in an unwrapped None."""

    def fail(self, o: Optional[torch.Tensor]) -> torch.Tensor:
        if o is None:
            raise ValueError("no offset")
        return o * 2

    def chosen(self, x, o: Optional[torch.Tensor] = None):
        if x.size(0) == 1:
            y = self.fail(o)
            return y.sum(0) + x
        if x.size(0) == 2:
            for i in range(x.size(1)):
                x = x + self.fail(o)
        if x.size(0) == 3:
            if bool(x.sum() > 0):
                raise ValueError("above")
            else:
                raise ValueError("below")
        if x.size(0) == 4:
            x = x + torch.jit._unwrap_optional(o)
        return x

    def forward(self, x):
        return torch.relu(self.chosen(x))


class Pyramid(nn.Module):
    """As RAFT does: a called method sets a list and fills it in a loop, and another one reads it."""

    levels: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.turns = 3
        self.levels = [torch.zeros(1)]

    def build(self, x: torch.Tensor):
        self.levels = [x]
        for _ in range(self.turns - 1):
            x = F.avg_pool2d(x, 2)
            self.levels.append(x)

    def forward(self, x):
        self.build(x)
        out: List[torch.Tensor] = []
        for level in self.levels:
            out.append(level.mean((2, 3)))
        return torch.cat(out, 1)


class Grows(nn.Module):
    """Lists that loops change through other lists, dictionaries, tuples and called methods."""

    def grow(self, values: List[torch.Tensor], x: torch.Tensor):
        values.append(x)
        return values

    def forward(self, x, n: int):
        a, b, c = [x], [x + 1], [x * 3]
        both, named, pair = [a, b], {"a": a, "b": [x]}, (a, c)
        for i in range(n):
            both[i % 2].append(x * i)
            named["b"].append(x - i)
            self.grow(pair[1], x * 7)
            m = self.grow(b, x * 9)
            m.append(x)
            for j in range(2):
                a.append(x + j)
        a.append(x * 100)
        rows: List[List[torch.Tensor]] = []
        for i in range(n):
            row: List[torch.Tensor] = []
            rows.append(row)
            row.append(x + i)
        last = x
        for i in range(n):
            sums = a
            for j in range(i):
                sums = sums + [x * j]
            last = last + torch.stack(sums).sum(0)
            if i == 2:
                a.append(last)
        return torch.stack(a), torch.stack(b), torch.stack(both[0]), torch.stack(named["b"]), torch.stack(c), torch.stack(rows[0])


class Renames(nn.Module):
    """Lists that have another name behind a branch or a loop, under which they are changed."""

    def forward(self, x, n: int):
        a, b, c, d = [x], [x + 1], [x * 3], [x * 4]
        first = [x]
        if n > 2:
            first = a
        first.append(x.exp())
        second: Optional[List[torch.Tensor]] = None
        if n > 1:
            second = b
        if second is not None:
            second.append(x.sin())
        pair = (c, x)
        if n > 1:
            pair = (c, x + 1)
        pair[0].append(x.cos())
        turns = [x]
        for i in range(n):
            turns.append(x + i)
            turns = d
        return torch.stack(a), torch.stack(b), torch.stack(c), torch.stack(d), torch.stack(first), torch.stack(turns)


class Renews(nn.Module):
    """Lists that a branch makes anew in each turn, and that grow behind it."""

    def forward(self, x, n: int):
        for i in range(n):
            if bool(x.sum() > 0):
                b = [1]
            else:
                b = [2]
            b.append(3)
            x = torch.relu(x) + len(b)
        return x


class Absent(nn.Module):
    """Branches and loops that carry what is None on every way."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x, n: int):
        o: Optional[torch.Tensor] = None
        if n > 5:
            for _ in range(n):
                o = None
            if o is not None:
                x = x + o
        for _ in range(2):
            for _ in range(n):
                x = self.linear(x)
            if o is not None and n > 1:
                x = o + x
        x = torch.tanh(self.linear(x)) * 2
        if o is not None:
            x = x + o
        return x


class Keeps(nn.Module):
    """A list of the file that the code changes in place."""

    kept: List[torch.Tensor]

    def __init__(self, grows: bool):
        super().__init__()
        self.kept, self.grows = [torch.ones(6), torch.zeros(6)], grows

    def forward(self, x):
        if self.grows:
            self.kept.append(x[0, 0, 0])
        else:
            self.kept[0] = self.kept[0] + x[0, 0, 0]
        return torch.stack(self.kept)


class Thrice(nn.Module):
    def forward(self, x):
        for i in range(3):
            x = x * 2 + i
        return x


class Mode(Enum):
    SOFT = "soft"
    HARD = "hard"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Moded(nn.Module):
    """Members of enumerations decide what runs."""

    def __init__(self, mode: Mode):
        super().__init__()
        self.mode, self.level, self.linear = mode, Level.HIGH, nn.Linear(6, 6)

    def act(self, x, mode: Mode):
        if mode == Mode.SOFT:
            return torch.tanh(x)
        elif mode.name == "HARD":
            return F.hardtanh(x)
        raise ValueError(f"no mode {mode}")

    def forward(self, x):
        if x.dim() == 1:
            raise ValueError(f"{self.mode} takes a batch")
        if self.mode != Mode.SOFT:
            x = self.linear(x)
        for i in range(2):
            x = self.act(x, self.mode) * self.level.value + i
        if self.mode.value == "hard":
            x = x + 1
        return self.act(x, Mode.SOFT)


class Switches(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Mode.SOFT

    def forward(self, x):
        mode = Mode.HARD
        if bool(x.sum() > 0):
            mode = self.mode
        return x + 1 if mode == Mode.HARD else x


class Same(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Mode.SOFT

    def forward(self, x):
        return x + 1 if self.mode is Mode.SOFT else x


class Scripted(TestCase):
    def same(self, module, *calls):
        """As written, written again and run, each call gives what PyTorch's own gives, one after the other."""
        self.scripted(module)
        copy, again, out = (self.folder / name for name in ("copy.pt", "again.pt", "out.pt"))
        self.done("convert", self.path, "-o", copy)
        self.done("convert", copy, "-o", again)
        without_lines = [re.sub(r' "[^"]*":\d+', "", self.done("text", file).stdout) for file in (copy, again)]
        self.assertEqual(*without_lines)
        models = [torch.jit.load(p) for p in (self.path, copy, again)]
        for i, given in enumerate(calls):
            expected, *got = (model(*given) for model in models)
            for values in got:
                torch.testing.assert_close(values, expected, rtol=0, atol=0)
            if i == 0:
                torch.save(list(given), self.inputs)
                self.done("run", self.path, "--inputs", self.inputs, "-o", out)
                ran = torch.load(out)
                torch.testing.assert_close(ran if isinstance(expected, torch.Tensor) else tuple(ran), expected, rtol=0, atol=0)

    def scripted(self, module):
        torch.manual_seed(0)
        self.x = torch.randn(2, 4, 6, 6)
        self.path, self.inputs = self.folder / "m.pt", self.folder / "in.pt"
        torch.jit.script(module.eval()).save(str(self.path))
        torch.save([self.x], self.inputs)

    def test_the_operator_that_the_rank_chooses_is_matched_rewritten_and_written(self):
        self.scripted(Resized())
        rules, out = self.file("up.py", UP), self.folder / "out.pt"
        said = self.done("apply", self.path, "--rules", rules, "--inputs", self.inputs, "-o", out)
        self.assertIn("ranks and dtypes decide", said.stderr)
        with torch.no_grad():
            torch.testing.assert_close(torch.jit.load(out)(self.x), Resized()(self.x))
        self.assertEqual(self.of_model("match", self.path, "--rules", rules)["rules"][0]["matches"], 0)

    def test_without_inputs_nothing_is_decided(self):
        self.scripted(Resized())
        copy = self.folder / "copy.pt"
        said = self.done("convert", self.path, "-o", copy)
        self.assertNotIn("decide", said.stderr)
        for shape in ((2, 4, 6, 6), (1, 3, 5, 7)):
            x = torch.randn(shape)
            torch.testing.assert_close(torch.jit.load(copy)(x), Resized()(x))

    def test_checks_of_torch_nn_are_left_out_and_the_models_own_stay(self):
        self.scripted(Normed())
        rules, copy = self.file("norm.py", NORM), self.folder / "copy.pt"
        matched = self.of_model("match", self.path, "--rules", rules, "--inputs", self.inputs)
        self.assertEqual(matched["rules"][0]["matches"], 1)
        said = self.done("convert", self.path, "--inputs", self.inputs, "-o", copy)
        self.assertIn("checks that PyTorch's own modules make", said.stderr)
        with self.assertRaisesRegex(Exception, "too many"):
            torch.jit.load(copy)(torch.randn(4, 4, 6, 6))

    def test_loops_that_are_left_early_are_written_as_they_are(self):
        self.scripted(Searches())
        out, copy = self.folder / "out.pt", self.folder / "copy.pt"
        self.done("convert", self.path, "-o", copy)
        again = self.folder / "again.pt"
        self.done("convert", copy, "-o", again)
        for scale in (0.01, 1, 100):
            x = torch.randn(2, 4, 6, 6) * scale
            torch.save([x], self.inputs)
            expected = torch.jit.load(self.path)(x)
            for written in (copy, again):
                torch.testing.assert_close(torch.jit.load(written)(x), expected, rtol=0, atol=0)
            self.done("run", self.path, "--inputs", self.inputs, "-o", out)
            torch.testing.assert_close(torch.load(out), expected, rtol=0, atol=0)

    def test_loops_and_branches_have_generated_kernels_of_their_own(self):
        torch.manual_seed(0)
        path, inputs, out = self.folder / "m.pt", self.folder / "in.pt", self.folder / "out.pt"
        torch.jit.script(Recurs().eval()).save(str(path))
        torch.save([torch.randn(4, 32), torch.tensor(3)], inputs)
        recipe = ("--rules", SOURCE / "resources/rules/generated.py", "--recipe", "Generated")
        self.done("apply", path, *recipe, "--inputs", inputs, "-o", out)
        torch.ops.load_library(str(OPERATORS))
        written = torch.jit.load(out)
        self.assertGreaterEqual(str(written.inlined_graph).count("graft::generated"), 4)
        for shape, turns in (((4, 32), 3), ((4, 32), 0), ((4, 32), 1), ((7, 5), 4), ((3, 64), 6)):
            given = torch.randn(shape), torch.tensor(turns)
            torch.testing.assert_close(written(*given), Recurs()(*given), rtol=1e-4, atol=1e-5)
        # The branch that these inputs do not take has types, too.
        text = self.done("text", path, "--inputs", inputs).stdout
        self.assertNotIn(": tensor", text)

    def test_loops_run_again_begin_with_none_and_are_read_back_as_they_were(self):
        torch.manual_seed(0)
        model = Gathers().eval()
        path, inputs, out, copy = (self.folder / name for name in ("m.pt", "in.pt", "out.pt", "copy.pt"))
        torch.jit.script(model).save(str(path))
        torch.save([torch.randn(6, 6), torch.tensor(3)], inputs)
        recipe = ("--rules", SOURCE / "resources/rules/generated.py", "--recipe", "Generated")
        self.done("apply", path, *recipe, "--inputs", inputs, "-o", out)
        torch.ops.load_library(str(OPERATORS))
        written = torch.jit.load(out)
        with torch.no_grad():
            for turns in (3, 3, 3, 9, 0, 1):
                given = torch.randn(6, 6), torch.tensor(turns)
                torch.testing.assert_close(written(*given), model(*given), rtol=1e-4, atol=1e-5)
        self.done("convert", path, "-o", copy)
        begins, fast = self.folder / "begins.pt", self.folder / "fast.pt"
        torch.jit.script(Begins().eval()).save(str(begins))
        self.done("apply", begins, *recipe, "--inputs", inputs, "-o", fast)
        for turns in (3, 0, 1, 4):
            given = torch.randn(6, 6), torch.tensor(turns)
            torch.testing.assert_close(torch.jit.load(fast)(*given), Begins()(*given), rtol=1e-4, atol=1e-5)

        absent = self.folder / "absent.pt"
        model = torch.jit.script(Absent().eval())
        model.save(str(absent))
        for given in ((torch.randn(2, 6), 2), (torch.randn(2, 6), 0)):
            torch.save(given, inputs)
            self.done("apply", absent, *recipe, "--inputs", inputs, "-o", fast)
            for n in (0, 1, 2, 6):
                torch.testing.assert_close(torch.jit.load(fast)(given[0], n), model(given[0], n), rtol=1e-4, atol=1e-5)

        def loops(file):
            return [line.split(" {")[0].split(' "')[0] for line in self.done("text", file).stdout.splitlines() if "prim.Loop" in line]

        self.assertEqual(loops(copy), loops(path))

    def test_a_buffer_that_counts_in_place_replaces_no_attribute(self):
        self.scripted(Counts())
        self.assertNotIn("SetAttr", self.done("text", self.path).stdout)
        for end in ("pt", "pt2"):
            copy = self.folder / f"copy.{end}"
            self.done("convert", self.path, "--inputs", self.inputs, "-o", copy)
            model, original = torch.jit.load(copy) if end == "pt" else torch.export.load(copy).module(), torch.jit.load(self.path)
            for _ in range(3):
                torch.testing.assert_close(model(self.x), original(self.x))

    def test_a_model_that_replaces_an_attribute_runs_from_what_the_file_holds(self):
        self.scripted(Replaces())
        out, copy = self.folder / "out.pt", self.folder / "copy.pt"
        expected = torch.jit.load(self.path)(self.x)
        self.done("run", self.path, "--inputs", self.inputs, "-o", out)
        torch.testing.assert_close(torch.load(out), expected, rtol=0, atol=0)
        self.done("profile", self.path, "--inputs", self.inputs, "--repetitions", "2")
        self.done("convert", self.path, "-o", copy)
        model, original = torch.jit.load(copy), torch.jit.load(self.path)
        for _ in range(3):
            torch.testing.assert_close(model(self.x), original(self.x))

    def test_lists_of_tensors_that_a_model_sets_are_written_and_notes_without_effect_are_not(self):
        self.scripted(Notes())
        torch.save(([self.x],), self.inputs)
        text, copy = self.done("text", self.path).stdout, self.folder / "copy.pt"
        self.assertIn('prim.SetAttr("anchors"', text)
        self.assertNotIn("said", text)
        self.done("convert", self.path, "-o", copy)
        model, original = torch.jit.load(copy), torch.jit.load(self.path)
        for _ in range(3):  # the list goes on from run to run
            for got, expected in zip(model([self.x]), original([self.x]), strict=True):
                torch.testing.assert_close(got["x"], expected["x"], rtol=0, atol=0)
        said = self.done("compare", self.path, copy, "--inputs", self.inputs, "--seconds", "0.1").stdout
        self.assertIn("both files in TorchScript", said)

    def test_a_note_that_changes_the_next_run_is_not_left_out(self):
        self.scripted(Remembers())
        self.fails(3, "convert", self.path, "-o", self.folder / "copy.pt", says=["it sets the attribute later, which is no tensor"])

    def test_a_state_that_is_none_at_first_is_not_taken_for_none_ever_after(self):
        self.scripted(Streams(True))
        self.done("info", self.path)
        self.fails(3, "convert", self.path, "-o", self.folder / "copy.pt", says=["its attribute state is None in the file"])
        for model in (Streams(False), Lazy()):
            self.scripted(model)
            self.done("convert", self.path, "-o", self.folder / "copy.pt")
            copy, original = torch.jit.load(self.folder / "copy.pt"), torch.jit.load(self.path)
            for _ in range(2):
                torch.testing.assert_close(copy(self.x), original(self.x))

    def test_outputs_that_pytorch_marks_as_conjugated_are_saved_as_numbers(self):
        self.scripted(Spectrum())
        out = self.folder / "out.pt"
        self.done("run", self.path, "--inputs", self.inputs, "-o", out)
        for got, expected in zip(torch.load(out), torch.jit.load(self.path)(self.x)):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)

    def test_an_optional_dictionary_that_is_given_must_be_given(self):
        torch.manual_seed(0)
        path, given, out = self.folder / "m.pt", self.folder / "in.pt", self.folder / "fast.pt"
        inputs = (torch.randn(4, 8), {"b": torch.randn(8)})
        torch.jit.script(Offsets()).save(str(path))
        torch.save(inputs, given)
        # Kernels of one's own may end a sum a unit in the last place away: a number is judged as a tensor of one.
        report = self.of_model("apply", path, "--rules", SOURCE / "resources/rules/generated.py", "--recipe", "Generated",
                               "--inputs", given, "--no-timing", "-o", out)
        self.assertTrue(report["verification"]["passed"], report["verification"])
        torch.ops.load_library(str(OPERATORS))
        fast = torch.jit.load(out)
        torch.testing.assert_close(fast(*inputs), Offsets()(*inputs))
        with self.assertRaisesRegex(RuntimeError, "offsets"):
            fast(inputs[0])

    def test_a_dictionary_of_lists_keeps_its_type(self):
        torch.ops.load_library(str(OPERATORS))  # its loop has a generated kernel
        self.scripted(Sorts())
        out = self.folder / "out.pt"
        self.done("apply", self.path, "--rules", SOURCE / "resources/rules/generated.py", "--recipe", "Generated", "--inputs", self.inputs,
                  "--no-timing", "--allow-unchanged", "-o", out)
        for x in (self.x, torch.randn(5, 3)):
            torch.testing.assert_close(torch.jit.load(out)(x), Sorts()(x))

    def test_padding_that_nested_tensors_leave_out(self):
        torch.manual_seed(0)
        path, given = self.folder / "m.pt", self.folder / "in.pt"
        padding = torch.zeros(4, 7, dtype=torch.bool)
        padding[0, 5:] = True
        inputs = (torch.randn(4, 7, 16), padding)
        warnings.simplefilter("ignore")
        with torch.no_grad():
            torch.jit.trace(Padded().eval(), inputs).save(path)
        torch.save(inputs, given)
        report = self.of_model("apply", path, "--rules", SOURCE / "resources/rules/generated.py", "--recipe", "Generated",
                               "--inputs", given, "--no-timing", "-o", self.folder / "fast.pt")
        self.assertTrue(report["verification"]["passed"], report["verification"])

    def test_nothing_runs_behind_an_exception_whose_condition_is_known(self):
        self.same(Bags(), (torch.randint(5, (2, 3)),), (torch.randint(5, (1, 4)),))
        self.same(Raises(), (torch.randn(5, 8),))
        for rows, says in ((1, "no offset"), (2, "no offset"), (3, "above|below"), (4, "null optional")):
            for file in (self.path, self.folder / "copy.pt", self.folder / "again.pt"):
                with self.assertRaisesRegex(Exception, says):
                    torch.jit.load(file)(torch.randn(rows, 8))

    def test_lists_that_called_methods_fill_in_loops(self):
        self.same(Pyramid(), (torch.randn(2, 3, 16, 16),), (torch.randn(1, 2, 32, 16),), (torch.randn(1, 2, 32, 16),))
        self.same(Grows(), (torch.randn(3), 4), (torch.randn(2), 1))

    def test_lists_that_a_branch_makes_are_new_in_each_turn(self):
        self.same(Renews(), (torch.randn(3), 3), (torch.randn(3), 0))

    def test_code_that_asks_for_the_type_of_a_list(self):
        self.same(Pads(), *((torch.randn(shape), [torch.randn(n) for n in lengths]) for shape, lengths in (((2, 3, 4), (2, 3)), ((3, 2, 5), (4,)))))

    def test_lists_that_have_another_name_behind_a_branch_or_loop(self):
        self.same(Renames(), (torch.randn(3), 3), (torch.randn(2), 0), (torch.randn(2), 1), (torch.randn(2), 2))

    def test_a_list_of_the_file_that_is_changed_in_place_goes_on_from_run_to_run(self):
        x = torch.randn(2, 4, 6, 6)
        self.same(Keeps(False), (x,), (x,), (x,))
        self.scripted(Keeps(True))
        self.fails(3, "convert", self.path, "-o", self.folder / "copy.pt", says=["its attribute kept is a list that may have another length"])

    def test_loops_of_a_known_number_of_turns_are_read_back_as_they_were(self):
        self.same(Thrice(), (torch.randn(3),))
        for file in (self.path, self.folder / "again.pt"):
            self.assertIn("prim.Loop(3, condition=True, %x)", self.done("text", file).stdout)

    def test_members_of_enumerations_decide_branches(self):
        x = torch.randn(2, 4, 6, 6)
        for mode in Mode:
            self.same(Moded(mode), (x,), (x[:1] * 3,))
            self.assertEqual("aten.linear" in self.done("text", self.path).stdout, mode == Mode.HARD)
            with self.assertRaisesRegex(Exception, f"Enum<Mode.{mode.name}> takes a batch"):
                torch.jit.load(self.folder / "copy.pt")(x[0, 0, 0])
        self.scripted(Switches())
        self.fails(3, "info", self.path, says=["it holds Mode.SOFT, a member of an enumeration (its attribute mode)"])
        self.scripted(Same())
        self.fails(3, "info", self.path, says=["`is` Mode.SOFT", "compare them with =="])

    def test_packed_weights_are_named(self):
        warnings.simplefilter("ignore")
        model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(16, 32), nn.GELU()).eval(), {nn.Linear}, dtype=torch.qint8)
        path, given = self.folder / "m.pt", self.folder / "in.pt"
        torch.jit.trace(model, torch.randn(4, 16)).save(path)
        torch.save((torch.randn(4, 16),), given)
        self.fails(3, "run", path, "--inputs", given, says=["packed weights", "before it was quantised"])

    def test_sparse_inputs_are_named(self):
        self.scripted(Resized())
        torch.save((torch.eye(5).to_sparse(),), self.inputs)
        self.fails(3, "run", self.path, "--inputs", self.inputs, says=["sparse", "to_dense()"])

    def test_the_text_of_a_branch_is_read_again(self):
        self.scripted(Resized())
        text = self.file("m.txt", self.done("text", self.path).stdout)
        self.assertIn("prim.If", text.read_text())
        self.assertEqual(self.done("text", text).stdout, text.read_text())


if __name__ == "__main__":
    main()
