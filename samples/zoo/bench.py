#!/usr/bin/env python3
"""Times models that `graft optimize` exported beside eager PyTorch, frozen TorchScript, torch.compile and ONNX Runtime.

    samples/zoo/bench.py build --set zoo --device cpu --threads 1 --jobs 16 --minutes 9 --resume -o results
    samples/zoo/bench.py build --device cuda --only 'bert,swin,timm:*' -o results
    samples/zoo/bench.py --list

A row is one model at one batch size. PyTorch traces the model in fp32 on the CPU; `graft optimize` writes a file for the device and
dtype; each contender then gets a process of its own, which makes it ready. When all are ready, they are called in turns:

    graft      the file that `graft optimize` wrote, in Python
    eager      the user's module
    frozen     the traced model, frozen (on a CPU alone)
    compile:M  torch.compile(module, mode=M) of the user's module, for each mode of --modes
    onnx       ONNX Runtime on the CPU, of what torch.onnx.export wrote (float32 on a CPU alone; "-" where onnxruntime is not installed)

graft and compile are made ready twice: first with empty caches, then by a second process with what the first one kept.

Rows are written as they come: results.json in the folder of -o keeps them with machine, clocks and versions, results.md has the tables.
--resume keeps the rows that results.json has. A contender that fails or takes longer than --timeout says why, and the others go on.
--minutes ends the run in time: rows that are not complete then are left to the next run with --resume.

On a CPU, --jobs rows run side by side, each pinned to --threads cores of its own. With one thread, times are the thread's own. On a
GPU, --jobs rows prepare at once, and are timed one after another when all of them are ready.
"""
import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(HERE))
import table

TURN_MS = 20       # a contender is called for about this long in one turn
LEAST_TURNS = 7
LONGEST_TURNS = 60  # seconds after which slow models get fewer turns
PAUSE = 0.1         # seconds before a contender's turn on a CPU: the threads of the one before it spin for a while, where it has several


class Stopped(Exception):
    """The run's time is over, or the user ended it."""


class Processes:
    """All processes that this run has started, so that they end when it does."""

    def __init__(self):
        self.lock, self.running, self.stopped = threading.Lock(), set(), False

    def start(self, command, **options):
        with self.lock:
            if self.stopped:
                raise Stopped()
            process = subprocess.Popen([str(c) for c in command], start_new_session=True, **options)
            self.running.add(process)
            return process

    def end(self, process):
        """With what it has started."""
        with self.lock:
            self.running.discard(process)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for pipe in (process.stdin, process.stdout):
            if pipe:
                try:
                    pipe.close()
                except OSError:
                    pass
        process.wait()

    def stop(self):
        with self.lock:
            self.stopped = True
            running = list(self.running)
        for process in running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


PROCESSES = Processes()


class Quiet:
    """Many rows prepare at once; who times is alone. Only a GPU needs that: rows on a CPU have cores of their own.

    Timing begins when nobody prepares any more, and then all rows that wait for it are timed, one after another, before anyone
    prepares again. So rows go in waves, and no core idles for a single row's sake."""

    def __init__(self, needed):
        self.needed, self.state, self.preparing, self.waiting = needed, threading.Condition(), 0, 0
        self.timing = self.busy = False  # a wave is being timed; one of its rows is at this moment

    def prepare(self, work):
        """Runs `work` beside that of other rows."""
        if not self.needed:
            return work()
        with self.state:
            self.state.wait_for(lambda: not self.timing)
            self.preparing += 1
        try:
            return work()
        finally:
            with self.state:
                self.preparing -= 1
                self.state.notify_all()

    def alone(self, work):
        """Runs `work` while nothing else runs. `timing` stays set from the first row of a wave to its last one."""
        if not self.needed:
            return work()
        with self.state:
            self.waiting += 1
            self.state.wait_for(lambda: not self.preparing and not self.busy)
            self.timing = self.busy = True
            self.waiting -= 1
        try:
            return work()
        finally:
            with self.state:
                self.busy = False
                self.timing = self.waiting > 0
                self.state.notify_all()


