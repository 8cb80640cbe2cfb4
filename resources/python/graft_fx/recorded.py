"""The halves of a training step as CUDA graphs: recorded where a kind of call comes again, and replayed.

A graph reads and writes memory of its own. What is handed out of it is an alias that owns nothing; the storages of aliases are counted,
so that nothing is overwritten while somebody still has it. A Lane is memory that several recordings share, one of them in use at a time.
A second forward pass before the first one's backward pass takes a second lane.

What one recording has handed out, another one reads where it lies: the parts of a model that a graph break parts pass their tensors on
without a copy. A recording then is one for those addresses.
"""

import contextlib
import weakref

import torch

SMALL = 1 << 16  # bytes of an output that is copied each time, as people keep losses
handed_out = set()  # storages, by address, whose aliases recordings hand out at each replay


class Kept(ValueError):
    """A result looks into an argument that is read where it lies: its memory is somebody else's to count."""


def recorder_for(device):
    """What records on that kind of device, or None."""
    return CudaGraphs() if device == "cuda" else None


def waits(node):
    """Whether the operator needs numbers from the device to know how large its result is."""
    tags = getattr(node.target, "tags", ())
    if node.target is torch.ops.aten.index.Tensor:  # with masks alone
        return any(i is not None and i.meta["val"].dtype in (torch.bool, torch.uint8) for i in node.args[1])
    return torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags


def why_not(module, device):
    """Why a graph cannot be recorded, or None."""
    for n in module.graph.nodes:
        value = n.meta.get("val")
        for v in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(v, torch.Tensor) and v.device.type != device and n.users:
                return f"{n.name} lies on the {v.device.type.upper()}"
        if waits(n):
            return f"{n.name} ({n.target}) waits for numbers from the GPU"
    return None


@contextlib.contextmanager
def growing_segments():
    """What is allocated meanwhile lies in segments that grow. A recording's tensors come and go in all sizes, and what one of them leaves
    in a segment of its own serves no larger one. The setting is the process's, so it is put back."""
    is_native = torch.cuda.get_allocator_backend() == "native"
    before = torch.cuda.memory._snapshot()["allocator_settings"] if is_native else {}
    if before.get("expandable_segments", True):  # or nothing is known of it
        yield
        return
    said = before.get("PYTORCH_CUDA_ALLOC_CONF", "")
    rest = ",".join(w for w in said.split(",") if w and not w.strip().startswith("expandable_segments"))
    setting = torch._C._accelerator_setAllocatorSettings
    setting(f"{rest},expandable_segments:True".lstrip(","))
    try:
        yield
    finally:
        setting(f"{rest},expandable_segments:False".lstrip(","))


class CudaGraphs:
    """Records what a function does on the GPU."""

    def __init__(self):
        self.stream = None

    def pool(self):
        return torch.cuda.graph_pool_handle()

    def where(self):
        """What a recording belongs to beside its arguments."""
        return torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream, torch.are_deterministic_algorithms_enabled()

    def is_recording(self):
        return torch.cuda.is_current_stream_capturing()

    def first_run(self):
        """Around a half's first run. An optimizer makes its states in what the first step leaves, and would hold the segments that stay
        empty around them."""
        return growing_segments()

    def record(self, pool, function, arguments):
        """(what replays it, its results). The function gets the list `arguments`, which it empties."""
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        torch._C._cuda_clearCublasWorkspaces()  # each recording has one of its own
        try:
            with torch.no_grad(), growing_segments(), torch.cuda.graph(graph, pool=pool, stream=self.stream, capture_error_mode="thread_local"):
                results = function(arguments)
        finally:
            torch._C._cuda_clearCublasWorkspaces()
        return graph.replay, results


