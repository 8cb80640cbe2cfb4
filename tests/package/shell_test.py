"""Completions and manual pages say what --help says: every command, every option, and nothing else."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
GRAFT = BUILD / "bin/graft"

sys.path.insert(0, str(SOURCE / "tests/support"))
import warm  # noqa: E402

warm.up(BUILD)


def graft(*words):
    return subprocess.run([GRAFT, *words], capture_output=True, text=True, check=True, timeout=60).stdout


def options_by_command():
    """From one text: each start of the program takes a quarter of a second."""
    found, command = {}, None
    for line in graft("--help-all").splitlines():
        if re.fullmatch(r"[a-z]+", line):
            command = found.setdefault(line, set())
        elif option := re.match(r"  (?:-\w,)?(--[\w-]+)", line):
            if command is not None:
                command.add(option[1])
    return found


OPTIONS = options_by_command()


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {shell: graft("completion", shell) for shell in ("bash", "zsh", "fish")}

    def bash(self, *words):
        """What bash offers for the last of these words."""
        script = (f"{self.texts['bash']}\nCOMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; "
                  'compopt() { :; }; _graft; printf "%s\\n" "${COMPREPLY[@]}"')
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one.pt", "two words.pt"):
                pathlib.Path(folder, name).touch()
            run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=folder)
        self.assertEqual(run.stderr, "")
        return run.stdout.splitlines()

    def test_bash_offers_commands_options_choices_and_files(self):
        self.assertGreater(len(OPTIONS), 18)
        self.assertLessEqual(set(OPTIONS), set(self.bash("graft", "")))
        self.assertEqual(self.bash("graft", "optim"), ["optimize"])
        for command in OPTIONS:
            self.assertLessEqual(OPTIONS[command], set(self.bash("graft", command, "--")), command)
        self.assertEqual(self.bash("graft", "draw", "--theme", ""), ["light", "dark"])
        self.assertEqual(sorted(self.bash("graft", "apply", "")), ["one.pt", "two words.pt"])
        self.assertEqual(self.bash("graft", "apply", "--rules", "two"), ["two words.pt"])

    def test_every_shell_knows_every_option(self):
        for command in OPTIONS:
            for option in OPTIONS[command]:
                self.assertIn(option, self.texts["zsh"])
                self.assertIn(f" -l {option[2:]}", self.texts["fish"])

    def test_the_scripts_are_read_by_their_shells(self):
        for shell, flag in (("bash", "-n"), ("zsh", "-n"), ("fish", "-n")):
            if shutil.which(shell):
                with tempfile.NamedTemporaryFile("w", suffix=f".{shell}") as f:
                    f.write(self.texts[shell])
                    f.flush()
                    run = subprocess.run([shell, flag, f.name], capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stderr), (0, ""), shell)


class Pages(unittest.TestCase):
    def test_each_command_has_a_page_with_each_of_its_options(self):
        with tempfile.TemporaryDirectory() as folder:
            graft("man", "-o", folder)
            pages = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
            self.assertEqual(set(pages), {"graft.1", *(f"graft-{c}.1" for c in OPTIONS)})
            for command in OPTIONS:
                page = pages[f"graft-{command}.1"].replace("\\-", "-")
                for option in OPTIONS[command]:
                    self.assertIn(option, page)
            self.assertEqual(graft("man", "apply"), pages["graft-apply.1"])
            if shutil.which("man"):
                said = subprocess.run(["man", "--warnings", "-l", *pathlib.Path(folder).iterdir()], capture_output=True, text=True)
                self.assertEqual((said.returncode, said.stderr), (0, ""))

    def test_a_command_that_is_none_has_no_page(self):
        run = subprocess.run([GRAFT, "man", "frobnicate"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("frobnicate", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
