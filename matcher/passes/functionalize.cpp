// functionalize: writes through views, as in `scores[:, :, 1:] += bias` or `table[:, 0::2] = angles.sin()`, become
// operators that give a new tensor: the view is computed anew, and slice_scatter or select_scatter puts it into a copy
// of the tensor, which all that comes after reads. So fuse() may take along what such a write keeps apart. Only memory
// that the model makes itself, and whose views are all known: nobody outside sees a write to it. The same as
// torch.func.functionalize, for a graph.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/calls/whole_slice.h"
#include "core/ir/normal_form.h"
#include "core/ir/operators/operator_facts.h"
#include "matcher/passes/pass.h"
#include "matcher/rewrite/view_relaxation.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

/// Tracing writes `x[1:] += y` as two writes: the sum, and a copy of the view to itself.
constexpr size_t mostWrites = 8, mostWritesOfSmall = 24;
constexpr double smallTensor = 65536;  ///< elements
constexpr double unknownWrittenSize = 64;

enum class ViewKind : uint8_t { None, Slice, Select, Transpose, Unsqueeze, Other };
ViewKind viewKind(const Node& n) {
  if (n.op->name == "aten.slice.Tensor") return ViewKind::Slice;
  if (n.op->name == "aten.select.int") return ViewKind::Select;
  if (n.op->name == "aten.transpose.int") return ViewKind::Transpose;
  if (n.op->name == "aten.unsqueeze.default") return ViewKind::Unsqueeze;
  return n.op->is(OperatorFact::View) && n.op->hasSchema && !n.op->writes() ? ViewKind::Other : ViewKind::None;
}

bool isCopy(const Node& n) { return n.op->name == "aten.copy_.default"; }
bool isFill(const Node& n) { return n.op->name == "aten.fill_.Scalar" || n.op->name == "aten.zero_.default"; }
/// Whether it gives the place that it is given: a write, or x[:].
bool keepsPlace(const Node& n) { return n.op->writes() || isWholeSlice(n); }

/// One tensor of the model's own, its views, and the writes to them.
struct Written {
  ValueId base;
  BlockId block;
  std::vector<ValueId> members;       ///< views, and results of writes, in order; the base first
  std::map<ValueId, ValueId> viewed;  ///< member -> the member that it is a view of, or that the write gives again
  std::vector<NodeId> writes;         ///< in order
};

class WrittenTensors {
 public:
  explicit WrittenTensors(const Graph& g, const OperatorSet& operators) : g_(g), operators_(operators), index_(g) {}

  std::vector<Written> find() const {
    std::map<uint32_t, std::vector<ValueId>> byMemory;
    for (const NodeId id : index_.order)
      for (const ValueId v : g_.node(id).outputs) {
        const uint32_t memory = index_.memoryOf(v);
        if (index_.isWritten(memory) && !index_.visibleOutside(memory)) byMemory[memory].push_back(v);
      }
    std::vector<Written> out;
    for (const auto& [memory, members] : byMemory)
      if (std::optional<Written> w = known(members)) out.push_back(std::move(*w));
    return out;
  }

 private:
  uint32_t positionOf(NodeId n) const { return index_.position[n.index]; }

  /// A reshape may be a view or a copy. Where nobody looks at what is before it any more, the tensor may as well begin
  /// there.
  std::optional<Written> known(const std::vector<ValueId>& values) const {
    if (std::optional<Written> all = knownFrom(values, 0)) return all;
    for (size_t i = 1; i < values.size() && !g_.node(g_.value(values[i]).producer).op->writes(); ++i)
      if (isMayView(values[i]))
        if (std::optional<Written> some = knownFrom(values, i)) return some;
    return std::nullopt;
  }

  std::optional<Written> knownFrom(const std::vector<ValueId>& values, size_t first) const {
    Written out;
    out.base = values[first];
    out.block = g_.node(g_.value(out.base).producer).parent;
    for (size_t i = first; i < values.size(); ++i) {
      const ValueId v = values[i];
      const NodeId producer = g_.value(v).producer;
      const Node& n = g_.node(producer);
      if (n.parent != out.block || !n.blocks.empty() || !n.op->hasSchema || n.outputs.size() != 1) return std::nullopt;
      if (v != out.base && !isMember(n, out, v)) return std::nullopt;
      if (!g_.value(v).type.isTensor()) return std::nullopt;
      out.members.push_back(v);
      if (n.op->writes()) out.writes.push_back(producer);
    }
    if (out.writes.empty() || g_.node(g_.value(out.base).producer).op->writes()) return std::nullopt;
    if (!g_.value(out.base).type.tensorInfo.dtype || !isWorthIt(out)) return std::nullopt;
    for (size_t i = 0; i < first; ++i)
      if (isReadFrom(values[i], positionOf(out.writes.front()))) return std::nullopt;
    for (const ValueId v : out.members) {
      if (!hasPlainUsers(v, out)) return std::nullopt;
      if (v != out.base && isMayView(v) && isReadLater(v, out)) return std::nullopt;
    }
    for (const NodeId w : out.writes)
      if (!isFunctional(g_.node(w), out)) return std::nullopt;
    return out;
  }

