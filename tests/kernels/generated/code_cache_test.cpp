// Machine code on disk: found again, whole or not at all, and only in a folder that is the user's own.
#include "kernels/generated/code_cache.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using graft::ops::CodeCache;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> filesOf(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  return out;
}

}  // namespace

TEST_CASE("code is found under its key, by another cache too") {
  const graft::test::TempDir dir;
  const fs::path folder = fs::path(dir / "code");
  const std::string code("ab\0\ncd", 6);
  CodeCache(folder).store("key", code);
  CHECK(CodeCache(folder).find("key") == code);
  CHECK_FALSE(CodeCache(folder).find("another"));
  struct stat s {};
  REQUIRE(stat(folder.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0700);
}

TEST_CASE("a file that is cut off, changed or empty counts as absent, and is written anew") {
  const graft::test::TempDir dir;
  const fs::path folder = fs::path(dir / "code");
  const CodeCache cache(folder);
  cache.store("key", std::string(1000, 'x'));
  const fs::path file = filesOf(folder).at(0);
  std::string whole;
  {
    std::ifstream in(file, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::string changed = whole;
  changed[changed.size() / 2] = 'y';
  for (const std::string& broken : {whole.substr(0, whole.size() - 1), whole.substr(0, 20), std::string(), changed}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << broken;
    CHECK_FALSE(cache.find("key"));
  }
  cache.store("key", std::string(1000, 'x'));
  CHECK(cache.find("key") == std::string(1000, 'x'));
}

TEST_CASE("a file that stands under another one's name counts as absent") {
  const graft::test::TempDir dir;
  const fs::path folder = fs::path(dir / "code");
  const CodeCache cache(folder);
  cache.store("key", "one");
  const fs::path file = filesOf(folder).at(0);
  cache.store("other", "two");
  for (const fs::path& f : filesOf(folder))
    if (f != file) fs::copy_file(f, file, fs::copy_options::overwrite_existing);
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.find("other") == "two");
}

TEST_CASE("a folder that others may write to is not used") {
  const graft::test::TempDir dir;
  const fs::path folder = fs::path(dir / "code");
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::all);
  const CodeCache cache(folder);
  CHECK(cache.whyNot().find("others may write to") != std::string::npos);
  cache.store("key", "code");
  CHECK(filesOf(folder).empty());
  CHECK_FALSE(cache.find("key"));
}

TEST_CASE("where there is no folder nothing is kept and nothing fails") {
  CodeCache("").store("key", "code");
  CHECK_FALSE(CodeCache("").find("key"));
  const graft::test::TempDir dir;
  const fs::path file = fs::path(dir / "file");
  std::ofstream(file) << "not a folder";
  CHECK_FALSE(CodeCache(file).whyNot().empty());
  CHECK_FALSE(CodeCache(file / "below").whyNot().empty());
}

TEST_CASE("what was not used for longest goes where the folder is full") {
  const graft::test::TempDir dir;
  const fs::path folder = fs::path(dir / "code");
  const CodeCache cache(folder, 1250);
  cache.store("old", std::string(300, 'a'));
  for (const fs::path& file : filesOf(folder))
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  cache.store("new", std::string(300, 'b'));
  CHECK(cache.find("old"));
  fs::last_write_time(filesOf(folder).at(0), fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.store("newer", std::string(500, 'c'));
  CHECK(cache.find("newer"));
  CHECK(filesOf(folder).size() == 2);
}
