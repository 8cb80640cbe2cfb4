// The shipped recipes on the sample models: what they find follows from each model's configuration, in the table of
// docs/reference/shipped-rules.md. The models are those of samples/models/build.py and samples/minilm, which the
// fixture `samples` of the end-to-end tests builds.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/formats/model.h"
#include "core/ir/verify.h"
#include "core/torch/executor.h"
#include "core/torch/operator_library.h"
#include "core/torch/rewrite_verification.h"
#include "core/torch/semantics.h"
#include "matcher/lang/rule_file.h"
#include "matcher/passes/passes.h"
#include "tests/support/catch.h"
#include "tests/support/torch_semantics.h"

using namespace graft;

namespace {

template <class T>
T take(Result<T> r) {
  if (!r) throw std::runtime_error(r.error().format());
  return std::move(r).value();
}

using Counts = std::map<std::string, size_t>;

/// How often each rule of the recipe rewrote something; rules that did nothing are left out.
Counts counts(const std::string& model, const std::string& inputs, const std::string& rules,
              const std::string& recipe) {
  const Semantics& semantics = test::torchSemantics();
  const std::string folder = GRAFT_BINARY_DIR "/samples/";
  Graph graph = take(importModel(folder + model, semantics)).graph;
  const TensorSet tensors = take(loadTensors(folder + inputs));
  const Status typed = recordTypes(graph, tensors);
  INFO((typed ? "" : typed.error().format()));
  REQUIRE(typed);
  const RuleFile file = take(loadRuleFile(GRAFT_SOURCE_DIR "/resources/rules/" + rules, semantics.operators()));
  const Recipe* found = file.findRecipe(recipe);
  REQUIRE(found);
  const auto verification = makeRewriteCheck(tensors);
  const RecipeRun run = take(runRecipe(graph, file, *found, semantics, {}, {verification.get(), false}));
  CHECK(verify(graph));
  Counts out;
  for (const StepRun& s : run.steps) {
    CHECK(s.refused.empty());
    for (const RolledBack& r : s.rolledBack) UNSCOPED_INFO(s.name << " taken back " << toString(r));
    CHECK(s.rolledBack.empty());
    for (const Record& r : s.records) {
      INFO(s.name << ": " << r.verification.why);
      if (s.isRule) CHECK(r.verification.verdict == RewriteVerification::Verdict::Verified);
    }
    if (s.isRule && !s.records.empty()) out[s.name] = s.records.size();
  }
  return out;
}

/// One line of the table of docs/reference/shipped-rules.md.
struct Row {
  std::string model, rules, recipe;
  Counts traced, exported;
};

/// "3", "L", "2L", "L/2", "2L-1", "2L+4".
size_t countOf(const std::string& text, size_t layers) {
  size_t at = 0, n = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])))
    n = n * 10 + static_cast<size_t>(text[at++] - '0');
  if (at < text.size() && text[at] == 'L') {
    n = (at == 0 ? 1 : n) * layers;
    ++at;
  }
  if (at == text.size()) return n;
  const size_t rest = std::stoul(text.substr(at + 1));
  if (text[at] == '/') return n / rest;
  if (text[at] == '+') return n + rest;
  if (text[at] == '-') return n - rest;
  throw std::runtime_error("no count: " + text);
}

std::vector<Row> table() {
  std::ifstream in(GRAFT_SOURCE_DIR "/docs/reference/shipped-rules.md");
  std::vector<Row> out;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| `")) continue;
    std::erase(line, '`');
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream cells(line);
    std::string bar, rule, count;
    size_t layers = 0;
    Row row;
    cells >> bar >> row.model >> bar >> layers >> bar >> row.rules >> row.recipe >> bar;
    while (cells >> rule && rule != "|" && cells >> count) row.traced[rule] = countOf(count, layers);
    while (cells >> rule && rule != "|" && rule != "the" && cells >> count) row.exported[rule] = countOf(count, layers);
    if (rule == "the") row.exported = row.traced;  // "the same"
    out.push_back(std::move(row));
  }
  return out;
}

std::string text(const Counts& counts) {
  std::string out;
  for (const auto& [rule, n] : counts) out += rule + " " + std::to_string(n) + "\n";
  return out;
}

Counts ofModel(const Row& row, const std::string& suffix) {
  const bool isMiniLm = row.model == "minilm";
  const std::string model = isMiniLm ? "minilm" : "models/" + row.model;
  return counts(model + suffix, isMiniLm ? "sentences.pt" : model + "_inputs.pt", row.rules, row.recipe);
}

}  // namespace

TEST_CASE("the recipes find what docs/reference/shipped-rules.md says, in traced and in exported models") {
  const std::vector<Row> rows = table();
  REQUIRE(rows.size() >= 19);
  for (const Row& row : rows)
    for (const bool traced : {true, false}) DYNAMIC_SECTION(row.model << (traced ? ", traced" : ", exported")) {
        CHECK(text(ofModel(row, traced ? ".pt" : ".pt2")) == text(traced ? row.traced : row.exported));
      }
}

TEST_CASE("every shipped rule has cases of its own") {
  REQUIRE(loadOperatorLibrary());
  static const std::unique_ptr<Semantics> semantics = makeTorchSemantics();
  for (const std::string file : {"transformer", "decoders", "conv"}) {
    std::ifstream in(GRAFT_SOURCE_DIR "/tests/resources/rules/" + file + ".cases");
    const std::string cases((std::istreambuf_iterator<char>(in)), {});
    const RuleFile rules =
        take(loadRuleFile(GRAFT_SOURCE_DIR "/resources/rules/" + file + ".py", semantics->operators()));
    for (const Rule& rule : rules.rules) {
      if (!rule.file.ends_with("/" + file + ".py")) continue;  // the file that defines it has its cases
      INFO(file << ".cases has none for " << rule.name);
      CHECK(cases.find("\nrule " + rule.name + "\n") != std::string::npos);
    }
  }
}
