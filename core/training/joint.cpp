#include "core/training/joint.h"

#include <algorithm>

#include "core/base/words.h"
#include "core/ir/size_expression.h"

namespace graft {
namespace {

using enum OperatorFact;

void addLeaves(const Argument& a, std::vector<Argument>& out) {
  if (const auto* items = a.items())
    for (const Argument& i : *items) addLeaves(i, out);
  else
    out.push_back(a);
}

/// Whether a random operator is told to draw nothing: a dropout with p=0 or outside of training.
bool isSwitchedOff(const Node& n) {
  for (const char* name : {"p", "dropout_p"})
    if (const Argument* p = n.findArgument(name); p && p->number() && *p->number() == 0) return true;
  for (const char* name : {"train", "training"})
    if (const Argument* train = n.findArgument(name); train && train->as<bool>() && !*train->as<bool>()) return true;
  return false;
}

bool dropsOut(const Node& n) {
  const Argument* p = n.findArgument("dropout_p");
  return p && !(p->number() && *p->number() == 0);
}

bool communicates(const Node& n) {
  return n.op->name.starts_with("_c10d_functional.") || n.op->name.starts_with("c10d");
}

Recomputing kindOf(const Node& n) {
  if (!whyNeverAgain(n).empty()) return Recomputing::Never;
  if (n.op->is(View | Reshape | Identity | Splits) || n.op->name == "prim.getitem") return Recomputing::Free;
  if (n.op->is(Pointwise | Dropout | MetadataOnly | IntegerArithmetic)) return Recomputing::Cheap;
  switch (n.op->facts->family) {
    case OperatorFamily::Arithmetic:
    case OperatorFamily::Activation:
    case OperatorFamily::Softmax:
    case OperatorFamily::Shape:
    case OperatorFamily::Cast:
    case OperatorFamily::Factory:
    case OperatorFamily::Reduction:
    case OperatorFamily::Lookup:
    case OperatorFamily::Query:
      return Recomputing::Cheap;
    case OperatorFamily::Product:
    case OperatorFamily::Convolution:
      return Recomputing::Expensive;
    default:
      // What the table does not know may be anything; PyTorch's operators of attention are its products.
      return n.op->name.find("attention") != std::string::npos ? Recomputing::Expensive : Recomputing::Moderate;
  }
}

std::string nodeAndLine(const Graph& g, const Node& n) {
  const SourceLocation* at = g.sourceOf(n);
  return "`" + n.name + "` (" + n.op->name + ")" +
         (at && at->line > 0 ? " of " + at->file + ":" + std::to_string(at->line) : "");
}

}  // namespace

std::vector<Argument> returnedLeaves(const Graph& g) {
  std::vector<Argument> out;
  for (const Argument& a : g.returns()) addLeaves(a, out);
  return out;
}

std::string whyNeverAgain(const Node& n) {
  if ((n.op->random && !isSwitchedOff(n)) || dropsOut(n)) return "draws random numbers";
  if (communicates(n)) return "communicates with other processes";
  if (n.op->sideEffects) return "has effects beside its results";
  return "";
}

bool JointGraph::isForward(ValueId v) const {
  const NodeId by = graph_->value(v).producer;
  return by ? isForward(by) : !tangent_[v.index];
}

bool JointGraph::canBeSaved(ValueId v) const {
  const Type::Kind kind = graph_->value(v).type.kind;
  return kind == Type::Kind::Tensor || kind == Type::Kind::Int || kind == Type::Kind::Float || kind == Type::Kind::Bool;
}

std::vector<ValueId> JointGraph::operands(NodeId n) const {
  std::vector<ValueId> out;
  const auto add = [&](ValueId v) {
    if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  };
  for (const Argument& a : graph_->node(n).args) a.forEachValue(add);
  for (const auto& [name, a] : graph_->node(n).kwargs) a.forEachValue(add);
  return out;
}

Result<JointGraph> JointGraph::make(const Graph& g, const TrainingSignature& signature,
                                    const std::function<std::optional<int64_t>(std::string_view)>& sizeOf) {
  JointGraph joint(g, signature);
  if (Status s = joint.findRoles(); !s) return s.error();
  if (Status s = joint.measure(sizeOf); !s) return s.error();
  joint.findNeeds();
  joint.findDistances();
  for (NodeId n : joint.order_) joint.estimate(n);
  return joint;
}

Status JointGraph::findRoles() {
  const Graph& g = *graph_;
  order_ = g.order(g.root());
  place_.assign(g.nodeBound(), 0);
  afterTangents_.assign(g.nodeBound(), 0);
  required_ = wanted_ = afterTangents_;
  recomputing_.assign(g.nodeBound(), Recomputing::Free);
  microseconds_.assign(g.nodeBound(), 0);
  free_.assign(g.valueBound(), 0);
  mutated_ = tangent_ = free_;
  bytes_.assign(g.valueBound(), 0);
  storage_.assign(g.valueBound(), ValueId());
  distance_.assign(g.valueBound(), far);

  for (const std::string& name : signature_->tangents)
    if (const ValueId v = g.findValue(name)) tangent_[v.index] = 1;
  const std::vector<Argument> leaves = returnedLeaves(g);
  if (leaves.size() != signature_->returns.size())
    return badInput("the graph returns " + counted(leaves.size(), "value") + ", and its file speaks of " +
                    std::to_string(signature_->returns.size()) + "; capture it again");
  for (size_t i = 0; i < leaves.size(); ++i) {
    const ReturnedRole& role = signature_->returns[i];
    if (role.kind != ReturnedRole::Kind::Gradient && !gradients_.empty())
      return badInput("the graph returns a gradient ahead of a result; capture it again");
    (role.kind == ReturnedRole::Kind::Gradient ? gradients_ : results_).push_back({role, leaves[i]});
    if (role.kind != ReturnedRole::Kind::Mutation) continue;
    ValueId target = g.findWeight(role.of);
    if (!target) target = g.findValue(role.of);
    if (target) mutated_[target.index] = 1;
  }
  if (gradients_.empty() || signature_->tangents.empty())
    return badInput(
        "this graph holds no backward pass; `graft_fx.capture(model, inputs, path, joint=True)` captures one, which "
        "`--method joint` names");
  for (ValueId v : g.weights()) free_[v.index] = !mutated_[v.index];
  for (const std::string& name : signature_->parameters)
    if (const ValueId v = g.findValue(name)) free_[v.index] = !mutated_[v.index];

  for (size_t i = 0; i < order_.size(); ++i) {
    const Node& n = g.node(order_[i]);
    place_[n.id.index] = i;
    if (n.op->writes())
      return badInput(nodeAndLine(g, n) +
                      " writes in place, and the backward pass might have kept what it overwrites; capture the model "
                      "with joint=True, which makes such writes results");
    if (!n.blocks.empty()) return badInput(nodeAndLine(g, n) + " is control flow, which no cut goes through");
    for (ValueId v : operands(n.id)) afterTangents_[n.id.index] |= !isForward(v);
    recomputing_[n.id.index] = kindOf(n);
  }
  return done();
}

Status JointGraph::measure(const std::function<std::optional<int64_t>(std::string_view)>& sizeOf) {
  const Graph& g = *graph_;
  const auto symbol = [&](std::string_view name) -> std::optional<int64_t> {
    if (sizeOf)
      if (const auto known = sizeOf(name)) return known;
    const Symbol* s = g.findSymbol(name);
    return std::max<int64_t>(2, s && s->min ? *s->min : 2);
  };
  const auto take = [&](ValueId v) -> Status {
    const Value& value = g.value(v);
    storage_[v.index] = v;
    if (!value.type.isTensor()) {
      bytes_[v.index] = canBeSaved(v) ? 8 : 0;
      return done();
    }
    const TensorInfo& info = value.type.tensorInfo;
    int64_t elements = 1;
    bool isKnown = info.dtype && info.shape;
    if (isKnown)
      for (const Dim& d : *info.shape) {
        const auto parsed = d.isStatic() ? std::nullopt : SizeExpression::parse(d.symbol);
        const auto size = d.isStatic() ? std::optional(d.size) : parsed ? parsed->evaluate(symbol) : std::nullopt;
        isKnown = isKnown && size && *size >= 0;
        if (isKnown) elements *= *size;
      }
    if (!isKnown)
      return badInput("the size of %" + value.name + " : " + toString(value.type) +
                      " is not known; --inputs or --input lets one run record it");
    bytes_[v.index] = static_cast<size_t>(elements) * dtypeSize(*info.dtype);
    return done();
  };
  for (ValueId v : g.inputs())
    if (Status s = take(v); !s) return s;
  for (ValueId v : g.weights())
    if (Status s = take(v); !s) return s;
  for (NodeId id : order_) {
    const Node& n = g.node(id);
    for (ValueId v : n.outputs) {
      // A result that nobody reads (convolution_backward's gradient of an input that takes none) has no type.
      if (g.isUnused(v) && !g.value(v).type.isTensor()) {
        storage_[v.index] = v;
        continue;
      }
      if (Status s = take(v); !s) return s;
      if (recomputing_[id.index] == Recomputing::Free && !n.args.empty() && n.args[0].holdsValue()) {
        ValueId base;
        n.args[0].forEachValue([&](ValueId u) { base = base ? base : u; });
        storage_[v.index] = storage_[base.index];
      }
    }
  }
  return done();
}

void JointGraph::findNeeds() {
  const auto mark = [&](const std::vector<Returned>& from, std::vector<char>& marks) {
    std::vector<NodeId> open;
    const auto need = [&](ValueId v) {
      const NodeId by = graph_->value(v).producer;
      if (by && !std::exchange(marks[by.index], 1)) open.push_back(by);
    };
    for (const Returned& r : from) r.value.forEachValue(need);
    while (!open.empty()) {
      const NodeId n = open.back();
      open.pop_back();
      for (ValueId v : operands(n)) need(v);
    }
  };
  mark(results_, required_);
  mark(gradients_, wanted_);
}

// Nodes of the backward pass are 0 steps away from it, and so are those that no result needs: they move there.
void JointGraph::findDistances() {
  std::vector<int> ofNode(graph_->nodeBound(), far);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const Node& n = graph_->node(*it);
    int nearest = far;
    for (ValueId v : n.outputs) nearest = std::min(nearest, distance_[v.index]);
    ofNode[n.id.index] = !isForward(n.id) || !isRequired(n.id) ? 0 : nearest;
    if (!isWanted(n.id)) ofNode[n.id.index] = far;
    for (ValueId v : operands(n.id))
      distance_[v.index] = std::min(distance_[v.index], std::min(far, ofNode[n.id.index] + 1));
  }
}

