"""The halves of a training step as CUDA graphs, on a CPU: what a replay may overwrite on a GPU is filled with NaN here."""

import contextlib
import copy
import sys
import unittest
import warnings
import weakref

import torch
import torch.nn.functional as F

from support import GRAFT, OPERATORS, SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx
from graft_fx import groups, halves, optimizing, recorded, training


recordings_own = set()  # storages, by address


def alias(tensor):
    """It shares the memory; of what a recording owns it owns nothing, as a CUDA graph does not."""
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in recordings_own:
        return tensor.data
    storage = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), tensor.device, storage.nbytes())
    return torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


class Emulated:
    """Records on the CPU as CudaGraphs does on a GPU. Memory of a pool goes free with the tensor that owns it. A replay fills with NaN
    what may lie in memory that was free when it was recorded, and what was recorded behind it."""

    failing = None  # "forward" or "backward": what cannot be recorded

    def pool(self):
        return []

    def where(self):
        return ()

    def is_recording(self):
        return False

    def first_run(self):
        return contextlib.nullcontext()

    def record(self, pool, function, arguments):
        if self.failing == ("backward" if pool else "forward"):
            raise RuntimeError("operation not permitted when stream is capturing\nand more")
        kept = [alias(v) if isinstance(v, torch.Tensor) else v for v in arguments]
        given = {v.untyped_storage().data_ptr() for v in kept if isinstance(v, torch.Tensor)}
        before = [(v, v.clone()) for v in arguments if isinstance(v, torch.Tensor)]
        with torch.no_grad():
            results = function(arguments)
            while before:  # nothing runs yet
                v, was = before.pop()
                v.data.copy_(was)
                del v
        places = [alias(t) if isinstance(t, torch.Tensor) else t for t in results]
        recordings_own.update(t.untyped_storage().data_ptr() for t in results if isinstance(t, torch.Tensor))
        free = [t for recording in pool for owner, t in recording if owner() is None]
        ahead = len(pool)
        pool.append([(weakref.ref(t), t.data) for t in results if isinstance(t, torch.Tensor) and t.is_floating_point()
                     and t.untyped_storage().data_ptr() not in given])

        def replay():
            later = [t for recording in pool[ahead + 1:] for _, t in recording]
            for t in [*later, *(t for t in free if t.untyped_storage().data_ptr() not in given)]:
                t.fill_(float("nan"))
            with torch.no_grad():
                for place, result in zip(places, function(list(kept))):
                    if isinstance(place, torch.Tensor) and place.data_ptr() != result.data_ptr():
                        place.copy_(result)
            for t in free:
                t.fill_(float("nan"))

        return replay, results


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.norm, self.back = torch.nn.Linear(8, 16, bias=False), torch.nn.LayerNorm(16), torch.nn.Linear(16, 8)
        self.batch_norm = torch.nn.BatchNorm1d(16)

    def forward(self, x):
        y = self.back(self.norm(F.gelu(self.batch_norm(self.wide(x))))) + x
        return y, F.mse_loss(y, x.flip(-1))


class Parted(Net):
    """What a graph break parts: one graph's result is the other one's argument."""

    def forward(self, x):
        y = self.back(self.norm(F.gelu(self.wide(x)))) + x
        torch._dynamo.graph_break()
        return y, F.mse_loss(y.sin() * y, x.flip(-1))


class PartedAndASecondLoss(Parted):
    def forward(self, x):
        y = self.back(self.wide(x)) + x
        second = y.square().mean()
        torch._dynamo.graph_break()
        return second, F.mse_loss(y.sin() * y, x.flip(-1))


class PartedAndAView(Parted):
    def forward(self, x):
        y = self.back(self.wide(x)) + x
        torch._dynamo.graph_break()
        return y[1:], F.mse_loss(y.sin() * y, x.flip(-1))


