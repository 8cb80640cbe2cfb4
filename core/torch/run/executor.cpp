#include "core/torch/executor.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/ir/calls/may_be_none.h"
#include "core/torch/run/direct_call.h"
#include "core/torch/run/made_up.h"
#include "core/torch/run/plan.h"
#include "core/torch/values/device.h"
#include "core/torch/values/placement.h"
#include "core/torch/values/tensor_sets.h"

namespace graft {

struct Program::Impl {
  ProgramPlan plan;
  RunOptions options;
  c10::Device device = c10::kCPU;
};

namespace {

using torch::jit::Stack;

struct NoHooks {
  static constexpr bool active = false;
  void before(NodeId) {}
  void after() {}
  void value(ValueId, const c10::IValue&) {}
};

/// The value with lists and dictionaries of its own, and what else it holds shared.
c10::IValue withOwnLists(const c10::IValue& v) {
  if (v.isList()) {
    auto list = v.toList().copy();
    for (size_t i = 0; i < list.size(); ++i) {
      const c10::IValue item = list.get(i);
      if (!item.isList() && !item.isGenericDict()) continue;
      list.set(i, withOwnLists(item));
    }
    return list;
  }
  if (!v.isGenericDict()) return v;
  auto dict = v.toGenericDict().copy();
  for (const auto& entry : v.toGenericDict()) dict.insert_or_assign(entry.key(), withOwnLists(entry.value()));
  return dict;
}

/// One run: the frame, and a stack that all calls share.
template <class Hooks>
class Run {
 public:
  Run(const ProgramPlan& plan, const Job& job, Hooks hooks)
      : plan_(plan), job_(job), hooks_(hooks), plain_(!plan.kernels.empty()), frame_(plan.slots) {
    // Below the kilobyte from which on malloc tidies its lists of small blocks first, in every run.
    stack_.reserve(48);
  }

  Result<TensorSet> operator()(const std::vector<c10::IValue>& inputs) {
    try {
      for (size_t i = 0; i < inputs.size(); ++i)
        if (const uint32_t slot = plan_.root.parameters[i]; slot != noSlot) frame_[slot] = inputs[i];
      if (plan_.leftOut.any()) sizes_ = symbolSizes(plan_.inputs, inputs);
      if (!execute(plan_.root)) return Error{ErrorKind::Cancelled, "stopped", {}};
      for (const Operand& o : plan_.root.returns) push(o);
      stack_.insert(stack_.end(), std::make_move_iterator(reads_.begin()), std::make_move_iterator(reads_.end()));
      return tensorSet(
          std::vector<c10::IValue>(std::make_move_iterator(stack_.begin()), std::make_move_iterator(stack_.end())));
    } catch (const std::exception& e) {
      return failure(e);
    }
  }

 private:
  struct Misfit : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  void push(const Operand& o) {
    switch (o.kind) {
      case Operand::Kind::Constant:
        stack_.push_back(plan_.constants[o.index]);
        return;
      case Operand::Kind::Copy:
        stack_.push_back(frame_[o.index]);
        break;
      case Operand::Kind::Move:
        stack_.push_back(std::move(frame_[o.index]));
        break;
      case Operand::Kind::Pytree:
        pushPytree(plan_.pytrees[o.index]);
        return;
    }
    if (o.mustFit) [[unlikely]]
      fitTop(o);
  }

  void fitTop(const Operand& o) {
    if (o.mayBeAbsent && stack_.back().isNone()) {
      stack_.back() = at::Tensor();
      return;
    }
    auto fitted = fit(std::move(stack_.back()), *plan_.wanted[o.wanted]);
    if (!fitted) throw Misfit(fitted.error().message);
    stack_.back() = std::move(*fitted);
  }

