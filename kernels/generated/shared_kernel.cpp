#include "kernels/generated/shared_kernel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/compile/codegen/access.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/torch/types/size_names.h"
#include "core/torch/values/values.h"
#include "kernels/generated/machine_code.h"

namespace graft::ops {
namespace {

at::Tensor emptyMeta(const at::Tensor& like, at::IntArrayRef sizes) {
  return at::empty(sizes, at::TensorOptions(like.scalar_type()).device(at::kMeta));
}

Argument literal(const Dim& d) { return d.isStatic() ? Argument(d.size) : Argument(SymbolicInt{d.symbol}); }

Argument replaced(const Argument& a, const std::unordered_map<ValueId, Argument>& numbers) {
  if (a.isValue()) {
    const auto found = numbers.find(a.valueId());
    return found == numbers.end() ? a : found->second;
  }
  const std::vector<Argument>* items = a.items();
  if (!items) return a;
  std::vector<Argument> now;
  for (const Argument& item : *items) now.push_back(replaced(item, numbers));
  return a.isList() ? Argument::list(std::move(now)) : Argument::tuple(std::move(now));
}

/// Where each tensor's numbers begin among those of a kind; after them, the integers.
std::vector<size_t> firstNumbers(at::TensorList inputs) {
  std::vector<size_t> first{0};
  for (const at::Tensor& t : inputs) {
    const auto forms = strideForms(t);
    const auto own =
        std::count_if(forms.begin(), forms.end(), [](const StrideForm& f) { return f.form == StrideForm::Form::Own; });
    first.push_back(first.back() + forms.size() + static_cast<size_t>(own));
  }
  return first;
}

/// A stride that is a number of its own: a constant, or what a symbol stands for. A symbol that no operator has asked
/// for becomes a size of the program.
loops::ExprId strideOf(loops::Simplifier& s, loops::Program& program, const SizePattern& pattern, const Dim& d) {
  if (d.isStatic()) return s.integer(d.size);
  const auto symbol = std::find_if(pattern.symbols().begin(), pattern.symbols().end(),
                                   [&](const SizePattern::Symbol& p) { return pattern.numbers()[p.number] == d; });
  const auto known = std::find_if(program.sizes.begin(), program.sizes.end(),
                                  [&](const loops::Size& size) { return size.name == symbol->name; });
  const loops::SizeId size = known != program.sizes.end()
                                 ? loops::SizeId(static_cast<uint32_t>(known - program.sizes.begin()))
                                 : program.addSize({symbol->name, symbol->min, symbol->max});
  return s.multiply(s.integer(symbol->factor), program.expressions.size(size));
}

/// The strides of an input as its form and the pattern have them.
codegen::Layout inputLayout(loops::Program& program, loops::BufferId buffer, const at::Tensor& t,
                            const SizePattern& pattern, size_t firstOwn) {
  loops::Simplifier s(program);
  const std::vector<loops::ExprId> sizes = program.buffer(buffer).sizes;
  codegen::Layout layout{std::vector<loops::ExprId>(sizes.size())};
  loops::ExprId before;
  size_t beforeDim = 0;
  for (const StrideForm& f : strideForms(t)) {
    loops::ExprId& stride = layout.strides[f.dim];
    switch (f.form) {
      case StrideForm::Form::Zero:
        stride = s.integer(0);
        break;
      case StrideForm::Form::Unit:
        stride = s.integer(1);
        break;
      case StrideForm::Form::Follows:
        stride = s.multiply(before, sizes[beforeDim]);
        break;
      case StrideForm::Form::Own:
        stride = strideOf(s, program, pattern, pattern.numbers()[firstOwn++]);
        break;
    }
    before = stride;
    beforeDim = f.dim;
  }
  return layout;
}

/// Elements of all values that are computed.
double workOf(const Seen& seen) {
  double n = 1;
  for (const auto& [value, type] : seen.types) {
    if (!type.isTensor() || !type.tensorInfo.shape) continue;
    double elements = 1;
    for (const Dim& d : *type.tensorInfo.shape) elements *= static_cast<double>(d.size);
    n += elements;
  }
  return n;
}

}  // namespace

Seen Seen::run(const AtenRun& aten, at::TensorList inputs, at::IntArrayRef sizes) {
  Seen seen;
  seen.results = aten(inputs, sizes,
                      [&](ValueId id, const c10::IValue& value) { seen.types.emplace_back(id, typeOfValue(value)); });
  return seen;
}

std::optional<Seen> Seen::runMeta(const AtenRun& aten, at::TensorList inputs, at::IntArrayRef sizes) {
  const at::NoGradGuard noGrad;
  std::vector<at::Tensor> metas;
  metas.reserve(inputs.size());
  for (const at::Tensor& t : inputs)
    metas.push_back(
        t.is_meta() ? t
                    : at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()).device(at::kMeta)));
  try {
    return run(aten, metas, sizes);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool Seen::isOn(c10::Device device) const {
  return std::all_of(results.begin(), results.end(), [&](const at::Tensor& t) { return t.device() == device; });
}

bool Seen::isLike(const Seen& other) const {
  const auto isSame = [](const Type& a, const Type& b) {
    return !a.isTensor() || !b.isTensor() ||
           (a.tensorInfo.dtype == b.tensorInfo.dtype && a.tensorInfo.shape == b.tensorInfo.shape);
  };
  return std::equal(types.begin(), types.end(), other.types.begin(), other.types.end(),
                    [&](const auto& a, const auto& b) { return a.first == b.first && isSame(a.second, b.second); }) &&
         std::equal(results.begin(), results.end(), other.results.begin(), other.results.end(),
                    [](const at::Tensor& a, const at::Tensor& b) { return a.strides() == b.strides(); });
}

Graph withNumbers(Graph graph, std::span<const Argument> integers) {
  if (integers.empty()) return graph;
  std::unordered_map<ValueId, Argument> numbers;
  size_t next = 0;
  for (const ValueId input : graph.inputs())
    if (!graph.value(input).type.isTensor() && next < integers.size()) numbers.emplace(input, integers[next++]);
  for (const NodeId id : graph.order()) {
    std::vector<Argument> now;
    for (const Argument& a : graph.node(id).args) now.push_back(replaced(a, numbers));
    graph.setArguments(id, std::move(now));
  }
  return graph;
}

std::optional<int64_t> SharedKernel::valueOf(const Number& n, const std::vector<int64_t>& symbols) const {
  return n.expression ? ops::valueOf(*n.expression, pattern_.symbols(), symbols) : n.constant;
}

/// Runs the operators on meta tensors three times, each time with other numbers for the symbols, and reads from the
/// sizes of each value which expression it is. What large numbers do not fit (a table of positions), small ones may.
/// The expressions are no more than a guess, which readShapes() and bind() check.
bool SharedKernel::infer(Graph& graph, const AtenRun& aten, at::TensorList inputs, size_t integers) {
  const std::vector<size_t> first = firstNumbers(inputs);
  constexpr size_t runs = SizeNames::runs;
  for (const SizeNames::Scale scale : {SizeNames::Scale::Large, SizeNames::Scale::Below77, SizeNames::Scale::Below14}) {
    SizeNames names;
    names.use(scale);
    std::array<Seen, runs> seen;
    bool known = true;
    for (size_t run = 0; run < runs && known; ++run) {
      const auto numberAt = [&](size_t at) -> int64_t {
        const Dim& d = pattern_.numbers()[at];
        if (d.isStatic()) return d.size;
        const auto e = SizeExpression::parse(d.symbol);
        const auto n = e ? e->evaluate([&](std::string_view s) { return names.standIn(s, run); }) : std::nullopt;
        known = known && n && *n >= 0;
        return n.value_or(0);
      };
      std::vector<at::Tensor> metas;
      for (size_t i = 0; i < inputs.size(); ++i) {
        std::vector<int64_t> sizes;
        for (size_t d = 0; d < static_cast<size_t>(inputs[i].dim()); ++d) sizes.push_back(numberAt(first[i] + d));
        if (known) metas.push_back(emptyMeta(inputs[i], sizes));
      }
      std::vector<int64_t> numbers;
      for (size_t i = 0; i < integers; ++i) numbers.push_back(numberAt(first.back() + i));
      std::optional<Seen> one = known ? Seen::runMeta(aten, metas, numbers) : std::nullopt;
      known = one.has_value();
      if (known) seen[run] = std::move(*one);
    }
    if (!known) continue;
    for (size_t i = 0; i < seen[0].types.size() && known; ++i) {
      const auto& [value, type] = seen[0].types[i];
      if (!type.isTensor()) {
        graph.setType(value, type.kind == Type::Kind::List ? Type::list(Type::tensor()) : type);
        continue;
      }
      TensorInfo info = type.tensorInfo;
      info.device.clear();
      for (size_t d = 0; d < info.shape->size() && known; ++d) {
        SizeNames::Sizes sizes{};
        for (size_t run = 0; run < runs && known; ++run) {
          const auto& shape = seen[run].types[i].second.tensorInfo.shape;
          known = shape && shape->size() == info.shape->size();
          if (known) sizes[run] = (*shape)[d].size;
        }
        if (known) (*info.shape)[d] = names.dim(sizes);
        known = known && (*info.shape)[d].isKnown();
      }
      graph.setType(value, Type::tensor(std::move(info)));
    }
    if (known) return true;
  }
  return false;
}

Status SharedKernel::readShapes(const Graph& graph) {
  for (const NodeId id : graph.order())
    for (const ValueId v : graph.node(id).outputs) {
      const Type& type = graph.value(v).type;
      if (!type.isTensor()) continue;
      if (!type.tensorInfo.dtype || !type.tensorInfo.shape) return badInput("a value has no type");
      Shape& shape = shapes_.emplace_back(Shape{v, *type.tensorInfo.dtype, {}});
      for (const Dim& d : *type.tensorInfo.shape) {
        Number& n = shape.sizes.emplace_back();
        if (d.isStatic())
          n.constant = d.size;
        else if (n.expression = SizeExpression::parse(d.symbol); !n.expression)
          return badInput("a size is no expression");
      }
    }
  return done();
}

/// A program's sizes are the graph's integer inputs, in order, and the symbols.
Status SharedKernel::assignSizes(const loops::Program& program, size_t integers) {
  size_t next = 0;
  const size_t firstInteger = pattern_.numbers().size() - integers;
  for (const loops::Size& s : program.sizes) {
    const auto symbol = std::find_if(pattern_.symbols().begin(), pattern_.symbols().end(),
                                     [&](const SizePattern::Symbol& p) { return p.name == s.name; });
    if (symbol != pattern_.symbols().end())
      sizes_.push_back({true, static_cast<size_t>(symbol - pattern_.symbols().begin())});
    else if (next < integers)
      sizes_.push_back({false, firstInteger + next++});
    else
      return badInput("a size of the program is no number of the call");
  }
  return done();
}

Result<std::shared_ptr<const SharedKernel>> SharedKernel::make(const Graph& program, const AtenRun& aten,
                                                               std::string family, const SizePattern& pattern,
                                                               at::TensorList inputs, at::IntArrayRef sizes,
                                                               const Seen& seen,
                                                               const codegen::LoopSchedule& schedule) {
  if (const Status s = MachineCode::available(); !s) return s.error();
  std::shared_ptr<SharedKernel> made(new SharedKernel(std::move(family), pattern));
  const std::vector<size_t> first = firstNumbers(inputs);
  std::vector<Argument> integers;
  for (size_t i = 0; i < sizes.size(); ++i) integers.push_back(literal(pattern.numbers()[first.back() + i]));
  Graph graph = withNumbers(program, integers);
  for (const SizePattern::Symbol& s : pattern.symbols()) graph.setSymbol({s.name, s.min, s.max});
  size_t next = 0;
  for (const ValueId input : graph.inputs()) {
    if (!graph.value(input).type.isTensor()) continue;
    std::vector<Dim> shape;
    for (size_t d = 0; d < static_cast<size_t>(inputs[next].dim()); ++d)
      shape.push_back(pattern.numbers()[first[next] + d]);
    graph.setType(input, Type::tensor(*graftDType(inputs[next].scalar_type()), std::move(shape)));
    ++next;
  }
  if (!made->infer(graph, aten, inputs, sizes.size())) return badInput("the operators take no other sizes");
  if (const Status s = made->readShapes(graph); !s) return s.error();
  const CallKind kind(inputs, sizes);
  const auto symbols = pattern.match(kind.numbers);
  if (!symbols || !made->agrees(seen, *symbols)) return badInput("the sizes of a value are no expression of symbols");

  // Calls of one family have strides in one order.
  std::vector<std::vector<int64_t>> strides;
  for (const at::Tensor& t : inputs) strides.push_back(t.strides().vec());
  Result<loops::Program> loops = lower::lower(graph, strides);
  if (!loops) return loops.error();
  if (const Status s = loops::verify(*loops); !s) return s.error();
  codegen::CpuOptions options;
  options.schedule = schedule;
  const std::vector<loops::BufferId> buffers = loops->inputs(), outputs = loops->outputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    options.layouts.push_back(
        inputLayout(*loops, buffers[i], inputs[i], pattern, first[i] + static_cast<size_t>(inputs[i].dim())));
  for (size_t i = 0; i < seen.results.size(); ++i) {
    // From the slowest dimension to the fastest, as ATen lays this call's result out.
    const at::Tensor like = at::empty_strided(seen.results[i].sizes(), OutputKind(seen.results[i]).strides,
                                              at::TensorOptions(seen.results[i].scalar_type()).device(at::kMeta));
    std::vector<size_t> order;
    for (const StrideForm& f : strideForms(like)) order.insert(order.begin(), f.dim);
    options.layouts.push_back(codegen::denseLayout(*loops, outputs[i], order));
    made->outputs_.push_back(options.layouts.back());
  }
  if (const Status s = made->assignSizes(*loops, sizes.size()); !s) return s.error();
  options.guesses = made->sizesOf(kind, *symbols);
  auto code = MachineCode::make(std::move(*loops), std::move(options));
  if (!code) return code.error();
  made->code_ = std::move(*code);
  made->threads_ = schedule.threads;
  made->plannedWork_ = workOf(seen);
  return std::shared_ptr<const SharedKernel>(std::move(made));
}

std::vector<int64_t> SharedKernel::sizesOf(const CallKind& kind, const std::vector<int64_t>& symbols) const {
  std::vector<int64_t> sizes;
  for (const SizeSource& s : sizes_) sizes.push_back(s.isSymbol ? symbols[s.index] : kind.numbers[s.index]);
  return sizes;
}

bool SharedKernel::agrees(const Seen& seen, const std::vector<int64_t>& symbols) const {
  std::unordered_map<ValueId, const Type*> types;
  for (const auto& [value, type] : seen.types) types[value] = &type;
  return std::all_of(shapes_.begin(), shapes_.end(), [&](const Shape& shape) {
    const auto found = types.find(shape.value);
    if (found == types.end() || !found->second->isTensor()) return false;
    const TensorInfo& info = found->second->tensorInfo;
    if (info.dtype != shape.dtype || !info.shape || info.shape->size() != shape.sizes.size()) return false;
    for (size_t d = 0; d < shape.sizes.size(); ++d)
      if (valueOf(shape.sizes[d], symbols) != (*info.shape)[d].size) return false;
    return true;
  });
}

std::shared_ptr<const Compiled> SharedKernel::bind(const CallKind& kind, const Seen& seen) const {
  if (kind.family != family_) return nullptr;
  const auto symbols = pattern_.match(kind.numbers);
  if (!symbols || !agrees(seen, *symbols)) return nullptr;
  std::vector<int64_t> sizes = sizesOf(kind, *symbols);
  if (!loops::checkSizes(code_->program(), sizes)) return nullptr;
  std::vector<OutputKind> outputs;
  for (size_t i = 0; i < seen.results.size(); ++i) {
    const OutputKind& kindOf = outputs.emplace_back(seen.results[i]);
    for (size_t d = 0; d < kindOf.sizes.size(); ++d)
      if (kindOf.sizes[d] > 1 &&
          codegen::evaluateSize(code_->program(), outputs_[i].strides[d], sizes.data()) != kindOf.strides[d])
        return nullptr;
  }
  return std::make_shared<const Compiled>(code_, std::move(sizes), std::move(outputs), threads_,
                                          workOf(seen) / plannedWork_);
}

}  // namespace graft::ops