class Loop:
    """Steps of a user's loop; each method is one."""

    def __init__(self, call, net):
        self.call, self.net, self.losses, self.kept = call, net, [], []
        self.optimizer = torch.optim.AdamW(net.parameters(), 1e-2)

    def batch(self, rows=4):
        return torch.randn(rows, 8)

    def one(self, rows=4):
        y, loss = self.call(self.batch(rows))
        self.losses.append(loss.detach())  # held, and read at the end
        return y, loss

    def plain(self, _):
        self.optimizer.zero_grad()
        self.one()[1].backward()
        self.optimizer.step()

    def accumulated(self, _, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)
        for _ in range(3):
            self.one()[1].backward()
        self.optimizer.step()

    def accumulated_in_place(self, i):
        self.accumulated(i, set_to_none=False)

    def zeroed_behind_the_forward_pass(self, _):
        loss = self.one()[1]
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def several_forward_passes_first(self, _):
        self.optimizer.zero_grad()
        sum((i + 1) * loss for i, (_, loss) in enumerate([self.one() for _ in range(3)])).backward()
        self.optimizer.step()

    def results_are_held(self, _):
        self.optimizer.zero_grad()
        y, loss = self.one()
        (loss + 0.1 * y.sum()).backward()
        self.kept += [y, y.detach().view(-1)]
        self.optimizer.step()

    def the_graph_is_retained(self, _):
        self.optimizer.zero_grad()
        y, loss = self.one()
        loss.backward(retain_graph=True)
        y.pow(2).mean().backward()
        self.optimizer.step()

    def gradients_are_held(self, _):
        self.kept += torch.autograd.grad(self.one()[1], list(self.net.parameters()))
        with torch.no_grad():
            for p, g in zip(self.net.parameters(), self.kept[-len(list(self.net.parameters())):]):
                p.sub_(0.01 * g)

    def some_forward_passes_have_no_backward_pass(self, i):
        self.optimizer.zero_grad()
        loss = self.one()[1]
        if i % 2:
            loss.backward()
            self.optimizer.step()

    def gradients_lie_elsewhere_now_and_then(self, i):
        self.optimizer.zero_grad()
        y, loss = self.one()
        (loss + 0.1 * y.sum() if i % 3 == 2 else loss).backward()
        self.optimizer.step()
        del y, loss

    def losses_alternate(self, i):
        self.optimizer.zero_grad()
        y, loss = self.one()
        (loss, loss + 0.1 * y.sum(), y.square().mean())[i % 3].backward()
        self.optimizer.step()

    def the_second_loss_goes_on_alone(self, i):
        self.optimizer.zero_grad()
        second, loss = self.one()
        (loss + second if i < 4 else second).backward()
        self.optimizer.step()

    def gradients_are_clipped(self, _):
        self.optimizer.zero_grad()
        self.one()[1].backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
        self.optimizer.step()

    def evaluated_between(self, i):
        self.plain(i)
        self.net.eval()
        with torch.no_grad():
            self.one()
        self.one()[1].backward()
        self.net.train()

    def sizes_alternate(self, i):
        self.optimizer.zero_grad()
        self.one(4 + i % 3)[1].backward()
        self.optimizer.step()

    def parameters_move(self, i):
        self.plain(i)
        if i == 3:
            self.net.back.weight.data = self.net.back.weight.data.clone()