  /// Whether the value is a view of a member, or what a write to one gives.
  bool isMember(const Node& n, Written& w, ValueId v) const {
    if (n.args.empty() || !n.args[0].isValue()) return false;
    const ValueId first = n.args[0].valueId();
    if (first != w.base && !w.viewed.contains(first)) return false;
    if (!n.op->writes() && !n.op->is(OperatorFact::MayView) && viewKind(n) == ViewKind::None) return false;
    w.viewed[v] = first;
    return true;
  }

  bool isMayView(ValueId v) const { return g_.node(g_.value(v).producer).op->is(OperatorFact::MayView); }

  /// Whether something reads the value from that place on.
  bool isReadFrom(ValueId v, uint32_t place) const {
    return g_.value(v).returnUses > 0 ||
           std::ranges::any_of(g_.value(v).users, [&](NodeId user) { return positionOf(user) >= place; });
  }

  /// Whether a reshape, or a view of it, is read after a write that comes after it: it may show that write or not.
  bool isReadLater(ValueId reshape, const Written& w) const {
    const uint32_t made = positionOf(g_.value(reshape).producer);
    const auto next = std::ranges::find_if(w.writes, [&](NodeId n) { return positionOf(n) > made; });
    if (next == w.writes.end()) return false;
    return std::ranges::any_of(w.members, [&](ValueId v) {
      ValueId at = v;
      while (at != reshape && at != w.base) at = w.viewed.at(at);
      return at == reshape && isReadFrom(v, positionOf(*next));
    });
  }

  /// Each write goes over the whole tensor, where it went over a view alone: `out[:, t] = y` in a loop would take the
  /// square of its time.
  bool isWorthIt(const Written& w) const {
    double elements = 1;
    const auto& shape = g_.value(w.base).type.tensorInfo.shape;
    if (!shape) return false;
    for (const Dim& d : *shape) elements *= d.isStatic() ? static_cast<double>(d.size) : unknownWrittenSize;
    return w.writes.size() <= (elements <= smallTensor ? mostWritesOfSmall : mostWrites);
  }

  bool hasPlainUsers(ValueId v, const Written& w) const {
    if (g_.value(v).returnUses > 0) {
      uint32_t own = 0;
      for (const Argument& a : g_.block(w.block).returns) a.forEachValue([&](ValueId r) { own += r == v ? 1 : 0; });
      if (own == 0 || own != g_.value(v).returnUses) return false;
    }
    return std::ranges::all_of(g_.value(v).users, [&](NodeId user) {
      const Node& n = g_.node(user);
      if (n.parent != w.block || !n.blocks.empty() || !n.op->hasSchema || !n.kwargs.empty()) return false;
      // What looks at the memory itself, or gives it in a list.
      return n.op->baseName() != "as_strided" && n.op->baseName() != "data_ptr";
    });
  }

  /// Whether it writes to its first argument alone, and the same is to be had of it as a function.
  bool isFunctional(const Node& n, const Written& w) const {
    for (size_t i = 0; i < n.op->parameters.size() && i < n.args.size(); ++i)
      if (n.op->parameters[i].written != (i == 0)) return false;
    if (n.args.empty() || !n.args[0].isValue() || !hasWayBack(n.args[0].valueId(), w)) return false;
    const Type& target = g_.value(n.args[0].valueId()).type;
    const auto dtype = g_.value(w.base).type.tensorInfo.dtype;
    for (const Argument& a : n.args) {
      if (!a.isValue() || !g_.value(a.valueId()).type.isTensor()) continue;
      const TensorInfo& info = g_.value(a.valueId()).type.tensorInfo;
      if (!info.dtype || !info.shape) return false;
      if (info.device != target.tensorInfo.device && info.rank() != 0) return false;
    }
    if (isCopy(n)) return n.args.size() > 1 && n.args[1].isValue();
    if (isFill(n)) return true;
    const auto name = functionalForm(n.op->name);
    const OperatorRef op = name ? operators_.find(*name) : nullptr;
    // t_ and unsqueeze_ change the shape, not elements.
    if (!op || op->writes() || op->aliases() || op->parameters.size() != n.op->parameters.size() ||
        op->returns.size() != 1)
      return false;
    // In place, the result keeps the target's dtype. A comparison gives truth values as a function.
    if (op->facts->dtype == DTypeRule::Bool && dtype != DType::Bool) return false;
    for (size_t i = 1; i < n.args.size(); ++i) {
      const bool isMask = n.op->baseName() == "masked_fill_" && i == 1;
      if (n.args[i].isValue() && g_.value(n.args[i].valueId()).type.isTensor() && !isMask &&
          g_.value(n.args[i].valueId()).type.tensorInfo.dtype != dtype)
        return false;
    }
    return true;
  }

