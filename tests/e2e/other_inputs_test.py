"""What a written file computes where the inputs that were given show nothing: at other sizes and strides, in later calls, in branches
that the given inputs do not take.

    other_inputs_test.py BUILD_FOLDER
"""

import warnings
from typing import Dict, List, Optional

from support import OPERATORS, SOURCE, TestCase, main

import torch
from torch import nn


class First(nn.Module):
    """The mean of the first four, or of all where there are fewer."""

    def forward(self, x):
        y = x[:, :4]
        return y.exp().sum(1) / y.size(1)


class Last(nn.Module):
    def forward(self, x):
        y = x[:, -3:]
        return (y @ y.transpose(1, 2)).softmax(-1).sum(-1) * y.size(1)


class Flattened(nn.Module):
    def forward(self, x):
        y = x[:, :4]
        return y.contiguous().view(y.size(0), y.size(1) * y.size(2)).exp() * 2


class Truncated(nn.Module):
    """Cuts off what is longer than the inputs that were given."""

    def forward(self, x):
        y = x[:, :16]
        return y.exp().cumsum(1) * y.size(1) + y.mean(1, keepdim=True)


class Ends(nn.Module):
    """Needs two elements at least."""

    def forward(self, x):
        return torch.cat([x[:, :1], x[:, 1:-1] * 2, x[:, -1:]], 1).exp() + 1


class Diagonal(nn.Module):
    """As long as the smaller size."""

    def forward(self, x):
        d = x.diagonal(0, -2, -1)
        return torch.arange(d.size(0)) * d.exp() + 1


class Written(nn.Module):
    """Which tensor the write reaches depends on how the input lies in memory."""

    def forward(self, x):
        v = x.contiguous()
        v[0].add_(1)
        return v * 2, x * 2


class Shared(nn.Module):
    """Operators whose results share memory with their operands, which their schemas do not say."""

    def forward(self, x):
        a, b, c, d, e = x.exp(), x.exp(), x.exp(), x.exp().flatten(), x.exp()
        views = a.unsafe_chunk(2)[0], b.unsafe_split(1)[1], c.sum_to_size(2, 3), torch.cartesian_prod(d), torch.einsum("ij->ji", e)
        f = x.exp()
        more = f.type_as(x), torch.atleast_3d(f)[..., 0], f.unsqueeze(0).to(memory_format=torch.contiguous_format)
        g = x.exp()
        parts = g.t().unsafe_split(1, 1)[0].contiguous(), torch.broadcast_tensors(g.t(), x.t())[0].contiguous()
        for t in (a, b, c, d, e, f, g):
            t.add_(7.0)
        return [v * 2 for v in views], [v * 2 for v in more], [torch.tanh(p * 2) for p in parts]


class Conjugated(nn.Module):
    """A copy that is written to, and one that is read as numbers."""

    def forward(self, z):
        w = torch.conj(z).resolve_conj()
        w += 1
        return z * 2, w, torch.view_as_real(torch.conj(z).resolve_conj()) * 2, torch.conj(z).imag.resolve_neg().exp()


class Rotated(nn.Module):
    """Queries and keys as complex numbers, turned by a buffer; and a conjugate of which the absolute value is read."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(16.0), torch.tensor([1.0, 0.1, 0.01]))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, q, k):
        turns = self.turns[: q.shape[1]].unsqueeze(1)
        q, k = (torch.view_as_complex(t.reshape(*t.shape[:-1], 3, 2)) * turns for t in (q, k))
        return torch.view_as_real(q).flatten(3) + 1, torch.view_as_real(k).flatten(3).sum(1), (q * k.conj() * 0.5).sum(-1).abs(), (q - k).mean(0).imag


class Angles(nn.Module):
    """The sign of a zero decides whether an angle is 0 or pi."""

    def forward(self, x, m):
        z = torch.view_as_complex(x) * m
        y = torch.view_as_complex(x) * -2.0
        return z.angle(), torch.atan2(y.imag, y.real)


class Counts(nn.Module):
    """Buffers, of which the second is read first by what Graft makes of them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(4))
        self.register_buffer("factor", torch.full((4,), 1 + 2j))

    def forward(self, x):
        self.calls.add_(1)
        z = torch.complex(x * self.calls, x) * self.factor
        self.factor.mul_(2)
        return z.real + 1, z.imag