class Recorded(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        before = training.recorder_for
        training.recorder_for = lambda device: self.recorder
        self.addCleanup(setattr, training, "recorder_for", before)
        self.recorder = Emulated()

    def both(self, step, steps=8, fuse=False, net=Net, **options):
        """The backend's reports of these steps, once they are as eager's."""
        torch.manual_seed(0)
        net = net().train()
        eager = copy.deepcopy(net)
        backend = graft_fx.backend(graft=str(GRAFT), library=str(OPERATORS), training=True, fuse=fuse, budget=2)
        loops = Loop(torch.compile(net, backend=backend, **options), net), Loop(eager, eager)
        for loop in loops:
            torch.manual_seed(1)
            for i in range(steps):
                step(loop, i)
        ours, theirs = ([torch.stack(loop.losses), *loop.kept, *loop.net.state_dict().values()] for loop in loops)
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        self.reports = backend.reports
        return [r["recordings"] for r in backend.reports if "recordings" in r]

    def test_ways_to_train(self):
        # step: recordings, steps of the forward half that are replayed
        for step, recorded_, replayed in ((Loop.plain, 2, 7), (Loop.accumulated, 2, 23), (Loop.accumulated_in_place, 2, 23),
                                          (Loop.zeroed_behind_the_forward_pass, 2, 7), (Loop.several_forward_passes_first, 6, 23),
                                          (Loop.the_graph_is_retained, 2, 7), (Loop.gradients_are_clipped, 2, 7)):
            with self.subTest(step.__name__):
                torch._dynamo.reset()
                (count,) = self.both(step)
                self.assertEqual((count["recorded"], count["replayed"]), (recorded_, replayed))

    def test_buffers_are_written_by_the_recording_itself(self):
        updates, plain = [], recorded.updating
        recorded.updating = lambda function, which: updates.append(len(which)) or plain(function, which)
        self.addCleanup(setattr, recorded, "updating", plain)
        self.both(Loop.plain)  # which compares the buffers, too
        self.assertEqual(updates, [3])  # running_mean, running_var and num_batches_tracked

    def test_what_is_held_stays_as_it_was(self):
        for step in (Loop.results_are_held, Loop.gradients_are_held, Loop.some_forward_passes_have_no_backward_pass, Loop.evaluated_between):
            with self.subTest(step.__name__):
                torch._dynamo.reset()
                self.assertGreater(self.both(step)[0]["replayed"], 0)

    def copied_arguments(self):
        """Fills with how many floating-point arguments each recording copies."""
        counts, init = [], recorded.Recording.__init__

        def counting(made, *arguments, **options):
            init(made, *arguments, **options)
            counts.append(sum(t.is_floating_point() for t in made.copies.values()))

        recorded.Recording.__init__ = counting
        self.addCleanup(setattr, recorded.Recording, "__init__", init)
        small, recorded.SMALL = recorded.SMALL, 4  # the loss alone is copied
        self.addCleanup(setattr, recorded, "SMALL", small)
        return counts

    def test_parts_of_a_model_read_one_anothers_results_where_they_lie(self):
        counts = self.copied_arguments()
        both = self.both(Loop.plain, net=Parted)
        self.assertEqual([(c["recorded"], c["replayed"]) for c in both], [(2, 7), (2, 7)])
        # The model's x is copied by both parts, the loss's gradient by one, and neither y nor y's gradient by any.
        self.assertEqual(counts, [1, 1, 1, 0])

    def test_gradients_that_move_are_copied_from_then_on(self):
        counts = self.copied_arguments()
        both = self.both(Loop.gradients_lie_elsewhere_now_and_then, net=Parted, steps=12)
        self.assertEqual([c["recorded"] for c in both], [3, 2])
        self.assertEqual(counts, [1, 1, 1, 0, 1])
        for step in (Loop.accumulated, Loop.several_forward_passes_first, Loop.results_are_held, Loop.the_graph_is_retained):
            with self.subTest(step.__name__):
                torch._dynamo.reset()
                self.assertGreater(min(c["replayed"] for c in self.both(step, net=Parted)), 0)

    def test_a_result_that_looks_into_an_argument(self):
        self.copied_arguments()
        for step in (Loop.plain, Loop.results_are_held, Loop.accumulated):
            with self.subTest(step.__name__):
                torch._dynamo.reset()
                self.assertGreater(min(c["replayed"] for c in self.both(step, net=PartedAndAView)), 0)

    def test_each_set_of_results_that_are_differentiated_is_recorded(self):
        (count,) = self.both(Loop.losses_alternate, steps=9)
        self.assertEqual((count["recorded"], count["replayed"], count["asItWas"]), (4, 8, 1))
        torch._dynamo.reset()
        self.both(Loop.the_second_loss_goes_on_alone, net=PartedAndASecondLoss)

    def test_kinds_of_calls_share_memory(self):
        count = self.both(Loop.sizes_alternate, steps=12, dynamic=True)[-1]
        self.assertEqual((count["recorded"], count["replayed"]), (6, 9))

    def test_too_many_kinds_are_told_once(self):
        before, recorded.Recordings.KINDS = recorded.Recordings.KINDS, 2
        self.addCleanup(setattr, recorded.Recordings, "KINDS", before)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            count = self.both(Loop.sizes_alternate, steps=12, dynamic=True)[-1]
        self.assertEqual(count["recorded"], 4)
        self.assertEqual(sum("more than 2 kinds of arguments" in str(w.message) for w in said), 1)

    def test_a_parameter_that_moves(self):
        (count,) = self.both(Loop.parameters_move, steps=10)
        self.assertEqual(count["recorded"], 4)

    def test_what_cannot_be_recorded_runs_as_it_was_and_is_told_once(self):
        for half in ("forward", "backward"):
            with self.subTest(half), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                torch._dynamo.reset()
                self.recorder.failing = half
                (count,) = self.both(Loop.plain)
                told = [str(w.message) for w in said if "CUDA graphs" in str(w.message)]
                self.assertEqual(len(told), 1)
                self.assertIn(f"the {half} half cannot be recorded (operation not permitted when stream is capturing)", told[0])
                self.assertIn(half, count["why"])

    def test_values_that_the_gpu_has_to_wait_for(self):
        class Picks(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(8, 8)

            def forward(self, x):
                y = self.linear(x)
                return y[y > 0].sum()

        torch._dynamo.config.capture_dynamic_output_shape_ops = True
        self.addCleanup(setattr, torch._dynamo.config, "capture_dynamic_output_shape_ops", False)
        net, x = Picks(), torch.randn(4, 8)
        backend = graft_fx.backend(graft=str(GRAFT), library=str(OPERATORS), training=True, fuse=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = torch.compile(net, backend=backend)
            for _ in range(3):
                call(x).backward()
        (expected,) = torch.autograd.grad(net(x), [net.linear.weight])
        torch.testing.assert_close(net.linear.weight.grad, 3 * expected)
        self.assertTrue(any("waits for numbers" in r.get("recordings", {}).get("why", "") for r in backend.reports), backend.reports)

    def judge(self, microseconds):
        """Groups are judged on the CPU, by these times."""
        for owner, name, value in ((halves.Half, "JUDGED", ("cpu",)), (groups.Judge, "microseconds", staticmethod(microseconds))):
            self.addCleanup(setattr, owner, name, owner.__dict__[name])
            setattr(owner, name, value)

    def test_groups_that_are_faster_stay(self):
        self.judge(lambda op, args: 2.0 if op is groups.as_aten else 1.0)
        (count,) = self.both(Loop.plain, fuse=True)
        self.assertEqual(count["recorded"], 2)
        for half in ("forward", "backward"):
            made = self.reports[0][half]
            self.assertTrue(made["isKept"], made)
            self.assertEqual((made["slower"], made["different"]), (0, []))
            self.assertGreater(made["groups"], 0)

    def test_groups_that_are_slower_run_as_aten(self):
        self.judge(lambda op, args: 1.0 if op is groups.as_aten else 2.0)
        self.both(Loop.plain, fuse=True)
        for half in ("forward", "backward"):
            self.assertEqual((self.reports[0][half]["groups"], self.reports[0][half]["isKept"]), (0, False))

    def test_groups_that_compute_something_else_run_as_aten(self):
        self.judge(lambda op, args: 2.0 if op is groups.as_aten else 1.0)
        self.addCleanup(setattr, groups, "TOLERANCE", groups.TOLERANCE)
        groups.TOLERANCE = {d: -1.0 for d in groups.TOLERANCE}  # nothing is near enough
        self.both(Loop.plain, fuse=True)
        self.assertIn("largest value", self.reports[0]["forward"]["different"][0])
        self.assertEqual(self.reports[0]["forward"]["groups"], 0)


class Steps:
    """Records an optimizer's step, which runs at each replay and not before."""

    pool, where, is_recording = Emulated.pool, Emulated.where, Emulated.is_recording

    def record(self, pool, function, arguments):
        return lambda: function(arguments), ()


class RecordedStep(TestCase):
    def run_steps(self, make, record, steps=12, move=False):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 4)
        optimizer = make(net.parameters())
        if record:
            optimizer = graft_fx.record_step(optimizer)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        kept = [torch.zeros_like(p) for p in net.parameters()]
        for i in range(steps):
            x = torch.randn(3, 4, generator=torch.Generator().manual_seed(i))
            gradients = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
            for p, place, g in zip(net.parameters(), kept, gradients):
                p.grad = (g.clone() if move else place.copy_(g))
            optimizer.step()
            schedule.step()
        return [p.detach() for p in net.parameters()], getattr(optimizer, "recordings", None)

    def setUp(self):
        super().setUp()
        before, optimizing.recorder_of = optimizing.recorder_of, lambda devices: Steps()
        self.addCleanup(setattr, optimizing, "recorder_of", before)
        # PyTorch refuses `capturable` for parameters on a CPU.
        self.addCleanup(setattr, torch.compiler, "is_compiling", torch.compiler.is_compiling)
        torch.compiler.is_compiling = lambda: True

    def test_steps_with_a_schedule_are_those_of_the_optimizer(self):
        for make in (lambda p: torch.optim.AdamW(p, 1e-2, foreach=False), lambda p: torch.optim.AdamW(p, 1e-2, foreach=True, amsgrad=True)):
            (ours, count), (theirs, _) = (self.run_steps(make, record) for record in (True, False))
            for a, b in zip(ours, theirs):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
            self.assertEqual(count["recorded"], 1)
            self.assertGreaterEqual(count["replayed"], 9)

    def test_settings_that_change_are_read(self):
        """SGD takes its rate as a number, so each rate is a recording of its own."""
        (ours, count), (theirs, _) = (self.run_steps(lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9), record) for record in (True, False))
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
        self.assertEqual(count["recorded"], 4)

    def test_gradients_that_move_are_told_once(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            kept = []
            before = torch.Tensor.clone
            self.addCleanup(setattr, torch.Tensor, "clone", before)
            torch.Tensor.clone = lambda t, **k: kept.append(before(t, **k)) or kept[-1]  # each lies elsewhere
            _, count = self.run_steps(lambda p: torch.optim.AdamW(p, 1e-2, foreach=False), True, steps=14, move=True)
        self.assertEqual(sum("not recorded" in str(w.message) for w in said), 1)
        self.assertEqual(count["recorded"], 0)

    def test_parameters_on_a_cpu(self):
        optimizing.recorder_of = lambda devices: None
        with self.assertRaisesRegex(ValueError, "all parameters have to lie on a GPU"):
            graft_fx.record_step(torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1))


if __name__ == "__main__":
    main()
