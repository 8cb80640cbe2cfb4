#include "core/torch/timing_turn.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/base/temporary_folder.h"
#include "tests/support/catch.h"

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Runs in another process; its exit code.
template <class F>
pid_t another(const F& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  return child;
}

int endOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The folder for temporary files, while it is there.
class OwnFolder {
 public:
  OwnFolder() : folder_(*TemporaryFolder::inSystem()) { setenv("TMPDIR", folder_.file("").c_str(), 1); }
  OwnFolder(const OwnFolder&) = delete;
  ~OwnFolder() { unsetenv("TMPDIR"); }

 private:
  TemporaryFolder folder_;
};

/// Another process, which asks for turns when it is told to. It begins before this one has a turn.
class Other {
 public:
  Other() {
    REQUIRE((pipe(asked_) == 0 && pipe(answered_) == 0));
    child_ = another([&] {
      close(asked_[1]);
      for (char number = 0; read(asked_[0], &number, 1) == 1;) {
        const double before = secondsOfWaiting();
        const TimingTurn turn(number == 'c' ? "cpu" : std::string("cuda:") + number, {}, 0.05);
        const char isFree = secondsOfWaiting() - before < 0.04 ? 1 : 0;
        if (write(answered_[1], &isFree, 1) != 1) return 1;
      }
      return 0;
    });
  }
  Other(const Other&) = delete;
  ~Other() {
    close(asked_[1]);
    CHECK(endOf(child_) == 0);
  }
  /// Whether it gets the turn at once. 'c': on the CPU.
  bool gets(char number) const {
    char isFree = 0;
    REQUIRE((write(asked_[1], &number, 1) == 1 && read(answered_[0], &isFree, 1) == 1));
    return isFree == 1;
  }

 private:
  int asked_[2] = {}, answered_[2] = {};
  pid_t child_ = 0;
};

}  // namespace

TEST_CASE("processes that time on one GPU take turns") {
  const OwnFolder folder;
  const Other other;
  {
    const TimingTurn turn("cuda", {});
    CHECK_FALSE(other.gets('0'));  // the same GPU
    CHECK(other.gets('1'));
    CHECK(other.gets('c'));
    { const TimingTurn inner("cuda:0", {}); }
    CHECK_FALSE(other.gets('0'));
  }
  CHECK(other.gets('0'));
  const TimingTurn turn("cpu", {});
  CHECK(other.gets('0'));
}

TEST_CASE("a GPU is the same one whatever number CUDA_VISIBLE_DEVICES gives it") {
  if (dlopen("libcuda.so.1", RTLD_LAZY)) {
    WARN("not tested where a driver names the GPUs");
    return;
  }
  const OwnFolder folder;
  const Other other;  // sees all
  setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
  {
    const TimingTurn turn("cuda:1", {});
    CHECK(other.gets('0'));
    CHECK_FALSE(other.gets('1'));
    CHECK(other.gets('3'));
  }
  {
    const TimingTurn turn("cuda", {});
    CHECK(other.gets('0'));
    CHECK_FALSE(other.gets('3'));
  }
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_CASE("a turn comes when the other process has ended, and what was waited is counted") {
  const OwnFolder folder;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = another([&] {
    const TimingTurn* const turn = new TimingTurn("cuda:0", {});
    if (!turn || write(ready[1], "x", 1) != 1) return 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return 0;  // without giving it back
  });
  char c = 0;
  REQUIRE(read(ready[0], &c, 1) == 1);
  const double before = secondsOfWaiting();
  const auto begin = Clock::now();
  { const TimingTurn turn("cuda:0", {}); }
  CHECK(secondsSince(begin) > 0.1);
  CHECK(secondsOfWaiting() - before > 0.1);
  CHECK(secondsOfWaiting() - before <= secondsSince(begin));
  CHECK(endOf(child) == 0);
}

TEST_CASE("nobody waits for a turn when the job is cancelled, nor for ever") {
  const OwnFolder folder;
  int ready[2], over[2];
  REQUIRE((pipe(ready) == 0 && pipe(over) == 0));
  const pid_t child = another([&] {
    const TimingTurn turn("cuda:0", {});
    char c = 0;
    return write(ready[1], "x", 1) == 1 && read(over[0], &c, 1) == 1 ? 0 : 1;
  });
  char c = 0;
  REQUIRE(read(ready[0], &c, 1) == 1);
  auto begin = Clock::now();
  { const TimingTurn turn("cuda:0", {}, 0.1); }
  CHECK(secondsSince(begin) < 10);
  Job stopped;
  stopped.cancel.cancel();
  begin = Clock::now();
  { const TimingTurn turn("cuda:0", stopped); }
  CHECK(secondsSince(begin) < 10);
  REQUIRE(write(over[1], "x", 1) == 1);
  CHECK(endOf(child) == 0);
}

}  // namespace graft
