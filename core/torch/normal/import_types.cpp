#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/ir/size_expression.h"
#include "core/torch/normal/imported_graph.h"
#include "core/torch/normal/normal_steps.h"
#include "core/torch/types/meta_inference.h"

namespace graft {
namespace {

using Scale = SizeNames::Scale;

// `have` with what `found` knows where it says nothing.
Type completed(Type have, const Type& found) {
  if (have.kind == Type::Kind::Any) return found.kind == Type::Kind::None ? have : found;
  if (have.kind != found.kind) return have;
  if (have.isTensor()) {
    TensorInfo& info = have.tensorInfo;
    const TensorInfo& more = found.tensorInfo;
    if (!info.dtype) info.dtype = more.dtype;
    if (info.device.empty()) info.device = more.device;
    if (!info.shape) {
      info.shape = more.shape;
    } else if (more.shape && more.shape->size() == info.shape->size()) {
      for (size_t i = 0; i < info.shape->size(); ++i)
        if (!(*info.shape)[i].isKnown()) (*info.shape)[i] = (*more.shape)[i];
    }
    return have;
  }
  if (have.elements.size() == found.elements.size())
    for (size_t i = 0; i < have.elements.size(); ++i) have.elements[i] = completed(have.elements[i], found.elements[i]);
  return have;
}

// dtype and rank, which one run shows; its sizes were those of that run alone.
Type withoutSizes(Type t) {
  if (t.tensorInfo.shape) t.tensorInfo.shape->assign(t.tensorInfo.shape->size(), Dim());
  for (Type& e : t.elements) e = withoutSizes(std::move(e));
  return t;
}

// view(x, [2, 12, 64]): whatever x is, the result is that, or there is none.
std::optional<std::vector<Dim>> literalShape(const Node& n) {
  if (!n.op->is(OperatorFact::Reshape) || n.op->facts->shape != ShapeRule::Listed || n.args.size() < 2)
    return std::nullopt;
  const std::vector<Argument>* sizes = n.args[1].items();
  if (!sizes) return std::nullopt;
  std::vector<Dim> out;
  for (const Argument& a : *sizes) {
    const auto* i = a.as<int64_t>();
    if (!i || *i < 0) return std::nullopt;
    out.emplace_back(*i);
  }
  return out;
}

// What follows from the node alone where its arguments' sizes are not known.
void addKnown(const Graph& g, const Node& n, Type& t) {
  if (!t.isTensor() || t.tensorInfo.shape) return;
  t.tensorInfo.shape = literalShape(n);
  if (n.op->name != "prim.NumToTensor.Scalar" || n.args.empty() || !n.args[0].isValue()) return;
  const Type::Kind kind = g.value(n.args[0].valueId()).type.kind;
  if (kind != Type::Kind::Int && kind != Type::Kind::Float) return;
  t.tensorInfo.dtype = kind == Type::Kind::Int ? DType::Int64 : DType::Float64;
  t.tensorInfo.shape.emplace();
}

/// What the sizes of the inputs are taken for: a symbol for each dimension, fewer of them as operators ask for it.
class InputSizes {
 public:
  explicit InputSizes(const std::vector<Type>& examples) : examples_(&examples) {
    for (const Type& t : examples)
      if (t.isTensor() && t.tensorInfo.shape)
        for (const Dim& d : *t.tensorInfo.shape) dims_.push_back({d.size, fmt::format("s{}", dims_.size())});
  }

  bool operator==(const InputSizes&) const = default;

  std::vector<Type> types() const {
    std::vector<Type> out = *examples_;
    size_t at = 0;
    for (Type& t : out)
      if (t.isTensor() && t.tensorInfo.shape)
        for (Dim& d : *t.tensorInfo.shape) {
          const Size& s = dims_[at++];
          d = s.symbol.empty() ? Dim(s.example) : Dim(s.symbol);
        }
    return out;
  }

