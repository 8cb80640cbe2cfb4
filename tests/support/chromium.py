"""A headless Chromium for tests of pages, driven over its debugging pipe: no driver, no server, no network.

    with Chromium.start() as browser:            # None where there is no Chromium
        browser.open(path)
        browser.run("document.title")
        browser.click(120, 40)

GRAFT_CHROMIUM names the program; else `chromium`, `chromium-browser`, `google-chrome` or `headless_shell` on PATH.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile


def find():
    for name in (os.environ.get("GRAFT_CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "headless_shell"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


class Chromium:
    @staticmethod
    def start(width=1280, height=800, scale=1, flags=()):
        program = find()
        return Chromium(program, width, height, scale, flags) if program else None

    def __init__(self, program, width, height, scale, flags=()):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # a process of it may still write
        to_browser, ours = os.pipe(), os.pipe()  # it reads from 3 and writes to 4

        def give():
            # Both may be in each other's way: first out of it, then to their places.
            read, write = os.dup(to_browser[0]), os.dup(ours[1])
            high = [os.dup2(read, 30), os.dup2(write, 31)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--force-device-scale-factor={scale}", f"--window-size={width},{height}",
             f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", *flags, "about:blank"],
            pass_fds=(3, 4), preexec_fn=give, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser[0])
        os.close(ours[1])
        self.out = os.fdopen(to_browser[1], "wb", buffering=0)
        self.into = os.fdopen(ours[0], "rb", buffering=0)
        self.pending, self.number, self.events = b"", 0, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Network.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.out.close()
        self.into.close()
        self.folder.cleanup()

    def read(self):
        while b"\0" not in self.pending:
            part = self.into.read(1 << 16)
            if not part:
                raise RuntimeError("Chromium went away")
            self.pending += part
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") != self.number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer.get("result", {})

    def open(self, path):
        self.go(pathlib.Path(path).resolve().as_uri())

    def go(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.read())

    def run(self, script):
        """The value of an expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, times=1):
        for n in range(1, times + 1):
            self.mouse("mousePressed", x, y, button="left", clickCount=n)
            self.mouse("mouseReleased", x, y, button="left", clickCount=n)

    def key(self, key, text=None):
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def frame(self):
        """Waits until what was asked for is painted."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def complaints(self):
        """Errors of the page's scripts, and what it asked of a network."""
        out = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                out.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                out.append("asked for " + params["request"]["url"])
        return out
