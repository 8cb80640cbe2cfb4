"""`graft` run a thousand times by tests, and LibTorch loaded once: warm.cpp says how.

    warm.up(BUILD)      from here on, subprocess.run([BUILD/bin/graft, ...], capture_output=True, ...) is such a copy

What a test starts in any other way (Popen, a file on stdin) is started as ever; so is everything where the library is not built.
"""

import array
import atexit
import os
import selectors
import signal
import socket
import subprocess
import threading
import time

# Variables with these beginnings may be read when libraries are loaded: each set of them has a process of its own.
AT_LOADING = ("ATEN", "CUDA", "GLIBC", "GOMP", "KINETO", "KMP", "LD_", "MALLOC", "MKL", "NVIDIA", "OMP", "PYTORCH", "TORCH")
OPTIONS = {"args", "capture_output", "check", "cwd", "env", "stdin", "text", "timeout"}


def up(build):
    program, library, run = str(build / "bin/graft"), str(build / "lib/tests/libgraft_warm.so"), subprocess.run
    if not os.path.exists(library):
        return
    processes, busy = {}, threading.Lock()

    def end():
        for process in processes.values():
            process.end()

    def copied(args, **options):
        plain = options.get("capture_output") and options.get("stdin") in (None, subprocess.DEVNULL) and options.keys() <= OPTIONS
        if not plain or isinstance(args, str) or str(args[0]) != program or not busy.acquire(blocking=False):
            return run(args, **options)
        try:
            environment = {str(k): str(v) for k, v in (os.environ if options.get("env") is None else options["env"]).items()}
            key = frozenset((k, v) for k, v in environment.items() if k.startswith(AT_LOADING))
            if key not in processes:
                processes[key] = Process(program, library, environment)
            done = processes[key].copy([str(word) for word in args], environment, options.get("cwd") or os.getcwd(), options.get("timeout"))
        finally:
            busy.release()
        if options.get("text"):
            done.stdout, done.stderr = (said.decode().replace("\r\n", "\n").replace("\r", "\n") for said in (done.stdout, done.stderr))
        if options.get("check"):
            done.check_returncode()
        return done

    atexit.register(end)
    subprocess.run = copied


class Process:
    """Has come as far as main(), and waits for commands."""

    def __init__(self, program, library, environment):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen([program], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                            env=environment | {"LD_PRELOAD": library, "GRAFT_WARM": str(theirs.fileno())})

    def end(self):
        self.socket.close()
        self.process.wait()

    def copy(self, command, environment, folder, timeout):
        words = [folder, str(len(command)), *command, *(f"{name}={value}" for name, value in environment.items())]
        message = b"".join(os.fsencode(word) + b"\0" for word in words)
        ends = [os.pipe(), os.pipe()]
        with open(os.devnull) as nothing:
            socket.send_fds(self.socket, [message], [nothing.fileno(), ends[0][1], ends[1][1]])
        for _, write in ends:
            os.close(write)
        child, said = self.number(), {read: [] for read, _ in ends}
        until = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for read in said:
                selector.register(read, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(until and max(0, until - time.monotonic()))
                if not ready:
                    os.kill(child, signal.SIGKILL)
                    self.number()
                    raise subprocess.TimeoutExpired(command, timeout)
                for key, _ in ready:
                    part = os.read(key.fd, 1 << 16)
                    said[key.fd].append(part)
                    if not part:
                        selector.unregister(key.fd)
                        os.close(key.fd)
        code = os.waitstatus_to_exitcode(self.number())
        return subprocess.CompletedProcess(command, code, *(b"".join(parts) for parts in said.values()))

    def number(self):
        return array.array("i", self.socket.recv(4))[0]
