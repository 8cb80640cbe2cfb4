#include "kernels/generated/group.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "core/compile/fusion/group_text.h"
#include "core/compile/lower/lower.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"
#include "kernels/generated/call_kind.h"
#include "kernels/generated/cuda/cuda_compiled.h"

namespace graft::ops {
namespace {

bool isSwitchedOff() {
  const char* wanted = std::getenv("GRAFT_GENERATED");
  return wanted && std::string_view(wanted) == "0";
}

/// Meta tensors tell sizes sooner than computing does. On small tensors they take longer: in Python, many operators'
/// meta kernels are Python.
bool isLarge(at::TensorList inputs) {
  constexpr int64_t largest = int64_t{1} << 18;
  int64_t elements = 0;
  for (const at::Tensor& t : inputs) elements += t.numel();
  return elements > largest;
}

/// 1, and what a size that varies was always a multiple of: views that take it apart need that.
std::vector<int64_t> factors(const std::vector<std::vector<int64_t>>& rows, const std::vector<bool>& isSize) {
  constexpr int64_t greatest = 64;
  constexpr size_t most = 8;
  std::vector<int64_t> found{1};
  for (int64_t f = 2; f <= greatest && found.size() < most; ++f)
    for (size_t i = 0; i < isSize.size(); ++i) {
      const bool varies = std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r[i] != rows[0][i]; });
      if (!isSize[i] || !varies) continue;
      if (!std::all_of(rows.begin(), rows.end(), [&](const auto& r) { return r[i] % f == 0; })) continue;
      found.push_back(f);
      break;
    }
  return found;
}

/// Sets of other dimensions are of one kind then: tensors that lie alike, beside numbers.
void flatten(std::vector<at::Tensor>& set) {
  const at::Tensor& last = set.back();
  const auto fits = [&](const at::Tensor& t) { return t.dim() == 0 || lieAlike(t, last); };
  if (!last.is_non_overlapping_and_dense() || !std::all_of(set.begin(), set.end(), fits)) return;
  const int64_t n = last.numel();
  for (at::Tensor& t : set)
    if (t.dim() > 0) t = t.as_strided({n}, {1});
}

void append(std::string& key, int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); }

/// What a kernel is made for.
std::string keyOf(at::TensorList inputs, at::IntArrayRef sizes) {
  std::string key;
  key.reserve(inputs.size() * 80);
  for (const at::Tensor& t : inputs) {
    append(key, static_cast<int64_t>(t.scalar_type()) | t.dim() << 8);
    for (const int64_t n : t.sizes()) append(key, n);
    for (const int64_t n : t.strides()) append(key, n);
  }
  for (const int64_t n : sizes) append(key, n);
  return key;
}

}  // namespace

std::shared_ptr<Group> Group::of(std::string_view program) {
  static std::mutex mutex;
  static auto* const groups =
      new std::unordered_map<std::string, std::shared_ptr<Group>>();  // threads may outlive statics
  // The text of a model's call lies where it lay before: comparing it is cheaper than hashing it.
  thread_local std::unordered_map<const char*, std::pair<std::string_view, std::shared_ptr<Group>>> recent;
  if (const auto at = recent.find(program.data()); at != recent.end() && at->second.first == program)
    return at->second.second;
  const std::lock_guard lock(mutex);
  auto found = groups->find(std::string(program));
  if (found == groups->end()) {
    static const TorchOperators operators;
    Result<Graph> graph = parseGroup(program, operators);
    TORCH_CHECK(graph, "graft::generated: ", graph.error().format());
    Result<KernelChoice> choice = parseChoice(program);
    TORCH_CHECK(choice, "graft::generated: ", choice.error().format());
    std::shared_ptr<Group> made(
        new Group(std::make_unique<Graph>(std::move(*graph)), std::move(*choice), allowsAnyLayout(program)));
    found = groups->emplace(program, std::move(made)).first;
  }
  if (recent.size() >= 4096) recent.clear();
  recent[program.data()] = {found->first, found->second};
  return found->second;
}

