"""Operators keep freed memory for the tensors of their next call, as much as GRAFT_OPS_KEEP_MB says, and touch nothing else in the process.

    kept_memory_test.py build/lib/libgraft_ops.so
"""
import os
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop(1)
BEGIN = """
import ctypes, sys, threading
import torch
library = ctypes.CDLL(sys.argv[1])
library.graft_ops_kept_bytes.restype = ctypes.c_int64
torch.ops.load_library(sys.argv[1])
MB = 1 << 18  # numbers of fp32

def kept():
    return library.graft_ops_kept_bytes() / (1 << 20)

def call(megabytes=4):
    x, weight = torch.ones(megabytes * 1024, 8), torch.ones(256, 8)
    return torch.ops.graft.linear(x, weight, None).view(-1)
"""


def run(text, **environment):
    plain = {k: v for k, v in os.environ.items() if k != "GRAFT_OPS_KEEP_MB"}
    done = subprocess.run([sys.executable, "-c", BEGIN + text, LIBRARY], env=plain | environment, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout.split()


class KeptMemory(unittest.TestCase):
    def test_what_a_call_leaves_the_next_one_takes(self):
        first, while_used, after, same = run("""
y = call()
print(kept(), end=" ")
place = y.data_ptr()
del y
between = kept()
other = torch.empty(4 * MB)  # no operator of Graft: it takes nothing
unchanged = kept() == between
y = call()
print(kept(), between, y.data_ptr() == place and unchanged and other.data_ptr() != place)
""")
        self.assertEqual((float(first), float(while_used), same), (0, 0, "True"))
        self.assertAlmostEqual(float(after), 4, delta=0.1)

    def test_a_much_larger_block_is_not_taken_for_a_small_tensor(self):
        self.assertEqual(run("call(8); y = call(4); print(round(kept()))"), ["8"])

    def test_what_was_left_longest_ago_goes_back_first(self):
        after, place = run("""
small = call(4); place = small.data_ptr(); large = [call(6), call(6)]
del small, large  # 16 MB
print(round(kept()), end=" ")
print(call(4).data_ptr() == place)
""", GRAFT_OPS_KEEP_MB="13")
        self.assertEqual((after, place), ("12", "False"))

    def test_larger_tensors_than_the_limit_are_not_kept(self):
        self.assertEqual(run("call(13); print(kept())", GRAFT_OPS_KEEP_MB="12"), ["0.0"])

    def test_zero_keeps_nothing(self):
        self.assertEqual(run("call(); print(kept())", GRAFT_OPS_KEEP_MB="0"), ["0.0"])

    def test_it_can_be_given_back(self):
        self.assertEqual(run("call(); library.graft_ops_free_kept_memory(); print(kept())"), ["0.0"])

    def test_threads_and_forks_share_it(self):
        self.assertEqual(run("""
import os
def many():
    for i in range(200):
        y = call(1 + i % 3)
        assert y[0] == y[-1]
threads = [threading.Thread(target=many) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
child = os.fork()
if not child:
    os._exit(0 if call()[0] == call()[-1] else 1)
print(os.waitpid(child, 0)[1], kept() <= 256)
"""), ["0", "True"])

    def test_results_outlive_calls_and_may_grow(self):
        self.assertEqual(run("""
a = call(); b = call()
a.fill_(1); b.fill_(2)
print(a.sum().item() == a.numel() and b.sum().item() == 2 * b.numel(), end=" ")
a.resize_(16 * MB).fill_(3)
print(a.sum().item() == 3 * a.numel() and b[0].item() == 2)
"""), ["True", "True"])

    def test_pytorchs_profiler_sees_all_memory(self):
        self.assertEqual(run("""
from torch.profiler import profile, ProfilerActivity
call()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
    y = call()
    del y
own = next(e for e in seen.key_averages() if e.key == "graft::linear")
print(own.cpu_memory_usage >> 20)
"""), ["4"])


if __name__ == "__main__":
    unittest.main()