class Products(nn.Module):
    """Weights of three dimensions, as heads have them."""

    def __init__(self):
        super().__init__()
        self.q, self.o = nn.Parameter(torch.randn(8, 4, 3) / 3), nn.Parameter(torch.randn(4, 3, 8) / 3)
        self.mix = nn.Parameter(torch.randn(5, 8))

    def forward(self, x):
        heads = torch.einsum("bth,hnd->bntd", x, self.q)
        y = torch.tensordot(heads.transpose(1, 2).tanh(), self.o, dims=2)
        return torch.einsum("...h,oh", y, self.mix).relu()


class Turned(nn.Module):
    """The product lies in memory in the result's order, as the view wants it; and a weight of one element broadcasts."""

    def __init__(self):
        super().__init__()
        self.mix, self.one = nn.Parameter(torch.randn(5, 8)), nn.Parameter(torch.randn(1, 5))

    def forward(self, x):
        return torch.einsum("oc,bc->ob", self.mix, x).view(-1) * 2, torch.einsum("bi,io->bo", x[:, :1], self.one)


class Binned(nn.Module):
    """Lists inside of others are written to where they were taken out."""

    def forward(self, x: torch.Tensor):
        parity: List[List[torch.Tensor]] = [[x], [x]]
        halves: Dict[str, List[torch.Tensor]] = {"first": [x], "second": [x]}
        for i in range(4):
            y = nn.functional.silu(x + i)
            parity[i % 2].append(y)
            halves["first" if i < 2 else "second"].append(y)
        return torch.stack(parity[0]).sum(0), torch.stack(parity[1]).sum(0), torch.stack(halves["first"]).sum(0), len(halves["second"])


class Sparse(nn.Module):
    """A graph whose edges are a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("edges", (torch.rand(8, 8) < 0.3).float())

    def forward(self, x):
        return torch.relu(torch.sparse.mm(self.edges.to_sparse(), x) * 2)


class Buckets(nn.Module):
    """Boundaries ascend, also where they are made up."""

    def forward(self, x, boundaries):
        return torch.bucketize(x * 2 + 1, boundaries) * 3 + 1, x.exp() * 2


class Assigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.ones(3))

    def forward(self, x):
        self.n = self.n * 0.5 + x.mean(0)
        return (x - self.n).exp()


class Trained(nn.Module):
    """In training, its norms keep statistics."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor, z: torch.Tensor):
        o: Optional[torch.Tensor] = None
        if x.size(0) > 1:
            o = z
        y = x if o is None else o + 1
        return y, (z * 2 + 1).exp()


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None):
        if mask is not None:
            x = x * mask
        return (x.exp() + 1).sqrt()


class Numbers(nn.Module):
    """Numbers that are read from tensors decide no dtype, whichever side they stand on."""

    def forward(self, x: torch.Tensor):
        n, m = float(x.max()), x.max().item()
        total = x.sum()
        half = total.half()
        return total * n, n - total, half + m, 1.5 - total, n > total, total / n, x.long().sum() * n, x.long() + m


class Placed(nn.Module):
    def forward(self, x):
        total = x.exp().sum()
        return -0.5 - total, 2.0 / total, total - 0.5


class Moved(nn.Module):
    def forward(self, x):
        return x.movedim(0, -1) + 1