void JointGraph::estimate(NodeId id) {
  const Node& n = graph_->node(id);
  if (recomputing_[id.index] == Recomputing::Free) return;
  size_t moved = 0;
  const auto elements = [&](ValueId v) {
    const auto& dtype = graph_->value(v).type.tensorInfo.dtype;
    return dtype ? static_cast<double>(bytes_[v.index]) / static_cast<double>(dtypeSize(*dtype)) : 0.0;
  };
  const auto size = [&](ValueId v, size_t fromEnd) -> double {
    const auto& shape = graph_->value(v).type.tensorInfo.shape;
    return shape && shape->size() >= fromEnd && (*shape)[shape->size() - fromEnd].isStatic()
               ? static_cast<double>((*shape)[shape->size() - fromEnd].size)
               : 1.0;
  };
  std::vector<ValueId> tensors;
  for (ValueId v : operands(id)) {
    moved += bytes_[v.index];
    if (graph_->value(v).type.isTensor()) tensors.push_back(v);
  }
  for (ValueId v : n.outputs) moved += bytes_[v.index];
  double operations = n.outputs.empty() ? 0 : elements(n.outputs[0]);
  const auto rank = n.outputs.empty() ? std::nullopt : graph_->value(n.outputs[0]).type.tensorInfo.rank();
  if (recomputing_[id.index] == Recomputing::Expensive && tensors.size() >= 2 && rank) {
    const double made = elements(n.outputs[0]);
    if (n.op->facts->family == OperatorFamily::Convolution) {
      const double channels = *rank < 2 ? 1 : std::max(1.0, size(n.outputs[0], static_cast<size_t>(*rank) - 1));
      const Argument* weight = n.findArgument("weight");
      operations = 2 * made * elements(weight && weight->isValue() ? weight->valueId() : tensors[1]) / channels;
    } else if (n.op->name.find("attention") != std::string::npos) {
      operations = 4 * made * size(tensors[1], 2);  // a row of scores for each row of the result, twice
    } else {
      const bool addsFirst = n.op->baseName().starts_with("add") || n.op->baseName() == "baddbmm";
      operations = 2 * made * size(tensors[addsFirst && tensors.size() > 2 ? 1 : 0], 1);
    }
  }
  microseconds_[id.index] = std::max(operations / 1e5, static_cast<double>(moved) / 1e4);
}

}  // namespace graft
