#include "kernels/generated/cuda_compiled.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/compile/nvrtc/nvrtc.h"
#include "kernels/generated/code_cache.h"
#include "kernels/generated/cuda_driver.h"

namespace graft::ops {
namespace {

/// The least that generated code runs on: it converts bf16 in one instruction.
constexpr int leastCapability = 80;
/// From here on, kernels are launched before those before them have ended.
constexpr int overlapCapability = 90;

struct OutputKind {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes, strides;
};

struct Kernel {
  CudaDriver::Launch launch;
  std::vector<int> buffers;
};

bool overlaps(int capability) {
  static const bool isOff = [] {
    const char* wanted = std::getenv("GRAFT_PDL");
    return wanted && std::string_view(wanted) == "0";
  }();
  return capability >= overlapCapability && !isOff;
}

CudaDriver::Stream streamOf(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

/// From the disk or compiled now.
Result<std::string> binaryOf(const Nvrtc& nvrtc, const std::string& source, int capability) {
  const std::string key = "nvrtc " + nvrtc.version() + "\n" + std::to_string(capability) + "\n" + source;
  if (std::optional<std::string> known = codeCache().find(key)) return std::move(*known);
  Result<std::string> binary = nvrtc.compile(source, capability, Nvrtc::Form::Binary);
  if (binary) codeCache().store(key, *binary);
  return binary;
}

}  // namespace

struct CudaCompiled::Code {
  c10::Device device{c10::kCUDA, 0};
  CudaDriver::Module module = nullptr;
  std::vector<Kernel> kernels;
  std::vector<OutputKind> outputs;
  std::vector<int64_t> temporaryBytes;
};

CudaCompiled::CudaCompiled(std::unique_ptr<Code> code) : code_(std::move(code)) {}

// The module stays: the process may be ending, and the driver with it, and a captured graph may still call its kernels.
CudaCompiled::~CudaCompiled() = default;

int64_t CudaCompiled::alignmentOf(const at::Tensor& t) {
  const auto address = reinterpret_cast<uintptr_t>(t.const_data_ptr()) | 16;
  return static_cast<int64_t>(address & (~address + 1));
}

bool CudaCompiled::isCapturing(const at::Tensor& t) {
  const CudaDriver* driver = cudaDriver();
  if (!driver) return false;
  const c10::DeviceGuard guard(t.device());
  driver->enter(t.device().index());
  return driver->isCapturing(streamOf(t.device()));
}

Result<std::shared_ptr<const CudaCompiled>> CudaCompiled::make(const Graph& graph, at::TensorList inputs,
                                                               at::IntArrayRef sizes, at::TensorList outputs) {
  const Nvrtc* nvrtc = findNvrtc();
  if (!nvrtc) return badInput("no kernels are generated for the GPU: " + nvrtcStatus());
  const CudaDriver* driver = cudaDriver();
  if (!driver) return badInput("no kernels are generated for the GPU: its driver is too old");
  auto code = std::make_unique<Code>();
  code->device = inputs[0].device();
  const CudaDriver::Gpu gpu = driver->gpu(code->device.index());
  if (gpu.capability < leastCapability)
    return badInput("no kernels are generated for a GPU of compute capability below 8.0");

  Result<loops::Program> program = lower::lower(graph);
  if (!program) return program.error();
  if (const Status s = loops::verify(*program); !s)
    return internalError("the loops of a group are refused: " + s.error().message);
  if (const Status s = loops::checkSizes(*program, sizes.vec()); !s) return s.error();
  codegen::CudaOptions options;
  options.sizes = sizes.vec();
  options.limits.multiprocessors = gpu.multiprocessors;
  options.isOverlapped = overlaps(gpu.capability);
  options.hasNames = false;
  for (const at::Tensor& t : inputs) {
    options.layouts.push_back(codegen::constantLayout(*program, t.strides().vec()));
    options.alignments.push_back(alignmentOf(t));
  }
  for (const at::Tensor& t : outputs) {
    // What a kernel writes may not overlap.
    const at::Tensor like = t.is_non_overlapping_and_dense() ? t : at::empty(t.sizes(), t.options().device(at::kMeta));
    options.layouts.push_back(codegen::constantLayout(*program, like.strides().vec()));
    options.alignments.push_back(16);
    code->outputs.push_back({t.scalar_type(), t.sizes().vec(), like.strides().vec()});
  }
  Result<codegen::CudaCode> made = codegen::makeCudaCode(std::move(*program), options);
  if (!made) return made.error();
  code->temporaryBytes = made->temporaryBytes;
  if (!made->kernels.empty()) {
    Result<std::string> binary = binaryOf(*nvrtc, made->source, gpu.capability);
    if (!binary) return binary.error();
    const c10::DeviceGuard guard(code->device);
    driver->enter(code->device.index());
    if (const std::string why = driver->load(binary->data(), &code->module); !why.empty())
      return internalError("a generated kernel cannot be loaded: " + why);
  }
  for (const codegen::CudaKernel& k : made->kernels) {
    Kernel& kernel = code->kernels.emplace_back();
    kernel.buffers = k.buffers;
    kernel.launch = {nullptr, k.blocks, k.threads, k.sharedBytes, options.isOverlapped};
    if (k.blocks > INT32_MAX) return badInput("a kernel would take more than 2147483647 blocks");
    const std::string why = driver->find(code->module, k.function.c_str(), k.sharedBytes, &kernel.launch.function);
    if (!why.empty()) return internalError("a generated kernel cannot be loaded: " + why);
  }
  return std::shared_ptr<const CudaCompiled>(new CudaCompiled(std::move(code)));
}

std::vector<at::Tensor> CudaCompiled::run(at::TensorList inputs) const {
  const c10::DeviceGuard guard(code_->device);
  cudaDriver()->enter(code_->device.index());
  std::vector<at::Tensor> outputs;
  std::vector<void*> buffers;
  buffers.reserve(inputs.size() + code_->outputs.size() + code_->temporaryBytes.size());
  for (const at::Tensor& t : inputs) buffers.push_back(const_cast<void*>(t.const_data_ptr()));
  outputs.reserve(code_->outputs.size());
  for (const OutputKind& kind : code_->outputs) {
    outputs.push_back(at::empty_strided(kind.sizes, kind.strides, at::TensorOptions(kind.dtype).device(code_->device)));
    buffers.push_back(outputs.back().mutable_data_ptr());
  }
  std::vector<at::Tensor> temporaries;
  for (const int64_t bytes : code_->temporaryBytes) {
    temporaries.push_back(at::empty({bytes}, at::TensorOptions(at::kByte).device(code_->device)));
    buffers.push_back(temporaries.back().mutable_data_ptr());
  }
  const CudaDriver::Stream stream = streamOf(code_->device);
  std::vector<void*> parameters;
  for (const Kernel& kernel : code_->kernels) {
    parameters.clear();
    for (const int slot : kernel.buffers) parameters.push_back(&buffers[static_cast<size_t>(slot)]);
    const std::string why = cudaDriver()->launch(kernel.launch, stream, parameters.data());
    TORCH_CHECK(why.empty(), "graft::generated: a kernel cannot be launched: ", why);
  }
  return outputs;
}

}  // namespace graft::ops
