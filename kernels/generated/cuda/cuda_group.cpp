// Group on a GPU: a kernel for each kind of call, made at the first one.
#include <c10/util/Exception.h>

#include "kernels/generated/call_kind.h"
#include "kernels/generated/cuda/cuda_compiled.h"
#include "kernels/generated/cuda/cuda_product.h"
#include "kernels/generated/group.h"

namespace graft::ops {
namespace {

/// What a kernel is made for.
std::string launchKeyOf(at::TensorList inputs, at::IntArrayRef sizes) {
  std::string key;
  key.reserve(inputs.size() * 96);
  const auto append = [&](int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  append(inputs[0].device().index());
  for (const at::Tensor& t : inputs) {
    append(static_cast<int64_t>(t.scalar_type()) | t.dim() << 8 | CudaCompiled::alignmentOf(t) << 16);
    for (const int64_t n : t.sizes()) append(n);
    for (const int64_t n : t.strides()) append(n);
  }
  for (const int64_t n : sizes) append(n);
  return key;
}

bool isImage(const at::Tensor& t) {
  if (t.dim() != 4 && t.dim() != 5) return false;
  const int64_t places = c10::multiply_integers(t.sizes().slice(2));
  return t.size(1) > 1 && places > 1;
}

/// Whether both have as many channels, or the same places. A tensor of (batch, places …, channels) seldom has either in
/// common with an image.
bool areAlike(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == b.dim() && a.size(0) == b.size(0) &&
         (a.size(1) == b.size(1) || a.sizes().slice(2) == b.sizes().slice(2));
}

/// Images lie with channels last where most of the images lie so that the group reads, although its operators turn
/// them: what computes with channels last reads them without a copy.
void keepChannelsLast(at::TensorList inputs, std::vector<at::Tensor>& results) {
  for (at::Tensor& r : results) {
    if (!isImage(r) || !r.is_contiguous()) continue;
    int64_t last = 0, rows = 0;  // elements
    for (const at::Tensor& t : inputs) {
      if (!isImage(t) || !areAlike(t, r)) continue;
      const bool isLast = t.suggest_memory_format() != at::MemoryFormat::Contiguous;
      if (isLast || t.is_contiguous()) (isLast ? last : rows) += t.numel();
    }
    if (last > 0 && last >= rows)
      r = r.contiguous(r.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d);
  }
}

}  // namespace

std::vector<at::Tensor> Group::runOnCuda(at::TensorList inputs, at::IntArrayRef sizes) {
  const c10::Device device = inputs[0].device();
  const auto asOperators = [&] {
    std::vector<at::Tensor> results = runAten(inputs, sizes);
    if (isAnyLayout_) keepChannelsLast(inputs, results);
    return results;
  };
  if (!arePlain(inputs, device)) return runAten(inputs, sizes);
  const std::string key = launchKeyOf(inputs, sizes);
  std::shared_ptr<const CudaRun> kernel;
  bool isKnown = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = onCuda_.find(key);
    isKnown = found != onCuda_.end();
    if (isKnown) kernel = found->second;
    if (!isKnown && onCuda_.size() >= mostKernels) return asOperators();
  }
  if (kernel) return kernel->run(inputs);
  // A later call, outside of a capture, makes the kernel.
  if (isKnown || CudaCompiled::isCapturing(inputs[0])) return asOperators();
  Seen seen = Seen::run(aten_, inputs, sizes);
  if (isAnyLayout_) keepChannelsLast(inputs, seen.results);
  const auto make = [&]() -> Result<std::shared_ptr<const CudaRun>> {
    if (!seen.isOn(device)) return badInput("a result is not on the inputs' device");
    const Graph graph = typed(inputs, sizes, seen);
    const KernelChoice choice = choiceFor(inputs);
    if (hasProduct_ && choice.loops.empty()) return makeCudaProduct(graph, inputs, sizes, seen);
    auto one = CudaCompiled::make(graph, inputs, sizes, seen.results, choice);
    if (!one) return one.error();
    return std::shared_ptr<const CudaRun>(std::move(*one));
  };
  Result<std::shared_ptr<const CudaRun>> made = make();
  if (!made) {
    TORCH_WARN_ONCE("graft::generated: ", made.error().message, runsAsOperators);
  }
  if (made) kernel = std::move(*made);
  {
    const std::lock_guard lock(mutex_);
    onCuda_.emplace(key, kernel);
  }
  return kernel ? kernel->run(inputs) : seen.results;
}

}  // namespace graft::ops
