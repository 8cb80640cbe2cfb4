#include "core/ir/used_symbols.h"

#include <cctype>
#include <string_view>
#include <unordered_set>

namespace graft {
namespace {

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g) {}

  void take(const Type& t) {
    if (t.tensorInfo.shape)
      for (const Dim& d : *t.tensorInfo.shape) take(d.symbol);
    for (const Type& e : t.elements) take(e);
  }

  void take(const Argument& a) {
    if (const auto* s = a.as<SymbolicInt>()) take(s->expression);
    if (const auto* items = a.items())
      for (const Argument& i : *items) take(i);
    if (const auto* dict = a.as<Argument::Dict>())
      for (const auto& [key, value] : dict->items) take(value);
    if (const auto* slice = a.as<Argument::Slice>())
      for (const Argument& i : slice->bounds) take(i);
  }

  std::vector<Symbol> found() const {
    std::vector<Symbol> out;
    for (const Symbol& s : g_.symbols())
      if (names_.contains(s.name)) out.push_back(s);
    return out;
  }

 private:
  /// Every word of an expression: names of functions among them harm nothing.
  void take(const std::string& expression) {
    if (expression.empty() || !seen_.insert(expression).second) return;
    const auto inWord = [&](size_t i) {
      return i < expression.size() && (std::isalnum(static_cast<unsigned char>(expression[i])) || expression[i] == '_');
    };
    for (size_t from = 0; from < expression.size();) {
      size_t to = from;
      while (inWord(to)) ++to;
      if (to > from) names_.insert(expression.substr(from, to - from));
      from = to + 1;
    }
  }

  const Graph& g_;
  std::unordered_set<std::string_view> seen_;
  std::unordered_set<std::string> names_;
};

}  // namespace

std::vector<Symbol> usedSymbols(const Graph& g) {
  if (g.symbols().empty()) return {};
  Finder finder(g);
  for (size_t i = 0; i < g.valueBound(); ++i)
    if (const Value& v = g.value(ValueId(static_cast<uint32_t>(i))); v.alive) finder.take(v.type);
  const auto block = [&](const auto& self, BlockId b) -> void {
    for (NodeId id = g.block(b).first; id; id = g.node(id).next) {
      const Node& n = g.node(id);
      for (const Argument& a : n.args) finder.take(a);
      for (const auto& [key, a] : n.kwargs) finder.take(a);
      for (BlockId inner : n.blocks) self(self, inner);
    }
    for (const Argument& a : g.block(b).returns) finder.take(a);
  };
  block(block, g.root());
  return finder.found();
}

}  // namespace graft
