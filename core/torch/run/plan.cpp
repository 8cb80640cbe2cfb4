#include "core/torch/run/plan.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/interned_strings.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>

#include "core/torch/operator_library.h"
#include "core/torch/run/direct_call.h"
#include "core/torch/run/dtype_change.h"
#include "core/torch/run/float32_parts.h"
#include "core/torch/run/last_uses.h"
#include "core/torch/run/made_up.h"
#include "core/torch/run/plan_builtin.h"
#include "core/torch/values/device.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/placement.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

class Planner {
 public:
  /// `parts`, where given, are those of the graph that stay in float32.
  Planner(const Graph& g, const RunOptions& options, c10::Device device, const DTypeChange& change,
          const Float32Parts* parts)
      : g_(g), options_(options), device_(device), place_(g), change_(change), parts_(parts), uses_(g) {}

  Result<ProgramPlan> plan() {
    slotOf_.assign(g_.valueBound(), noSlot);
    labelNodes();
    if (Status s = resolveOperators(); !s) return s.error();
    for (ValueId id : g_.inputs()) {
      const Value& v = g_.value(id);
      InputSpec spec{v.name, v.type, nullptr};
      if (spec.type.tensorInfo.dtype && options_.dtype && isFloatingPoint(*spec.type.tensorInfo.dtype))
        spec.type.tensorInfo.dtype = options_.dtype;
      spec.torch = torchType(spec.type);
      plan_.inputs.push_back(std::move(spec));
    }
    plan_.capture = captureFacts(g_);
    if (Status s = planBlock(g_.root(), plan_.root); !s) return s.error();
    plan_.capture.writtenTensors = tensorSet(std::move(writtenTensors_));
    plan_.device = device_;
    plan_.madeUpFloatsAs = options_.dtype;
    if (!device_.is_cpu())
      for (NodeId id : place_.copiesToHost()) plan_.moved.stays.push_back(described(plan_.labels[id.index]));
    return std::move(plan_);
  }

 private:
  struct Resolved {
    std::optional<c10::OperatorHandle> handle;
    std::shared_ptr<torch::jit::Operator> jit;
    const c10::FunctionSchema* schema = nullptr;
  };

  // Slots
  // ------------------------------------------------------------------------------------------------------------------
  uint32_t takeSlot(ValueId v) {
    if (!uses_.isUsed(v)) return noSlot;
    uint32_t s;
    if (free_.empty()) {
      s = plan_.slots++;
    } else {
      s = free_.back();
      free_.pop_back();
    }
    return slotOf_[v.index] = s;
  }

  /// Turns the last read of each value that dies at `node` (or with the block, where there is no node) into a move.
  void moveLastUses(const std::vector<std::pair<ValueId, Operand*>>& reads, NodeId node) {
    std::unordered_set<uint32_t> seen;
    for (auto it = reads.rbegin(); it != reads.rend(); ++it) {
      auto [v, operand] = *it;
      if (!seen.insert(v.index).second) continue;
      const bool diesHere = !node || uses_.diesAt(v, node);
      if (!diesHere) continue;
      if (node && uses_.insideLast(v)) continue;  // released below, after the blocks
      operand->kind = Operand::Kind::Move;
      free_.push_back(slotOf_[v.index]);
    }
  }

  // Operands
  // ---------------------------------------------------------------------------------------------------------------
  using Reads = std::vector<std::pair<ValueId, Operand*>>;

  uint32_t addConstant(c10::IValue v) {
    plan_.constants.push_back(std::move(v));
    return static_cast<uint32_t>(plan_.constants.size() - 1);
  }

