#include "core/torch/verify/scout.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace graft {
namespace {

std::string signalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

/// Until the pipe's other end is closed; false where that takes longer.
bool waitForEnd(int pipe, double seconds) {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
    if (left <= 0) return false;
    pollfd p{pipe, POLLIN, 0};
    const int ready = ::poll(&p, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

[[noreturn]] void child(const std::function<void()>& work) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  for (const int s : {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGINT, SIGTERM}) ::signal(s, SIG_DFL);
  // The threads that compute are not copied: whoever hands them work would wait for ever.
  at::set_num_threads(1);
  try {
    work();
  } catch (...) {  // refused: the process that asks finds out for itself
  }
  ::_exit(0);
}

}  // namespace

Status sendAhead(const std::function<void()>& work, double seconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return done();  // without a scout the work is done as it always was
  const pid_t pid = ::fork();
  if (pid == 0) child(work);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return done();
  }
  const bool isOver = waitForEnd(ends[0], seconds);
  if (!isOver) ::kill(pid, SIGKILL);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!isOver) return badInput(fmt::format("it did not come to an end within {} seconds", seconds));
  if (WIFSIGNALED(status)) return badInput(fmt::format("it was ended by {}", signalName(WTERMSIG(status))));
  return done();
}

}  // namespace graft