  /// Symbols of equal examples become one; those of 1 too, where `ones` says so: many sizes are 1 that have nothing to
  /// do with each other.
  bool merge(const std::set<std::string>& symbols, bool ones) {
    std::map<int64_t, std::string> first;
    bool changed = false;
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (!symbols.contains(dims_[i].symbol) || dims_[i].example < (ones ? 1 : 2)) continue;
      const std::string to = first.emplace(dims_[i].example, dims_[i].symbol).first->second;
      if (to == dims_[i].symbol) continue;
      const std::string from = dims_[i].symbol;
      for (Size& s : dims_)
        if (s.symbol == from) s.symbol = to;
      changed = true;
    }
    return changed;
  }
  /// Each symbol stands for any size from 2 up, as in torch.export; from 1 where the recorded size was 1.
  void declare(Graph& g) const {
    for (const Size& s : dims_)
      if (!s.symbol.empty() && s.example > 0) {
        const Symbol* known = g.findSymbol(s.symbol);
        const int64_t least = std::min<int64_t>(s.example, 2);
        g.setSymbol({s.symbol, known && known->min ? std::min(*known->min, least) : least, std::nullopt});
      }
  }
  void fix(const std::set<std::string>& symbols) {
    for (Size& s : dims_)
      if (symbols.contains(s.symbol)) s.symbol.clear();
  }
  /// The example's own sizes.
  void fixAll() {
    for (Size& s : dims_) s.symbol.clear();
  }
  size_t fixed() const {
    return static_cast<size_t>(
        std::count_if(dims_.begin(), dims_.end(), [](const Size& s) { return s.symbol.empty(); }));
  }
  /// Each symbol as the number that stands for it.
  template <class Number>
  InputSizes at(const Number& number) const {
    InputSizes out = *this;
    for (Size& s : out.dims_)
      if (!s.symbol.empty()) s = {number(s.symbol), ""};
    return out;
  }
  /// What each symbol was in the example.
  std::map<std::string, int64_t, std::less<>> examples() const {
    std::map<std::string, int64_t, std::less<>> out;
    for (const Size& s : dims_)
      if (!s.symbol.empty()) out.emplace(s.symbol, s.example);
    return out;
  }
  /// Whether some size was more than the numbers that SizeNames has tables of.
  bool anyLarge() const {
    return std::any_of(dims_.begin(), dims_.end(), [](const Size& s) { return s.example > 200; });
  }
  /// Whether a size of whole numbers or truth values (tokens, masks) became a number. Those of floats often are: a
  /// linear layer takes one number of features only.
  bool lengthFixed() const {
    size_t at = 0;
    bool found = false;
    for (const Type& t : *examples_)
      if (t.isTensor() && t.tensorInfo.shape)
        for (size_t i = 0; i < t.tensorInfo.shape->size(); ++i)
          found = (dims_[at++].symbol.empty() && t.tensorInfo.dtype && !isFloatingPoint(*t.tensorInfo.dtype)) || found;
    return found;
  }

 private:
  struct Size {
    int64_t example;
    std::string symbol;  ///< empty: it is the example's
    bool operator==(const Size&) const = default;
  };
  const std::vector<Type>* examples_;
  std::vector<Size> dims_;
};

void collectSymbols(const Type& t, std::set<std::string>& out) {
  if (t.tensorInfo.shape)
    for (const Dim& d : *t.tensorInfo.shape)
      if (const auto e = SizeExpression::parse(d.symbol))
        for (const SizeExpression::Step& s : e->steps())
          if (s.kind == SizeExpression::Kind::Symbol) out.insert(s.symbol);
  for (const Type& e : t.elements) collectSymbols(e, out);
}

/// The types of all outputs, by node; stops at the first node that refuses its arguments.
struct Pass {
  std::vector<std::vector<Type>> types;
  NodeId refused;
  std::set<std::string> symbols;  ///< of the inputs, which have a part in that node's arguments
  size_t done = 0;
};

/// Which of the inputs' symbols have a part in a value's sizes.
class Influence {
 public:
  explicit Influence(const Graph& g) : g_(g) {
    for (ValueId v : g.inputs()) {
      std::set<std::string> own;
      collectSymbols(g.value(v).type, own);
      for (const std::string& s : own) from_[s] = {s};
      of_[v.index] = std::move(own);
    }
  }

  std::set<std::string> onArguments(NodeId n) const {
    std::set<std::string> out;
    for (const Argument& a : g_.node(n).args)
      a.forEachValue([&](ValueId v) {
        if (const auto it = of_.find(v.index); it != of_.end()) out.insert(it->second.begin(), it->second.end());
      });
    return out;
  }