class Child:
    """A process of contenders.py. What libraries print there goes to a log."""

    def __init__(self, options, contender, folder, environment):
        self.seconds, self.log = options["timeout"], folder / f"{contender.replace(':', '_')}.log"
        with open(self.log, "a") as log:
            self.process = PROCESSES.start([sys.executable, HERE / "contenders.py", json.dumps({**options, "contender": contender, "folder": str(folder)})],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **environment})

    def answer(self, ask=None, seconds=None):
        """The next line of JSON; {"why"} where the process ended or took too long."""
        late, seconds = threading.Event(), seconds or self.seconds

        def kill():
            late.set()
            os.killpg(self.process.pid, signal.SIGKILL)

        watch = threading.Timer(seconds, kill)
        watch.start()
        try:
            if ask is not None:
                self.process.stdin.write(f"{ask}\n")
                self.process.stdin.flush()
            line = self.process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        finally:
            watch.cancel()
        if line:
            return json.loads(line)
        if PROCESSES.stopped:
            raise Stopped()
        if late.is_set():
            return {"why": f"did not end within {seconds:g} s"}
        said = self.log.read_text().strip().splitlines()
        return {"why": f"ended with {self.process.wait()}: {said[-1][:200] if said else ''}"}

    def end(self):
        PROCESSES.end(self.process)


