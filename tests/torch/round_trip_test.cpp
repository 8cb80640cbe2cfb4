// Every sample model, read, written and read again: the same canonical text, the same numbers. The models are those of
// samples/models/build.py, which the fixture `samples` of the end-to-end tests builds.
#include <cstdlib>
#include <filesystem>
#include <set>

#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/export.h"
#include "core/torch/model.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace graft;

namespace {

namespace fs = std::filesystem;

const Semantics& semantics() {
  static const bool loaded = static_cast<bool>(loadOperatorLibrary());
  REQUIRE(loaded);
  static const std::unique_ptr<Semantics> one = makeTorchSemantics();
  return *one;
}

Graph imported(const std::string& path) {
  auto m = importModel(path, semantics());
  INFO((m ? "" : m.error().format()));
  REQUIRE(m);
  return std::move(m->graph);
}

std::set<fs::path> sampleModels() {
  std::set<fs::path> out;
  for (const auto& entry : fs::directory_iterator(GRAFT_BINARY_DIR "/samples/models")) {
    const std::string stem = entry.path().stem().string();
    const std::string ending = entry.path().extension().string();
    if (stem.ends_with("_inputs") || stem.ends_with("_expected")) continue;
    if (ending == ".pt" || ending == ".pt2" || ending == ".fx") out.insert(entry.path());
  }
  return out;
}

TensorSet outputsOf(const Graph& g, const TensorSet& inputs) {
  auto program = Program::build(g);
  INFO((program ? "" : program.error().format()));
  REQUIRE(program);
  auto out = program->run(inputs);
  INFO((out ? "" : out.error().format()));
  REQUIRE(out);
  return std::move(*out);
}

/// The first line that differs, of both.
std::string firstDifference(const std::string& a, const std::string& b) {
  size_t line = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size() || a[i] != b[i])
      return "\n  " + a.substr(line, a.find('\n', line) - line) + "\n  " +
             (line < b.size() ? b.substr(line, b.find('\n', line) - line) : "(end)");
    if (a[i] == '\n') line = i + 1;
  }
  return "";
}

}  // namespace

TEST_CASE("TorchScript: import, export, import gives the same text and the same numbers") {
  const test::TempDir dir;
  REQUIRE(sampleModels().size() >= 20);
  for (const fs::path& path : sampleModels()) {
    INFO(path.filename().string());
    const Graph first = imported(path.string());
    const std::string out = (dir / "again.pt").string();
    const Status written = exportTorchScript(first, out);
    INFO((written ? "" : written.error().format()));
    CHECK(written);
    if (!written) continue;
    const Graph again = imported(out);
    const std::string a = toText(first), b = toText(again);
    INFO(firstDifference(a, b));
    CHECK((a == b));
    if (const char* keep = std::getenv("GRAFT_KEEP"); keep && a != b) {
      test::writeFile(fs::path(keep) / (path.filename().string() + ".a"), a);
      test::writeFile(fs::path(keep) / (path.filename().string() + ".b"), b);
    }
    const auto inputs = loadTensors((path.parent_path() / (path.stem().string() + "_inputs.pt")).string());
    REQUIRE(inputs);
    for (const Difference& d : compareTensors(outputsOf(first, *inputs), outputsOf(again, *inputs))) {
      INFO(d.name << " " << d.type << ": " << d.why);
      CHECK(d.maxAbs == 0);
    }
  }
}