  Result<uint32_t> weightConstant(ValueId id) {
    if (auto it = weightConstant_.find(keyOf(id)); it != weightConstant_.end()) return it->second;
    const Value& v = g_.value(id);
    at::Tensor t = weightTensor(v);
    if (!t.defined())
      return badInput(fmt::format("the weight '{}' has no data: the file it came from holds its shape only",
                                  v.path.empty() ? v.name : v.path));
    try {
      if (change_.to)
        t = parts_ && parts_->keepsWeight(id) ? keptWeight(t, *change_.to) : weightInDType(v, t, *change_.to);
      if (t.device() != device_ && !(onHost_ && t.dim() == 0)) {
        t = t.to(device_);
        plan_.moved.constants += v.isConstant;
      }
      // Weights are shared between graphs: a program that writes to one (running statistics, a cache) has its own.
      const auto& written = plan_.capture.writtenWeights;
      if (std::find(written.begin(), written.end(), id) != written.end()) {
        t = t.clone();
        writtenTensors_.push_back(t);
        plan_.capture.writtenNames.push_back(v.path.empty() ? v.name : v.path);
      }
      // PyTorch's matrix products ask of a parameter whether it takes gradients, without gradients too, and add in
      // another order then.
      else if (!v.isBuffer && !v.isConstant && !v.isFrozen && t.is_floating_point())
        t = t.detach().set_requires_grad(true);
    } catch (const std::exception& e) {
      return badInput(
          fmt::format("the weight '{}' cannot be brought to {}: {}", v.path, device_.str(), shortMessage(e)));
    }
    const uint32_t index = addConstant(std::move(t));
    weightConstant_.emplace(keyOf(id), index);
    return index;
  }

  /// Where a node on the host reads a number, it has one of its own there.
  uint64_t keyOf(ValueId weight) const { return uint64_t{weight.index} * 2 + (onHost_ ? 1 : 0); }

  Argument adjusted(const Argument& a) {
    if (const auto* d = a.as<DeviceName>()) {
      if (!node_) return a;
      DeviceName now = place_.placed(*node_, *d, device_.str());
      plan_.moved.names += place_.follows(*node_, *d) && !(now == *d);
      return Argument(std::move(now));
    }
    return keepsFloat32_ ? change_.keptArgument(a) : change_.argument(a);
  }

  /// Whether the node takes None where its schema says so: as an undefined tensor.
  bool mayBeAbsent(const c10::TypePtr& wanted) const {
    return absentTensors_ && wanted && wanted->kind() == c10::TypeKind::TensorType;
  }

  Result<Operand> operandFor(const Argument& a, const c10::TypePtr& wanted) {
    Operand out;
    if (a.isValue() && !g_.isWeight(a.valueId())) {
      const uint32_t slot = slotOf_[a.valueId().index];
      if (slot == noSlot)
        return internalError(fmt::format("%{} is used before it is computed", g_.value(a.valueId()).name));
      out.kind = Operand::Kind::Copy;
      out.index = slot;
      if (wanted && !fitsAlready(g_.value(a.valueId()).type, *wanted)) {
        out.mustFit = true;
        out.mayBeAbsent = mayBeAbsent(wanted);
        out.wanted = static_cast<uint32_t>(plan_.wanted.size());
        plan_.wanted.push_back(wanted);
      }
      return out;
    }
    bool computed = false;
    Status weightsReady = done();
    a.forEachValue([&](ValueId v) {
      if (!g_.isWeight(v)) {
        computed = true;
      } else if (weightsReady) {
        if (auto w = weightConstant(v); !w) weightsReady = w.error();
      }
    });
    if (!weightsReady) return weightsReady.error();
    if (a.isValue() && (!wanted || fitsAlready(Type::tensor(), *wanted))) {
      out.index = weightConstant_.at(keyOf(a.valueId()));
      return out;
    }
    if (a.isNone() && mayBeAbsent(wanted)) {
      out.index = addConstant(at::Tensor());
      return out;
    }
    if (!computed) {
      auto value = toIValue(adjusted(a), wanted.get(),
                            [&](ValueId v) { return &plan_.constants[weightConstant_.at(keyOf(v))]; });
      if (!value) return value.error();
      if (numbersOnDevice_ && value->isTensor() && value->toTensor().defined() &&
          value->toTensor().device() != device_) {
        at::Tensor t = value->toTensor().to(device_);
        t.unsafeGetTensorImpl()->set_wrapped_number(true);  // still takes no part in type promotion
        *value = std::move(t);
      }
      out.index = addConstant(std::move(*value));
      return out;
    }
    return pytreeFor(a, wanted);
  }

