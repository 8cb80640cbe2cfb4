#include "core/formats/torchscript/straight_line_program.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/frontend/tree_views.h>

#include <algorithm>

namespace graft {
namespace {

namespace jit = torch::jit;

// "ops.aten.relu": each word behind "ops." is a library of operators.
struct Libraries : jit::SugaredValue {
  explicit Libraries(int64_t version) : version(version) {}
  std::string kind() const override { return "operators"; }
  std::shared_ptr<jit::SugaredValue> attr(const jit::SourceRange&, jit::GraphFunction&,
                                          const std::string& library) override {
    return std::make_shared<jit::BuiltinModule>(library, version);
  }
  int64_t version;
};

struct OperatorNames : jit::Resolver {
  explicit OperatorNames(size_t version) : version(static_cast<int64_t>(version)) {}
  std::shared_ptr<jit::SugaredValue> resolveValue(const std::string& name, jit::GraphFunction&,
                                                  const jit::SourceRange&) override {
    if (name == "torch") return std::make_shared<jit::BuiltinModule>("aten", version);
    if (name == "ops") return std::make_shared<Libraries>(version);
    return nullptr;
  }
  int64_t version;
};

// Whether the code may be left out where nothing needs its result, and may change places with other code.
bool isPure(const jit::Block& block) {
  for (const jit::Node* n : block.nodes()) {
    const c10::FunctionSchema* schema = n->maybeSchema();
    if (!n->blocks().empty() || n->hasSideEffects() || (schema && schema->is_mutable())) return false;
    if (n->kind() == jit::prim::CallFunction || n->kind() == jit::prim::CallMethod) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<StraightLineProgram> StraightLineProgram::compile(StraightLineCode code, jit::GraphFunction& stub,
                                                                  size_t version) {
  std::unique_ptr<StraightLineProgram> out(new StraightLineProgram(std::move(code), stub, version));
  try {
    if (!out->name()) return nullptr;
    for (uint32_t i = 0; i < out->code_.size(); ++i)
      if (!out->add(i)) return nullptr;
  } catch (const std::exception&) {
    return nullptr;  // LibTorch compiles the whole file instead, and reports what is wrong with it
  }
  out->named_.clear();
  out->known_.clear();
  if (!out->dropUnused()) return nullptr;
  return out;
}

uint32_t StraightLineProgram::newValue(const c10::TypePtr& type) {
  const std::string text = type->annotation_str();
  size_t i = 0;  // a model has few types
  while (i < typeTexts_.size() && typeTexts_[i] != text) ++i;
  if (i == typeTexts_.size()) typeTexts_.push_back(text);
  types_.push_back(static_cast<uint32_t>(i));
  return static_cast<uint32_t>(types_.size() - 1);
}

// The method's parameters and the attributes that its stub returns.
bool StraightLineProgram::name() {
  const auto graph = stub_.graph();
  const auto& parameters = stub_.getSchema().arguments();
  if (graph->outputs().size() != 1 || graph->inputs().size() != parameters.size()) return false;
  for (size_t i = 1; i < parameters.size(); ++i) named_[parameters[i].name()] = newValue(graph->inputs()[i]->type());
  const auto tuple = graph->outputs()[0]->type()->cast<c10::TupleType>();
  const auto& attributes = code_.attributes();
  if (!tuple || tuple->elements().size() != attributes.size() + 2) return false;
  for (size_t i = 0; i < attributes.size(); ++i) named_[attributes[i]] = newValue(tuple->elements()[i + 2]);
  const jit::Node* returned = graph->outputs()[0]->node();
  if (returned->inputs().size() != attributes.size() + 2) return false;
  marker_ = returned->input(1)->node();
  stubSource_ = marker_->sourceRange().source();
  if (!stubSource_) return false;
  source_ = std::make_shared<jit::Source>(code_.code(), stubSource_->filename(), stubSource_->starting_line_no());
  return true;
}

bool StraightLineProgram::add(uint32_t number) {
  const StraightLineCode::Statement s = code_.statement(number);
  const auto firstUse = static_cast<uint32_t>(uses_.size());
  std::string expression;
  std::vector<uint32_t> tokens;
  size_t end = s.tokens[0].start;
  for (const StraightLineCode::Token& t : s.tokens) {
    expression.append(t.start - end, ' ');
    end = t.start + t.text.size();
    tokens.push_back(static_cast<uint32_t>(expression.size()));
    if (t.kind == StraightLineCode::Token::Kind::Other) {
      expression += t.text;
      continue;
    }
    const auto value = named_.find(t.text);
    if (value == named_.end()) return false;
    const auto known = std::find(uses_.begin() + firstUse, uses_.end(), value->second);
    expression += 'v';
    expression += std::to_string(known - uses_.begin() - firstUse);
    if (known == uses_.end()) uses_.push_back(value->second);
  }
  const std::span<const uint32_t> uses{uses_.data() + firstUse, uses_.size() - firstUse};
  std::string key = expression;
  for (uint32_t u : uses) key += ' ' + std::to_string(types_[u]);
  key += '=' + std::to_string(s.results.size());
  const auto [it, isNew] = known_.try_emplace(std::move(key), static_cast<uint32_t>(kinds_.size()));
  if (isNew && (kinds_.size() > 100 + code_.size() / 4 || !addKind(expression, s, std::move(tokens), uses)))
    return false;
  steps_.push_back({number, it->second, firstUse, static_cast<uint32_t>(uses.size()),
                    static_cast<uint32_t>(types_.size()), static_cast<uint32_t>(s.results.size())});
  for (size_t i = 0; i < s.results.size(); ++i) named_[s.results[i]] = newValue(resultTypes_[it->second][i]);
  return true;
}

bool StraightLineProgram::addKind(const std::string& expression, const StraightLineCode::Statement& s,
                                  std::vector<uint32_t> tokens, std::span<const uint32_t> uses) {
  std::string text = "def f(";
  for (size_t i = 0; i < uses.size(); ++i)
    text += fmt::format("{}v{}: {}", i ? ", " : "", i, typeTexts_[types_[uses[i]]]);
  text += "):\n  ";
  std::string results;
  for (size_t i = 0; i < s.results.size(); ++i) results += fmt::format("{}r{}", i ? ", " : "", i);
  text += s.results.empty() ? "return " : results + " = ";
  for (uint32_t& t : tokens) t += static_cast<uint32_t>(text.size());
  text += expression + "\n";
  if (!s.results.empty()) text += s.results.size() > 1 ? "  return (" + results + ")\n" : "  return r0\n";

  Kind kind;
  kind.source = std::make_shared<jit::Source>(text);
  kind.tokens = std::move(tokens);
  jit::CompilationUnit unit;
  const auto made = unit.define(std::nullopt, {}, {}, {jit::Def(jit::Parser(kind.source).parseFunction(false))},
                                {std::make_shared<OperatorNames>(version_)}, nullptr, false, version_);
  kind.graph = jit::toGraphFunction(*made.at(0)).graph();
  if (!isPure(*kind.graph->block()) || kind.graph->outputs().size() != 1) return false;
  std::vector<c10::TypePtr> types;
  const c10::TypePtr type = kind.graph->outputs()[0]->type();
  if (s.results.size() == 1) types.push_back(type);
  if (s.results.size() > 1) {
    const auto tuple = type->cast<c10::TupleType>();
    if (!tuple || tuple->elements().size() != s.results.size()) return false;
    types.assign(tuple->elements().begin(), tuple->elements().end());
  }
  kinds_.push_back(std::move(kind));
  resultTypes_.push_back(std::move(types));
  return true;
}

// False where only some results of a statement are needed: LibTorch would unpack only those.
bool StraightLineProgram::dropUnused() {
  std::vector<bool> needed(types_.size(), false), live(steps_.size(), false);
  for (size_t i = steps_.size(); i-- > 0;) {
    const Step& s = steps_[i];
    live[i] = s.resultCount == 0;
    uint32_t wanted = 0;
    for (uint32_t r = 0; r < s.resultCount; ++r) wanted += needed[s.result + r];
    live[i] = live[i] || wanted > 0;
    if (!live[i]) continue;
    if (wanted < s.resultCount) return false;
    for (uint32_t u : uses(s)) needed[u] = true;
  }
  size_t i = 0;
  std::erase_if(steps_, [&](const Step&) { return !live[i++]; });
  return true;
}

jit::SourceRange StraightLineProgram::placeOf(const Step& step, const jit::SourceRange& range) const {
  const Kind& of = kinds_[step.kind];
  if (range.source() != of.source) return range;  // of a function that LibTorch wrote
  const StraightLineCode::Statement s = code_.statement(step.statement);
  const auto after = std::upper_bound(of.tokens.begin(), of.tokens.end(), range.start());
  size_t at = s.tokens[0].start;
  if (after != of.tokens.begin()) {
    const auto token = static_cast<size_t>(after - of.tokens.begin() - 1);
    const size_t within = range.start() - of.tokens[token];
    at = s.tokens[token].start + std::min(within, s.tokens[token].text.size() - 1);
  }
  // Only the source that LibTorch loaded knows which line of the user's Python each place came from.
  const jit::SourceRange place(source_, at, at + 1);
  return stubSource_->findSourceRangeThatGenerated(place).value_or(place);
}

}  // namespace graft
