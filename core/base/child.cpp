#include "core/base/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace graft {

namespace {

const char* const starterVariable = "GRAFT_ENDS_WITH";  // the starter's process

}  // namespace

std::string endsWithThis() { return fmt::format("{}={}", starterVariable, getpid()); }

void endWithStarter() {
  const char* starter = std::getenv(starterVariable);
  if (!starter) return;
  const std::string wanted = starter;
  unsetenv(starterVariable);  // the children of this program are not the starter's
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (wanted != std::to_string(getppid())) std::raise(SIGKILL);  // it ended before it could be waited for
}

Result<Child> Child::start(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a child that has ended is then an error and does not end this program
  Child c;
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
    return internalError(fmt::format("no pipe: {}", std::strerror(errno)));
  c.in_ = in[1];
  fcntl(c.in_, F_SETFL, O_NONBLOCK);  // a child that reads no more must not stop this program
  c.out_ = out[0];
  c.err_ = memfd_create("stderr", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, c.err_, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char*> arguments;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& v : environment) variables.push_back(const_cast<char*>(v.c_str()));
  for (char** v = environ; *v; ++v) variables.push_back(*v);
  variables.push_back(nullptr);
  const int failed = posix_spawnp(&c.pid_, arguments[0], &actions, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(in[0]);
  close(out[1]);
  if (failed != 0) {
    c.pid_ = -1;
    return badInput(fmt::format("{} does not start: {}", command[0], std::strerror(failed)));
  }
  return c;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::exchange(other.in_, -1)),
      out_(std::exchange(other.out_, -1)),
      err_(std::exchange(other.err_, -1)),
      read_(std::move(other.read_)),
      limit_(other.limit_) {}

Child::~Child() {
  for (int fd : {in_, out_, err_})
    if (fd >= 0) close(fd);
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);  // with its own children, such as compilers
  waitpid(pid_, nullptr, 0);
}

Status Child::write(const std::string& line) { return writeBytes(line + "\n"); }

Status Child::writeBytes(std::string_view text) {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t at = 0; at < text.size();) {
    if (Status s = wait(in_, POLLOUT, {}, "", begin); !s) return s;
    const ssize_t n = ::write(in_, text.data() + at, text.size() - at);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return badInput("the process has ended" + complaint());
    at += static_cast<size_t>(n);
  }
  return done();
}

std::string Child::complaint() const {
  std::array<char, 4096> text{};
  const off_t size = lseek(err_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
  const ssize_t n = pread(err_, text.data(), text.size(), from);
  std::string said(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
  if (said.empty()) return "";
  return ": " + said.substr(said.rfind('\n') == std::string::npos ? 0 : said.rfind('\n') + 1);
}

Status Child::wait(int pipe, short events, const Job& job, const std::string& waiting,
                   std::chrono::steady_clock::time_point begin) const {
  for (;;) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (limit_ > 0 && seconds > limit_)
      return badInput(fmt::format("the process has not answered for {:.0f} s{}", limit_, complaint()));
    if (!waiting.empty() && seconds >= 1) job.report(fmt::format("{}, {} s", waiting, static_cast<int>(seconds)), 0, 0);
    pollfd p{pipe, events, 0};
    constexpr int milliseconds = 200;
    if (poll(&p, 1, milliseconds) > 0) return done();
  }
}

Status Child::readMore(const Job& job, const std::string& waiting, std::chrono::steady_clock::time_point begin) {
  for (;;) {
    if (Status s = wait(out_, POLLIN, job, waiting, begin); !s) return s;
    std::array<char, 65536> text{};
    const ssize_t n = ::read(out_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return badInput("the process has ended" + complaint());
    read_.append(text.data(), static_cast<size_t>(n));
    return done();
  }
}

Result<std::string> Child::readLine(const Job& job, const std::string& waiting) {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t seen = 0;;) {
    if (const size_t end = read_.find('\n', seen); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    seen = read_.size();
    if (Status s = readMore(job, waiting, begin); !s) return s.error();
  }
}

Result<std::string> Child::readBytes(size_t count, const Job& job) {
  const auto begin = std::chrono::steady_clock::now();
  while (read_.size() < count)
    if (Status s = readMore(job, "", begin); !s) return s.error();
  std::string out = read_.substr(0, count);
  read_.erase(0, count);
  return out;
}

Result<Child::End> Child::end(const Job& job) {
  const auto begin = std::chrono::steady_clock::now();
  close(std::exchange(in_, -1));
  End out;
  for (;;) {
    if (Status s = wait(out_, POLLIN, job, "", begin); !s) return s.error();
    std::array<char, 65536> text{};
    const ssize_t n = ::read(out_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    read_.append(text.data(), static_cast<size_t>(n));
  }
  out.output = std::move(read_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  if (WIFEXITED(status)) out.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) out.signal = WTERMSIG(status);
  const off_t size = lseek(err_, 0, SEEK_END);
  out.errors.resize(static_cast<size_t>(std::max<off_t>(size, 0)));
  const ssize_t n = pread(err_, out.errors.data(), out.errors.size(), 0);
  out.errors.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return out;
}

}  // namespace graft