class Watched:
    """An alias of memory that a recording owns, and how many have it."""

    def __init__(self, tensor, storages):
        storage = tensor.untyped_storage()
        self.pointer = storage.data_ptr()
        if self.pointer not in storages:
            storages[self.pointer] = torch._C._construct_storage_from_data_pointer(self.pointer, tensor.device, storage.nbytes())
        self.storage = storages[self.pointer]
        self.tensor = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
            self.storage, tensor.storage_offset(), tensor.shape, tensor.stride())

    def settle(self):
        """From now on others count."""
        self.base = torch._C._storage_Use_Count(self.storage._cdata)

    def is_held(self):
        return torch._C._storage_Use_Count(self.storage._cdata) > self.base


def is_part_of(tensor, pointers):
    return tensor.untyped_storage().data_ptr() in pointers


def identity(tensor):
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def lying(arguments, others=()):
    """Those of the arguments, by number, that lie where a recording writes them each time; `others` aside."""
    return {i for i, v in enumerate(arguments) if i not in others and isinstance(v, torch.Tensor) and is_part_of(v, handed_out)}


def address(value):
    return value.data_ptr() if isinstance(value, torch.Tensor) else None


def kind(value):
    return (value.shape, value.stride(), value.dtype) if isinstance(value, torch.Tensor) else value


def own_copy(tensor):
    if torch.ops.aten.is_non_overlapping_and_dense(tensor):
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


class Recording:
    """One half for one kind of arguments."""

    def __init__(self, recorder, pool, function, arguments, fixed, memory, stays=lambda i: False, others=()):
        """`arguments` is emptied. `fixed`: those, by number, that are read where they lie. `memory`: the storages of parameters.
        `stays(i)`: result i keeps its memory for good. `others`: those of `fixed` that other recordings have handed out. Raises Kept."""
        tensors = {i: v for i, v in enumerate(arguments) if isinstance(v, torch.Tensor)}
        foreign = {tensors[i].untyped_storage().data_ptr() for i in others}
        self.copies = {i: own_copy(v) for i, v in tensors.items() if i not in fixed}
        for i, own in self.copies.items():
            own.copy_(tensors[i])
        passed = [self.copies.get(i, v) for i, v in enumerate(arguments)]
        places = {id(v): (i, weakref.ref(v)) for i, v in tensors.items() if i in fixed}
        tensors.clear()
        arguments.clear()
        self.replay, results = recorder.record(pool, function, passed)
        self.owners, self.plan, storages, made = {}, [], {}, {}
        for i, result in enumerate(results):
            at, of = places.get(id(result), (None, lambda: None))
            if isinstance(result, torch.Tensor) and of() is result:
                self.plan.append(at)  # an argument as it comes
            elif isinstance(result, torch.Tensor) and is_part_of(result, foreign):
                raise Kept("a result looks into an argument")
            elif not isinstance(result, torch.Tensor) or is_part_of(result, memory) or not result.untyped_storage().nbytes():
                self.plan.append(("as it is", result))
            else:
                if id(result) not in made:
                    made[id(result)] = Watched(result, storages)
                self.plan.append(made[id(result)])
                self.owners[i] = result
        for w in made.values():
            w.settle()
        self.stays = {i: t for i, t in self.owners.items() if stays(i)}
        self.watched = {i: w for i, w in enumerate(self.plan) if isinstance(w, Watched)}

    def run(self, arguments):
        for i, own in self.copies.items():
            own.copy_(arguments[i])
        self.replay()


def updating(function, updates):
    """The function, which writes result i into argument `updates[i]` itself, and gives that argument: all of them in one kernel for each
    dtype, and not in one copy for each behind the graph."""
    def run(arguments):
        given, by_dtype = list(arguments), {}
        results = list(function(arguments))
        for i, j in updates.items():
            if isinstance(results[i], torch.Tensor) and kind(results[i]) == kind(given[j]) and results[i] is not given[j]:
                into, new = by_dtype.setdefault(results[i].dtype, ([], []))
                into.append(given[j].data)  # autograd has its own say behind the graph
                new.append(results[i])
                results[i] = given[j]
        for into, new in by_dtype.values():
            torch._foreach_copy_(into, new)
        return tuple(results)
    return run


def absent_of(arguments):
    """Which of them are None, by number: gradients that nobody asks for."""
    return tuple(k for k, v in enumerate(arguments) if v is None)