  Result<Operand> pytreeFor(const Argument& a, c10::TypePtr wanted) {
    while (wanted && wanted->kind() == c10::TypeKind::OptionalType)
      wanted = wanted->expectRef<c10::OptionalType>().getElementType();
    if (wanted && wanted->hasFreeVariables()) wanted = nullptr;
    Pytree pytree;
    auto add = [&](const Argument& item, const c10::TypePtr& type) -> Status {
      auto o = operandFor(item, type);
      if (!o) return o.error();
      pytree.items.push_back(std::move(*o));
      return done();
    };
    if (const auto* dict = a.as<Argument::Dict>()) {
      pytree.kind = Pytree::Kind::Dict;
      pytree.key = c10::StringType::get();
      pytree.element = c10::AnyType::get();
      if (wanted && wanted->kind() == c10::TypeKind::DictType) {
        pytree.key = wanted->expectRef<c10::DictType>().getKeyType();
        pytree.element = wanted->expectRef<c10::DictType>().getValueType();
      } else {
        std::vector<Argument> keys, values;
        for (const auto& [k, v] : dict->items) {
          keys.push_back(k);
          values.push_back(v);
        }
        pytree.key = commonElement(keys);
        pytree.element = commonElement(values);
      }
      for (const auto& [k, v] : dict->items) {
        if (Status s = add(k, pytree.key); !s) return s.error();
        if (Status s = add(v, pytree.element); !s) return s.error();
      }
    } else {
      const std::vector<Argument>* items = a.items();
      if (!items) return badInput("a slice with computed bounds is no argument of an operator");
      const bool asTuple = wanted ? wanted->kind() == c10::TypeKind::TupleType ||
                                        (wanted->kind() != c10::TypeKind::ListType && !a.isList())
                                  : !a.isList();
      pytree.kind = asTuple ? Pytree::Kind::Tuple : Pytree::Kind::List;
      if (!asTuple)
        pytree.element = wanted && wanted->kind() == c10::TypeKind::ListType
                             ? wanted->expectRef<c10::ListType>().getElementType()
                             : commonElement(*items);
      for (size_t i = 0; i < items->size(); ++i) {
        c10::TypePtr type = pytree.element;
        if (asTuple && wanted && wanted->kind() == c10::TypeKind::TupleType &&
            i < wanted->expectRef<c10::TupleType>().elements().size())
          type = wanted->expectRef<c10::TupleType>().elements()[i];
        if (Status s = add((*items)[i], type); !s) return s.error();
      }
    }
    Operand out;
    out.kind = Operand::Kind::Pytree;
    out.index = static_cast<uint32_t>(plan_.pytrees.size());
    plan_.pytrees.push_back(std::move(pytree));
    return out;
  }

  /// Of a list or dictionary whose elements have a known type; null of anything else.
  c10::TypePtr containerType(ValueId v) const {
    const Type& type = g_.value(v).type;
    const bool isKnown = (type.kind == Type::Kind::List || type.kind == Type::Kind::Dict) &&
                         std::ranges::none_of(type.elements, [](const Type& e) { return e.kind == Type::Kind::Any; });
    return isKnown ? torchType(type) : nullptr;
  }

  /// The element type of a list that no schema asks for.
  c10::TypePtr commonElement(const std::vector<Argument>& items) const {
    c10::TypePtr common;
    for (const Argument& i : items) {
      c10::TypePtr t = c10::AnyType::get();
      if (i.isValue())
        t = torchType(g_.value(i.valueId()).type);
      else if (i.as<int64_t>())
        t = c10::IntType::get();
      else if (i.as<double>())
        t = c10::FloatType::get();
      else if (i.as<bool>())
        t = c10::BoolType::get();
      else if (i.as<std::string>())
        t = c10::StringType::get();
      if (common && !(*common == *t)) return c10::AnyType::get();
      common = t;
    }
    return common ? common : c10::TypePtr(c10::TensorType::get());
  }

