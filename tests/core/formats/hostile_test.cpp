// Files that lie: each gets one message that names the cause, quickly, and none is run.
#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/text/text.h"
#include "tests/core/formats/fixtures.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using namespace graft::test;

namespace {

/// One line of /proc/self/status, in bytes: "VmRSS" is what is in memory now, "VmHWM" the most there was.
size_t memory(const std::string& what) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(what + ":")) return std::stoull(line.substr(what.size() + 1)) * 1024;
  return 0;
}

/// The import took at most 5 s, and at most twice the file's size and 200 MB of memory.
Result<Model> bounded(const std::string& path) {
  torchSemantics();                             // LibTorch's own memory is not the file's
  std::ofstream("/proc/self/clear_refs") << 5;  // forgets the most there was
  const size_t before = memory("VmRSS");
  const auto start = std::chrono::steady_clock::now();
  auto m = importModel(path, torchSemantics());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  std::error_code none;
  const size_t size = std::filesystem::is_regular_file(path, none) ? std::filesystem::file_size(path, none) : 0;
  CHECK(memory("VmHWM") < before + 2 * size + (200 << 20));
  return m;
}

void refused(const std::string& name, const std::string& because) {
  INFO(name);
  auto m = bounded(fixture(name));
  REQUIRE_FALSE(m);
  CHECK(m.error().kind == ErrorKind::BadInput);
  CHECK_THAT(m.error().message, ContainsSubstring(because));
  CHECK_THAT(m.error().message, ContainsSubstring(name));
}

}  // namespace

TEST_CASE("files that are no archive are told apart") {
  refused("missing.pt", "No such file");
  refused("empty.pt", "is empty");
  refused("page.pt", "web page");
  refused("pointer.pt", "git lfs pull");
  refused("directory.pt", "is a directory");
  refused("truncated.pt", "cut off");
  refused("bare_pickle.pt", "bare pickle");
  refused("noise.pt", "no model that Graft knows");
  refused("tensor.pt", "torch.save");
}

TEST_CASE("calls that double again and again are refused in time") {
  refused("doubling.pt", "makes more than 1000000 calls");
  refused("doubling_loop.pt", "hold too much code");
}

TEST_CASE("archives with impossible records are refused") {
  refused("absurd_size.pt", "corrupt");
  refused("bomb.pt", "unpack to more than");
  refused("traversal.pt", "unsafe name");
  refused("absolute.pt", "unsafe name");
  refused("twice.pt", "two records");
  refused("odd.pt", "unsafe name");
}

TEST_CASE("TorchScript that would crash or run is refused") {
  refused("short_weight.pt", "its record holds 8 bytes");
  refused("missing_weight.pt", "is missing");
  refused("deep_code.pt", "nests expressions");
  refused("long_code.pt", "nests expressions");
  for (const char* name : {"blank_lines.pt", "comments.pt", "continued.pt"}) refused(name, "skips lines");
  refused("deep_pickle.pt", "not valid");
  refused("nested_pickle.pt", "nested more than");
  refused("foreign_pickle.pt", "not valid");
  refused("huge_shape.pt", "reaches past the 512 bytes of its data");
  refused("negative_shape.pt", "cannot load");
  refused("not_utf8.pt", "cannot load");
  refused("no_code.pt", "cannot load");
  refused("setstate.pt", "run code while it is opened");
  CHECK_FALSE(std::filesystem::exists("/tmp/graft_fixture_was_run"));
}

TEST_CASE("records of source lines that lie are left out, and the model is read without them") {
  const std::string sound = toText(imported("net.pt").graph, {.sources = false});
  for (const char* name : {"debug_table.pt", "debug_range.pt", "debug_negative.pt", "debug_noise.pt"}) {
    INFO(name);
    const auto m = bounded(fixture(name));
    REQUIRE(m);
    CHECK(toText(m->graph, {.sources = false}) == sound);
    size_t lines = 0;
    for (NodeId n : m->graph.order()) {
      const SourceLocation* s = m->graph.sourceOf(m->graph.node(n));
      lines += s && s->file.ends_with("make_fixtures.py");
    }
    CHECK(lines == 0);
  }
}

TEST_CASE("torch.export and FX files that lie are refused") {
  refused("bad_json.pt2", "not a valid torch.export program: models/model.json: no valid JSON at byte");
  refused("deep_json.pt2", "not a valid torch.export program");
  refused("wrong_type.pt2", "not a valid torch.export program: graph_module.graph.");
  refused("unknown_dtype.pt2", "dtype");
  refused("wrong_weights.pt2", "larger than its record");
  refused("pickled.pt2", "pickled");
  refused("bad.fx", "not a valid FX file");
  refused("short.fx", "larger than its record");
}

TEST_CASE("graphs that go in circles, backwards or too deep are refused") {
  refused("cyclic.pt2", "before it is made");
  refused("backwards.pt2", "before it is made");
  refused("cyclic.fx", "before it is made");
  refused("backwards.fx", "before it is made");
  refused("deep_argument.fx", "nested too deep");
  refused("deep_json.fx", "nested more than 2000 deep");
}

TEST_CASE("sizes below zero, beyond the data and beyond all numbers are refused") {
  refused("negative.pt2", "negative");
  refused("offset.pt2", "offset is negative");
  refused("empty_range.pt2", "has an empty range");
  refused("negative.fx", "negative");
  refused("overflow.fx", "larger than its record");
}

TEST_CASE("wrong types, unknown kinds, missing data, bombs and text that is none are refused") {
  refused("wrong_type.fx", "number where a list belongs");
  refused("unknown_kind.fx", "of kind riddle");
  refused("unknown_dtype.fx", "dtype float99");
  refused("not_utf8.fx", "not UTF-8");
  refused("not_utf8.pt2", "not UTF-8");
  refused("lost_weight.pt2", "is missing");
  refused("lost_weight.fx", "is missing");
  refused("bomb.pt2", "unpack to more than");
  refused("bomb.fx", "unpack to more than");
}

TEST_CASE("files with flipped bytes and cut ends are read or refused, nothing else") {
  const TempDir folder;
  for (const char* name : {"net.pt", "net.pt2", "net.fx"}) {
    const std::string good = readFile(fixture(name));
    REQUIRE(good.size() > 1000);
    size_t refusals = 0;
    for (size_t i = 0; i < 150; ++i) {
      std::string bad = good;
      const size_t at = i * good.size() / 150 + i % 7;
      if (i % 5 == 0)
        bad.resize(at);
      else
        bad[at] = static_cast<char>(bad[at] ^ (1 << i % 8));
      const std::string path = (folder / name).string();
      writeFile(path, bad);
      INFO(name << " " << at);
      const auto m = bounded(path);
      refusals += !m;
      if (!m) CHECK(m.error().kind == ErrorKind::BadInput);
      if (!m) CHECK_FALSE(m.error().message.empty());
    }
    CHECK(refusals >= 30);  // all that were cut
  }
  // Reading writes nothing: only the three files are there.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 3);
}