  void pushPytree(const Pytree& pytree) {
    const size_t base = stack_.size();
    for (const Operand& o : pytree.items) push(o);
    c10::IValue out;
    if (pytree.kind == Pytree::Kind::Tuple) {
      out = c10::ivalue::Tuple::create(std::vector<c10::IValue>(
          std::make_move_iterator(stack_.begin() + static_cast<long>(base)), std::make_move_iterator(stack_.end())));
    } else if (pytree.kind == Pytree::Kind::Dict) {
      c10::impl::GenericDict dict(pytree.key, pytree.element);
      for (size_t i = base; i + 1 < stack_.size(); i += 2) dict.insert(stack_[i], stack_[i + 1]);
      out = std::move(dict);
    } else {
      c10::impl::GenericList list(pytree.element);
      list.reserve(pytree.items.size());
      for (size_t i = base; i < stack_.size(); ++i) list.push_back(std::move(stack_[i]));
      out = std::move(list);
    }
    stack_.resize(base);
    stack_.push_back(std::move(out));
  }

  c10::IValue pop() {
    c10::IValue v = std::move(stack_.back());
    stack_.pop_back();
    return v;
  }

  void store(uint32_t slot, ValueId id, c10::IValue value) {
    if constexpr (Hooks::active) hooks_.value(id, value);
    if (slot != noSlot) frame_[slot] = std::move(value);
  }

  /// False when the job was cancelled.
  bool execute(const BlockPlan& block) {
    for (const Instruction& i : block.instructions) {
      if (job_.cancelled()) [[unlikely]]
        return false;
      current_ = &i;
      const uint32_t found = i.finds ? 1 : 0;
      base_ = stack_.size() - found;
      if constexpr (Hooks::active) hooks_.before(plan_.details[i.detail].node);
      for (uint32_t k = i.operands + found; k < i.operandEnd; ++k) push(plan_.operands[k]);
      if (plain_.holds(i, stack_)) [[likely]]
        callKernel(i);
      else if (i.kind == Instruction::Kind::Dispatch)
        i.handle->callBoxed(&stack_);
      else if (!executeOther(i))
        return false;
      if (i.leaves) {
        if constexpr (Hooks::active) {
          if (const ValueId v = plan_.outputs[i.outputs].value) hooks_.value(v, stack_.back());
          hooks_.after();
        }
        continue;
      }
      for (uint32_t k = i.outputEnd; k-- > i.outputs;) {
        const OutputSlot& out = plan_.outputs[k];
        if constexpr (Hooks::active)
          if (out.value) hooks_.value(out.value, stack_.back());
        if (out.slot != noSlot) frame_[out.slot] = std::move(stack_.back());
        stack_.pop_back();
      }
      if constexpr (Hooks::active) hooks_.after();
    }
    return true;
  }

  void callKernel(const Instruction& i) {
    if (!i.unary) {
      i.kernel->callBoxed(*i.handle, plain_.keys(), &stack_);
      return;
    }
    c10::IValue& top = stack_.back();
    top = i.unary->redispatch(plain_.keys(), top.toTensor());
  }

  bool executeOther(const Instruction& i) {
    switch (i.kind) {
      case Instruction::Kind::Jit:
        plan_.details[i.detail].jit(stack_);
        return true;
      case Instruction::Kind::GetItem:
        getItem();
        return true;
      case Instruction::Kind::Unpack:
        unpack(i.outputEnd - i.outputs);
        return true;
      case Instruction::Kind::Drop:
        stack_.resize(base_);
        return true;
      case Instruction::Kind::If:
      case Instruction::Kind::Loop: {
        const InstructionDetail& detail = plan_.details[i.detail];
        if (!(i.kind == Instruction::Kind::If ? runIf(i, detail) : runLoop(i, detail))) return false;
        for (uint32_t slot : detail.releases) frame_[slot] = c10::IValue();
        return true;
      }
      case Instruction::Kind::Missing:
        missing(i);
        return true;
      case Instruction::Kind::Collect:
        // The program may fill a list of literals, and the plan's constants serve all turns and all runs.
        if (plan_.operands[i.operands].kind == Operand::Kind::Constant) stack_.back() = withOwnLists(stack_.back());
        return true;
      case Instruction::Kind::Dispatch:
        return true;
    }
    return true;
  }