class Row:
    """One model at one batch size: all its contenders, prepared one after another and then called in turns."""

    def __init__(self, options, model, batch, folder):
        self.folder = folder / f"{model.replace(':', '_')}_{batch}"
        self.options, self.model, self.batch, self.children = options, model, batch, {}
        self.told = {"model": model, "batch": batch, "device": options.device, "dtype": options.dtype, "threads": options.threads,
                     "build": str(options.build), "timeout": options.timeout}
        self.found = {"model": model, "batch": batch, "device": options.device, "dtype": options.dtype, "threads": options.threads, "seconds": options.seconds,
                      "contenders": {}}

    def environment(self, contender=""):
        """Caches of the contender's own, and the threads that were asked for."""
        caches = self.folder / f"cache_{contender.replace(':', '_')}"
        found = {"GRAFT_CACHE_DIR": str(caches / "graft"), "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"), "TRITON_CACHE_DIR": str(caches / "triton")}
        threads = self.options.threads or (max(1, len(CORES) // self.options.jobs) if self.on_gpu() else 0)
        if threads:
            found |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
        return found

    def on_gpu(self):
        return self.options.device.startswith("cuda")

    def child(self, contender):
        return Child(self.told, contender, self.folder, self.environment(contender))

    def prepare(self):
        """Traces the model and has Graft write its file."""
        child = self.child("prepare")
        try:
            traced = child.answer()
        finally:
            child.end()
        if "why" in traced and not (self.folder / "in.pt").exists():
            return f"not built: {traced['why']}"
        self.found |= {key: traced[key] for key in ("parameters", "trace", "noReference") if key in traced}
        return f"not traced: {traced.get('notTraced') or traced['why']}" if "trace" not in traced else ""

    def optimize(self):
        """Why `graft optimize` wrote nothing, or nothing."""
        options, began = self.options, time.perf_counter()
        command = [options.build / "bin/graft", "optimize", self.folder / "model.pt", "--inputs", self.folder / "in.pt", "-o", self.folder / "fast.pt", "--device", options.device,
                   "--dtype", options.dtype, "--budget", options.budget, "--seconds", 1, "--allow-unchanged", "--json"]
        with open(self.folder / "optimize.json", "w") as out, open(self.folder / "optimize.log", "w") as log:
            process = PROCESSES.start(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env={**os.environ, **self.environment("optimize")})
        try:
            code = process.wait(timeout=options.timeout)
        except subprocess.TimeoutExpired:
            return f"graft optimize did not end within {options.timeout:g} s"
        finally:
            PROCESSES.end(process)
            if PROCESSES.stopped:
                raise Stopped()
        if code:
            said = (self.folder / "optimize.log").read_text().strip().splitlines()
            return f"graft optimize: exit code {code}: {said[-1] if said else ''}"
        report = json.loads((self.folder / "optimize.json").read_text())
        self.found |= {"optimize": time.perf_counter() - began, "stages": report["stages"], "recipe": " + ".join(r["recipe"] for r in report["recipes"] if r["kept"]) or "nothing",
                       "rewrites": sum(s["rewrites"] for s in (report["result"] or {}).get("steps", []) if s["isRule"])}
        return ""

    def ready(self, contender):
        """Starts a contender; where it has caches, a second time with what the first process kept there."""
        shutil.rmtree(self.folder / f"cache_{contender.replace(':', '_')}", ignore_errors=True)
        child = self.child(contender)
        found = child.answer()
        twice = ["graft"] if self.options.once else ["graft", "compile"]
        if contender.partition(":")[0] in twice and "why" not in found:
            amount = child.answer("count")
            child.end()
            child = self.child(contender)
            again = child.answer()
            amount = {"kernels": None, "bytes": None} if "why" in amount else amount
            found = {**found, **amount, "loadWarm": again["load"], "callsWarm": again["calls"], "difference": again["difference"]} if "why" not in again else again
        if "why" in found:
            child.end()
        else:
            self.children[contender] = child
        self.found["contenders"][contender] = found

    def take_turns(self):
        """The times of all, called in turns."""
        found, began = self.found["contenders"], time.perf_counter()
        calls = {c: max(1, min(50, round(TURN_MS / max(min(found[c].get("callsWarm", found[c]["calls"])) * 1e3, 1e-3)))) for c in self.children}
        turns = []
        while len(turns) < LEAST_TURNS or time.perf_counter() < began + self.options.seconds * len(self.children):
            turn = {}
            for contender, child in list(self.children.items()):
                if not self.on_gpu() and self.options.threads != 1:
                    time.sleep(PAUSE)
                said = child.answer(calls[contender])
                if "ms" in said:
                    turn[contender] = said
                else:
                    found[contender] = {"why": said["why"]}
                    self.children.pop(contender).end()
            if not self.children:
                return
            turns.append(turn)
            if len(turns) >= 3 and time.perf_counter() > began + LONGEST_TURNS:
                break
        for contender in self.children:
            found[contender]["turns"] = len(turns)
            for what, ratio in (("ms", "ratio"), ("queued", "queuedRatio")):
                if what not in turns[0][contender]:
                    continue
                found[contender][what] = statistics.median(t[contender][what] for t in turns)
                if contender != "graft" and "graft" in self.children:
                    ratios = sorted(t[contender][what] / t["graft"][what] for t in turns)
                    tenths = statistics.quantiles(ratios, n=10)
                    found[contender] |= {ratio: statistics.median(ratios), f"{ratio}P10": max(tenths[0], ratios[0]), f"{ratio}P90": min(tenths[-1], ratios[-1])}
        self.found["machine"] = machine(self.options.device)

    def count(self):
        """What one call of each runs, where that is not known yet."""
        for contender, child in self.children.items():
            if "kernels" not in self.found["contenders"][contender]:
                amount = child.answer("count")
                self.found["contenders"][contender] |= amount if "why" not in amount else {}

    def run(self, quiet):
        """The finished row."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            why = quiet.prepare(self.prepare)
            for contender in self.options.contenders:
                unusable = why if why.startswith("not built") or contender in ("graft", "frozen") else ""
                if contender == "graft" and not why:
                    unusable = quiet.prepare(self.optimize)
                if unusable:
                    self.found["contenders"][contender] = {"why": unusable}
                else:
                    quiet.prepare(lambda: self.ready(contender))
            if self.children:
                quiet.alone(self.take_turns)
            quiet.prepare(self.count)
            self.found.setdefault("machine", machine(self.options.device))
            return self.found
        finally:
            for child in self.children.values():
                child.end()
            shutil.rmtree(self.folder, ignore_errors=True) if not self.options.keep else None


CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def machine(device):
    """What the times depend on besides the models."""
    from importlib import metadata
    found = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "cores": len(CORES), "load": os.getloadavg()[0]}
    try:
        cpu = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        found["cpu"] = next((line.partition(": ")[2] for line in cpu if line.startswith("model name")), platform.processor())
        found["MHz"] = max((float(line.partition(": ")[2]) for line in cpu if line.startswith("cpu MHz")), default=None)
    except OSError:
        pass
    for package in ("torch", "transformers", "torchvision", "timm", "onnxruntime"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    if device.startswith("cuda"):
        fields = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu"
        said = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True)
        found |= dict(zip(fields.split(","), said.stdout.strip().splitlines()[0].split(", "))) if said.returncode == 0 else {}
    return found


class Results:
    """The rows measured so far, in a file that is whole at any time."""

    def __init__(self, folder, contenders):
        self.folder, self.contenders, self.path, self.lock, self.rows = folder, contenders, folder / "results.json", threading.Lock(), {}

    def read(self):
        if self.path.exists():
            self.rows = {self.key(row): row for row in json.loads(self.path.read_text())["rows"]}

    @staticmethod
    def key(row):
        return "/".join(str(row[k]) for k in ("model", "batch", "device", "dtype", "threads"))

    def add(self, row):
        with self.lock:
            self.rows[self.key(row)] = row
            self.write(self.path, json.dumps({"rows": list(self.rows.values())}, indent=1))
            self.write(self.folder / "results.md", table.document(self.rows.values(), self.columns()))

    def columns(self):
        """Of all rows, in the order in which this run asks for them."""
        return list(dict.fromkeys([*self.contenders, *(c for row in self.rows.values() for c in row["contenders"])]))

    @staticmethod
    def write(path, text):
        beside = path.with_suffix(".new")
        beside.write_text(text)
        beside.replace(path)


def run(options, waiting, results):
    """Measures all rows of `waiting`; how many of them were not done."""
    quiet, lock, left, groups = Quiet(options.device.startswith("cuda")), threading.Lock(), list(waiting), []
    if not quiet.needed and options.threads and options.jobs * options.threads <= len(CORES):
        groups = [set(CORES[i * options.threads:(i + 1) * options.threads]) for i in range(options.jobs)]

    def work(number):
        if groups:
            os.sched_setaffinity(0, groups[number])  # of this thread, and of all processes that it starts
        while not PROCESSES.stopped:
            began = time.monotonic()
            with lock:
                if not left or (until and took and began + max(took) > until):
                    return  # a row that would not be done in time takes it from those that would
                model, batch = left.pop(0)
            try:
                row = Row(options, model, batch, options.output / "work").run(quiet)
            except Stopped:
                return
            except Exception as error:
                row = {"model": model, "batch": batch, "device": options.device, "dtype": options.dtype, "threads": options.threads, "machine": machine(options.device),
                       "contenders": {"graft": {"why": f"{type(error).__name__}: {error}"}}}
            results.add(row)
            with lock:
                done.append(row)
                took.append(time.monotonic() - began)
                print(table.times(row, options.contenders), flush=True)

    done, took, threads = [], [], [threading.Thread(target=work, args=(i,), daemon=True) for i in range(min(options.jobs, len(waiting)))]
    until = time.monotonic() + options.minutes * 60 if options.minutes else None
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)
                if until and time.monotonic() > until:
                    raise Stopped()
    except (KeyboardInterrupt, Stopped):
        PROCESSES.stop()
        for thread in threads:
            thread.join(10)
    return len(waiting) - len(done)


def arguments():
    from models import MODELS, SETS, known
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=HERE.parents[1] / "build", help="where Graft was built")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="the models to measure; without them, those of --set")
    parser.add_argument("--list", action="store_true", help="print the models of all sets and exit")
    parser.add_argument("--set", choices=SETS, default="all", help="which list of models; zoo: no rule was written for them, rules: the others")
    parser.add_argument("--only", help="of these, the models that match one of the patterns: 'bert,timm:*'")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--dtype", choices=["float64", "float32", "float16", "bfloat16"],
                        help="float32 on a CPU and float16 on a GPU, if you do not say another")
    parser.add_argument("--batch", default="1", help="batch sizes, like 1,8 (%(default)s)")
    parser.add_argument("--contenders", default="graft,eager,frozen,compile,onnx", help="who takes part (%(default)s)")
    parser.add_argument("--modes", help="torch.compile's modes: default on a CPU, and default,reduce-overhead,max-autotune on a GPU, if you do not say others")
    parser.add_argument("--threads", type=int, default=0, help="PyTorch's threads on a CPU; 0: as many as it takes")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many rows run (on a GPU: prepare) side by side (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1, help="how long each contender is timed (%(default)s)")
    parser.add_argument("--budget", type=float, default=30, help="seconds of trials that `graft optimize` may take (%(default)s)")
    parser.add_argument("--timeout", type=float, default=240, help="seconds that one contender may take to be ready (%(default)s)")
    parser.add_argument("--minutes", type=float, help="end after this time, and leave the rest to --resume")
    parser.add_argument("--resume", action="store_true", help="keep the rows of results.json; measure what is missing")
    parser.add_argument("--retry", action="store_true", help="with --resume: measure rows again in which a contender failed")
    parser.add_argument("--once", action="store_true", help="make torch.compile ready once alone, with empty caches, and do not count its kernels: saves a minute a row")
    parser.add_argument("--keep", action="store_true", help="keep each row's files and logs in the folder work of -o")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("zoo"), help="the folder of results.json and results.md (%(default)s)")
    options = parser.parse_intermixed_args()
    if options.list:
        print(*(f"{name}: {' '.join(models)}" for name, models in SETS.items() if name != "all"), sep="\n")
        sys.exit(0)
    on_gpu = options.device.startswith("cuda")
    options.build, options.output = options.build.resolve(), options.output.resolve()
    options.dtype = options.dtype or ("float16" if on_gpu else "float32")
    modes = (options.modes or ("default,reduce-overhead,max-autotune" if on_gpu else "default")).split(",")
    options.contenders = [c for part in options.contenders.split(",") for c in ([f"compile:{mode}" for mode in modes] if part == "compile" else [part])]
    if unknown := [c for c in options.contenders if c.partition(":")[0] not in ("graft", "eager", "frozen", "compile", "onnx")]:
        parser.error(f"no contender {', '.join(unknown)}")
    options.contenders = [c for c in options.contenders if not (c == "frozen" and on_gpu) and not (c == "onnx" and (on_gpu or options.dtype != "float32"))]
    names = options.models or SETS[options.set]
    if unknown := [name for name in names if not known(name)]:
        parser.error(f"no model {', '.join(unknown)}; --list names them")
    if options.only:
        names = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in options.only.split(","))]
    if not names:
        parser.error(f"no model matches {options.only}")
    options.rows = [(name, int(batch)) for name in names for batch in options.batch.split(",")]
    if options.threads and not on_gpu and options.jobs * options.threads > len(CORES):
        parser.error(f"--jobs {options.jobs} of --threads {options.threads} need more than the {len(CORES)} cores here")
    if not (options.build / "bin/graft").exists():
        parser.error(f"there is no {options.build}/bin/graft: build the targets graft, graft_ops and graft_ops_llvm first")
    return options


def main():
    options = arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    results = Results(options.output, options.contenders)
    results.read()  # rows of other models, devices and threads stay, in any case
    def wanted(model, batch):
        return Results.key({"model": model, "batch": batch, "device": options.device, "dtype": options.dtype, "threads": options.threads})

    def complete(row):
        return all(c in row["contenders"] and not (options.retry and table.failed(row["contenders"][c])) for c in options.contenders)

    waiting = [item for item in options.rows if not (options.resume and wanted(*item) in results.rows and complete(results.rows[wanted(*item)]))]
    print(*table.times_head(options.contenders), sep="\n", flush=True)
    missing = run(options, waiting, results)
    rows = [results.rows[wanted(*item)] for item in options.rows if wanted(*item) in results.rows]
    print("", *table.summary(rows, results.columns()), f"{len(rows)} of {len(options.rows)} rows in {results.path}", sep="\n")
    if missing:
        print(f"{missing} rows were not reached; the same command with --resume goes on")
    return 0 if len(rows) == len(options.rows) and not any(table.failed(r["contenders"].get("graft", {})) for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
