"""An engine's process, as tests speak to it: JSON-RPC 2.0 over its stdin and stdout, in frames of "Content-Length: N".

    engine = Engine([BUILD / "bin" / "graft", "engine"])
    answer = engine.ask("model/open", path="model.pt")      # the message with "result" or "error"
    engine.kill()
"""

import json
import queue
import subprocess
import threading

SECONDS = 60


class Engine:
    """Replies come in the order of the requests; notices (progress, parts of graphs) are kept in `notices`."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.messages, self.notices, self.number = queue.Queue(), [], 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        out = self.process.stdout
        while True:
            length = None
            while (line := out.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if length is None:
                return self.messages.put(None)
            self.messages.put(json.loads(out.read(length)))

    def send_raw(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def send(self, method, params=None, ident=None):
        self.number += 1
        ident = self.number if ident is None else ident
        self.send_raw(json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params or {}}).encode())
        return ident

    def reply(self):
        """The next answer; None when the engine has ended."""
        while True:
            message = self.messages.get(timeout=SECONDS)
            if message is None or "method" not in message:
                return message
            self.notices.append(message)

    def ask(self, method, /, **params):
        self.send(method, params)
        return self.reply()

    def kill(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()

    def close(self):
        self.process.stdin.close()
        return self.process.wait(SECONDS)