  /// All slot reads of these operands, nested ones too. Valid until operands or pytrees grow.
  void collectReads(std::vector<Operand>& operands, Reads& reads) {
    for (Operand& o : operands) {
      if (o.kind == Operand::Kind::Pytree)
        collectReads(plan_.pytrees[o.index].items, reads);
      else if (o.kind != Operand::Kind::Constant)
        reads.emplace_back(valueInSlot_.at(o.index), &o);
    }
  }

  // Nodes
  // ------------------------------------------------------------------------------------------------------------------
  void labelNodes() {
    plan_.labels.resize(g_.nodeBound());
    for (NodeId id : g_.order()) {
      const Node& n = g_.node(id);
      NodeLabel& label = plan_.labels[id.index];
      label.name = n.name;
      label.op = n.op->name;
      if (const SourceLocation* s = g_.sourceOf(n)) label.source = fmt::format("{}:{}", s->file, s->line);
    }
  }

  /// The overload that runs. Normal form has numbers in the place of tensors; a power computes other bits then.
  static std::string overload(const Node& n) {
    if (n.op->name != "aten.pow.Tensor_Tensor" || n.args.size() != 2) return n.op->name;
    return n.args[1].number() ? "aten.pow.Tensor_Scalar" : n.args[0].number() ? "aten.pow.Scalar" : n.op->name;
  }

  Status resolveOperators() {
    std::map<std::string, size_t> missing;
    for (NodeId id : g_.order()) {
      const std::string name = overload(g_.node(id));
      if (isBuiltIn(builtInName(name)) || resolved_.contains(name)) continue;
      const c10::OperatorName wanted = torchName(name);
      Resolved r;
      r.handle = c10::Dispatcher::singleton().findSchema(wanted);
      if (r.handle) {
        r.schema = &r.handle->schema();
      } else {
        r.jit = findScriptOperator(wanted);
        if (r.jit) r.schema = &r.jit->schema();
      }
      if (!r.schema) {
        ++missing[name];
        continue;
      }
      resolved_.emplace(name, std::move(r));
    }
    if (missing.empty()) return done();
    std::vector<std::string> names;
    for (const auto& [name, n] : missing) names.push_back(name);
    if (options_.missing != Missing::Refused) {
      plan_.leftOut.operators = std::move(names);
      return done();
    }
    return badInput(missingOperatorsText(names));
  }

  // Missing operators
  // ------------------------------------------------------------------------------------------------------------------
  /// Calls f for each value that the node and those in its blocks use.
  template <class F>
  void forEachUse(const Node& n, const F& f) const {
    for (const Argument& a : n.args) a.forEachValue(f);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(f);
    for (BlockId b : n.blocks) {
      for (NodeId id : g_.order(b)) forEachUse(g_.node(id), f);
      for (const Argument& a : g_.block(b).returns) a.forEachValue(f);
    }
  }

  /// Whether it calls a missing operator, or a node in its blocks does.
  bool isMissing(const Node& n) const {
    if (!isBuiltIn(builtInName(n.op->name)) && !resolved_.contains(n.op->name)) return true;
    for (BlockId b : n.blocks)
      for (NodeId id : g_.order(b))
        if (isMissing(g_.node(id))) return true;
    return false;
  }

  bool usesOneOf(const Node& n, const std::unordered_set<ValueId>& values) const {
    bool found = false;
    forEachUse(n, [&](ValueId v) { found = found || values.contains(v); });
    return found;
  }

