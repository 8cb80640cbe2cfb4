"""Hands the parts of a batch to a scheduler: the program `graft batch --on` runs it and reads its lines.

    graft_cluster.py REQUEST.json

The request names the scheduler, its address, how many workers, and the parts: each is a command that goes on from a state file of its
own, so that a part whose worker was lost is given to another one and does nothing twice. Each line of the output is one JSON object:
{"part": 3, "error": ""} when a part has ended, {"progress": 40} with the models that have, and {"end": ""} at the end, with the error.
When stdin ends, whoever started this is gone, and the jobs are cancelled.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

LOCKED = "another batch works with the state file"  # a part's process before ours has not ended yet


def say(**line):
    print(json.dumps(line), flush=True)


def end_with_parent():
    """In the child: where its worker is killed, it stops, too."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def run_part(command, variables, seconds_for_lock=600):
    """One part, on a worker. Returns why it could not run; models that fail are no reason."""
    begin = time.monotonic()
    while True:
        run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**variables, **os.environ},
                             preexec_fn=end_with_parent)
        if LOCKED in run.stderr and time.monotonic() - begin < seconds_for_lock:
            time.sleep(0.2)
            continue
        # A model that failed is in the state; only what never came to run a model has nothing there.
        state = command[command.index("--state") + 1]
        if run.returncode < 0 or (run.returncode != 0 and not os.path.exists(state)):
            return run.stderr.strip()[-2000:] or f"graft batch ended with {run.returncode}"
        return ""


def local_variables(workers):
    """Each process would take all cores otherwise."""
    return {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // max(workers, 1)))}


def on_dask(request, cancelled):
    import dask
    import distributed

    # A worker that is lost may take any number of parts with it before a part is given up.
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    cluster = None
    if request["address"]:
        client = distributed.Client(request["address"])
    else:
        cluster = distributed.LocalCluster(n_workers=request["workers"], threads_per_worker=1, processes=True, dashboard_address=None)
        client = distributed.Client(cluster)
    variables = {} if request["address"] else local_variables(request["workers"])
    cancelled.append(lambda: (client.cancel(futures), client.close(timeout=1), cluster and cluster.close(timeout=1)))
    futures = [client.submit(run_part, part, variables, pure=False, key=f"graft-part-{os.getpid()}-{i}")
               for i, part in enumerate(request["parts"])]
    number = {future.key: i for i, future in enumerate(futures)}
    for future in distributed.as_completed(futures):
        error = future.result() if future.status == "finished" else str(future.exception() or future.status)
        say(part=number[future.key], error=error)
    client.close()
    if cluster:
        cluster.close()


def on_ray(request, cancelled):
    import ray

    ray.init(address=request["address"] or None, log_to_driver=False, **({} if request["address"] else {"num_cpus": request["workers"]}))
    cancelled.append(ray.shutdown)
    variables = {} if request["address"] else local_variables(request["workers"])
    task = ray.remote(num_cpus=1, max_retries=10)(run_part)
    number = {task.remote(part, variables): i for i, part in enumerate(request["parts"])}
    waiting = list(number)
    while waiting:
        ready, waiting = ray.wait(waiting)
        for reference in ready:
            try:
                error = ray.get(reference)
            except Exception as e:
                error = str(e)
            say(part=number[reference], error=error)
    ray.shutdown()


def on_slurm(request, cancelled):
    sbatch = shutil.which("sbatch")
    if not sbatch:
        raise RuntimeError("there is no sbatch in the PATH")
    folder, parts = request["folder"], request["parts"]
    lines = ["#!/bin/sh", "case $SLURM_ARRAY_TASK_ID in"]
    for i, part in enumerate(parts):
        lines.append(f"{i}) exec {' '.join(quoted(word) for word in part)} ;;")
    script = os.path.join(folder, "job.sh")
    with open(script, "w") as f:
        f.write("\n".join([*lines, "esac", ""]))
    limit = f"%{request['workers']}" if request["workers"] else ""
    # Further options come from the environment, SBATCH_PARTITION and others, as Slurm has it.
    process = subprocess.Popen([sbatch, "--parsable", "--wait", "--job-name=graft", f"--array=0-{len(parts) - 1}{limit}",
                                f"--output={folder}/%a.log", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    job = (process.stdout.readline() or "").strip().split(";")[0]
    cancelled.append(lambda: (job and shutil.which("scancel") and subprocess.run(["scancel", job]), process.kill()))
    states = [part[part.index("--state") + 1] for part in parts]
    while process.poll() is None:
        time.sleep(0.5)
        say(progress=sum(lines_of(state) for state in states))
    if not job:
        raise RuntimeError(f"sbatch ended with {process.returncode} and gave no job")
    for i, state in enumerate(states):
        say(part=i, error="" if lines_of(state) else last_of(os.path.join(folder, f"{i}.log")))


def quoted(word):
    import shlex

    return shlex.quote(word)


def lines_of(path):
    try:
        with open(path, "rb") as f:
            return f.read().count(b"\n")
    except FileNotFoundError:
        return 0


def last_of(path):
    try:
        with open(path, errors="replace") as f:
            return f.read().strip()[-2000:] or "its job did nothing"
    except FileNotFoundError:
        return "its job did not run"


def watch(cancelled):
    sys.stdin.read()
    for cancel in cancelled:
        try:
            cancel()
        except Exception:
            pass
    os._exit(130)


def main():
    with open(sys.argv[1]) as f:
        request = json.load(f)
    cancelled = []
    threading.Thread(target=watch, args=(cancelled,), daemon=True).start()
    try:
        {"dask": on_dask, "ray": on_ray, "slurm": on_slurm}[request["scheduler"]](request, cancelled)
        say(end="")
    except ImportError as e:
        package = {"dask": "distributed"}.get(request["scheduler"], request["scheduler"])
        say(end=f"{e}; `{sys.executable} -m pip install {package}` installs it, and --python names another Python")
    except Exception as e:
        say(end=f"{type(e).__name__}: {e}")
    sys.stdout.flush()
    os._exit(0)  # threads of the scheduler's may still wait


if __name__ == "__main__":
    main()
