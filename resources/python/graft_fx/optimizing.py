"""An optimizer's step behind a backend for torch.compile, and as a CUDA graph.

    graft_fx.compile_step(optimizer, graft_fx.backend(training=True))   # generated kernels (updates.py)
    graft_fx.record_step(optimizer)                                     # with these, or with fused=True

Recorded halves leave gradients in the same memory in each step, so the optimizer's step can be recorded, too.
"""

import types
import warnings

import torch

from .recorded import CudaGraphs, first_line


class RecordedStep:
    KINDS = 8  # of gradients' addresses and settings

    def __init__(self, optimizer, recorder):
        self.optimizer, self.recorder, self.plain = optimizer, recorder, optimizer.step
        self.seen, self.replays, self.pool, self.off = set(), {}, recorder.pool(), False
        self.count = {"recorded": 0, "replayed": 0, "asItWas": 0}
        watch_numbers(optimizer)

    def key(self):
        """What a recording would have fixed: where everything lies, and the settings."""
        places = [(p.data_ptr(), None if p.grad is None else p.grad.data_ptr(),
                   *(t.data_ptr() for t in self.optimizer.state.get(p, {}).values() if isinstance(t, torch.Tensor)))
                  for group in self.optimizer.param_groups for p in group["params"]]
        settings = [(k, v.data_ptr() if isinstance(v, torch.Tensor) else repr(v)) for group in self.optimizer.param_groups
                    for k, v in group.items() if k != "params"]
        return (*self.recorder.where(), *places, *settings)

    def __call__(self, closure=None):
        if closure is None and not self.off and getattr(self.optimizer, "grad_scale", None) is None and not self.recorder.is_recording():
            key = self.key()
            replay = self.replays.get(key) or self.recorded(key)
            if replay is not None:
                self.count["replayed"] += 1
                replay()
                return None
        self.count["asItWas"] += 1
        return self.once() if closure is None else self.plain(closure)

    def once(self):
        """A step in the mode in which it is recorded: a step that torch.compile has made would be made again in another one."""
        with torch.no_grad():
            return self.plain()

    def recorded(self, key):
        if key not in self.seen:
            if len(self.seen) >= self.KINDS:
                self.stop(f"gradients, states or settings lie elsewhere in each step ({self.KINDS} times until now)")
            self.seen.add(key)
            return None
        try:
            with torch.compiler.set_stance("fail_on_recompile"):  # nothing can be compiled while a graph is recorded
                self.replays[key], _ = self.recorder.record(self.pool, lambda _: self.once() or (), [])
        except Exception as e:
            self.stop(first_line(e))
            return None
        self.count["recorded"] += 1
        return self.replays[key]

    def stop(self, why):
        self.off = True
        warnings.warn(f"graft_fx.record_step: the optimizer's steps are not recorded: {why}", stacklevel=4)


def keep_rates_in_tensors(optimizer):
    """Has rates lie in tensors on a CPU, where the optimizer allows it: a step that is compiled reads what they are then."""
    for group in optimizer.param_groups:
        if not group.get("foreach") and not group.get("fused") and isinstance(group.get("lr"), float):
            group["lr"] = torch.tensor(group["lr"])


def keep_numbers_in_tensors(optimizer):
    """Has rates and counts of steps lie in tensors on the GPU, where the optimizer allows it: a step that is compiled or recorded reads
    what they are then."""
    for group in optimizer.param_groups:
        device = next((p.device for p in group["params"]), None)
        if "capturable" not in group:
            continue
        group["capturable"] = True
        if not isinstance(group["lr"], torch.Tensor) or (device is not None and group["lr"].device != device):
            group["lr"] = torch.tensor(float(group["lr"]), device=device)
        for p in group["params"]:
            state = optimizer.state.get(p, {})
            if isinstance(state.get("step"), torch.Tensor):
                state["step"] = state["step"].to(device, torch.float32)


def watch_numbers(optimizer, keep=keep_numbers_in_tensors):
    """As `keep` does, also of states that are loaded later."""
    keep(optimizer)
    optimizer.register_load_state_dict_post_hook(keep)


def compile_step(optimizer, backend):
    """Has torch.compile compile the optimizer's step, with the same results but for rounding. Returns the optimizer, whose `step` stays a
    method, so that schedulers may be made before or after. Rates become tensors, which schedulers change in place: a number would be part
    of what is compiled. `backend`: what torch.compile takes, such as `graft_fx.backend(training=True)`."""
    is_on_cpu = all(p.device.type == "cpu" for group in optimizer.param_groups for p in group["params"])
    watch_numbers(optimizer, keep_rates_in_tensors if is_on_cpu else keep_numbers_in_tensors)
    compiled = torch.compile(optimizer.step, backend=backend)
    optimizer.step = types.MethodType(lambda self, closure=None: compiled() if closure is None else compiled(closure), optimizer)
    return optimizer


def recorder_of(devices):
    """What records on those kinds of devices, or None."""
    return CudaGraphs() if devices == {"cuda"} else None


def record_step(optimizer):
    """Has the optimizer's step run as a CUDA graph where it repeats, with the same results. Returns the optimizer. `capturable` is set
    where the optimizer has it, and rates become tensors, which schedulers change in place. Steps with a closure or under a GradScaler
    that hands its scale to the optimizer run as they were."""
    devices = {p.device.type for group in optimizer.param_groups for p in group["params"]}
    made = recorder_of(devices)
    if made is None:
        raise ValueError("graft_fx.record_step: all parameters have to lie on a GPU")
    recorded = RecordedStep(optimizer, made)
    optimizer.step = types.MethodType(lambda self, closure=None: recorded(closure), optimizer)
    optimizer.recordings = recorded.count
    return optimizer