class Backward:
    """A backward half as it was recorded for these arguments. `fixed`: where those of them lie that it reads there; `others`: those of
    these that other recordings have handed out."""

    def __init__(self, recording, arguments, fixed, others):
        self.recording, self.others = recording, others
        self.fixed = {k: arguments[k].data_ptr() for k in fixed}
        self.kinds = {k: kind(v) for k, v in enumerate(arguments) if k not in fixed or k in others}

    def moved(self, arguments):
        """Whether nothing but gradients that another recording handed out lies elsewhere than before."""
        return any(address(arguments[k]) != self.fixed[k] for k in self.others) and self.fits(arguments, self.others)

    def fits(self, arguments, but=()):
        return (all(address(arguments[k]) == p for k, p in self.fixed.items() if k not in but)
                and all(kind(arguments[k]) == v for k, v in self.kinds.items()))


class Slot:
    """Both halves for one kind of call of the forward half. `mutations`: results that the model's buffers become, by number, and the
    arguments that these are."""

    def __init__(self, lane, recorder, function, arguments, fixed, outputs, mutations, others=frozenset()):
        self.lane, self.recorder, self.outputs = lane, recorder, outputs
        weights = {i: arguments[i] for i in fixed if isinstance(arguments[i], torch.Tensor)}
        self.memory = {t.untyped_storage().data_ptr() for t in weights.values()}
        self.leaves = [i for i, t in weights.items() if t.is_leaf and t.requires_grad]
        function = updating(function, {i: j for i, j in mutations.items() if j in fixed})
        self.forward = Recording(recorder, lane.pool, function, list(arguments), fixed | others, self.memory, lambda i: i < outputs, others)
        self.backwards, self.earlier = {}, []  # recorded at their first calls: one for each set of gradients that come as None
        watched, plan = self.forward.watched, self.forward.plan
        by_storage = {w.pointer: i for i, w in watched.items() if i < outputs}
        self.shared = {i: by_storage[w.pointer] for i, w in watched.items() if i >= outputs and w.pointer in by_storage}
        self.copied = {i for i, w in watched.items() if i < outputs and i not in mutations and w.tensor.nbytes <= SMALL
                       and i not in self.shared.values()}
        self.marker = next((i for i in range(outputs, len(plan)) if i in watched and i not in self.shared), None)
        self.held = [i for i in watched if i < outputs and i not in self.copied] + ([] if self.marker is None else [self.marker])
        self.handed = {}
        self.announce(w for i, w in watched.items() if i < outputs and i not in self.copied)

    def announce(self, watched):
        """Others may read these where they lie."""
        pointers = {w.pointer for w in watched} - handed_out
        handed_out.update(pointers)
        weakref.finalize(self, handed_out.difference_update, pointers)

    def pointer(self):
        return None if self.marker is None else self.forward.watched[self.marker].tensor.data_ptr()

    def run_forward(self, arguments):
        self.forward.run(arguments)
        out = []
        for i, what in enumerate(self.forward.plan):
            if isinstance(what, int):
                out.append(arguments[what])
            elif isinstance(what, tuple):
                out.append(what[1])
            elif i in self.copied:
                out.append(what.tensor.clone())
            elif i in self.shared:
                user = out[self.shared[i]]
                same = identity(user) == identity(what.tensor)
                out.append(user if same else user.as_strided(what.tensor.shape, what.tensor.stride(), what.tensor.storage_offset()))
            else:
                out.append(what.tensor.data if i < self.outputs or i == self.marker else what.tensor)
        self.handed = {i: weakref.ref(out[i]) for i in self.held if i < self.outputs}
        arguments.clear()
        return tuple(out)

    def record_backward(self, function, arguments):
        """`arguments` hold what this slot's forward half returned last. The second time, its gradients lie elsewhere than the first time,
        and are copied from then on."""
        absent = absent_of(arguments)
        earlier, given, pool = self.backwards.get(absent), list(arguments), self.lane.pool
        fixed = set()
        if not self.backwards:
            owners = {identity(t): i for i, t in self.forward.owners.items()}
            for k, v in enumerate(arguments):
                if not isinstance(v, torch.Tensor):
                    continue
                at = owners.get(identity(v))
                if at is not None:
                    fixed.add(k)
                    given[k] = self.forward.owners[at]
                elif is_part_of(v, self.memory):
                    fixed.add(k)
        else:  # what the forward half keeps is no longer free for the lane's pool to give away
            known, pool = next(iter(self.backwards.values())), self.recorder.pool()
            fixed = {k for k in known.fixed if k not in known.others and isinstance(arguments[k], torch.Tensor)}
        others = set() if earlier is not None else lying(arguments, fixed)
        if earlier is not None:
            self.earlier.append(earlier)  # somebody may still have what it handed out
        # What the forward half keeps goes free while this runs, so nobody else may own it. What was handed out stays as it is.
        self.forward.owners = {}
        try:
            recording = Recording(self.recorder, pool, function, given, fixed | others, self.memory, others=others)
        except Kept:
            others = set()
            recording = Recording(self.recorder, self.recorder.pool(), function, list(arguments), fixed, self.memory)
        self.backwards[absent] = Backward(recording, arguments, fixed | others, others)
        self.announce(recording.watched.values())
        recording.owners = {}

    def run_backward(self, arguments):
        recording = self.backwards[absent_of(arguments)].recording
        recording.run(arguments)
        fresh, out = {}, []
        for what in recording.plan:
            if isinstance(what, int):
                out.append(arguments[what])
            elif isinstance(what, tuple):
                out.append(what[1])
            else:
                if what not in fresh:
                    fresh[what] = what.tensor.data
                out.append(fresh[what])
        arguments.clear()
        return tuple(out)

    def is_free(self, arguments):
        """Whether nobody has anything of the last call. Gradients that wait in parameters, and results that somebody keeps, are moved."""
        watched = self.forward.watched
        if self.marker is not None and watched[self.marker].is_held():
            return False
        gradients = [w for b in self.backwards.values() for w in b.recording.watched.values()]
        if any(w.is_held() for w in gradients):
            pointers = {w.pointer for w in gradients}
            for i in self.leaves:
                g = arguments[i].grad if i < len(arguments) and isinstance(arguments[i], torch.Tensor) else None
                if g is not None and is_part_of(g, pointers):
                    g.data = g.data.clone()
        for i in [i for i in self.held if i < self.outputs and watched[i].is_held()]:
            had = self.handed[i]() if i in self.handed else None
            if had is not None:
                had.data = had.data.clone()
            if i not in self.shared.values():
                self.copied.add(i)  # from now on at once
            had = None
        return not any(w.is_held() for w in gradients) and not any(watched[i].is_held() for i in self.held if i < self.outputs)