  /// The node's outputs have their types.
  void add(NodeId n) {
    const std::set<std::string> all = onArguments(n);
    if (all.empty()) return;
    for (ValueId v : g_.node(n).outputs) {
      const Type& t = g_.value(v).type;
      const bool sized =
          t.isTensor() && t.tensorInfo.shape &&
          std::all_of(t.tensorInfo.shape->begin(), t.tensorInfo.shape->end(), [](const Dim& d) { return d.isKnown(); });
      if (!sized) {
        of_[v.index] = all;
        continue;
      }
      std::set<std::string> named, symbols;
      collectSymbols(t, named);
      for (const std::string& s : named) {
        const auto& from =
            from_.try_emplace(s, all).first->second;  // a name that inference gave stands for what made it
        symbols.insert(from.begin(), from.end());
      }
      of_[v.index] = std::move(symbols);
    }
  }

 private:
  const Graph& g_;
  std::map<std::string, std::set<std::string>> from_;  // symbol -> symbols of the inputs
  std::unordered_map<uint32_t, std::set<std::string>> of_;
};

Pass runPass(const Graph& g, const std::vector<NodeId>& order, const InputSizes& sizes, bool goOn, Scale scale) {
  Pass out;
  Graph typed = g;
  const std::vector<Type> inputs = sizes.types();
  for (size_t i = 0; i < inputs.size(); ++i) typed.setType(g.inputs()[i], inputs[i]);
  MetaInference meta(typed);
  meta.use(scale, sizes.examples());
  meta.nameUnknownSizes();
  meta.rememberCalls();
  out.types.reserve(order.size());
  for (NodeId id : order) {
    auto types = meta.run(id);
    const bool refused = !types || meta.refused();
    if (refused && !goOn) {
      Influence influence(typed);
      for (size_t i = 0; i < out.done; ++i) influence.add(order[i]);
      out.refused = id;
      out.symbols = influence.onArguments(id);
      return out;
    }
    std::vector<Type> found;
    for (size_t i = 0; types && i < types->size(); ++i) {
      const ValueId v = g.node(id).outputs[i];
      Type t = completed(g.value(v).type, (*types)[i]);
      addKnown(g, g.node(id), t);
      typed.setType(v, t);
      found.push_back(std::move(t));
    }
    out.types.push_back(std::move(found));
    ++out.done;
  }
  return out;
}

/// What the inputs' sizes may be taken for, and the types of all values then.
struct Found {
  InputSizes sizes;
  Pass pass;
  Scale scale;
  bool tooSmall;  ///< a convolution or a pool refused what stood for some size
};

using Numbers = std::map<std::string, int64_t, std::less<>>;  ///< what each symbol is

std::optional<int64_t> sizeAt(const Dim& d, const Numbers& numbers) {
  if (d.isStatic()) return d.size;
  const auto e = SizeExpression::parse(d.symbol);
  return e ? e->evaluate([&](std::string_view symbol) -> std::optional<int64_t> {
    const auto it = numbers.find(symbol);
    return it == numbers.end() ? std::nullopt : std::optional(it->second);
  })
           : std::nullopt;
}

/// Numbers that stand for symbols say which expression a size is as long as each of them tells it. The example's own
/// sizes know better: calls `wrong` for each size that an expression, or a number, gives another value there.
template <class Wrong>
void compareWithExample(std::vector<Type>& types, const std::vector<Type>& once, const Numbers& examples,
                        const Wrong& wrong) {
  for (size_t i = 0; i < std::min(types.size(), once.size()); ++i) {
    auto& shape = types[i].tensorInfo.shape;
    const auto& seen = once[i].tensorInfo.shape;
    if (!shape || !seen) continue;
    if (shape->size() != seen->size()) {
      wrong(types[i], nullptr);
      continue;
    }
    for (size_t d = 0; d < shape->size(); ++d)
      if (const auto n = sizeAt((*shape)[d], examples); n && (*seen)[d].isStatic() && *n != (*seen)[d].size)
        wrong(types[i], &(*shape)[d]);
  }
}

/// The largest number at which a slice, or a minimum or maximum of numbers, may cut a size off that is a symbol;
/// nothing where there is no such node.
std::optional<int64_t> largestCut(const Graph& g, const std::vector<NodeId>& order, const Pass& pass) {
  constexpr int64_t everything = INT32_MAX;
  std::unordered_map<uint32_t, const Type*> typeOf;
  for (size_t n = 0; n < pass.types.size(); ++n)
    for (size_t i = 0; i < pass.types[n].size(); ++i) typeOf[g.node(order[n]).outputs[i].index] = &pass.types[n][i];
  std::optional<int64_t> most;
  const auto note = [&](const Argument* a) {
    const auto* number = a ? a->as<int64_t>() : nullptr;
    if (number && *number > -everything && *number < everything && std::abs(*number) > 1)
      most = std::max(most.value_or(0), std::abs(*number));
  };
  for (NodeId id : order) {
    const Node& n = g.node(id);
    if (n.op->name == "prim.min.int" || n.op->name == "prim.max.int" || n.op->name == "prim.min.self_int" ||
        n.op->name == "prim.max.self_int") {
      for (const Argument& a : n.args) note(&a);
      continue;
    }
    if (n.op->name != "aten.slice.Tensor" || n.args.empty() || !n.args[0].isValue()) continue;
    const ValueId from = n.args[0].valueId();
    const auto made = typeOf.find(from.index);
    const auto& shape = (made == typeOf.end() ? g.value(from).type : *made->second).tensorInfo.shape;
    const Argument* dim = n.findArgument("dim");
    const auto* at = dim ? dim->as<int64_t>() : nullptr;
    if (shape && at && made != typeOf.end()) {
      const auto d = static_cast<size_t>(*at < 0 ? *at + static_cast<int64_t>(shape->size()) : *at);
      if (d < shape->size() && (*shape)[d].isStatic()) continue;
    }
    note(n.findArgument("start")), note(n.findArgument("end"));
  }
  return most;
}

/// Calls `wrong` for each size that is another one where the symbols are these numbers. Returns whether the model takes
/// them. Sizes at which some node refuses its arguments, or a tensor would have another rank or no elements, are none
/// that it takes: a convolution of the meta device does not refuse an image smaller than its window.
template <class Wrong>
bool compareAt(const Numbers& numbers, const Graph& g, const std::vector<NodeId>& order, Found& found,
               const Wrong& wrong) {
  const auto number = [&](const std::string& symbol) { return numbers.at(symbol); };
  const Pass seen = runPass(g, order, found.sizes.at(number), false, Scale::Large);
  if (seen.refused) return false;
  bool takesThem = true;
  const auto compareAll = [&](const auto& differs) {
    for (size_t n = 0; n < found.pass.types.size(); ++n)
      compareWithExample(found.pass.types[n], seen.types[n], numbers, differs);
  };
  compareAll([&](Type&, Dim* d) { takesThem = takesThem && d && sizeAt(*d, numbers).value_or(0) > 0; });
  if (takesThem) compareAll(wrong);
  return takesThem;
}

/// A size that a slice cuts off at a number is that number, or less where there is less; which of both the numbers that
/// stand for symbols do not tell where all of them lie on one side. Calls `wrong` for each size that is another one on
/// the other side.
template <class Wrong>
void compareBeyondCuts(const Graph& g, const std::vector<NodeId>& order, Found& found, const Wrong& wrong) {
  const std::optional<int64_t> cut = largestCut(g, order, found.pass);
  if (!cut) return;
  const auto examples = found.sizes.examples();
  for (const int64_t few : {1, 2, 3, 5, 8, 13}) {
    Numbers numbers = examples;
    for (auto& [symbol, number] : numbers) number = std::min(few, number);
    if (few > *cut || compareAt(numbers, g, order, found, wrong)) break;
  }
  constexpr int64_t largestLength = 1 << 16;
  if (*cut > largestLength) return;
  Numbers numbers = examples;
  for (auto& [symbol, number] : numbers)
    if (number > 1) number = std::max(number, *cut + 7);
  compareAt(numbers, g, order, found, wrong);
}

/// A diagonal is as long as the smaller one of two sizes. Which one that is, the numbers that stand for symbols do not
/// tell: they grow from one symbol to the next. Calls `wrong` for each size that is another one where they fall.
template <class Wrong>
void compareFalling(const Graph& g, const std::vector<NodeId>& order, Found& found, const Wrong& wrong) {
  static const std::set<std::string_view> ofTheSmaller{"aten.diagonal.default",
                                                       "aten.diag.default",
                                                       "aten.svd.default",
                                                       "aten.linalg_svd.default",
                                                       "aten.linalg_svdvals.default",
                                                       "aten._linalg_svd.default",
                                                       "aten.qr.default",
                                                       "aten.linalg_qr.default",
                                                       "aten.geqrf.default",
                                                       "aten.linalg_lu.default",
                                                       "aten.linalg_lu_factor.default",
                                                       "prim.min.int",
                                                       "prim.max.int"};
  const bool any = std::any_of(order.begin(), order.end(),
                               [&](NodeId id) { return ofTheSmaller.contains(std::string_view(g.node(id).op->name)); });
  if (!any) return;
  Numbers numbers = found.sizes.examples();
  std::vector<std::pair<size_t, std::string>> inOrder;  // s2 before s10
  int64_t most = 1;
  for (const auto& [symbol, example] : numbers) {
    inOrder.emplace_back(symbol.size(), symbol);
    most = std::max(most, example);
  }
  std::sort(inOrder.begin(), inOrder.end());
  for (size_t i = 0; i < inOrder.size(); ++i)
    if (int64_t& number = numbers.at(inOrder[i].second); number > 1)
      number = most + static_cast<int64_t>(inOrder.size() - i);
  compareAt(numbers, g, order, found, wrong);
}

/// The symbols of each example's size, and before these the pairs of them where they are few.
std::vector<std::set<std::string>> alikeIn(const InputSizes& sizes, const std::set<std::string>& symbols) {
  constexpr size_t mostInPairs = 4;
  std::map<int64_t, std::vector<std::string>> byExample;
  for (const auto& [symbol, example] : sizes.examples())
    if (symbols.contains(symbol)) byExample[example].push_back(symbol);
  std::vector<std::set<std::string>> out;
  for (const auto& [example, all] : byExample)
    if (all.size() > 2 && all.size() <= mostInPairs)
      for (size_t i = 0; i < all.size(); ++i)
        for (size_t j = i + 1; j < all.size(); ++j) out.push_back({all[i], all[j]});
  for (const auto& [example, all] : byExample)
    if (all.size() > 1) out.emplace_back(all.begin(), all.end());
  return out;
}

Found openSizes(const Graph& g, const std::vector<NodeId>& order, const std::vector<Type>& examples, Scale scale) {
  constexpr int mostTrials = 40;
  InputSizes sizes(examples);
  Pass best = runPass(g, order, sizes, false, scale);
  bool tooSmall = false;
  std::vector<InputSizes> tried;  // what was no better once is not later: the best only gets better
  for (int trial = 0; best.refused && trial < mostTrials;) {
    const std::set<std::string> symbols = best.symbols;
    const Operator& op = *g.node(best.refused).op;
    tooSmall = tooSmall || op.facts->family == OperatorFamily::Convolution ||
               op.baseName().find("pool") != std::string_view::npos;
    if (symbols.empty()) break;
    bool better = false;
    enum class How : uint8_t { Merge, MergeOnes, Fix };
    const auto attempt = [&](const std::set<std::string>& which, How how) {
      InputSizes other = sizes;
      if (how != How::Fix && !other.merge(which, how == How::MergeOnes)) return;
      if (how == How::Fix) other.fix(which);
      if (std::ranges::find(tried, other) != tried.end()) return;
      tried.push_back(other);
      ++trial;
      Pass pass = runPass(g, order, other, false, scale);
      if (pass.refused && pass.done <= best.done) return;
      sizes = std::move(other);
      best = std::move(pass);
      better = true;
    };
    // Two batches must be one size. Two lengths that the example happens to have alike must not: as few symbols as it
    // takes become one.
    const std::vector<std::set<std::string>> alike = alikeIn(sizes, symbols);
    for (const How how : {How::Merge, How::MergeOnes}) {  // ones: the batches of an encoder and of a decoder
      for (auto group = alike.begin(); group != alike.end() && !better; ++group) attempt(*group, how);
      if (!better) attempt(symbols, how);
    }
    for (auto s = symbols.begin(); s != symbols.end() && !better; ++s) attempt({*s}, How::Fix);
    if (better) continue;
    const InputSizes before = sizes;
    attempt(symbols, How::Fix);
    if (!better) break;
    // All of them at once was too many, maybe: what need not be a number stays a symbol, alone or with those like it.
    std::set<std::string> fixed = symbols;
    InputSizes open = before;
    const auto loosen = [&](InputSizes from, const std::set<std::string>& kept) {
      std::set<std::string> fewer;
      std::ranges::set_difference(fixed, kept, std::inserter(fewer, fewer.end()));
      InputSizes other = from;
      other.fix(fewer);
      ++trial;
      Pass pass = runPass(g, order, other, false, scale);
      if (pass.refused && pass.done < best.done) return;
      fixed = std::move(fewer);
      open = std::move(from);
      sizes = std::move(other);
      best = std::move(pass);
    };
    for (const std::set<std::string>& group : alikeIn(before, symbols)) {
      InputSizes merged = open;
      if (merged.merge(group, false)) loosen(std::move(merged), group);
    }
    for (const std::string& s : symbols)
      if (fixed.contains(s)) loosen(open, {s});
  }
  return {std::move(sizes), std::move(best), scale, tooSmall};
}

}  // namespace

