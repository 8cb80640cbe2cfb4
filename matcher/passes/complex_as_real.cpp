// complex_as_real: arithmetic of complex numbers whose parts are all that the model reads, as rotary embeddings by
// view_as_complex are written, becomes arithmetic of real and imaginary parts. Generated kernels compute with real
// numbers alone, and rules for rotary embeddings know that form.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

bool isComplex(const Graph& g, const Argument& a) {
  const auto d = dtypeOf(g, a);
  return d == DType::Complex64 || d == DType::Complex128;
}
/// A number, or a tensor of real numbers.
bool isReal(const Graph& g, const Argument& a) {
  if (!a.isValue()) return a.number().has_value();
  const Type& t = g.value(a.valueId()).type;
  if (!t.isTensor()) return t.kind == Type::Kind::Int || t.kind == Type::Kind::Float;
  // Beside a half, parts without dimensions would become halves.
  const auto d = t.tensorInfo.dtype;
  return d && d != DType::Complex32 && d != DType::Float16 && d != DType::BFloat16 && !isComplex(g, a);
}

/// Whether an angle is made of the value, or of a view of it. It depends on the signs of zeros, which PyTorch's complex
/// arithmetic has otherwise: of z * 2 it makes z * (2 + 0i).
bool givesAngle(const Graph& g, ValueId part, int depth = 0) {
  constexpr int mostDepth = 8;
  if (depth > mostDepth) return true;
  return std::ranges::any_of(g.value(part).users, [&](NodeId id) {
    const Node& n = g.node(id);
    if (n.op->baseName() == "atan2" || n.op->baseName() == "signbit" || n.op->baseName() == "copysign") return true;
    if (!n.op->is(OperatorFact::MovesOnly) && !n.op->is(OperatorFact::Splits)) return false;
    return std::ranges::any_of(n.outputs, [&](ValueId v) { return givesAngle(g, v, depth + 1); });
  });
}

/// What a node reads of a complex tensor.
enum class Reads { Nothing, Pair, Real, Imaginary, Absolute };
Reads readsOf(const Graph& g, const Node& n) {
  if (n.outputs.size() != 1 || n.args.empty() || !isComplex(g, n.args[0])) return Reads::Nothing;
  static const std::map<std::string_view, Reads> all{{"aten.view_as_real.default", Reads::Pair},
                                                     {"aten.real.default", Reads::Real},
                                                     {"aten.imag.default", Reads::Imaginary},
                                                     {"aten.abs.default", Reads::Absolute}};
  const auto found = all.find(n.op->name);
  return found == all.end() || givesAngle(g, n.outputs[0]) ? Reads::Nothing : found->second;
}

/// What makes complex numbers of others, part by part. Alike: of both parts alike, by the same operator.
enum class Makes { Nothing, Alike, Conjugate, Negative, Sum, Product, Quotient };
Makes makesOf(const Graph& g, const Node& n) {
  if (n.outputs.size() != 1 || n.args.empty() || !n.blocks.empty() || !isComplex(g, Argument(n.outputs[0])))
    return Makes::Nothing;
  const std::string_view op = n.op->baseName();
  const auto is = [&](size_t i, bool complex) {
    return i < n.args.size() && (complex ? isComplex(g, n.args[i]) : isReal(g, n.args[i]));
  };
  if (op == "mul") {
    const bool isProduct = (is(0, true) && (is(1, true) || is(1, false))) || (is(0, false) && is(1, true));
    return isProduct ? Makes::Product : Makes::Nothing;
  }
  if (!is(0, true)) return Makes::Nothing;
  if (op == "add" || op == "sub")
    return is(1, true) && (n.args.size() < 3 || is(2, false)) ? Makes::Sum : Makes::Nothing;
  if (n.op->name == "aten.div.Tensor") return is(1, false) ? Makes::Quotient : Makes::Nothing;
  if (op == "neg") return Makes::Negative;
  if (op == "_conj" || op == "conj" || op == "conj_physical") return Makes::Conjugate;
  const bool isSum = op == "sum" || op == "mean" || op == "cumsum";
  if ((!isSum && !n.op->is(OperatorFact::MovesOnly)) || n.op->name.ends_with(".dtype")) return Makes::Nothing;
  if (isSum && std::ranges::any_of(n.args, [](const Argument& a) { return a.as<DType>() != nullptr; }))
    return Makes::Nothing;
  for (size_t i = 1; i < n.args.size(); ++i)
    if (isComplex(g, n.args[i])) return Makes::Nothing;
  return Makes::Alike;
}

