// Files that lie: each gets one message that names the cause, quickly, and none is run.
#include <chrono>
#include <filesystem>

#include "tests/import/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

void refused(const std::string& name, const std::string& because) {
  INFO(name);
  const auto start = std::chrono::steady_clock::now();
  auto m = importModel(fixture(name), torchSemantics());
  REQUIRE_FALSE(m);
  CHECK(m.error().kind == ErrorKind::BadInput);
  CHECK_THAT(m.error().message, ContainsSubstring(because));
  CHECK_THAT(m.error().message, ContainsSubstring(name));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
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

TEST_CASE("archives with impossible records are refused") {
  refused("absurd_size.pt", "corrupt");
  refused("bomb.pt", "unpack to more than");
  refused("traversal.pt", "unsafe name");
  refused("absolute.pt", "unsafe name");
  refused("twice.pt", "two records");
}

TEST_CASE("TorchScript that would crash or run is refused") {
  refused("short_weight.pt", "its record holds 8 bytes");
  refused("missing_weight.pt", "is missing");
  refused("deep_code.pt", "nests expressions");
  refused("long_code.pt", "nests expressions");
  refused("deep_pickle.pt", "not valid");
  refused("nested_pickle.pt", "nested more than");
  refused("foreign_pickle.pt", "not valid");
  refused("setstate.pt", "run code while it is opened");
  CHECK_FALSE(std::filesystem::exists("/tmp/graft_fixture_was_run"));
}

TEST_CASE("torch.export and FX files that lie are refused") {
  refused("bad_json.pt2", "not a valid torch.export program");
  refused("deep_json.pt2", "not a valid torch.export program");
  refused("wrong_type.pt2", "not a valid torch.export program");
  refused("unknown_dtype.pt2", "dtype");
  refused("wrong_weights.pt2", "larger than its record");
  refused("pickled.pt2", "pickled");
  refused("bad.fx", "not a valid FX file");
  refused("short.fx", "larger than its record");
}
