"""Where GRAFT_OPS_KEEP_MB says so, the operator library keeps freed memory for the next call: tensors of one call do not cost page
faults in the next. Otherwise it leaves the process's limits alone.

    heap_test.py build/lib/libgraft_ops.so
"""
import os
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop(1)
CALLS = """
import resource, sys
import torch
torch.set_num_threads(1)
torch.ops.load_library(sys.argv[1])

def call():
    tensors = [torch.ones(3 << 18) for _ in range(8)]  # of 3 MB

for _ in range(12):
    call()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    call()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 5)
"""


def faults(**environment):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_", "GRAFT_OPS_KEEP"))}
    run = subprocess.run([sys.executable, "-c", CALLS, LIBRARY], env=plain | environment, capture_output=True, text=True, check=True)
    return int(run.stdout)


class Heap(unittest.TestCase):
    def test_asked_to_a_call_finds_the_memory_of_the_last_one(self):
        self.assertLess(faults(GRAFT_OPS_KEEP_MB="256"), 300)

    def test_not_asked_the_library_leaves_the_limits_alone(self):
        for environment in ({}, {"GRAFT_OPS_KEEP_MB": "0"}):
            with self.subTest(environment):
                self.assertGreater(faults(**environment), 1000)


if __name__ == "__main__":
    unittest.main()
