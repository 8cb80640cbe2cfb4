"""DistributedDataParallel in two processes with gloo, beside eager: ddp_steps.py says what is compared."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import GRAFT, OPERATORS, TestCase, main


class TwoProcesses(TestCase):
    def train(self, *options):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                   str(pathlib.Path(__file__).with_name("ddp_steps.py")), str(GRAFT), str(OPERATORS), *options]
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([*command, "--report", folder], capture_output=True, text=True, timeout=500)
            self.assertEqual(run.returncode, 0, run.stdout[-2000:] + run.stderr[-2000:])
            said = [file.read_text() for file in sorted(pathlib.Path(folder).iterdir())]
        self.assertEqual(len(said), 2)
        return said

    def test_a_graph_of_one_piece(self):
        for line in self.train("--steps", "10"):
            self.assertIn("the same in all processes", line)

    def test_a_graph_that_is_parted_where_gradients_are_sent(self):
        """torch.compile hands the backend a graph for each bucket of gradients."""
        for line in self.train("--steps", "6", "--width", "160", "--bucket", "1.2"):
            self.assertIn("3 graphs", line)


if __name__ == "__main__":
    main()
