// The tuner's choices on disk: several instances, threads and processes that share one file, and files that cannot be
// read or written, which are no error.
#include "kernels/cuda/tuning/gemm_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using graft::cuda::GemmCache;
using graft::cuda::gemmCache;
using graft::test::readFile;
using graft::test::TempDir;
using graft::test::writeFile;
using namespace std::string_view_literals;

namespace {

constexpr int kWriters = 8, kEach = 25;

std::string keyOf(int writer, int i) { return "writer" + std::to_string(writer) + "-m" + std::to_string(i); }

void storeMany(const std::string& path, int writer) {
  GemmCache cache(path, std::chrono::minutes(1));
  for (int i = 0; i < kEach; ++i) cache.store(keyOf(writer, i), "tile-" + std::to_string(i) + " tile-1=2.50us");
}

int missing(const std::string& path) {
  GemmCache cache(path);
  int count = 0;
  for (int writer = 0; writer < kWriters; ++writer) {
    for (int i = 0; i < kEach; ++i) {
      count += cache.find(keyOf(writer, i)) != "tile-" + std::to_string(i) + " tile-1=2.50us";
    }
  }
  return count;
}

std::vector<std::string> filesIn(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a new instance reads a choice back, and only the file and its lock remain") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  GemmCache cache(path);
  CHECK(cache.find("m1") == std::nullopt);
  cache.store("m1", "rows-4* rows-4=1.00us tile-2=1.20us");
  CHECK(cache.find("m1") == "rows-4* rows-4=1.00us tile-2=1.20us");
  CHECK(GemmCache(path).find("m1") == "rows-4* rows-4=1.00us tile-2=1.20us");
  CHECK(filesIn(dir) == std::vector<std::string>{"c.txt", "c.txt.lock"});
}

TEST_CASE("missing folders are created") {
  const TempDir dir;
  const std::string path = dir / "not/yet/c.txt";
  GemmCache(path).store("m1", "a");
  CHECK(GemmCache(path).find("m1") == "a");
}

TEST_CASE("instances that share a file keep each other's choices") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  GemmCache one(path), two(path);
  one.store("m1", "a");
  two.store("m2", "b");
  one.store("m3", "c");
  CHECK(readFile(path) == "m1 a\nm2 b\nm3 c\n");
  CHECK(one.find("m2") == "b");
}

TEST_CASE("of two choices for one key the later one stays, also when the other instance stores another key") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  GemmCache one(path), two(path);
  one.store("m1", "a");
  two.store("m1", "b");
  CHECK(readFile(path) == "m1 b\n");
  one.store("m2", "c");
  CHECK(readFile(path) == "m1 b\nm2 c\n");
  one.store("m1", "d");
  CHECK(readFile(path) == "m1 d\nm2 c\n");
}

TEST_CASE("a file that was removed is written again with all choices") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  GemmCache cache(path);
  cache.store("m1", "a");
  std::filesystem::remove(path);
  cache.store("m2", "b");
  CHECK(readFile(path) == "m1 a\nm2 b\n");
}

TEST_CASE("malformed lines are ignored, and removed with the next choice") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  writeFile(path, "word\n\n a\nm1 \nm2 b\nm3 \x01\x02\nm\xff 4\nm5 c\0d\nm6 e f\nm7 cut-o"sv);
  GemmCache cache(path);
  CHECK(cache.find("m2") == "b");
  CHECK(cache.find("m6") == "e f");
  for (const char* key : {"word", "", "m1", "m3", "m\xff", "m5", "m7"}) CHECK(cache.find(key) == std::nullopt);
  cache.store("m7", "g");
  CHECK(readFile(path) == "m2 b\nm6 e f\nm7 g\n");
}

TEST_CASE("a file of random bytes is no error") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  std::string bytes;
  unsigned state = 1;
  for (int i = 0; i < 100000; ++i) bytes += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  writeFile(path, bytes);
  GemmCache cache(path);
  cache.store("m1", "a");
  CHECK(GemmCache(path).find("m1") == "a");
}

TEST_CASE("where no file can be written, choices last as long as the instance") {
  const TempDir dir;
  std::string path;
  SECTION("no path") {}
  SECTION("a folder that cannot be created") {
    writeFile(dir / "file", "");
    path = dir / "file/c.txt";
  }
  SECTION("a folder with the file's name") {
    path = dir / "c.txt";
    std::filesystem::create_directories(dir / "c.txt/inside");
  }
  SECTION("a folder that is read only") {
    if (geteuid() == 0) return;  // root may write anywhere
    path = dir / "c.txt";
    std::filesystem::permissions(dir.path(), std::filesystem::perms(0500));
  }
  GemmCache cache(path);
  cache.store("m1", "a");
  cache.store("m2", "b");
  CHECK(cache.find("m1") == "a");
  CHECK(cache.find("m2") == "b");
  CHECK(GemmCache(path).find("m1") == std::nullopt);
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0700));
}

