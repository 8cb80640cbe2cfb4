// Runs the case files. Every case that matches is also rewritten: the graph still verifies, prints and parses back, was
// not touched by the search, is not matched again, and computes the same numbers.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "case_file.h"
#include "core/ir/verify.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/model.h"
#include "matcher/lang/rule_file.h"
#include "matcher/rewrite.h"
#include "tests/support/catch.h"

using namespace graft;
using test::Case;

namespace {

const Semantics& semantics() {
  static const std::unique_ptr<Semantics> s = [] {
    const Status loaded = loadOperatorLibrary();
    if (!loaded) throw std::runtime_error(loaded.error().format());
    return makeTorchSemantics();
  }();
  return *s;
}

template <class T>
T take(Result<T> r) {
  if (!r) throw std::runtime_error(r.error().format());
  return std::move(r).value();
}

Type typeOf(const std::string& text) {
  const auto type = parseType(text + "@cpu");
  if (!type) throw std::runtime_error("no type: " + text);
  return *type;
}

/// A weight of that shape with numbers that differ from each other: sin of a range; made positive for variances.
Semantics::Constant weightOf(const Type& type, bool positive) {
  const OperatorSet& ops = semantics().operators();
  int64_t count = 1;
  std::vector<Argument> sizes;
  for (const Dim& d : *type.tensorInfo.shape) {
    count *= d.size;
    sizes.emplace_back(d.size);
  }
  Graph g;
  Semantics::Constant now;
  const auto step = [&](const char* op, std::vector<Argument> more) {
    std::vector<Argument> args;
    if (now.data) args.emplace_back(g.addWeight("w" + std::to_string(g.nodeCount()), now.type, now.data));
    args.insert(args.end(), more.begin(), more.end());
    const OperatorRef ref = ops.find(op);
    while (args.size() < ref->parameters.size())
      args.push_back(ref->parameters[args.size()].defaultValue.value_or(Argument()));
    now = take(semantics().evaluate(g, g.append(g.root(), ref, std::move(args))))[0];
  };
  step("aten.linspace.default", {Argument(0.3), Argument(double(count) * 1.7), Argument(count)});
  step("aten.sin.default", {});
  if (positive) step("aten.abs.default", {});
  if (positive) step("aten.add.Tensor", {Argument(0.5), Argument(int64_t{1})});
  step("aten.reshape.default", {Argument::list(sizes)});
  return now;
}

/// The case's function as a model: weights where it says so, types known.
Graph modelOf(const Case& c) {
  const RuleFile file = take(parseRuleText(c.python(), c.file, semantics().operators()));
  const Graph& from = file.rules[0].pattern;
  if (!file.rules[0].patternExpressions.empty()) throw std::runtime_error("a case writes its sizes as numbers");
  Graph g;
  std::map<uint32_t, ValueId> to;
  std::vector<Type> inputs;
  for (size_t i = 0; i < c.given.size(); ++i) {
    const test::Given& given = c.given[i];
    const Type type = typeOf(given.type);
    const ValueId old = from.inputs()[i];
    if (given.isWeight) {
      const auto constant = weightOf(type, given.name.starts_with("var"));
      to[old.index] = g.addWeight(given.name, constant.type, constant.data);
    } else {
      to[old.index] = g.addInput(given.name, type);
      inputs.push_back(type);
    }
  }
  const auto renamed = [&](std::vector<Argument> args) {
    for (Argument& a : args)
      if (a.as<Named>() && a.as<Named>()->name == "_") a = Argument(true);  // cudnn_enabled, which a model has
    for (Argument& a : args) a.forEachValueMutable([&](ValueId& v) { v = to.at(v.index); });
    return args;
  };
  for (NodeId id : from.order()) {
    const Node& n = from.node(id);
    const NodeId made = g.append(g.root(), n.op, renamed(n.args), n.name);
    while (g.node(made).outputs.size() < n.outputs.size()) g.addOutput(made, n.name, Type::any());
    for (size_t i = 0; i < n.outputs.size(); ++i) to[n.outputs[i].index] = g.node(made).outputs[i];
  }
  g.setReturns(g.root(), renamed({from.returns().begin(), from.returns().end()}));
  if (Status s = inferAllTypes(g, inputs); !s) throw std::runtime_error(s.error().format());
  if (Status s = verify(g); !s) throw std::runtime_error(s.error().format());
  return g;
}

const RuleFile& rulesOf(const std::string& path) {
  static std::map<std::string, RuleFile> files;
  auto it = files.find(path);
  if (it == files.end())
    it = files.emplace(path, take(loadRuleFile(GRAFT_SOURCE_DIR "/" + path, semantics().operators()))).first;
  return it->second;
}

std::vector<Difference> difference(const Case& c, const Graph& before, const Graph& after) {
  std::vector<std::string> specs;
  for (const test::Given& g : c.given)
    if (!g.isWeight) specs.push_back(g.type + ":" + (g.fill.empty() ? "randn" : g.fill));
  const TensorSet inputs = take(makeInputs(before, specs, 7));
  const auto run = [&](const Graph& g) { return take(take(Program::build(g)).run(inputs)); };
  return compareTensors(run(before), run(after));
}

void check(const Case& c, const Rule* rule) {
  REQUIRE(rule);
  const Graph model = modelOf(c);
  const std::string text = toText(model);
  INFO(text);
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(model).findAll(*rule, options);
  CHECK(found.problem.empty());
  CHECK(toText(model) == text);
  INFO((found.nearMisses.empty()
            ? "no near miss"
            : std::string(reasonName(found.nearMisses[0].reason)) + ": " + found.nearMisses[0].message));
  REQUIRE(found.matches.size() == c.matches);
  if (c.matches == 0) {
    if (c.reason.empty()) return;
    REQUIRE_FALSE(found.nearMisses.empty());
    CHECK(std::string(reasonName(found.nearMisses[0].reason)) == c.reason);
    return;
  }
  Graph after = model;
  const RuleRun run = take(applyRule(after, *rule, semantics()));
  INFO((run.refused.empty() ? "" : run.refused[0]));
  CHECK(run.records.size() == c.matches);
  const Status sound = verify(after);
  INFO((sound ? "" : sound.error().format()));
  CHECK(sound);
  TextOptions plain;
  plain.sources = false;
  const std::string printed = toText(after, plain);
  INFO(printed);
  CHECK(toText(take(parseText(printed, semantics().operators())), plain) == printed);
  CHECK(take(applyRule(after, *rule, semantics())).records.empty());
  CHECK(toText(model) == text);
  if (rule->changesNumbers) return;
  for (const Difference& d : difference(c, model, after)) {
    INFO(d.name << " " << d.type << " differs: " << d.why << ", rmse " << d.rmse);
    CHECK(d.passed);
  }
}

}  // namespace

