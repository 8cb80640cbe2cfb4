#include "app/console/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

namespace graft::cli {
namespace {

// The token and the stack below are never destroyed: a signal may still come while the program ends.
CancelToken& token() {
  static CancelToken& t = *new CancelToken;
  return t;
}

void handle(int) {
  if (token().cancelled()) _exit(130);
  token().cancel();
}

}  // namespace

CancelToken onInterrupt() {
  // The frame alone takes 3 to 11 KiB, depending on the processor's registers.
  static auto& stack = *new std::vector<char>(static_cast<size_t>(std::max(4 * sysconf(_SC_MINSIGSTKSZ), 64L << 10)));
  stack_t own{};
  own.ss_sp = stack.data();
  own.ss_size = stack.size();
  sigaltstack(&own, nullptr);
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  token();  // made here, not in the handler
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  return token();
}

}  // namespace graft::cli