  void missing(const Instruction& i) {
    const size_t base = stack_.size() - (i.operandEnd - i.operands);
    for (size_t k = base; k < stack_.size(); ++k) reads_.push_back(std::move(stack_[k]));
    stack_.resize(base);
    for (const auto& [type, seed] : plan_.details[i.detail].madeUp)
      stack_.push_back(makeUp(type, seed, sizes_, plan_.device, plan_.madeUpFloatsAs));
  }

  void getItem() {
    const c10::IValue index = pop(), from = pop();
    if (from.isGenericDict()) {
      const auto dict = from.toGenericDict();
      const auto found = dict.find(index);
      if (found == dict.end()) throw Misfit(fmt::format("the dict has no key {}", describe(index)));
      stack_.push_back(found->value());
      return;
    }
    if (!index.isInt()) throw Misfit(fmt::format("the index is {}, an integer is wanted", describe(index)));
    const bool tuple = from.isTuple();
    if (!tuple && !from.isList()) throw Misfit(fmt::format("{} has no elements", describe(from)));
    const auto size = static_cast<int64_t>(tuple ? from.toTupleRef().size() : from.toListRef().size());
    const int64_t at = index.toInt() < 0 ? index.toInt() + size : index.toInt();
    if (at < 0 || at >= size) throw Misfit(fmt::format("index {} of {} elements", index.toInt(), size));
    stack_.push_back(tuple ? from.toTupleRef().elements()[static_cast<size_t>(at)]
                           : from.toListRef()[static_cast<size_t>(at)]);
  }

  void unpack(size_t wanted) {
    const c10::IValue from = pop();
    const size_t size = from.isTuple() ? from.toTupleRef().size() : from.isList() ? from.toListRef().size() : SIZE_MAX;
    if (size != wanted) throw Misfit(fmt::format("{} cannot be unpacked into {} values", describe(from), wanted));
    for (size_t k = 0; k < size; ++k)
      stack_.push_back(from.isTuple() ? from.toTupleRef().elements()[k] : from.toListRef()[k]);
  }

  bool condition(const c10::IValue& v) {
    if (v.isBool()) return v.toBool();
    auto b = fit(v, *c10::BoolType::get());
    if (!b) throw Misfit("the condition is " + describe(v));
    return b->toBool();
  }

  bool runIf(const Instruction& i, const InstructionDetail& detail) {
    const BlockPlan& taken = detail.blocks[condition(pop()) ? 0 : 1];
    if (!execute(taken)) return false;
    for (const Operand& o : taken.returns) push(o);
    current_ = &i;
    base_ = SIZE_MAX;  // its own arguments are gone
    return true;
  }

  /// The stack holds trip count, condition and the carried values; at the end the carried values.
  bool runLoop(const Instruction& i, const InstructionDetail& detail) {
    const BlockPlan& body = detail.blocks[0];
    const size_t carried = i.outputEnd - i.outputs, base = stack_.size() - carried;
    const int64_t trips = stack_[base - 2].toInt();
    bool go = condition(stack_[base - 1]);
    if (body.parameters.size() != carried + 1 || body.returns.size() != carried + 1)
      throw Misfit("its block does not take and give what the loop carries");
    for (int64_t trip = 0; go && trip < trips; ++trip) {
      store(body.parameters[0], body.parameterIds[0], trip);
      for (size_t k = 0; k < carried; ++k)
        store(body.parameters[k + 1], body.parameterIds[k + 1], std::move(stack_[base + k]));
      stack_.resize(base);
      if (!execute(body)) return false;
      push(body.returns[0]);
      go = condition(pop());
      for (size_t k = 0; k < carried; ++k) push(body.returns[k + 1]);
      current_ = &i;
      base_ = SIZE_MAX;  // its own arguments are gone
    }
    for (size_t k = 0; k < carried; ++k) stack_[base - 2 + k] = std::move(stack_[base + k]);
    stack_.resize(base - 2 + carried);
    return true;
  }