  /// Whether what is written through the view can be put into the base.
  bool hasWayBack(ValueId v, const Written& w) const {
    for (; v != w.base; v = w.viewed.at(v)) {
      const Node& n = g_.node(g_.value(v).producer);
      if (!n.op->writes() && (viewKind(n) == ViewKind::None || viewKind(n) == ViewKind::Other)) return false;
      if (!g_.value(v).type.tensorInfo.shape) return false;
    }
    return true;
  }

  const Graph& g_;
  const OperatorSet& operators_;
  const GraphIndex index_;
};

/// Makes functions of the writes to one tensor.
class Functionalizer {
 public:
  Functionalizer(GraphEditor& editor, ViewRelaxation& views, const Written& w)
      : editor_(editor), g_(editor.graph()), views_(views), w_(w), now_(w.base) {}

  void run() {
    for (const ValueId v : w_.members) madeAt_[v] = 0;
    editor_.begin(w_.writes.front());
    bool isWritten = false;
    for (const NodeId id : g_.order(w_.block)) {
      isWritten = isWritten || id == w_.writes.front();
      if (isWritten) follow(id);
    }
    std::vector<Argument> returns = g_.block(w_.block).returns;
    for (Argument& a : returns) a.forEachValueMutable([&](ValueId& v) { v = current(v, {}); });
    editor_.setReturns(w_.block, std::move(returns));
    for (const ValueId v : made_) views_.below(w_.base, v);
    for (auto id = w_.writes.rbegin(); id != w_.writes.rend(); ++id) editor_.erase(*id);
    editor_.commit();
  }

 private:
  const OperatorSet& operators() const { return editor_.semantics().operators(); }
  bool isMember(ValueId v) const { return madeAt_.contains(v); }

  void follow(NodeId id) {
    std::vector<Argument> args = g_.node(id).args;
    bool isChanged = false;
    for (Argument& a : args)
      a.forEachValueMutable([&](ValueId& v) {
        const ValueId now = current(v, id);
        isChanged = isChanged || now != v;
        v = now;
      });
    if (std::ranges::find(w_.writes, id) != w_.writes.end()) {
      write(id, std::move(args));
      return;
    }
    if (isChanged) {
      editor_.setArguments(id, std::move(args));
      editor_.noteChanged(id);
    }
    for (const ValueId v : g_.node(id).outputs)
      if (isMember(v)) madeAt_[v] = version_;
  }

  /// What has that value after all writes so far. It is made before the node, or at the end of the block.
  ValueId current(ValueId v, NodeId before) {
    if (!isMember(v)) return v;
    if (v == w_.base) return now_;
    if (madeAt_.at(v) == version_ && !isWrite(v)) return v;
    if (const auto it = again_.find(v); it != again_.end()) return it->second;
    const ValueId of = current(w_.viewed.at(v), before);
    const Node& n = g_.node(g_.value(v).producer);
    ValueId out = of;
    if (!n.op->writes()) {
      std::vector<Argument> args = n.args;
      args[0] = Argument(of);
      out = insert(n.id, before, n.op, std::move(args), g_.value(v).type);
    }
    again_[v] = out;
    return out;
  }
  bool isWrite(ValueId v) const { return g_.node(g_.value(v).producer).op->writes(); }

  /// Adds a node like `like`, which must be in that place's block.
  ValueId insert(NodeId like, NodeId before, OperatorRef op, std::vector<Argument> args, Type type) {
    const ModuleCallId module = g_.node(like).module;
    const uint32_t source = g_.node(like).source;
    const std::string name(op->baseName());
    const NodeId made = editor_.insert(w_.block, before, std::move(op), std::move(args), name);
    editor_.setModule(made, module);
    editor_.setSource(made, source);
    const ValueId out = g_.output(made);
    editor_.setType(out, std::move(type));
    return out;
  }
  ValueId call(NodeId at, std::string_view op, std::vector<Argument> args, Type type) {
    return insert(at, at, operators().find(op), std::move(args), std::move(type));
  }