TEST_CASE("a choice that could not be written is written with the next one") {
  const TempDir dir;
  writeFile(dir / "file", "");
  GemmCache cache(dir / "file/c.txt");
  cache.store("m1", "a");
  std::filesystem::remove(dir / "file");
  GemmCache(dir / "file/c.txt").store("m1", "older to us");
  cache.store("m2", "b");
  CHECK(readFile(dir / "file/c.txt") == "m1 a\nm2 b\n");
}

TEST_CASE("a full disk leaves the old file intact, and no partial file") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  GemmCache(path).store("m1", "a");
  GemmCache cache(path);
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit full{6, before.rlim_max};
  const auto ordinary = signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
  cache.store("m2", "b");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, ordinary);
  CHECK(readFile(path) == "m1 a\n");
  CHECK(cache.find("m2") == "b");
  CHECK(filesIn(dir) == std::vector<std::string>{"c.txt", "c.txt.lock"});
  cache.store("m3", "c");
  CHECK(readFile(path) == "m1 a\nm2 b\nm3 c\n");
}

TEST_CASE("a lock that is never released is waited for only once") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  const int held = open((path + ".lock").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(flock(held, LOCK_EX) == 0);
  const auto timeout = std::chrono::seconds(1);
  GemmCache cache(path, timeout);
  const auto start = std::chrono::steady_clock::now();
  cache.store("m1", "a");
  const auto waited = std::chrono::steady_clock::now();
  cache.store("m2", "b");
  CHECK(waited - start >= timeout);
  CHECK(std::chrono::steady_clock::now() - waited < timeout);
  GemmCache patient(path, std::chrono::hours(1));
  std::thread other([&] { patient.store("m3", "c"); });
  CHECK(cache.find("m1") == "a");
  CHECK_FALSE(std::filesystem::exists(path));
  close(held);
  other.join();
  cache.store("m4", "d");
  CHECK(readFile(path) == "m1 a\nm2 b\nm3 c\nm4 d\n");
}

TEST_CASE("eight processes that store at once lose nothing") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      storeMany(path, writer);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(missing(path) == 0);
  CHECK(filesIn(dir) == std::vector<std::string>{"c.txt", "c.txt.lock"});
}

TEST_CASE("eight threads that store at once lose nothing, each with an instance or all with one") {
  const TempDir dir;
  const std::string path = dir / "c.txt";
  GemmCache shared(path);
  std::function<void(int)> work = [&](int writer) { storeMany(path, writer); };
  SECTION("each") {}
  SECTION("one") {
    work = [&](int writer) {
      for (int i = 0; i < kEach; ++i) shared.store(keyOf(writer, i), "tile-" + std::to_string(i) + " tile-1=2.50us");
    };
  }
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) threads.emplace_back(work, writer);
  for (std::thread& each : threads) each.join();
  CHECK(missing(path) == 0);
}

TEST_CASE("GPUs of different names have different files, those of one name share one") {
  const TempDir dir;
  setenv("GRAFT_CACHE_DIR", dir.path().c_str(), 1);
  GemmCache& big = gemmCache("NVIDIA Big/1", 130000);
  GemmCache& small = gemmCache("NVIDIA Small", 130000);
  CHECK(&big != &small);
  CHECK(&big == &gemmCache("NVIDIA Big/1", 130000));
  CHECK(&big != &gemmCache("NVIDIA Big/1", 130001));
  big.store("m1", "a");
  CHECK(small.find("m1") == std::nullopt);
  small.store("m1", "b");
  const std::vector<std::string> files = filesIn(dir);
  REQUIRE(files.size() == 4);
  CHECK_THAT(files[0], StartsWith("gemm-NVIDIA_Big_1-lt130000-v"));
  CHECK_THAT(files[2], StartsWith("gemm-NVIDIA_Small-lt130000-v"));
  CHECK(readFile(dir / files[0]) == "m1 a\n");
  CHECK(readFile(dir / files[2]) == "m1 b\n");
  unsetenv("GRAFT_CACHE_DIR");
}