  /// What follows from a missing operator is left out; the call itself notes what it reads, and makes up its outputs.
  Status planLeftOut(const Node& n, std::vector<Instruction>& into) {
    if (!isMissing(n)) {
      absent_.insert(n.outputs.begin(), n.outputs.end());
      return done();
    }
    LeftOut& left = plan_.leftOut;
    InstructionDetail detail;
    detail.node = n.id;
    if (options_.missing == Missing::MadeUp && canBeMadeUp(g_, n)) {
      left.madeUp.push_back(left.nodes.size());
      for (size_t k = 0; k < n.outputs.size(); ++k)
        detail.madeUp.emplace_back(g_.value(n.outputs[k]).type, std::hash<std::string>()(n.name) + k);
      dependent_.insert(n.outputs.begin(), n.outputs.end());
    } else {
      absent_.insert(n.outputs.begin(), n.outputs.end());
    }
    left.nodes.push_back(n.name);
    std::vector<Operand> operands;
    std::unordered_set<ValueId> noted;
    Status status = done();
    forEachUse(n, [&](ValueId v) {
      if (g_.isWeight(v) || absent_.contains(v) || slotOf_[v.index] == noSlot || !noted.insert(v).second) return;
      auto o = operandFor(Argument(v), nullptr);
      if (!o) {
        status = o.error();
        return;
      }
      operands.push_back(*o);
      left.reads.push_back(fmt::format("{}, which {} ({}) reads", g_.value(v).name, n.name, n.op->name));
    });
    if (!status) return status;
    Reads reads;
    collectReads(operands, reads);
    if (n.blocks.empty()) moveLastUses(reads, n.id);
    Instruction i;
    i.kind = Instruction::Kind::Missing;
    i.detail = static_cast<uint32_t>(plan_.details.size());
    i.operands = static_cast<uint32_t>(plan_.operands.size());
    plan_.operands.insert(plan_.operands.end(), operands.begin(), operands.end());
    i.operandEnd = static_cast<uint32_t>(plan_.operands.size());
    i.outputs = static_cast<uint32_t>(plan_.outputs.size());
    if (!detail.madeUp.empty())
      for (ValueId v : n.outputs) plan_.outputs.push_back({giveSlot(v), v});
    i.outputEnd = static_cast<uint32_t>(plan_.outputs.size());
    plan_.details.push_back(std::move(detail));
    into.push_back(std::move(i));
    return done();
  }

  /// What the graph returns, with None for what is not computed.
  Argument computed(const Argument& a) {
    if (a.isValue()) {
      const size_t at = returned_++;
      if (dependent_.contains(a.valueId())) plan_.leftOut.dependent.push_back(at);
      if (!absent_.contains(a.valueId())) return a;
      plan_.leftOut.absent.push_back(at);
      return {};
    }
    std::vector<Argument> items;
    if (const std::vector<Argument>* given = a.items()) {
      const size_t before = plan_.leftOut.absent.size();
      for (const Argument& i : *given) items.push_back(computed(i));
      const bool isWhole = before == plan_.leftOut.absent.size();  // a list of tensors holds no None
      return a.isList() && isWhole ? Argument::list(std::move(items)) : Argument::tuple(std::move(items));
    }
    if (const auto* dict = a.as<Argument::Dict>()) {
      std::vector<std::pair<Argument, Argument>> entries;
      for (const auto& [key, value] : dict->items) entries.emplace_back(key, computed(value));
      return Argument::dict(std::move(entries));
    }
    return a;
  }

  Error at(const Node& n, Error e) const {
    e.message = fmt::format("{} ({}): {}", n.name, n.op->name, e.message);
    return e;
  }

  static std::string described(const NodeLabel& l) {
    return l.source.empty() ? fmt::format("{} ({})", l.name, l.op)
                            : fmt::format("{} ({}) at {}", l.name, l.op, l.source);
  }

  Status planBlock(BlockId b, BlockPlan& out) {
    const Block& block = g_.block(b);
    for (ValueId p : block.parameters) {
      out.parameters.push_back(giveSlot(p));
      out.parameterIds.push_back(p);
    }
    for (NodeId id : g_.order(b)) {
      const Node& n = g_.node(id);
      if (plan_.leftOut.any()) {
        if (isMissing(n) || usesOneOf(n, absent_)) {
          if (Status s = planLeftOut(n, out.instructions); !s) return at(n, s.error());
          continue;
        }
        if (usesOneOf(n, dependent_)) dependent_.insert(n.outputs.begin(), n.outputs.end());
      }
      Instruction i;
      if (Status s = planNode(n, i); !s) return at(n, s.error());
      out.instructions.push_back(std::move(i));
    }
    leaveOnStack(out.instructions);
    node_ = nullptr;
    onHost_ = keepsFloat32_ = absentTensors_ = false;
    const NodeId owner = b == g_.root() ? NodeId() : block.owner;
    // A loop's first return says whether it goes on.
    const size_t skipped = owner && builtInName(g_.node(owner).op->name) == "prim.Loop" ? 1 : 0;
    for (size_t k = 0; k < block.returns.size(); ++k) {
      const Argument& a = block.returns[k];
      const bool isResult = owner && k >= skipped && k - skipped < g_.node(owner).outputs.size();
      const c10::TypePtr wanted = isResult ? containerType(g_.node(owner).outputs[k - skipped]) : nullptr;
      auto o = operandFor(plan_.leftOut.any() && b == g_.root() ? computed(a) : a, wanted);
      if (!o) return o.error();
      out.returns.push_back(std::move(*o));
    }
    Reads reads, own;
    collectReads(out.returns, reads);
    for (auto& r : reads)
      if (uses_.home(r.first) == b) own.push_back(r);
    moveLastUses(own, NodeId());
    return done();
  }