TEST_CASE("the shipped rules find what they should, nothing beside it, and compute the same") {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GRAFT_SOURCE_DIR "/tests/rules")) {
    if (entry.path().extension() != ".cases") continue;
    for (const Case& c : test::readCases(entry.path().string())) {
      ++count;
      DYNAMIC_SECTION(entry.path().filename().string() << ":" << c.line << " " << c.rule) {
        check(c, rulesOf(c.rules).findRule(c.rule));
      }
    }
  }
  CHECK(count > 40);
}

TEST_CASE("the examples of docs/rules.md do what the page says") {
  const std::string path = GRAFT_SOURCE_DIR "/docs/rules.md";
  std::ifstream in(path);
  REQUIRE(in);
  std::string fence, block;
  std::optional<RuleFile> rules;
  std::string mistake;
  int number = 0, began = 0;
  size_t examples = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.starts_with("```")) {
      block += line + "\n";
      continue;
    }
    if (fence.empty()) {
      fence = line.substr(3).empty() ? "none" : line.substr(3);
      block.clear();
      began = number + 1;
      continue;
    }
    INFO(path << ":" << began);
    if (fence == "python") {
      rules = take(parseRuleText(block, "rules.py", semantics().operators()));
    } else if (fence == "python wrong") {
      const auto parsed = parseRuleText(block, "rules.py", semantics().operators());
      REQUIRE_FALSE(parsed);
      mistake = parsed.error().format() + "\n";
    } else if (fence == "text") {
      CHECK(block == mistake);
    } else if (fence == "cases") {
      REQUIRE(rules);
      std::istringstream text(block);
      for (const Case& c : test::readCases(text, path, began)) {
        INFO(path << ":" << c.line);
        ++examples;
        check(c, &rules->rules.back());
      }
    }
    fence.clear();
  }
  CHECK(examples > 10);
}
