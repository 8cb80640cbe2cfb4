#include "app/console/interrupt.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "tests/support/catch.h"

using namespace graft;

#ifdef __x86_64__
/// Sends this thread a signal while the stack pointer is `stack`, as generated code may have it.
__attribute__((noinline)) static void signalWithStack(char* stack, int signal) {
  const long process = getpid(), thread = syscall(SYS_gettid);
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[stack], %%rsp\n\t"
      "syscall\n\t"
      "movq %%rbx, %%rsp"
      :
      : "a"(static_cast<long>(SYS_tgkill)), "D"(process), "S"(thread),
        "d"(static_cast<long>(signal)), [stack] "r"(stack)
      : "rbx", "rcx", "r11", "memory", "cc");
}
#endif

TEST_CASE("Ctrl-C cancels, and writes nothing where the stack pointer happens to be") {
  const CancelToken cancel = cli::onInterrupt();
  REQUIRE_FALSE(cancel.cancelled());
#ifdef __x86_64__
  std::vector<char> heap(256 << 10, 7);
  signalWithStack(heap.data() + heap.size() / 2, SIGINT);
  CHECK(std::all_of(heap.begin(), heap.end(), [](char c) { return c == 7; }));
#else
  std::raise(SIGINT);
#endif
  CHECK(cancel.cancelled());
  CHECK(cli::onInterrupt().cancelled());
}
