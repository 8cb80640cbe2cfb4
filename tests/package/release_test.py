"""A release: wheel, Debian package, bill of materials, and a list of checksums that is signed with a key that was given."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
MISSING = [name for name in ("scikit_build_core", "auditwheel") if importlib.util.find_spec(name) is None]
MISSING += [name for name in ("gpg", "cpack", "dpkg", "sha256sum") if not shutil.which(name)]


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class Release(unittest.TestCase):
    def test_it_is_made_signed_and_tried(self):
        with tempfile.TemporaryDirectory(prefix="graft-release-") as folder:
            home = pathlib.Path(folder) / "gpg"
            home.mkdir(mode=0o700)
            variables = os.environ | {"GNUPGHOME": str(home)}
            subprocess.run(["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "throwaway@example.org", "ed25519",
                            "sign", "1d"], check=True, env=variables, capture_output=True)
            self.addCleanup(subprocess.run, ["gpgconf", "--kill", "all"], env=variables)
            out = pathlib.Path(folder) / "out"
            run = subprocess.run([sys.executable, SOURCE / "resources/package/release.py", out, "--build", BUILD, "--sign",
                                  "throwaway@example.org", "--only-made"], capture_output=True, text=True, env=variables)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            wheel, package, bom = (next(out.glob(name)) for name in ("graft-*.whl", "*.deb", "*.cdx.json"))
            window = {path.name for path in out.glob("graft_gui-*.whl")}
            self.assertEqual(len(window), (BUILD / "bin/graft-gui").exists())
            listed = {line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
            self.assertEqual(listed, {wheel.name, package.name, bom.name} | window)
            # Who changes a file or the list is found out.
            (out / "SHA256SUMS").write_text((out / "SHA256SUMS").read_text().replace("0", "1"))
            verified = subprocess.run(["gpg", "--batch", "--verify", out / "SHA256SUMS.asc", out / "SHA256SUMS"], env=variables,
                                      capture_output=True)
            self.assertNotEqual(verified.returncode, 0)
            document = json.loads(bom.read_text())
            with zipfile.ZipFile(wheel) as z:
                inside = [n for n in z.namelist() if "/sboms/" in n and n.endswith(".json")]
                self.assertGreaterEqual(len(inside), 1)
                own = next(n for n in inside if n.endswith("graft.cdx.json"))
                self.assertEqual(json.loads(z.read(own)), document)
        self.assertEqual(document["bomFormat"], "CycloneDX")
        names = {c["name"] for c in document["components"]}
        self.assertLessEqual({"fmt", "RE2", "zlib", "nlohmann-json", "CLI11"}, names)
        for part in document["components"]:
            self.assertTrue(part["version"], part)
            if "purl" in part:
                self.assertTrue(part.get("licenses"), part)

    def test_the_changelog_must_begin_with_the_version(self):
        sys.path.insert(0, str(SOURCE / "resources/package"))
        import release

        self.assertRegex(release.check_version(BUILD), r"^\d+\.\d+\.\d+$")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "CHANGELOG.md").write_text("# Changelog\n\n## 99.0.0\n")
            before, release.ROOT = release.ROOT, pathlib.Path(folder)
            self.addCleanup(setattr, release, "ROOT", before)
            with self.assertRaisesRegex(release.Failed, "99.0.0"):
                release.check_version(BUILD)


if __name__ == "__main__":
    unittest.main(verbosity=2)