class Widened(nn.Module):
    """Ends in float64, and rounds to float32 on the way."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(nn.functional.gelu(self.linear(x))).double().cumsum(-1)


class OtherInputs(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch.ops.load_library(OPERATORS)

    def written(self, model, inputs, command="apply"):
        """The model of the file, and what graft writes for it."""
        path, given, out = (self.folder / name for name in ("m.pt", "in.pt", "out.pt"))
        model.save(str(path))
        torch.save(list(inputs), given)
        rules = ["--rules", SOURCE / "resources/rules/generated.py", "--recipe", "Generated"] if command == "apply" else ["--budget", "3"]
        self.said = self.done(command, path, *rules, "--inputs", given, "-o", out, "--allow-unchanged", "--no-timing").stdout
        return torch.jit.load(str(path)), torch.jit.load(str(out))

    def agree(self, pair, inputs):
        expected, got = ([model(*(x.clone() for x in inputs))] for model in pair)
        torch.testing.assert_close(got, expected)

    def traced(self, model, inputs, *others):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = torch.jit.trace(model.eval(), inputs)
        pair = self.written(trace, inputs)
        for other in (inputs, *others):
            self.agree(pair, other)

    def test_a_slice_that_cuts_sizes_off_gives_less_where_there_is_less(self):
        for model in (First(), Last(), Flattened()):
            with self.subTest(type(model).__name__):
                self.traced(model, (torch.randn(2, 6, 4),), *((torch.randn(b, n, 4),) for b, n in ((1, 2), (3, 3), (2, 4), (2, 9), (1, 1))))

    def test_a_slice_that_cut_nothing_off_cuts_where_there_is_more(self):
        self.traced(Truncated(), (torch.randn(2, 6, 4),), *((torch.randn(b, n, 4),) for b, n in ((1, 16), (3, 17), (2, 40), (2, 2))))

    def test_slices_that_take_the_ends_off_take_them_off_at_each_size(self):
        self.traced(Ends(), (torch.randn(2, 6),), *((torch.randn(b, n),) for b, n in ((1, 2), (3, 3), (2, 9))))

    def test_a_diagonal_is_as_long_as_the_smaller_size(self):
        for example in ((2, 5), (5, 2), (3, 3)):
            with self.subTest(example):
                self.traced(Diagonal(), (torch.randn(example),), *(((torch.randn(n, m),)) for n, m in ((6, 3), (3, 6), (4, 4), (2, 1))))

    def test_a_write_through_contiguous_reaches_what_it_reaches_in_pytorch(self):
        pair = self.written(torch.jit.script(Written()), (torch.zeros(2, 3),))
        for x in (torch.zeros(2, 3), torch.zeros(3, 2).t()):
            results = [model(x.clone(memory_format=torch.preserve_format)) for model in pair]
            torch.testing.assert_close(results[1], results[0])

    def test_a_write_shows_in_what_shares_the_memory(self):
        self.traced(Shared(), (torch.randn(2, 3),), (torch.randn(2, 3),))
        self.agree(self.written(torch.jit.script(Shared()), (torch.randn(2, 3),)), (torch.randn(2, 3),))

    def test_conjugated_numbers_are_copied_where_the_model_copies_them(self):
        self.traced(Conjugated(), (torch.randn(2, 3, dtype=torch.complex64),), (torch.randn(4, 3, dtype=torch.complex64),))

    def test_numbers_that_turn_as_complex_ones_turn_as_their_parts(self):
        sizes = ((2, 5), (1, 16), (3, 1))
        self.traced(Rotated(), *(tuple(torch.randn(b, n, 4, 6) for _ in range(2)) for b, n in sizes))
        self.assertNotIn("complex", self.done("code", self.folder / "out.pt").stdout)

    def test_products_that_einsum_spells_are_linear_layers_of_any_batch(self):
        self.traced(Products(), (torch.randn(2, 6, 8),), (torch.randn(3, 1, 8),), (torch.randn(1, 9, 8),))
        operators = self.json("info", self.folder / "out.pt")["operators"]
        self.assertFalse({"aten.einsum.default", "aten.tensordot.default"} & set(operators), operators)

    def test_a_product_that_a_view_reads_lies_as_it_did(self):
        self.traced(Turned(), (torch.randn(1, 8),), (torch.randn(3, 8),))

    def test_signs_of_zeros_decide_angles_as_in_pytorch(self):
        x, m = torch.randn(8, 2), torch.rand(8)
        x[:3] = 0
        self.traced(Angles(), (x, m), (x, (m > 0.5).float()), (-x, torch.zeros(8)))

    def test_buffers_are_compared_by_their_names_whichever_is_written_first(self):
        pair = self.written(torch.jit.trace(Counts().eval(), torch.randn(4), check_trace=False), (torch.randn(4),))
        for _ in range(2):
            self.agree(pair, (torch.randn(4),))

    def test_a_write_to_a_list_inside_of_another_shows(self):
        self.agree(self.written(torch.jit.script(Binned()), (torch.randn(2, 3),)), (torch.randn(2, 3),))

    def test_a_tensor_that_a_weight_becomes_sparse_in_is_made_in_each_call(self):
        self.traced(Sparse(), (torch.randn(8, 4),), (torch.randn(8, 4),))

    def test_boundaries_that_verification_makes_up_ascend(self):
        self.traced(Buckets(), (torch.randn(64, 32), torch.linspace(-2, 2, 9)), (torch.randn(8, 3), torch.tensor([-1.0, 0.0, 0.5])))
        self.assertIn("verified", self.said)
        self.assertNotIn("taken back", self.said)

    def test_a_buffer_that_is_assigned_goes_on_from_call_to_call(self):
        for command in ("apply", "optimize"):
            original, fast = self.written(torch.jit.script(Assigned()), (torch.zeros(2, 3),), command)
            for _ in range(3):
                self.agree((original, fast), (torch.randn(2, 3),))
            torch.testing.assert_close(fast.n, original.n)

    def test_statistics_of_a_model_in_training_are_those_of_the_file(self):
        for model in (torch.jit.script(Trained().train()), torch.jit.trace(Trained().train(), torch.randn(8, 3), check_trace=False)):
            original, fast = self.written(model, (torch.randn(8, 3),))
            torch.testing.assert_close(fast.norm.running_mean, original.norm.running_mean)
            torch.testing.assert_close(fast.norm.running_var, original.norm.running_var)
            for _ in range(3):
                self.agree((original, fast), (torch.randn(8, 3),))
            torch.testing.assert_close(fast.norm.running_var, original.norm.running_var)

    def test_a_branch_that_leaves_none_is_taken(self):
        pair = self.written(torch.jit.script(Chosen()), (torch.randn(2, 5), torch.randn(5)))
        for rows in (2, 1, 3):
            self.agree(pair, (torch.randn(rows, 5), torch.randn(5)))

    def test_an_argument_that_was_left_out_may_have_to_be_given(self):
        self.written(torch.jit.script(Masked()), (torch.randn(3, 4), torch.rand(4)))
        original, fast, one = (self.folder / name for name in ("m.pt", "out.pt", "one.pt"))
        self.assertIn("= None", self.done("info", original).stdout)
        self.assertNotIn("= None", self.done("info", fast).stdout)
        torch.save([torch.randn(3, 4)], one)
        self.done("run", original, "--inputs", one)
        self.fails(3, "run", fast, "--inputs", one, says=["(x: f32[3,4], mask: f32[4]): its argument mask is missing"])

    def test_numbers_beside_tensors_without_dimensions_keep_their_dtype(self):
        self.agree(self.written(torch.jit.script(Numbers()), (torch.rand(4),)), (torch.rand(5),))
        self.traced(Placed(), (torch.rand(4),), (torch.rand(6),))

    def test_a_tensor_without_dimensions_has_none_to_move(self):
        self.traced(Moved(), (torch.tensor(2.0),))

    def test_float64_is_judged_by_what_it_was_computed_from(self):
        x = torch.randn(4, 64)
        original, fast = self.written(torch.jit.trace(Widened().eval(), x), (x,))
        self.assertEqual(fast(x).dtype, torch.float64)
        torch.testing.assert_close(fast(x), original(x), rtol=1e-4, atol=1e-4)
        self.assertNotIn("taken back", self.said)


if __name__ == "__main__":
    main()