  void write(NodeId id, std::vector<Argument> args) {
    const Node n = g_.node(id);
    const ValueId target = n.args[0].valueId();
    const Type type = g_.value(target).type;
    ValueId value;
    if (isCopy(n)) {
      // x[1:] += y copies x[1:] to itself.
      if (isMember(n.args[1].valueId()) && isSamePlace(target, n.args[1].valueId())) return;
      // In the target's dtype and layout, and in memory of its own, whatever the source is.
      value = call(id, "aten.copy.default", {args[0], args[1], Argument(false)}, type);
    } else if (isFill(n)) {
      const Argument number = n.args.size() > 1 ? args[1] : Argument(int64_t{0});
      value = call(id, "aten.full_like.default",
                   {args[0], number, Argument(), Argument(), Argument(), Argument(), Argument()}, type);
    } else {
      value = call(id, *functionalForm(n.op->name), std::move(args), type);
    }
    for (ValueId v = target; v != w_.base; v = w_.viewed.at(v)) value = putBack(id, v, value);
    now_ = value;
    made_.push_back(value);
    ++version_;
    again_.clear();
  }

  /// What the view is of, with `value` where the view is.
  ValueId putBack(NodeId at, ValueId view, ValueId value) {
    const Node n = g_.node(g_.value(view).producer);
    if (keepsPlace(n)) return value;
    const ValueId of = w_.viewed.at(view);
    const Type type = g_.value(of).type;
    std::vector<Argument> args = n.args;  // the view's own: a dimension, a start
    switch (viewKind(n)) {
      case ViewKind::Transpose:
        args[0] = Argument(value);
        return call(at, "aten.transpose.int", std::move(args), type);
      case ViewKind::Unsqueeze:
        args[0] = Argument(value);
        return call(at, "aten.squeeze.dim", std::move(args), type);
      default:
        args[0] = Argument(current(of, at));
        args.insert(args.begin() + 1, Argument(value));
        return call(at, viewKind(n) == ViewKind::Slice ? "aten.slice_scatter.default" : "aten.select_scatter.default",
                    std::move(args), type);
    }
  }

  /// The views that lead to a member, without those that change nothing.
  std::vector<NodeId> pathOf(ValueId v) const {
    std::vector<NodeId> out;
    for (; v != w_.base; v = w_.viewed.at(v)) {
      const Node& n = g_.node(g_.value(v).producer);
      if (!keepsPlace(n)) out.push_back(n.id);
    }
    return out;
  }
  bool isSamePlace(ValueId a, ValueId b) const {
    return std::ranges::equal(pathOf(a), pathOf(b), [&](NodeId left, NodeId right) {
      const Node &x = g_.node(left), &y = g_.node(right);
      return x.op == y.op && x.args.size() == y.args.size() && viewKind(x) != ViewKind::Other &&
             std::equal(x.args.begin() + 1, x.args.end(), y.args.begin() + 1);
    });
  }

  GraphEditor& editor_;
  const Graph& g_;
  ViewRelaxation& views_;
  const Written& w_;
  ValueId now_;                ///< has what the base would have by now
  std::vector<ValueId> made_;  ///< all that the tensor becomes, in order
  int version_ = 0;
  std::map<ValueId, int> madeAt_;     ///< the version of the members' values
  std::map<ValueId, ValueId> again_;  ///< members as of now, made anew
};

Status functionalize(GraphEditor& editor, const Step&) {
  const OperatorSet& operators = editor.semantics().operators();
  for (const char* made : {"aten.slice_scatter.default", "aten.select_scatter.default", "aten.transpose.int",
                           "aten.squeeze.dim", "aten.full_like.default", "aten.copy.default"})
    if (!operators.find(made)) return done();
  const std::vector<Written> all = WrittenTensors(editor.graph(), operators).find();
  ViewRelaxation views(editor);
  for (const Written& w : all) Functionalizer(editor, views, w).run();
  if (!all.empty()) eliminateDeadNodes(editor);
  return done();
}

}  // namespace

GRAFT_PASS(functionalize, "",
           "writes through views, `x[:, 1:] += y`, become operators that give a new tensor, which generated kernels "
           "take along",
           functionalize)

}  // namespace graft