class Lane:
    """Memory that recordings share: one of them is in use at a time."""

    def __init__(self, pool):
        self.pool, self.slots, self.current = pool, {}, None


class Recordings:
    """The recordings of one graph's two halves."""

    LANES = 3  # forward passes that wait for their backward passes
    KINDS = 16  # of arguments
    SETS = 4  # of results whose gradients nobody asks for

    def __init__(self, recorder, device, say, report):
        self.recorder, self.device, self.say = recorder, device, say
        self.lanes, self.seen, self.off, self.ran_backwards = [], set(), None, False
        self.follows = True  # what other recordings hand out is read where it lies
        self.fixed, self.outputs, self.mutations = frozenset(), 0, {}
        self.marker_at, self.count = None, {"recorded": 0, "replayed": 0, "asItWas": 0}
        report["recordings"] = self.count

    def stop(self, reason):
        if self.off is None:
            self.off = reason
            self.count["why"] = reason
            self.say(f"it runs without CUDA graphs: {reason}")

    def half(self, name, function, graph):
        """What runs in that half's place; `graph`: its nodes."""
        reason = why_not(graph, self.device)
        if reason is not None:
            self.stop(reason)
        return self.forward(function) if name == "forward" else self.backward(function)

    def forward(self, half):
        def run(arguments):
            kinds = len(self.seen)
            slot = None if self.off or self.recorder.is_recording() else self.slot_for(half, arguments)
            if slot is None:
                self.count["asItWas"] += 1
                with self.recorder.first_run() if len(self.seen) > kinds else contextlib.nullcontext():
                    return half(arguments)
            self.count["replayed"] += 1
            return slot.run_forward(arguments)

        run._boxed_call = True
        return run

    def slot_for(self, half, arguments):
        """A slot that nobody uses, recorded if need be; None: it runs as it was."""
        plain = (*self.recorder.where(), *(v.data_ptr() if i in self.fixed and isinstance(v, torch.Tensor) else kind(v)
                                           for i, v in enumerate(arguments)))
        if plain not in self.seen:
            if len(self.seen) < self.KINDS:
                self.seen.add(plain)  # kernels are loaded and chosen in the first call
            else:
                self.say(f"it has met more than {self.KINDS} kinds of arguments, and runs without CUDA graphs for others")
            return None
        lane = next((n for n in self.lanes if n.current is None or n.current.is_free(arguments)), None)
        if lane is None and (len(self.lanes) == self.LANES or not all(self.waits(n) for n in self.lanes)):
            return None
        if lane is None:
            lane = Lane(self.recorder.pool())
            self.lanes.append(lane)
        others = lying(arguments, self.fixed) if self.follows and len(lane.slots) < self.KINDS else set()
        key = plain, *((i, arguments[i].data_ptr()) for i in sorted(others))
        if key not in lane.slots:
            lane.slots = {k: s for k, s in lane.slots.items() if s.backwards}  # what a backward half would read would be taken
            for slot in lane.slots.values():
                slot.forward.stays = {}
            try:
                lane.slots[key] = Slot(lane, self.recorder, half, arguments, self.fixed, self.outputs, self.mutations, others)
            except Kept:
                self.follows = False  # from the next call on
                return None
            except Exception as e:
                self.stop(f"the forward half cannot be recorded ({first_line(e)})")
                return None
            self.count["recorded"] += 1
        lane.current = lane.slots[key]
        return lane.current

    @staticmethod
    def waits(lane):
        """Whether a backward pass is still to come, which another lane would help."""
        slot = lane.current
        return slot.marker is not None and slot.forward.watched[slot.marker].is_held()

    def backward(self, half):
        def run(arguments):
            slot = self.slot_of(arguments)
            if slot is None or self.off or torch._C._autograd._get_current_graph_task_keep_graph():
                is_first, self.ran_backwards = not (self.ran_backwards or self.off), True
                with self.recorder.first_run() if is_first else contextlib.nullcontext():
                    return half(arguments)
            recorded = slot.backwards.get(absent_of(arguments))
            if recorded is None and len(slot.backwards) == self.SETS:
                self.count["asItWas"] += 1
                return half(arguments)
            if recorded is None or recorded.moved(arguments):
                try:
                    slot.record_backward(half, arguments)
                    self.count["recorded"] += 1
                except Exception as e:
                    self.stop(f"the backward half cannot be recorded ({first_line(e)})")
                    return half(arguments)
            if not slot.backwards[absent_of(arguments)].fits(arguments):
                return half(arguments)
            return slot.run_backward(arguments)

        run._boxed_call = True
        return run

    def slot_of(self, arguments):
        """The slot whose forward half these come from."""
        waiting = {n.current.pointer(): n.current for n in self.lanes if n.current is not None and n.current.marker is not None}
        if not waiting:
            return None
        if self.marker_at is None:
            self.marker_at = next((k for k, v in enumerate(arguments) if isinstance(v, torch.Tensor) and v.data_ptr() in waiting), None)
        if self.marker_at is None or not isinstance(arguments[self.marker_at], torch.Tensor):
            return None
        return waiting.get(arguments[self.marker_at].data_ptr())


def first_line(error):
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
