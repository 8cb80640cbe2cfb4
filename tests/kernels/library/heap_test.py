"""Where GRAFT_OPS_KEEP_MB says so, the operator library keeps freed memory for the next call: tensors of one call do not cost page
faults in the next. Otherwise it leaves the process's limits alone. The test asks the allocator, since some kernels count no faults.

    heap_test.py build/lib/libgraft_ops.so
"""
import os
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop(1)
CALLS = """
import ctypes, sys
import torch
torch.set_num_threads(1)
torch.ops.load_library(sys.argv[1])

class Heap(ctypes.Structure):  # of mallinfo2(3)
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

def call():
    tensors = [torch.ones(3 << 18) for _ in range(8)]  # of 3 MB

for _ in range(12):
    call()
heap = ctypes.CDLL(None).mallinfo2
heap.restype = Heap
print(heap().keepcost >> 20)
"""


def kept(**environment):
    """MB that the heap could give back and keeps, after calls of 24 MB each."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_", "GRAFT_OPS_KEEP"))}
    run = subprocess.run([sys.executable, "-c", CALLS, LIBRARY], env=plain | environment, capture_output=True, text=True, check=True)
    return int(run.stdout)


class Heap(unittest.TestCase):
    def test_asked_to_a_call_finds_the_memory_of_the_last_one(self):
        self.assertGreater(kept(GRAFT_OPS_KEEP_MB="256"), 12)

    def test_not_asked_the_library_leaves_the_limits_alone(self):
        for environment in ({}, {"GRAFT_OPS_KEEP_MB": "0"}):
            with self.subTest(environment):
                self.assertLess(kept(**environment), 12)


if __name__ == "__main__":
    unittest.main()
