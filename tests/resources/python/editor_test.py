"""What an editor offers in a rule file by the types that Graft ships, asked of pyright's language server, which VS Code's Pylance builds
on: completion, jumping to a definition, the text of a hover."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
RULES = """import torch
import torch.nn.functional as F
from graft import Rule, Weight, kernels


class ReluLinear(Rule):
    def pattern(x, w: Weight, b: Weight):
        return F.relu(F.linear(x, w, b))

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b, activation="relu")
"""


class Server:
    """The protocol's base: requests and answers, and the settings that the server asks for."""

    def __init__(self, folder):
        self.process = subprocess.Popen([sys.executable, "-m", "pyright.langserver", "--stdio"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.number = 0
        self.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {"workspace": {"configuration": True}},
                                "workspaceFolders": [{"uri": folder.as_uri(), "name": "rules"}]})
        self.send({"method": "initialized", "params": {}})

    def end(self):
        self.process.kill()
        self.process.communicate()

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self.process.stdout.read(length))

    def ask(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                return message["result"]
            if message.get("method") == "workspace/configuration":
                settings = {"python": {"pythonPath": sys.executable}}
                self.send({"id": message["id"], "result": [settings.get(item.get("section"), {}) for item in message["params"]["items"]]})
            elif "id" in message:
                self.send({"id": message["id"], "result": None})


# No package of requirements.txt, as it needs Node.js: run this test by a Python that has `pyright[nodejs]`.
@unittest.skipIf(importlib.util.find_spec("pyright") is None, "pyright is not installed")
class Editor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="graft-editor-")
        cls.addClassCleanup(holder.cleanup)
        path = pathlib.Path(holder.name).resolve() / "rules.py"
        path.write_text(RULES)
        (path.parent / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(SOURCE / "resources/python")]}))
        cls.uri, cls.server = path.as_uri(), Server(path.parent)
        cls.addClassCleanup(cls.server.end)
        cls.server.send({"method": "textDocument/didOpen",
                         "params": {"textDocument": {"uri": cls.uri, "languageId": "python", "version": 1, "text": RULES}}})

    def ask(self, what, place):
        """Of the character before the end of `place` in the file."""
        before = RULES[: RULES.index(place) + len(place)]
        position = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1 - (what != "completion")}
        return self.server.ask(f"textDocument/{what}", {"textDocument": {"uri": self.uri}, "position": position})

    def test_the_operators_are_completed(self):
        found = self.ask("completion", "return kernels.")
        names = {item["label"] for item in (found["items"] if isinstance(found, dict) else found)}
        self.assertLessEqual({"linear", "attention", "add_layer_norm"}, names)

    def test_names_lead_to_where_they_are_defined(self):
        for place, file, text in (("ReluLinear(Rule", "graft/__init__.py", "class Rule"), ("return kernels.linear", "graft/kernels.pyi", "def linear"),
                                  ("F.relu", "torch/nn/functional", "def relu")):
            (found, *_) = self.ask("definition", place)
            path = pathlib.Path(found["uri"].removeprefix("file://"))
            self.assertIn(file, str(path))
            self.assertIn(text, path.read_text().splitlines()[found["range"]["start"]["line"]])

    def test_an_operator_says_what_it_computes(self):
        said = self.ask("hover", "return kernels.linear")["contents"]["value"]
        self.assertIn("activation: str", said)
        self.assertIn("activation(x weight^T + bias)", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