std::vector<at::Tensor> Group::run(at::TensorList inputs, at::IntArrayRef sizes) {
  static const bool off = isSwitchedOff();
  if (const c10::Device device = deviceOf(inputs); !off && device.is_cuda()) {
    if (std::none_of(inputs.begin(), inputs.end(), isHostNumber)) return runOnCuda(inputs, sizes);
    std::vector<at::Tensor> there;
    for (const at::Tensor& t : inputs) there.push_back(broughtTo(device, t));
    return runOnCuda(there, sizes);
  }
  if (off || hasProduct_ || !arePlain(inputs, at::kCPU)) return runAten(inputs, sizes);
  // Without elements there is nothing to be faster at.
  if (std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.numel() == 0; }))
    return runAten(inputs, sizes);
  const std::string key = keyOf(inputs, sizes);
  std::shared_ptr<const Compiled> kernel;
  if (!find(key, kernel)) return runFirst(inputs, sizes, key);
  return kernel ? run(*kernel, inputs, sizes) : runAten(inputs, sizes);
}

std::vector<at::Tensor> Group::run(const Compiled& kernel, at::TensorList inputs, at::IntArrayRef sizes) const {
  std::vector<at::Tensor> results = kernel.run(inputs);
  return results.empty() ? runAten(inputs, sizes) : results;
}

/// Whether each element of a result depends on the elements at its place alone, and on numbers.
bool Group::isElementwise() {
  std::call_once(elementwiseAsked_, [&] {
    const std::vector<NodeId> nodes = graph_->order();
    isElementwise_ = std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
      const Node& node = graph_->node(id);
      const lower::Kind kind = lower::traitsOf(*graph_, node).kind;
      const auto& shape = graph_->value(node.outputs.front()).type.tensorInfo.shape;
      return kind == lower::Kind::Pointwise || (kind == lower::Kind::Factory && shape && shape->empty());
    });
  });
  return isElementwise_;
}

void Group::runParts(at::TensorList inputs, at::TensorList results) {
  const std::span<const ValueId> declared = graph_->inputs();
  const size_t taken = declared.size(), given = graph_->returns().size();
  const bool areTensors =
      std::all_of(declared.begin(), declared.end(), [&](ValueId v) { return graph_->value(v).type.isTensor(); });
  TORCH_CHECK(areTensors && taken > 0, "graft::generated_parts: the program has to take tensors alone");
  const size_t parts = inputs.size() / taken;
  TORCH_CHECK(parts * taken == inputs.size() && parts * given == results.size(),
              "graft::generated_parts: the program takes ", taken, " tensors and gives ", given, "; there are ",
              inputs.size(), " inputs and ", results.size(), " results");
  for (size_t i = 0; i < results.size(); ++i)
    TORCH_CHECK(results[i].device().is_cuda() == results[0].device().is_cuda(),
                "graft::generated_parts: results are on several kinds of devices");
  const bool readsHost = std::any_of(inputs.begin(), inputs.end(), isHostNumber);
  TORCH_CHECK(
      results.empty() || !results[0].is_cuda() || !readsHost || !CudaCompiled::isCapturing(results[0]),
      "graft::generated_parts: a CUDA graph would keep the value that a number on the CPU has now; move it to the GPU");
  const bool mayFlatten = isElementwise();
  if (mayFlatten && runPartsOnCuda(inputs, results, parts)) return;
  for (size_t p = 0; p < parts; ++p) {
    std::vector<at::Tensor> all = inputs.slice(p * taken, taken).vec();
    const at::TensorList out = results.slice(p * given, given);
    all.insert(all.end(), out.begin(), out.end());
    if (mayFlatten) flatten(all);
    const std::vector<at::Tensor> made = run(at::TensorList(all).slice(0, taken), {});
    for (size_t i = 0; i < given; ++i) {
      const at::Tensor& to = all[taken + i];
      TORCH_CHECK(to.sizes() == made[i].sizes() && to.scalar_type() == made[i].scalar_type(),
                  "graft::generated_parts: result ", p * given + i, " has to be of ", made[i].scalar_type(),
                  " and sizes ", made[i].sizes(), ", not of ", to.scalar_type(), " and ", to.sizes());
    }
    for (size_t i = 0; i < given; ++i) all[taken + i].copy_(made[i]);
  }
}