struct ComplexPair {
  Argument real, imaginary;
};

/// Takes complex values of one graph apart.
class ComplexParts {
 public:
  explicit ComplexParts(GraphEditor& editor) : editor_(editor), g_(editor.graph()) {
    const GraphIndex index(g_);
    for (const NodeId id : index.order)
      for (const ValueId v : g_.node(id).outputs)
        if (isComplex(g_, Argument(v))) isWritten_[v.index] = index.isWritten(index.memoryOf(v));
    for (const NodeId id : index.order)
      if (const Node& n = g_.node(id); readsOf(g_, n) != Reads::Nothing && !isWritten_[n.args[0].valueId().index])
        if (hasArithmetic(n.args[0].valueId())) readers_.push_back(id);
  }

  Status run() {
    for (const NodeId id : readers_) {
      editor_.begin(id);
      made_.clear();
      const Argument by = replacementOf(id);
      if (!error_) {
        const ValueId read = g_.node(id).args[0].valueId();
        editor_.replaceValue(g_.node(id).outputs[0], by.valueId());
        editor_.erase(id);
        eraseUnused(read);
        editor_.commit();
        continue;
      }
      editor_.cancel();
      editor_.noteRefused(error_->message);
      error_.reset();
      for (const uint32_t v : made_) parts_.erase(v);
    }
    return done();
  }

 private:
  GraphEditor& editor_;
  const Graph& g_;
  std::vector<NodeId> readers_;
  std::unordered_map<uint32_t, bool> isWritten_, isReadInParts_;  // by value
  std::unordered_map<uint32_t, ComplexPair> parts_;               // by value
  std::vector<uint32_t> made_;                                    // of parts_, those of the open edit
  std::optional<Error> error_;

  /// Whether nobody wants the complex numbers themselves.
  bool isReadInParts(ValueId v) {
    const auto [known, isNew] = isReadInParts_.try_emplace(v.index, false);
    if (!isNew) return known->second;
    const Value& value = g_.value(v);
    bool all = value.returnUses == 0 && !isWritten_[v.index];
    for (size_t i = 0; all && i < value.users.size(); ++i) {
      const Node& n = g_.node(value.users[i]);
      all = readsOf(g_, n) != Reads::Nothing || (makesOf(g_, n) != Makes::Nothing && isReadInParts(n.outputs[0]));
    }
    return isReadInParts_[v.index] = all;
  }
  bool isTakenApart(ValueId v) {
    const NodeId maker = g_.value(v).producer;
    return maker && makesOf(g_, g_.node(maker)) != Makes::Nothing && isReadInParts(v);
  }
  /// Whether arithmetic would be taken apart: views alone are better read as they are.
  bool hasArithmetic(ValueId v) {
    if (!isTakenApart(v)) return false;
    const Node& n = g_.node(g_.value(v).producer);
    return makesOf(g_, n) != Makes::Alike || hasArithmetic(n.args[0].valueId());
  }

  Argument call(NodeId before, std::string_view op, std::vector<Argument> args) {
    NodeBuilder b(editor_, before);
    Argument out = error_ ? Argument() : b.call(op, std::move(args));
    if (b.error() && !error_) error_ = b.error();
    return out;
  }

  Argument replacementOf(NodeId id) {
    const Reads reads = readsOf(g_, g_.node(id));
    const ComplexPair p = partsOf(g_.node(id).args[0].valueId());
    switch (reads) {
      case Reads::Real:
        return p.real;
      case Reads::Imaginary:
        return p.imaginary;
      case Reads::Absolute:
        return call(id, "aten.hypot.default", {p.real, p.imaginary});
      case Reads::Pair:
      case Reads::Nothing:
        break;
    }
    return call(id, "aten.stack.default", {Argument::list({p.real, p.imaginary}), Argument(int64_t{-1})});
  }

  ComplexPair partsOf(ValueId v) {
    if (const auto known = parts_.find(v.index); known != parts_.end()) return known->second;
    const ComplexPair p = isTakenApart(v) ? computedParts(g_.value(v).producer) : readParts(v);
    parts_.emplace(v.index, p);
    made_.push_back(v.index);
    return p;
  }

