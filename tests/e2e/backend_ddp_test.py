"""DistributedDataParallel in two processes with gloo, beside eager: ddp_steps.py says what is compared."""

import pathlib
import subprocess
import sys
import unittest

from support import GRAFT, OPERATORS, TestCase, main


class TwoProcesses(TestCase):
    def train(self, *options):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                   str(pathlib.Path(__file__).with_name("ddp_steps.py")), str(GRAFT), str(OPERATORS), *options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=500)
        said = [line for line in run.stdout.splitlines() if line.startswith("rank ")]
        self.assertEqual(run.returncode, 0, "\n".join(said) + run.stderr[-2000:])
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