  /// A result that only the next instruction reads, as its first operand, stays where both find it.
  void leaveOnStack(std::vector<Instruction>& block) const {
    for (size_t k = 0; k + 1 < block.size(); ++k) {
      Instruction &a = block[k], &b = block[k + 1];
      if (a.kind != Instruction::Kind::Dispatch || b.kind != Instruction::Kind::Dispatch) continue;
      if (a.outputEnd != a.outputs + 1 || b.operands == b.operandEnd) continue;
      const Operand& first = plan_.operands[b.operands];
      if (first.kind != Operand::Kind::Move || first.mustFit || first.index != plan_.outputs[a.outputs].slot) continue;
      a.leaves = b.finds = true;
    }
  }

  uint32_t giveSlot(ValueId v) {
    const uint32_t s = takeSlot(v);
    if (s != noSlot) {
      if (valueInSlot_.size() <= s) valueInSlot_.resize(s + 1);
      valueInSlot_[s] = v;
    }
    return s;
  }

  Status planNode(const Node& n, Instruction& i) {
    i.detail = static_cast<uint32_t>(plan_.details.size());
    plan_.details.emplace_back();
    InstructionDetail detail;
    const bool added = parts_ && n.id.index >= parts_->originalNodes;
    detail.node = added ? parts_->serves[n.id.index] : n.id;
    const std::string_view name = builtInName(n.op->name);
    std::vector<Argument> args = n.args;
    std::vector<c10::TypePtr> wanted(args.size());
    if (isBuiltIn(name)) {
      if (Status s = planBuiltIn(n, name, i, args); !s) return s;
      wanted.resize(args.size());
      // A list or dictionary that is filled later holds nothing that would say what it is for.
      if (i.kind == Instruction::Kind::Collect && !wanted.empty() && n.outputs.size() == 1)
        wanted[0] = containerType(n.outputs[0]);
    } else if (Status s = planCall(n, i, detail, args, wanted); !s) {
      return s;
    }
    std::vector<Operand> operands;
    node_ = &n;
    onHost_ = place_.onHost(n);
    keepsFloat32_ = parts_ && parts_->keeps(n.id);
    absentTensors_ = n.op->is(OperatorFact::AbsentTensors);
    numbersOnDevice_ = !device_.is_cpu() && !onHost_ && !n.op->is(OperatorFact::CpuNumber);
    for (size_t k = 0; k < args.size(); ++k) {
      auto o = operandFor(args[k], wanted[k]);
      if (!o) {
        const bool named = k < n.op->parameters.size();
        Error e = o.error();
        e.message = fmt::format("argument {}: {}", named ? n.op->parameters[k].name : std::to_string(k), e.message);
        return e;
      }
      operands.push_back(*o);
    }
    Reads reads;
    collectReads(operands, reads);
    moveLastUses(reads, n.id);
    for (BlockId b : n.blocks) {
      detail.blocks.emplace_back();
      if (Status s = planBlock(b, detail.blocks.back()); !s) return s;
    }
    if (!n.blocks.empty()) releaseAfter(n.id, detail.releases);
    i.operands = static_cast<uint32_t>(plan_.operands.size());
    plan_.operands.insert(plan_.operands.end(), operands.begin(), operands.end());
    i.operandEnd = static_cast<uint32_t>(plan_.operands.size());
    i.outputs = static_cast<uint32_t>(plan_.outputs.size());
    for (ValueId v : n.outputs) plan_.outputs.push_back({giveSlot(v), added ? ValueId() : v});
    i.outputEnd = static_cast<uint32_t>(plan_.outputs.size());
    plan_.details[i.detail] = std::move(detail);
    return done();
  }