bool Group::find(const std::string& key, std::shared_ptr<const Compiled>& kernel) {
  const std::lock_guard lock(mutex_);
  const auto found = compiled_.find(key);
  if (found == compiled_.end()) return false;
  kernel = found->second.kernel;
  return true;
}

void Group::remember(const std::string& key, std::shared_ptr<const Compiled> kernel, bool isShared) {
  const std::lock_guard lock(mutex_);
  // What a shared kernel serves is found again without making anything.
  if (compiled_.size() >= mostKinds) std::erase_if(compiled_, [](const auto& entry) { return entry.second.isShared; });
  compiled_.emplace(key, Entry{std::move(kernel), isShared});
}

/// A source counts on the dtypes and sizes that the program names. Schedules and loops are checked against the call.
KernelChoice Group::choiceFor(at::TensorList inputs) const {
  KernelChoice choice = choice_;
  if (choice.source.empty()) return choice;
  const std::span<const ValueId> declared = graph_->inputs();
  bool fits = declared.size() == inputs.size() && hasFixedSizes(*graph_);
  for (size_t i = 0; i < inputs.size() && fits; ++i) {
    const TensorInfo& type = graph_->value(declared[i]).type.tensorInfo;
    const auto isSize = [](const Dim& d, int64_t n) { return d.size == n; };
    fits =
        type.dtype == graftDType(inputs[i].scalar_type()) &&
        std::equal(type.shape->begin(), type.shape->end(), inputs[i].sizes().begin(), inputs[i].sizes().end(), isSize);
  }
  if (!fits) choice.source.clear();
  return choice;
}

/// A call of a kind that is new. A kernel for a range of sizes may serve it. Otherwise the ATen operators run, which
/// refuse what does not fit and tell all types, and a kernel is made.
std::vector<at::Tensor> Group::runFirst(at::TensorList inputs, at::IntArrayRef sizes, const std::string& key) {
  const CallKind kind(inputs, sizes);
  if (metaTells_ && isLarge(inputs) && isServed(kind))
    if (const std::optional<Seen> seen = Seen::runMeta(aten_, inputs, sizes))
      if (const auto kernel = bind(kind, *seen)) {
        remember(key, kernel, true);
        return run(*kernel, inputs, sizes);
      }
  const Seen seen = Seen::run(aten_, inputs, sizes);
  if (!seen.isOn(c10::Device(c10::kCPU))) {
    remember(key, nullptr, false);
    return seen.results;
  }
  const std::shared_ptr<const Compiled> kernel = make(kind, inputs, sizes, seen, key);
  std::vector<at::Tensor> generated = kernel ? kernel->run(inputs) : std::vector<at::Tensor>();
  return generated.empty() ? seen.results : generated;
}

bool Group::isServed(const CallKind& kind) {
  const std::lock_guard lock(mutex_);
  return std::any_of(shared_.begin(), shared_.end(), [&](const auto& s) { return s->fits(kind); });
}

std::shared_ptr<const Compiled> Group::bind(const CallKind& kind, const Seen& seen) {
  std::vector<std::shared_ptr<const SharedKernel>> all;
  {
    const std::lock_guard lock(mutex_);
    all = shared_;
  }
  for (const auto& shared : all)
    if (auto kernel = shared->bind(kind, seen)) return kernel;
  return nullptr;
}

/// One thread makes kernels of a group at a time: the others' calls may be served by what it makes.
std::shared_ptr<const Compiled> Group::make(const CallKind& kind, at::TensorList inputs, at::IntArrayRef sizes,
                                            const Seen& seen, const std::string& key) {
  const std::lock_guard making(making_);
  std::shared_ptr<const Compiled> kernel;
  if (find(key, kernel)) return kernel;
  if (kernel = bind(kind, seen); kernel) {
    remember(key, kernel, true);
    return kernel;
  }
  if (made_ >= mostKernels) return nullptr;
  ++made_;
  std::vector<std::vector<int64_t>>& rows = kinds_[kind.family];
  rows.push_back(kind.numbers);
  // What a person has edited is for the sizes that it was written for.
  if (!choice_.isEdited()) kernel = makeShared(kind, rows, inputs, sizes, seen);
  if (kernel) {
    remember(key, kernel, true);
    return kernel;
  }
  Result<std::shared_ptr<const Compiled>> made =
      Compiled::make(typed(inputs, sizes, seen), inputs, sizes, seen.results, choiceFor(inputs));
  TORCH_CHECK(made || !choice_.isEdited() || !areEditedKernelsRequired(),
              "graft::generated: an edited kernel cannot run here: ", made.error().message);
  if (made)
    kernel = std::move(*made);
  else
    TORCH_WARN_ONCE("graft::generated: ", made.error().message, runsAsOperators);
  remember(key, kernel, false);
  return kernel;
}

