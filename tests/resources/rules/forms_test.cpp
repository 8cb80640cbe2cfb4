// One normal form: whichever way a model came in, each shipped rule has the same matches in it, in the same modules.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/formats/model.h"
#include "core/torch/executor.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "matcher/lang/rule_file.h"
#include "matcher/search/search.h"
#include "tests/support/catch.h"

using namespace graft;
namespace fs = std::filesystem;

namespace {

/// For each rule the paths of the modules it matches in, as often as it does.
using Found = std::map<std::string, std::multiset<std::string>>;

std::vector<RuleFile> shippedRules(const OperatorSet& operators) {
  std::vector<RuleFile> out;
  for (const auto& entry : fs::directory_iterator(GRAFT_SOURCE_DIR "/resources/rules")) {
    if (entry.path().extension() != ".py") continue;
    auto file = loadRuleFile(entry.path().string(), operators);
    INFO((file ? "" : file.error().format()));
    REQUIRE(file);
    out.push_back(std::move(*file));
  }
  REQUIRE(out.size() >= 3);
  return out;
}

Found found(const fs::path& model, const fs::path& inputs, const std::vector<RuleFile>& files, const Semantics& s) {
  auto m = importModel(model.string(), s);
  INFO((m ? "" : m.error().format()));
  REQUIRE(m);
  if (!inputs.empty()) {
    auto tensors = loadTensors(inputs.string());
    REQUIRE(tensors);
    const Status typed = recordTypes(m->graph, *tensors);
    INFO((typed ? "" : typed.error().format()));
    REQUIRE(typed);
  }
  const Matcher matcher(m->graph);
  Found out;
  for (const RuleFile& file : files)
    for (const Rule& rule : file.rules) {
      const SearchResult r = matcher.findAll(rule);
      CHECK_FALSE(r.budgetExceeded);
      for (const Match& match : r.matches)
        out[fs::path(file.path).stem().string() + "." + rule.name].insert(match.scope);
    }
  return out;
}

/// Whether in each match of that rule the `expand` gives the shape that it is given.
bool spreadsNothing(const fs::path& model, const fs::path& inputs, const std::string& name,
                    const std::vector<RuleFile>& files, const Semantics& s) {
  auto m = importModel(model.string(), s);
  auto tensors = loadTensors(inputs.string());
  REQUIRE((m && tensors));
  REQUIRE(recordTypes(m->graph, *tensors));
  size_t seen = 0;
  for (const RuleFile& file : files) {
    const Rule* rule = fs::path(file.path).stem() == "transformer" ? file.findRule(name) : nullptr;
    if (!rule) continue;
    for (const Match& match : Matcher(m->graph).findAll(*rule).matches)
      for (NodeId id : match.nodes) {
        const Node& n = m->graph.node(id);
        if (n.op->baseName() != "expand") continue;
        ++seen;
        const auto &from = m->graph.value(n.args[0].valueId()).type, &to = m->graph.value(n.outputs[0]).type;
        if (!from.tensorInfo.shape || from.tensorInfo.shape != to.tensorInfo.shape) return false;
      }
  }
  return seen > 0;
}

std::string text(const Found& f) {
  std::string out;
  for (const auto& [rule, scopes] : f) {
    out += "\n  " + rule + ":";
    for (const std::string& s : scopes) out += " " + (s.empty() ? "(top)" : s);
  }
  return out;
}

}  // namespace

TEST_CASE("every shipped rule has the same matches in a model that was traced, exported and captured") {
  REQUIRE(loadOperatorLibrary());
  const auto semantics = makeTorchSemantics();
  const auto files = shippedRules(semantics->operators());
  const fs::path folder = GRAFT_BINARY_DIR "/samples/models";
  size_t models = 0, matches = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with("_inputs.pt")) continue;
    name.resize(name.size() - std::string_view("_inputs.pt").size());
    // What PyTorch cannot export (KNOWN in samples/models/build.py) has the first form alone.
    if (!fs::exists(folder / (name + ".pt2"))) continue;
    ++models;
    const Found first = found(folder / (name + ".pt"), entry.path(), files, *semantics);
    for (const auto& [rule, scopes] : first) matches += scopes.size();
    for (const char* form : {".pt2", ".fx"}) {
      INFO(name << form);
      const Found other = found(folder / (name + form), entry.path(), files, *semantics);
      INFO("traced" << text(first) << "\nhere" << text(other));
      CHECK(other == first);
    }
  }
  CHECK(models >= 19);
  CHECK(matches >= 100);
}

TEST_CASE("what a shipped rule matches in an exported model it matches after run_decompositions") {
  REQUIRE(loadOperatorLibrary());
  const auto semantics = makeTorchSemantics();
  const auto files = shippedRules(semantics->operators());
  const fs::path folder = GRAFT_BINARY_DIR "/samples/models";
  size_t models = 0, spread = 0;
  for (const auto& entry : fs::directory_iterator(folder / "decomposed")) {
    if (entry.path().extension() != ".pt2") continue;
    ++models;
    const fs::path inputs = folder / (entry.path().stem().string() + "_inputs.pt");
    const Found whole = found(folder / entry.path().filename(), inputs, files, *semantics);
    const Found apart = found(entry.path(), inputs, files, *semantics);
    INFO(entry.path().stem().string() << "\nexported" << text(whole) << "\ndecomposed" << text(apart));
    for (const auto& [rule, scopes] : whole) {
      INFO(rule);
      if (rule == "transformer.PaddingMask" || rule == "transformer.SelectBeforeExpand") {
        // Both take an `expand` along. A decomposition drops those that spread nothing, as these; the mask itself is
        // found there without it, and the rewrite brings an `expand` that the other rule then finds.
        CHECK(spreadsNothing(folder / entry.path().filename(), inputs, rule.substr(12), files, *semantics));
        ++spread;
        if (rule == "transformer.PaddingMask")
          CHECK(apart.at("transformer.PaddingMaskBroadcast").size() == scopes.size());
        continue;
      }
      const auto others = apart.find(rule);
      CHECK(others != apart.end());
      if (others == apart.end()) continue;
      // Dropout is gone there: a rule may find more.
      CHECK(std::includes(others->second.begin(), others->second.end(), scopes.begin(), scopes.end()));
    }
  }
  CHECK(models >= 19);
  CHECK(spread >= 5);
}

TEST_CASE("every shipped rule has the same matches without inputs as with them") {
  REQUIRE(loadOperatorLibrary());
  const auto semantics = makeTorchSemantics();
  const auto files = shippedRules(semantics->operators());
  const fs::path samples = GRAFT_BINARY_DIR "/samples", folder = samples / "models";
  std::vector<std::pair<fs::path, fs::path>> models{{samples / "minilm.pt", samples / "sentences.pt"}};
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with("_inputs.pt")) continue;
    name.resize(name.size() - std::string_view("_inputs.pt").size());
    models.emplace_back(folder / (name + ".pt"), entry.path());
  }
  CHECK(models.size() >= 20);
  for (const auto& [model, inputs] : models) {
    const Found with = found(model, inputs, files, *semantics), without = found(model, {}, files, *semantics);
    INFO(model.filename().string() << "\nwith inputs" << text(with) << "\nwithout" << text(without));
    CHECK(with == without);
  }
}