  /// What is last read inside the node's blocks stays until they are through.
  void releaseAfter(NodeId node, std::vector<uint32_t>& releases) {
    for (uint32_t k = 0; k < slotOf_.size(); ++k) {
      const ValueId v(k);
      if (slotOf_[k] == noSlot || !uses_.diesAt(v, node) || !uses_.insideLast(v)) continue;
      releases.push_back(slotOf_[k]);
      free_.push_back(slotOf_[k]);
    }
  }

  Status planCall(const Node& n, Instruction& i, InstructionDetail& detail, std::vector<Argument>& args,
                  std::vector<c10::TypePtr>& wanted) {
    const Resolved& r = resolved_.at(overload(n));
    const auto& parameters = r.schema->arguments();
    if (!n.kwargs.empty()) {
      for (size_t k = args.size(); k < parameters.size(); ++k) {
        const Argument* given = nullptr;
        for (const auto& [key, value] : n.kwargs)
          if (key == parameters[k].name()) given = &value;
        if (given)
          args.push_back(*given);
        else if (auto d = parameters[k].default_value() ? toArgument(*parameters[k].default_value()) : std::nullopt)
          args.push_back(*d);
        else
          return badInput(fmt::format("no value for the parameter '{}'", parameters[k].name()));
      }
    }
    const bool variadic = r.schema->is_vararg();
    for (size_t k = args.size(); k < parameters.size(); ++k) {
      const auto& d = parameters[k].default_value();
      auto literal = d ? toArgument(*d) : std::nullopt;
      if (!literal) return badInput(fmt::format("no value for the parameter '{}'", parameters[k].name()));
      args.push_back(std::move(*literal));
    }
    if (args.size() > parameters.size() && !variadic)
      return badInput(fmt::format("{} arguments for {} parameters", args.size(), parameters.size()));
    if (!r.schema->is_varret() && r.schema->returns().size() != n.outputs.size())
      return badInput(
          fmt::format("the operator gives {} values, the node has {}", r.schema->returns().size(), n.outputs.size()));
    wanted.resize(args.size());
    for (size_t k = 0; k < parameters.size(); ++k) wanted[k] = parameters[k].type();
    adjustFactory(n, *r.schema, args);
    if (r.handle) {
      i.kind = Instruction::Kind::Dispatch;
      i.handle = r.handle;
      if (device_.is_cpu()) resolveKernel(plan_, i);
      return done();
    }
    i.kind = Instruction::Kind::Jit;
    // The interpreter has an instruction of its own for warnings. A model that runs a thousand times, to be verified
    // or timed, would repeat them a thousand times: they are left out.
    if (r.schema->name() == "aten::warn") {
      detail.jit = [count = args.size()](torch::jit::Stack& stack) { torch::jit::drop(stack, count); };
      return done();
    }
    if (r.jit->hasOperation()) {
      detail.jit = [operation = r.jit->getOperation(), op = r.jit](torch::jit::Stack& stack) mutable {
        checkCall(op->schema(), stack);
        operation(stack);
      };
      // Operators of any number of arguments take it last.
      if (variadic)
        detail.jit = [operation = r.jit->getOperation(), count = args.size()](torch::jit::Stack& stack) mutable {
          stack.emplace_back(static_cast<int64_t>(count));
          operation(stack);
        };
      return done();
    }
    // Some operators of TorchScript are made for one node: they ask it for the number of its inputs.
    auto graph = std::make_shared<torch::jit::Graph>();
    std::vector<torch::jit::Value*> inputs;
    for (size_t k = 0; k < args.size(); ++k) inputs.push_back(graph->addInput());
    torch::jit::Node* node = graph->create(c10::Symbol::fromQualString(r.schema->name()), inputs, n.outputs.size());
    graph->appendNode(node);
    detail.jit = [graph, operation = r.jit->getOperation(node)](torch::jit::Stack& stack) mutable { operation(stack); };
    return done();
  }