  ComplexPair computedParts(NodeId id) {
    const Node n = g_.node(id);  // a copy: new nodes move it
    switch (makesOf(g_, n)) {
      case Makes::Product:
        return product(id, n);
      case Makes::Sum: {
        const ComplexPair a = partsOf(n.args[0].valueId()), b = partsOf(n.args[1].valueId());
        std::vector<Argument> real = n.args, imaginary = n.args;
        real[0] = a.real, real[1] = b.real, imaginary[0] = a.imaginary, imaginary[1] = b.imaginary;
        const Argument sum = call(id, n.op->name, std::move(real));
        return {sum, call(id, n.op->name, std::move(imaginary))};
      }
      case Makes::Conjugate: {
        const ComplexPair p = partsOf(n.args[0].valueId());
        return {p.real, call(id, "aten.neg.default", {p.imaginary})};
      }
      case Makes::Alike:
        if (n.op->is(OperatorFact::Identity) || n.op->baseName() == "resolve_conj") return partsOf(n.args[0].valueId());
        break;
      case Makes::Negative:
      case Makes::Quotient:
      case Makes::Nothing:
        break;
    }
    const ComplexPair p = partsOf(n.args[0].valueId());
    std::vector<Argument> args = n.args;
    args[0] = p.real;
    const Argument real = call(id, n.op->name, args);
    args[0] = p.imaginary;
    return {real, call(id, n.op->name, std::move(args))};
  }

  /// (a + bi)(c + di) = (ac - bd) + (ad + bc)i
  ComplexPair product(NodeId id, const Node& n) {
    const auto times = [&](const Argument& x, const Argument& y) { return call(id, "aten.mul.Tensor", {x, y}); };
    if (!isComplex(g_, n.args[0]) || !isComplex(g_, n.args[1])) {
      const bool isFirst = isComplex(g_, n.args[0]);
      const ComplexPair p = partsOf(n.args[isFirst ? 0 : 1].valueId());
      const Argument& factor = n.args[isFirst ? 1 : 0];
      const Argument real = times(p.real, factor);
      return {real, times(p.imaginary, factor)};
    }
    const ComplexPair a = partsOf(n.args[0].valueId()), b = partsOf(n.args[1].valueId());
    const Argument rr = times(a.real, b.real), ii = times(a.imaginary, b.imaginary);
    const Argument real = call(id, "aten.sub.Tensor", {rr, ii});
    const Argument ri = times(a.real, b.imaginary), ir = times(a.imaginary, b.real);
    return {real, call(id, "aten.add.Tensor", {ri, ir})};
  }

  /// The parts of a tensor that stays, or of what it is made of.
  ComplexPair readParts(ValueId v) {
    const auto partsAt = [&](NodeId before, const Argument& pairs) {
      const auto part = [&](int64_t i) {
        return call(before, "aten.select.int", {pairs, Argument(int64_t{-1}), Argument(i)});
      };
      const Argument real = part(0);
      return ComplexPair{real, part(1)};
    };
    const NodeId maker = g_.value(v).producer;
    if (maker) {
      const Node n = g_.node(maker);
      if (n.op->name == "aten.view_as_complex.default") return partsAt(maker, n.args[0]);
      if (n.op->name == "aten.polar.default") {
        const Argument cosine = call(maker, "aten.cos.default", {n.args[1]});
        const Argument real = call(maker, "aten.mul.Tensor", {n.args[0], cosine});
        const Argument sine = call(maker, "aten.sin.default", {n.args[1]});
        return {real, call(maker, "aten.mul.Tensor", {n.args[0], sine})};
      }
    }
    // Some user comes later, so there is a node behind the maker.
    const NodeId before = maker            ? g_.node(maker).next
                          : g_.isWeight(v) ? g_.block(g_.root()).first
                                           : g_.block(g_.value(v).block).first;
    const Argument whole = call(before, "aten.resolve_conj.default", {Argument(v)});
    return partsAt(before, call(before, "aten.view_as_real.default", {whole}));
  }

  void eraseUnused(ValueId v) {
    const NodeId maker = g_.value(v).producer;
    if (!maker || !g_.isUnused(v) || !g_.isAlive(maker)) return;
    const Node n = g_.node(maker);
    const std::string_view op = n.op->baseName();
    if (makesOf(g_, n) == Makes::Nothing && op != "view_as_complex" && op != "polar") return;
    editor_.erase(maker);
    for (const Argument& a : n.args)
      if (a.isValue()) eraseUnused(a.valueId());
  }
};

Status complexAsReal(GraphEditor& editor, const Step&) { return ComplexParts(editor).run(); }

}  // namespace

GRAFT_PASS(complex_as_real, "", "complex numbers of which a model reads the parts alone become pairs of real numbers",
           complexAsReal)

}  // namespace graft
