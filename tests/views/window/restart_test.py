"""A window that is killed and started again has its model open and its steps done again, every time.

    restart_test.py BUILD [--rounds N] [--model MODEL --rules RULES --recipe RECIPE]

Each round starts `graft-gui MODEL` and kills it (SIGKILL) at another moment of its start, then starts it again: the
engine must have opened the model and done all steps again, and what the next kill leaves must still hold them, and what
was measured. The
engine is the scripted one, or with --model the real one. Between window and engine stands this program, which writes down what
was answered.
"""

import argparse
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
RULES = """class Attention(Rule):
    # match: matmul, div, add, softmax, matmul
    def pattern(q, k, v, mask):
        return torch.matmul(torch.softmax(torch.matmul(q, k) / 4 + mask, dim=-1), v)

    def replacement(q, k, v, mask):
        return kernels.attention(q, k, v, mask)
"""
SECONDS = 60


def frames(stream, then):
    """Passes each message on, whole."""
    while True:
        length = 0
        while (line := stream.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not line:
            return
        then(stream.read(length))


def relay(log, command):
    """Stands between window and engine: `log` gets a line "method ok|error" for each answer."""
    engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    methods = {}

    def to_engine(body):
        message = json.loads(body)
        methods[message.get("id")] = message["method"]
        engine.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        engine.stdin.flush()

    def to_window(body):
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        sys.stdout.buffer.flush()
        message = json.loads(body)
        if "method" not in message:
            with open(log, "a") as file:
                print(methods.get(message["id"]), "error" if "error" in message else "ok", file=file)

    def read_window():
        frames(sys.stdin.buffer, to_engine)
        engine.kill()

    threading.Thread(target=read_window, daemon=True).start()
    frames(engine.stdout, to_window)


class Windows:
    """Windows of one user, one after another."""

    def __init__(self, build, folder, model, engine):
        self.folder, self.model, self.engine = folder, model, engine
        self.program = build / "bin" / "graft-gui"
        self.log = folder / "engine.log"
        self.environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data")}
        self.process = None

    def start(self):
        self.log.write_text("")
        command = shlex.join([sys.executable, str(pathlib.Path(__file__).resolve()), "--relay", str(self.log), *map(str, self.engine)])
        self.process = subprocess.Popen([self.program, "--engine", command, self.model], env=self.environment)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def answered(self):
        return self.log.read_text().split("\n")

    def wait(self, done):
        end = time.monotonic() + SECONDS
        while not done() and time.monotonic() < end:
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return done()

    def saved(self):
        """What the killed window leaves to the next."""
        files = sorted(self.folder.glob("data/**/sessions/window-*.json"), key=lambda p: p.stat().st_mtime)
        return json.loads(files[-1].read_text()) if files else {}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--rules", type=pathlib.Path)
    parser.add_argument("--recipe")
    options = parser.parse_args()
    build = options.build.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="graft-restart-"))
    if options.model:
        engine, model, rules = [build / "bin" / "graft", "engine"], options.model.resolve(), options.rules.read_text()
        request = {"recipe": options.recipe, "text": rules, "file": str(options.rules.resolve()), "verify": False}
    else:
        engine, model, rules = [sys.executable, HERE.parent / "support" / "fake_engine.py"], folder / "model.pt", RULES
        model.write_text("")
        request = {"rule": "Attention", "text": rules, "file": "", "verify": False}
    windows = Windows(build, folder, model, engine)
    # The first window is one that opened the model; its user applies a step, which here is written into what it leaves.
    windows.start()
    assert windows.wait(lambda: windows.saved().get("model") == str(model)), "the first window opened nothing"
    windows.kill()
    state = windows.saved()
    kernels = [{"step": 1, "times": {"kernels": {"gelu layer_norm": {"us": 3.5}}, "plans": {}, "model": {}, "at": "2026-01-02T03:04:05"}}]
    measured = {"run": {"result": {"ratio": 2.5, "original": {"medianMs": 5.0}, "rewritten": {"medianMs": 2.0}}, "inputs": {}, "ran": [0, 1], "at": "2026-01-02T03:04:05", "other": "", "otherMethod": ""},
                "figures": {"gains": {"Attention": 1.25}, "kernels": kernels}}
    state.update(rules=rules, rulesModified=True, position=1, inside=-1, **measured,
                 steps=[{"label": "Attention", "request": request, "verification": "all verified", "gain": "1.25 times as fast", "ms": [12.5]}])
    next(iter(folder.glob("data/**/sessions/window-*.json"))).write_text(json.dumps(state))

    times, failures = [], []
    for i in range(options.rounds):
        windows.start()
        time.sleep(1.2 * i / max(1, options.rounds - 1))  # somewhere on its way
        windows.kill()
        windows.start()
        began = time.monotonic()
        restored = windows.wait(lambda: {"model/open ok", "rules/apply ok"} <= set(windows.answered()))
        times.append(time.monotonic() - began)
        time.sleep(0.3)
        windows.kill()
        left = windows.saved()
        step = left.get("steps", [{}])[0]
        keeps = all(left.get(k) == v for k, v in measured.items()) and step.get("ms", [])[:1] == [12.5] and step.get("gain") == "1.25 times as fast"
        if not restored or not keeps or left.get("model") != str(model) or len(left.get("steps", [])) != 1 or left.get("position") != 1:
            failures.append((i, windows.answered(), {k: left.get(k) for k in ("model", "steps", "position", *measured)}))
    good = options.rounds - len(failures)
    print(f"{good} of {options.rounds}: model open and steps done again after {sorted(times)[len(times) // 2]:.2f} s, at worst {max(times):.2f} s")
    for failure in failures:
        print(failure)
    return 0 if not failures else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--relay"]:
        relay(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