  /// Operators that make tensors from nothing make them where the program runs, in the dtype it computes in.
  void adjustFactory(const Node& n, const c10::FunctionSchema& schema, std::vector<Argument>& args) const {
    bool readsTensor = false;
    for (const Argument& a : args)
      a.forEachValue([&](ValueId v) { readsTensor = readsTensor || g_.value(v).type.isTensor(); });
    if (readsTensor) return;
    for (size_t k = 0; k < schema.arguments().size(); ++k) {
      const std::string& parameter = schema.arguments()[k].name();
      if (!args[k].isNone()) continue;
      if (parameter == "device" && !device_.is_cpu() && !place_.onHost(n))
        args[k] = Argument(DeviceName{device_.str()});
      if (parameter == "dtype" && change_.to && !(parts_ && parts_->keeps(n.id)) && change_.from == DType::Float32 &&
          makesFloats(n))
        args[k] = Argument(*change_.to);
    }
  }

  const Graph& g_;
  const RunOptions& options_;
  c10::Device device_;
  Placement place_;
  const DTypeChange change_;
  const Float32Parts* parts_;
  ProgramPlan plan_;
  std::unordered_map<std::string, Resolved> resolved_;
  std::unordered_map<uint64_t, uint32_t> weightConstant_;  ///< by keyOf
  std::vector<c10::IValue> writtenTensors_;
  LastUses uses_;
  std::vector<uint32_t> slotOf_, free_;
  std::vector<ValueId> valueInSlot_;
  // Of the node that is being planned:
  const Node* node_ = nullptr;
  bool numbersOnDevice_ = false, onHost_ = false, keepsFloat32_ = false, absentTensors_ = false;
  /// Where operators are missing: what is not computed, and what is computed from made-up values.
  std::unordered_set<ValueId> absent_, dependent_;
  size_t returned_ = 0;  ///< values in the returns so far
};

}  // namespace

bool fitsAlready(const Type& have, const c10::Type& wanted) {
  switch (wanted.kind()) {
    case c10::TypeKind::TensorType:
      return have.isTensor();
    case c10::TypeKind::OptionalType: {
      if (have.kind == Type::Kind::None) return true;
      const c10::Type& inner = *static_cast<const c10::OptionalType&>(wanted).getElementType();
      return fitsAlready(have.kind == Type::Kind::Optional ? have.element() : have, inner);
    }
    case c10::TypeKind::NumberType:
      return have.kind == Type::Kind::Int || have.kind == Type::Kind::Float || have.kind == Type::Kind::Bool ||
             have.kind == Type::Kind::Number || have.kind == Type::Kind::Complex;
    case c10::TypeKind::FloatType:
      return have.kind == Type::Kind::Float;
    case c10::TypeKind::IntType:
      return have.kind == Type::Kind::Int || have.kind == Type::Kind::DType;
    case c10::TypeKind::BoolType:
      return have.kind == Type::Kind::Bool;
    case c10::TypeKind::StringType:
      return have.kind == Type::Kind::String;
    case c10::TypeKind::ListType:
      return have.kind == Type::Kind::List &&
             *torchType(have.element()) == *static_cast<const c10::ListType&>(wanted).getElementType();
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::DeviceObjType:
      return false;
    default:
      return true;
  }
}

Result<ProgramPlan> makePlan(const Graph& g, const RunOptions& options) {
  auto device = requireDevice(options.device);
  if (!device) return device.error();
  try {
    const DTypeChange change = changeTo(g, options.dtype);
    const std::optional<Float32Parts> parts = keepFloat32(g, change);
    return Planner(parts ? parts->graph : g, options, *device, change, parts ? &*parts : nullptr).plan();
  } catch (const std::exception& e) {
    return internalError(fmt::format("planning failed: {}", shortMessage(e)));
  }
}

}  // namespace graft