/// A kernel for all kinds of this family that were seen, else for this one and the one that is most like it. For the
/// first of a family, the sizes that the program's types have symbols for vary.
std::shared_ptr<const Compiled> Group::makeShared(const CallKind& kind, const std::vector<std::vector<int64_t>>& rows,
                                                  at::TensorList inputs, at::IntArrayRef sizes, const Seen& seen) {
  const auto attempt = [&](const std::optional<SizePattern>& pattern) -> std::shared_ptr<const Compiled> {
    if (!pattern || !tried_.insert(kind.family + pattern->text()).second) return nullptr;
    auto shared = SharedKernel::make(*graph_, aten_, kind.family, *pattern, inputs, sizes, seen, choice_.schedule);
    std::shared_ptr<const Compiled> kernel = shared ? (*shared)->bind(kind, seen) : nullptr;
    if (!kernel) return nullptr;
    if (const std::optional<Seen> meta = Seen::runMeta(aten_, inputs, sizes); !meta || !meta->isLike(seen))
      metaTells_ = false;
    const std::lock_guard lock(mutex_);
    shared_.push_back(std::move(*shared));
    return kernel;
  };
  if (rows.size() < 2) return attempt(SizePattern::declared(kind.numbers, kind.isSize, declaredNumbers(inputs, kind)));
  const auto nearest = std::min_element(rows.begin(), rows.end() - 1, [&](const auto& a, const auto& b) {
    const auto differences = [&](const auto& row) {
      return std::inner_product(row.begin(), row.end(), kind.numbers.begin(), size_t{0}, std::plus<>(),
                                std::not_equal_to<>());
    };
    return differences(a) < differences(b);
  });
  const auto isTaken = [&](const std::string& name) { return graph_->findValue(name) || graph_->findSymbol(name); };
  for (const auto& alike : {rows, {*nearest, kind.numbers}})
    for (const int64_t factor : factors(alike, kind.isSize))
      for (const bool relations : {false, true})
        for (const bool fromObserved : {false, true})
          if (auto kernel = attempt(SizePattern::of(alike, kind.isSize, {fromObserved, relations, factor}, isTaken)))
            return kernel;
  return nullptr;
}

/// What the program's types say of each of the kind's numbers.
std::vector<Dim> Group::declaredNumbers(at::TensorList inputs, const CallKind& kind) const {
  std::vector<Dim> numbers(kind.numbers.size());
  size_t tensor = 0, next = 0;
  for (const ValueId input : graph_->inputs()) {
    const Type& type = graph_->value(input).type;
    if (!type.isTensor()) continue;
    const auto rank = static_cast<size_t>(inputs[tensor++].dim());
    const auto& shape = type.tensorInfo.shape;
    if (shape && shape->size() == rank)
      std::copy(shape->begin(), shape->end(), numbers.begin() + static_cast<std::ptrdiff_t>(next));
    next += rank;
    while (next < kind.numbers.size() && !kind.isSize[next] && tensor < inputs.size()) ++next;
  }
  return numbers;
}

/// The graph with the types and numbers that this call has.
Graph Group::typed(at::TensorList inputs, at::IntArrayRef sizes, const Seen& seen) const {
  std::vector<Argument> integers;
  for (const int64_t n : sizes) integers.emplace_back(n);
  Graph graph = withNumbers(*graph_, integers);
  size_t tensor = 0;
  for (const ValueId input : graph.inputs())
    if (graph.value(input).type.isTensor()) graph.setType(input, typeOfValue(inputs[tensor++]));
  for (const auto& [value, type] : seen.types) graph.setType(value, type);
  return graph;
}

}  // namespace graft::ops