  Error failure(const std::exception& e) const {
    std::string message = shortMessage(e);
    if (!current_) return badInput(std::move(message));
    const NodeLabel& label = plan_.labels[plan_.details[current_->detail].node.index];
    const std::string where = label.source.empty() ? "" : fmt::format(" at {}", label.source);
    std::string got;
    // Operators leave their arguments on the stack when they throw; those of TorchScript's own may have taken them.
    if (stack_.size() == base_ + (current_->operandEnd - current_->operands)) {
      for (size_t k = base_; k < stack_.size(); ++k) got += (got.empty() ? "" : ", ") + describe(stack_[k]);
      got = fmt::format("; it got ({})", got);
    }
    const bool memory = message.find("out of memory") != message.npos || dynamic_cast<const std::bad_alloc*>(&e);
    if (memory) message += " (try a smaller batch or a shorter sequence)";
    return badInput(fmt::format("{} ({}){} failed: {}{}", label.name, label.op, where, message, got));
  }

  const ProgramPlan& plan_;
  const Job& job_;
  Hooks hooks_;
  const PlainCalls plain_;
  std::vector<c10::IValue> frame_;
  Stack stack_;
  std::vector<c10::IValue> reads_;  // of missing operators
  SymbolSizes sizes_;               // for what is made up
  const Instruction* current_ = nullptr;
  size_t base_ = 0;
};

/// Whether the value is what the graph's input wants; says nothing about what the type leaves open.
bool accepts(const Type& wanted, const c10::IValue& got, bool fixedShapes) {
  switch (wanted.kind) {
    case Type::Kind::Tensor: {
      if (!got.isTensor() || !got.toTensor().defined()) return false;
      const at::Tensor& t = got.toTensor();
      if (wanted.tensorInfo.dtype && torchDType(*wanted.tensorInfo.dtype) != t.scalar_type()) return false;
      if (!wanted.tensorInfo.shape) return true;
      if (static_cast<int64_t>(wanted.tensorInfo.shape->size()) != t.dim()) return false;
      for (int64_t i = 0; fixedShapes && i < t.dim(); ++i) {
        const Dim& d = (*wanted.tensorInfo.shape)[static_cast<size_t>(i)];
        if (d.isStatic() && d.size != t.size(i)) return false;
      }
      return true;
    }
    case Type::Kind::Optional:
      return got.isNone() || accepts(wanted.element(), got, fixedShapes);
    case Type::Kind::List: {
      if (got.isTuple()) return true;
      if (!got.isList()) return false;
      for (const c10::IValue& v : got.toListRef())
        if (!accepts(wanted.element(), v, fixedShapes)) return false;
      return true;
    }
    case Type::Kind::Tuple: {
      if (!got.isTuple() || got.toTupleRef().size() != wanted.elements.size()) return false;
      for (size_t i = 0; i < wanted.elements.size(); ++i)
        if (!accepts(wanted.elements[i], got.toTupleRef().elements()[i], fixedShapes)) return false;
      return true;
    }
    case Type::Kind::Int:
      return got.isInt() || (got.isTensor() && got.toTensor().numel() == 1);
    case Type::Kind::Float:
      return got.isDouble() || got.isInt() || (got.isTensor() && got.toTensor().numel() == 1);
    case Type::Kind::Bool:
      return got.isBool() || (got.isTensor() && got.toTensor().numel() == 1);
    default:
      return true;
  }
}

std::string wantedText(const Type& t) {
  Type plain = t;
  plain.tensorInfo.device.clear();
  return toString(plain);
}

/// The values of a dict in the order of the graph's inputs, where its keys are their names; as they are otherwise.
std::vector<c10::IValue> orderedByName(const std::vector<InputSpec>& wanted, const TensorSet& set) {
  const auto& values = valuesOf(set);
  if (!set.impl || set.impl->names.size() != wanted.size()) return values;
  std::vector<c10::IValue> out;
  for (const InputSpec& w : wanted) {
    const auto at = std::find(set.impl->names.begin(), set.impl->names.end(), w.name);
    if (at == set.impl->names.end()) return values;
    out.push_back(values[static_cast<size_t>(at - set.impl->names.begin())]);
  }
  return out;
}

/// The inputs as the graph wants them, checked.
Result<std::vector<c10::IValue>> prepare(const Program::Impl& impl, const TensorSet& set) {
  const auto& wanted = impl.plan.inputs;
  std::vector<c10::IValue> values = orderedByName(wanted, set);
  if (values.size() != wanted.size()) {
    std::string names;
    for (const InputSpec& s : wanted)
      names += fmt::format("{}'{}' {}", names.empty() ? "" : ", ", s.name, wantedText(s.type));
    return badInput(fmt::format("the model takes {} input{}{}{}{}, got {}", wanted.size(),
                                wanted.size() == 1 ? "" : "s", names.empty() ? "" : " (", names,
                                names.empty() ? "" : ")", values.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!accepts(wanted[i].type, values[i], impl.options.fixedShapes))
      return badInput(fmt::format("input {} '{}' wants {}, got {}", i, wanted[i].name, wantedText(wanted[i].type),
                                  describe(values[i])));
    if (values[i].isTensor()) {
      const at::Tensor& t = values[i].toTensor();
      if (t.device() != impl.device && !(t.device().is_cpu() && t.dim() == 0))
        return badInput(fmt::format("input {} '{}' is on {}, the program runs on {}", i, wanted[i].name,
                                    t.device().str(), impl.device.str()));
    }
    if (wanted[i].torch->kind() == c10::TypeKind::TensorType && values[i].isTensor()) continue;
    if (!fitsAlready(typeOfValue(values[i]), *wanted[i].torch)) {
      auto fitted = fit(std::move(values[i]), *wanted[i].torch);
      if (!fitted) return badInput(fmt::format("input {} '{}': {}", i, wanted[i].name, fitted.error().message));
      values[i] = std::move(*fitted);
    }
  }
  return values;
}

template <class Hooks>
Result<TensorSet> runWith(const Program::Impl& impl, const TensorSet& inputs, const Job& job, Hooks hooks) {
  c10::InferenceMode inference;
  if (impl.options.threads > 0 && at::get_num_threads() != impl.options.threads)
    at::set_num_threads(impl.options.threads);
  auto values = prepare(impl, inputs);
  if (!values) return values.error();
  try {
    c10::OptionalDeviceGuard guard;
    if (!impl.device.is_cpu()) guard.reset_device(impl.device);
    return Run<Hooks>(impl.plan, job, hooks)(*values);
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

/// Times on the CPU by the clock, on other devices by events in the stream.
struct TimingHooks {
  static constexpr bool active = true;
  struct Sample {
    NodeId node;
    double microseconds = 0;
    std::optional<c10::Event> start, stop;
  };
  std::vector<Sample>* samples;
  std::vector<std::pair<size_t, std::chrono::steady_clock::time_point>>* open;
  c10::Device device;

  void mark(std::optional<c10::Event>& event) {
    event.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  void before(NodeId node) {
    Sample s;
    s.node = node;
    if (!device.is_cpu()) mark(s.start);
    samples->push_back(std::move(s));
    open->emplace_back(samples->size() - 1, std::chrono::steady_clock::now());
  }
  void after() {
    const auto now = std::chrono::steady_clock::now();
    Sample& s = (*samples)[open->back().first];
    if (device.is_cpu())
      s.microseconds = std::chrono::duration<double, std::micro>(now - open->back().second).count();
    else
      mark(s.stop);
    open->pop_back();
  }
  void value(ValueId, const c10::IValue&) {}
};

template <class F>
struct SeeHooks {
  static constexpr bool active = true;
  const F* see;
  void before(NodeId) {}
  void after() {}
  void value(ValueId id, const c10::IValue& v) { (*see)(id, v); }
};

struct MarkHooks {
  static constexpr bool active = true;
  const std::function<void(NodeId)>* mark;
  void before(NodeId node) { (*mark)(node); }
  void after() {}
  void value(ValueId, const c10::IValue&) {}
};

/// The type of a value seen twice (in a loop): what both agree on.
Type mergeTypes(const Type& a, const Type& b) {
  if (a == b || !a.isTensor() || !b.isTensor()) return a;
  TensorInfo out;
  if (a.tensorInfo.dtype == b.tensorInfo.dtype) out.dtype = a.tensorInfo.dtype;
  if (a.tensorInfo.device == b.tensorInfo.device) out.device = a.tensorInfo.device;
  if (a.tensorInfo.rank() && a.tensorInfo.rank() == b.tensorInfo.rank()) {
    out.shape = a.tensorInfo.shape;
    for (size_t i = 0; i < out.shape->size(); ++i)
      if (!((*out.shape)[i] == (*b.tensorInfo.shape)[i])) (*out.shape)[i] = Dim();
  }
  return Type::tensor(std::move(out));
}

}  // namespace

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

Result<Program> Program::build(const Graph& graph, const RunOptions& options) {
  auto device = requireDevice(options.device);
  if (!device) return device.error();
  auto plan = makePlan(graph, options);
  if (!plan) return plan.error();
  auto impl = std::make_unique<Impl>();
  impl->plan = std::move(*plan);
  impl->options = options;
  impl->device = *device;
  return Program(std::move(impl));
}

const RunOptions& Program::options() const { return impl_->options; }
const LeftOut& Program::leftOut() const { return impl_->plan.leftOut; }
size_t Program::operators() const { return impl_->plan.details.size(); }
const CaptureFacts& Program::capture() const { return impl_->plan.capture; }
const MovedAlong& Program::moved() const { return impl_->plan.moved; }

Result<TensorSet> Program::run(const TensorSet& inputs, const Job& job) const {
  return runWith(*impl_, inputs, job, NoHooks{});
}

Result<TensorSet> Program::profile(const TensorSet& inputs, std::vector<NodeTime>& times) const {
  std::vector<TimingHooks::Sample> samples;
  samples.reserve(impl_->plan.details.size());
  std::vector<std::pair<size_t, std::chrono::steady_clock::time_point>> open;
  auto out = runWith(*impl_, inputs, {}, TimingHooks{&samples, &open, impl_->device});
  if (!out) return out;
  times.clear();
  try {
    synchronize(impl_->device);
    for (const auto& s : samples)
      times.push_back({s.node, s.start && s.stop ? s.start->elapsedTime(*s.stop) * 1000 : s.microseconds});
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
  return out;
}

Result<TensorSet> Program::observe(const TensorSet& inputs,
                                   const std::function<void(ValueId, const TensorSet&)>& see) const {
  auto show = [&](ValueId id, const c10::IValue& v) { see(id, tensorSet({v})); };
  return runWith(*impl_, inputs, {}, SeeHooks<decltype(show)>{&show});
}

Result<TensorSet> Program::runMarked(const TensorSet& inputs, const std::function<void(NodeId)>& before,
                                     const Job& job) const {
  return runWith(*impl_, inputs, job, MarkHooks{&before});
}

Result<TensorSet> Program::collect(const TensorSet& inputs, const std::unordered_set<ValueId>* wanted, size_t mostBytes,
                                   bool copy, std::unordered_map<ValueId, TensorSet>& kept, const Job& job) const {
  size_t bytes = 0;
  auto keep = [&](ValueId id, const c10::IValue& v) {
    if (wanted && !wanted->contains(id)) return;
    TensorSet set = tensorSet({v});
    size_t own = 0;
    mapTensors(set, [&](const at::Tensor& t) {
      own += t.nbytes();
      return t;
    });
    if (bytes + own > mostBytes) return;
    bytes += own;
    kept.insert_or_assign(id, copy ? copyOf(set) : std::move(set));
  };
  try {
    const auto values = orderedByName(impl_->plan.inputs, inputs);
    for (size_t i = 0; i < std::min(values.size(), impl_->plan.root.parameterIds.size()); ++i)
      keep(impl_->plan.root.parameterIds[i], values[i]);
    return runWith(*impl_, inputs, job, SeeHooks<decltype(keep)>{&keep});
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

namespace {

/// `seen` with the symbols that the graph has for its sizes: what may differ from call to call is not what one run has.
Type keepingSymbols(Type seen, const Type& known) {
  if (seen.isTensor() && known.isTensor() && seen.tensorInfo.shape && known.tensorInfo.shape &&
      seen.tensorInfo.shape->size() == known.tensorInfo.shape->size())
    for (size_t i = 0; i < seen.tensorInfo.shape->size(); ++i)
      if (const Dim& d = (*known.tensorInfo.shape)[i]; !d.symbol.empty()) (*seen.tensorInfo.shape)[i] = d;
  if (seen.elements.size() == known.elements.size())
    for (size_t i = 0; i < seen.elements.size(); ++i)
      seen.elements[i] = keepingSymbols(std::move(seen.elements[i]), known.elements[i]);
  return seen;
}

}  // namespace

namespace {

void renameDevice(Type& t, const std::string& from, const std::string& to) {
  if (t.isTensor() && t.tensorInfo.device == from) t.tensorInfo.device = to;
  for (Type& e : t.elements) renameDevice(e, from, to);
}

}  // namespace

/// A list or dict from a file of Python's does not say what it holds: then the graph says more.
static Type asDeclared(Type seen, const Type& declared) {
  if (declared.kind == Type::Kind::Optional) return asDeclared(std::move(seen), declared.element());
  if (seen.kind == Type::Kind::Any) return declared;
  if (seen.kind == declared.kind && seen.elements.size() == declared.elements.size())
    for (size_t i = 0; i < seen.elements.size(); ++i)
      seen.elements[i] = asDeclared(std::move(seen.elements[i]), declared.elements[i]);
  return seen;
}

Status recordTypes(Graph& graph, const TensorSet& inputs, bool keepSymbols) {
  RunOptions options;
  options.fixedShapes = false;
  options.missing = Missing::LeftOut;
  for (const c10::IValue& v : valuesOf(inputs))
    if (v.isTensor() && v.toTensor().defined()) options.device = v.toTensor().device().str();
  auto device = requireDevice(options.device);
  if (!device) return device.error();
  auto plan = makePlan(graph, options);
  if (!plan) return plan.error();
  Program::Impl impl{std::move(*plan), options, *device};
  std::unordered_map<ValueId, Type> seen;
  auto note = [&](ValueId id, const c10::IValue& v) {
    Type t = typeOfValue(v);
    auto [it, fresh] = seen.try_emplace(id, t);
    if (!fresh) it->second = mergeTypes(it->second, t);
  };
  auto out = runWith(impl, copyOf(inputs), {}, SeeHooks<decltype(note)>{&note});
  if (!out) return out.error();
  // As the model got them: of a tensor with one element that stood for a number, the number.
  const auto values = prepare(impl, inputs);
  if (!values) return values.error();
  for (size_t i = 0; i < values->size(); ++i) note(graph.inputs()[i], (*values)[i]);
  const std::string home = homeDevice(graph), here = device->str();
  for (auto& [id, type] : seen)
    if (!home.empty()) renameDevice(type, here, home);
  for (ValueId v : graph.inputs())
    if (const auto at = seen.find(v); at != seen.end())
      at->second = asDeclared(std::move(at->second), graph.value(v).type);
  for (auto& [id, type] : seen)
    if (graph.value(id).type.kind == Type::Kind::Optional && type.kind != Type::Kind::Optional &&
        type.kind != Type::Kind::None && mayBeNone(graph, id))
      type = Type::optional(std::move(type));
  for (auto& [id, type] : seen)
    // A None where the graph says optional tells less than the graph.
    if (type.kind != Type::Kind::None)
      graph.setType(id, keepSymbols ? keepingSymbols(std::move(type), graph.value(id).type) : std::move(type));
  return done();
}

}  // namespace graft