void inferMissingTypes(Graph& g) {
  MetaInference meta(g);
  meta.nameUnknownSizes();
  meta.rememberCalls();
  for (NodeId id : g.order()) {
    const auto types = meta.run(id);
    if (!types) continue;
    for (size_t i = 0; i < types->size(); ++i) {
      const ValueId v = g.node(id).outputs[i];
      Type t = completed(g.value(v).type, (*types)[i]);
      addKnown(g, g.node(id), t);
      g.setType(v, std::move(t));
    }
  }
}

void inferFromExamples(Graph& g, const std::vector<Type>& examples) {
  const std::vector<NodeId> order = g.order();
  InputSizes asRecorded(examples);
  asRecorded.fixAll();
  const Pass once = runPass(g, order, asRecorded, true, Scale::Large);
  const auto mistakes = [&](Found& f, const auto& wrong) {
    for (size_t n = 0; n < f.pass.types.size(); ++n)
      compareWithExample(f.pass.types[n], once.types[n], f.sizes.examples(), wrong);
  };
  const auto countMistakes = [&](Found& f) {
    size_t count = 0;
    mistakes(f, [&](Type&, Dim*) { ++count; });
    return count;
  };
  Found found = openSizes(g, order, examples, Scale::Large);
  for (Scale smaller : {Scale::Below77, Scale::Below14}) {
    if (!found.sizes.lengthFixed()) break;
    Found other = openSizes(g, order, examples, smaller);
    if (other.sizes.lengthFixed() || other.pass.refused) continue;
    found = std::move(other);
  }
  if (found.sizes.anyLarge() && (found.tooSmall || countMistakes(found) > 0)) {
    Found other = openSizes(g, order, examples, Scale::Above);
    if (std::tuple(bool(other.pass.refused), other.sizes.fixed(), countMistakes(other)) <
        std::tuple(bool(found.pass.refused), found.sizes.fixed(), countMistakes(found)))
      found = std::move(other);
  }
  InputSizes& sizes = found.sizes;
  Pass& best = found.pass;
  if (best.refused) best = runPass(g, order, sizes, true, found.scale);
  const auto forget = [](Type& t, Dim* d) {
    if (d)
      *d = Dim();
    else
      t.tensorInfo.shape.reset();
  };
  mistakes(found, forget);
  compareBeyondCuts(g, order, found, forget);
  compareFalling(g, order, found, forget);
  sizes.declare(g);
  const std::vector<Type> inputs = sizes.types();
  for (size_t i = 0; i < inputs.size(); ++i) g.setType(g.inputs()[i], inputs[i]);
  for (size_t n = 0; n < order.size(); ++n)
    for (size_t i = 0; i < best.types[n].size(); ++i) {
      const bool isSeen = n < once.types.size() && i < once.types[n].size();
      Type& t = best.types[n][i];
      g.setType(g.node(order[n]).outputs[i], isSeen ? completed(t, withoutSizes(once.types[n][i])) : t);
    }
  if (changesShapesInPlace(g)) return;
  settleSizes(g, sizes.fixed() == 0);
  settleNumbers(g);  // of sizes that have become numbers
}

}  // namespace graft
