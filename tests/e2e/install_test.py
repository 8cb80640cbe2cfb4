"""What `cmake --install` writes works where it lies: programs, desktop entry, file type, icon, samples."""

import configparser
import os
import shutil
import subprocess
import unittest
import xml.etree.ElementTree

from support import BUILD, MINILM, SAMPLES, TestCase, main

MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"
GUI = (BUILD / "bin" / "graft-gui").exists()


class Installed(TestCase):
    def setUp(self):
        super().setUp()
        self.prefix = self.folder / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.prefix], check=True, capture_output=True)

    def run_program(self, name, *arguments, **environment):
        # Not from the build: nothing of its folders is on the path.
        return subprocess.run([self.prefix / "bin" / name, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              cwd=self.folder, env={**os.environ, "QT_QPA_PLATFORM": "offscreen", **environment})

    def test_programs_start_from_there(self):
        self.assertEqual(self.run_program("graft", "info", MINILM).returncode, 0)
        out = self.folder / "drawing.pdf"
        if GUI:  # graft finds graft-raster, which is Qt's
            run = self.run_program("graft", "draw", MINILM, "-o", out)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue(out.read_bytes().startswith(b"%PDF"))
            self.assertIn("graft", self.run_program("graft-gui", "--version").stdout)
        # Rules and the operators' library are found without the source.
        rules = self.prefix / "share" / "graft" / "rules" / "transformer.py"
        run = self.run_program("graft", "match", MINILM, "--rules", rules)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_the_rules_that_come_with_graft_are_found(self):
        run = self.run_program("graft", "match", MINILM)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Encoder", run.stdout)

    def test_manual_pages_and_completions_come_along(self):
        for path in ("share/man/man1/graft-apply.1", "share/bash-completion/completions/graft"):
            self.assertTrue((self.prefix / path).exists(), path)

    @unittest.skipUnless(GUI, "the window was not built")
    def test_wrong_words_are_said_and_open_no_window(self):
        for words, says in ((["--theme", "blue"], "light, dark or system"), (["a.pt", "b.pt"], "one MODEL"),
                            (["--inputs", "x.pt"], "MODEL"), (["--engine", "sh 'x"], "quote"), (["--no-such"], "no-such")):
            run = self.run_program("graft-gui", *words)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(says, run.stderr)

    @unittest.skipUnless(GUI, "the window was not built")
    def test_the_menu_entry_names_what_is_there(self):
        path = self.prefix / "share" / "applications" / "graft.desktop"
        entry = configparser.RawConfigParser()
        entry.optionxform = str
        entry.read(path)
        entry = entry["Desktop Entry"]
        self.assertTrue((self.prefix / "bin" / entry["Exec"].split()[0]).exists())
        self.assertTrue((self.prefix / "share/icons/hicolor/scalable/apps" / (entry["Icon"] + ".svg")).exists())
        kinds = {kind.get("type"): kind for kind in
                 xml.etree.ElementTree.parse(self.prefix / "share/mime/packages/graft.xml").getroot().iter(MIME + "mime-type")}
        self.assertEqual(set(entry["MimeType"].rstrip(";").split(";")), set(kinds))
        patterns = {glob.get("pattern") for kind in kinds.values() for glob in kind.iter(MIME + "glob")}
        self.assertLessEqual({"*.pt", "*.pt2", "*.fx"}, patterns)
        if shutil.which("desktop-file-validate"):
            said = subprocess.run(["desktop-file-validate", path], capture_output=True, text=True)
            self.assertEqual((said.returncode, said.stdout + said.stderr), (0, ""))

    def test_samples_that_were_exported_come_along(self):
        small = [SAMPLES / "models" / f"{name}.pt" for name in ("bert", "feed_forward")]
        installed = {path.name for path in (self.prefix / "share" / "graft" / "samples").glob("*.pt")}
        self.assertEqual({path.name for path in small if path.exists()} - installed, set())
        self.assertFalse(any(name.endswith(("_inputs.pt", "_expected.pt")) for name in installed))


main()
