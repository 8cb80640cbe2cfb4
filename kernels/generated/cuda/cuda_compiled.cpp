#include "kernels/generated/cuda/cuda_compiled.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <semaphore>
#include <string>
#include <thread>

#include "core/compile/codegen/product.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "kernels/generated/code_cache.h"
#include "kernels/generated/compiled.h"
#include "kernels/generated/cuda/cuda_driver.h"

namespace graft::ops {
namespace {

/// The least that generated code runs on: it converts bf16 in one instruction.
constexpr int leastCapability = 80;
/// Elements of a row that a thread keeps, where more of them spill.
constexpr int fewInRegisters = 16;
/// At a time, in this process.
constexpr int kMostCompilations = 8;
/// From here on, kernels are launched before those before them have ended.
constexpr int overlapCapability = 90;

struct Kernel {
  CudaDriver::Launch launch;
  std::vector<int> buffers;
  codegen::CudaPartTable table;
};

bool isOff(const char* variable) {
  const char* wanted = std::getenv(variable);
  return wanted && std::string_view(wanted) == "0";
}
bool overlaps(int capability) {
  static const bool off = isOff("GRAFT_PDL");
  return capability >= overlapCapability && !off;
}
/// Only where it is asked for: it brought no gain (docs/measurements/cuda-code.md).
bool hasClusters(int capability) {
  static const char* const wanted = std::getenv("GRAFT_CLUSTERS");
  return capability >= codegen::kClusterCapability && wanted && std::string_view(wanted) != "0";
}

/// "graft_add_gelu" of a group of that name. The name comes from a file, so only what C++ takes is kept of it.
std::string kernelName(const std::string& group) {
  constexpr size_t longest = 64;
  std::string name = "graft_";
  for (const char c : group.substr(0, longest)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

CudaDriver::Stream streamOf(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

}  // namespace

Result<std::string> cudaBinary(const Nvrtc& nvrtc, const std::string& source, int capability) {
  const std::string key = "nvrtc " + nvrtc.version() + "\n" + std::to_string(capability) + "\n" + source;
  if (std::optional<std::string> known = codeCache().find(key)) return std::move(*known);
  // A compilation takes 100 to 200 MB, whoever asks for it.
  static std::counting_semaphore<kMostCompilations> places(kMostCompilations);
  places.acquire();
  Result<std::string> binary = nvrtc.compile(source, capability, Nvrtc::Form::Binary);
  places.release();
  if (binary) codeCache().store(key, *binary);
  return binary;
}

struct CudaCompiled::Code {
  c10::Device device{c10::kCUDA, 0};
  CudaDriver::Module module = nullptr;
  std::vector<Kernel> kernels;
  std::vector<OutputKind> outputs;
  std::vector<int64_t> temporaryBytes;
  int64_t spilledBytes = 0;
};

CudaCompiled::CudaCompiled(std::unique_ptr<Code> code) : code_(std::move(code)) {}

// The module stays: the process may be ending, and the driver with it, and a captured graph may still call its kernels.
CudaCompiled::~CudaCompiled() = default;

int64_t CudaCompiled::spilledBytes() const { return code_->spilledBytes; }

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
                                                               at::IntArrayRef sizes, at::TensorList outputs,
                                                               const KernelChoice& choice) {
  const Result<CudaLoops> loops = CudaLoops::make(graph, inputs, sizes, outputs, choice);
  if (!loops) return loops.error();
  const Result<codegen::CudaCode> code = loops->code();
  if (!code) return code.error();
  auto made = loops->compile(*code);
  if (!made || (*made)->spilledBytes() == 0) return made;
  // With fewer elements of a row for each thread, registers may suffice.
  const Result<codegen::CudaCode> smaller = loops->code({}, fewInRegisters);
  if (!smaller || smaller->source == code->source) return made;
  auto again = loops->compile(*smaller);
  return again && (*again)->spilledBytes() < (*made)->spilledBytes() ? again : made;
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

int64_t CudaCompiled::vector() const { return code_->kernels.at(0).table.vector; }

void CudaCompiled::run(std::span<const codegen::CudaPart> parts) const {
  const c10::DeviceGuard guard(code_->device);
  cudaDriver()->enter(code_->device.index());
  const Kernel& kernel = code_->kernels.at(0);
  const CudaDriver::Stream stream = streamOf(code_->device);
  while (!parts.empty()) {
    std::vector<codegen::CudaPart> some;
    for (const codegen::CudaPart& p : parts.first(std::min(parts.size(), static_cast<size_t>(kernel.table.parts)))) {
      codegen::CudaPart& part = some.emplace_back();
      part.length = p.length;
      for (const int slot : kernel.buffers) part.buffers.push_back(p.buffers.at(static_cast<size_t>(slot)));
    }
    parts = parts.subspan(some.size());
    codegen::CudaPartLaunch filled(kernel.table, some);
    TORCH_CHECK(filled.blocks <= INT32_MAX, "graft::generated_parts: a launch would take more than 2147483647 blocks");
    CudaDriver::Launch launch = kernel.launch;
    launch.blocks = filled.blocks;
    void* parameter = filled.table.data();
    const std::string why = cudaDriver()->launch(launch, stream, &parameter);
    TORCH_CHECK(why.empty(), "graft::generated_parts: a kernel cannot be launched: ", why);
  }
}

struct CudaLoops::State {
  const Nvrtc* nvrtc = nullptr;
  const CudaDriver* driver = nullptr;
  c10::Device device{c10::kCUDA, 0};
  CudaDriver::Gpu gpu;
  loops::Program program;
  codegen::CudaOptions options;
  std::vector<OutputKind> outputs;
};

CudaLoops::CudaLoops(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaLoops::~CudaLoops() = default;
CudaLoops::CudaLoops(CudaLoops&&) noexcept = default;
CudaLoops& CudaLoops::operator=(CudaLoops&&) noexcept = default;

Result<CudaLoops> CudaLoops::make(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes,
                                  at::TensorList outputs, const KernelChoice& choice) {
  auto state = std::make_unique<State>();
  state->nvrtc = findNvrtc();
  if (!state->nvrtc) return badInput("no kernels are generated for the GPU: " + nvrtcStatus());
  state->driver = cudaDriver();
  if (!state->driver) return badInput("no kernels are generated for the GPU: its driver is too old");
  state->device = inputs[0].device();
  state->gpu = state->driver->gpu(state->device.index());
  if (state->gpu.capability < leastCapability)
    return badInput("no kernels are generated for a GPU of compute capability below 8.0");

  const bool isClustered = hasClusters(state->gpu.capability);
  Result<FittedLoops> fitted =
      loopsFor(graph, choice, inputs, sizes, outputs, isClustered ? lower::kGpuWithClusters : lower::kGpu);
  if (!fitted) return fitted.error();
  loops::Program* const program = &fitted->program;
  if (const Status s = loops::verify(*program); !s)
    return internalError("the loops of a group are refused: " + s.error().message);
  if (const Status s = loops::checkSizes(*program, fitted->sizes); !s) return s.error();
  codegen::CudaOptions& options = state->options;
  options.sizes = fitted->sizes;
  options.limits.multiprocessors = state->gpu.multiprocessors;
  options.limits.sharedBytes = state->gpu.sharedBytes;
  options.limits.capability = state->gpu.capability;
  if (!isClustered) options.limits.cluster = 1;
  options.isOverlapped = overlaps(state->gpu.capability);
  options.refusesSlowScans = true;
  options.hasNames = false;
  options.name = kernelName(graph.name);
  for (const at::Tensor& t : inputs) {
    options.layouts.push_back(codegen::constantLayout(*program, t.strides().vec()));
    options.alignments.push_back(CudaCompiled::alignmentOf(t));
  }
  for (const at::Tensor& t : outputs) {
    const OutputKind& kind = state->outputs.emplace_back(t);
    options.layouts.push_back(codegen::constantLayout(*program, kind.strides));
    options.alignments.push_back(16);
  }
  state->program = std::move(*program);
  return CudaLoops(std::move(state));
}

bool CudaLoops::isProduct() const { return codegen::isProductWithEpilogue(state_->program); }

Result<codegen::CudaCode> CudaLoops::code(std::optional<codegen::ProductTile> tile, int inRegisters) const {
  codegen::CudaOptions options = state_->options;
  options.tile = tile;
  if (inRegisters > 0) options.limits.inRegisters = inRegisters;
  return codegen::makeCudaCode(state_->program, options);
}

Result<codegen::CudaCode> CudaLoops::codeInParts(bool isAligned) const {
  codegen::CudaOptions options = state_->options;
  options.parts = INT64_MAX;  // as many as a kernel takes, so that calls with few parts run the same code
  size_t next = 0;
  for (const auto& buffers : {state_->program.inputs(), state_->program.outputs()})
    for (const loops::BufferId b : buffers) {
      const auto element = static_cast<int64_t>(dtypeSize(state_->program.buffer(b).dtype));
      options.alignments.at(next++) = isAligned ? 16 : element;
    }
  return codegen::makeCudaCode(state_->program, options);
}

std::vector<codegen::ProductTile> CudaLoops::tiles(const codegen::CudaCode& code) const {
  for (const codegen::CudaKernel& k : code.kernels)
    if (k.product) return codegen::productTiles(*k.product, state_->options.limits);
  return {};
}

std::string CudaLoops::machine() const {
  return "nvrtc " + state_->nvrtc->version() + ", " + std::to_string(state_->gpu.capability) + ", " +
         std::to_string(state_->gpu.multiprocessors);
}

Result<std::shared_ptr<const CudaCompiled>> CudaLoops::compile(const codegen::CudaCode& made) const {
  const State& state = *state_;
  auto code = std::make_unique<CudaCompiled::Code>();
  code->device = state.device;
  code->outputs = state.outputs;
  code->temporaryBytes = made.temporaryBytes;
  if (!made.kernels.empty()) {
    Result<std::string> binary = cudaBinary(*state.nvrtc, made.source, state.gpu.capability);
    if (!binary) return binary.error();
    const c10::DeviceGuard guard(code->device);
    state.driver->enter(code->device.index());
    if (const std::string why = state.driver->load(binary->data(), &code->module); !why.empty())
      return internalError("a generated kernel cannot be loaded: " + why);
  }
  for (const codegen::CudaKernel& k : made.kernels) {
    Kernel& kernel = code->kernels.emplace_back();
    kernel.buffers = k.buffers;
    kernel.table = k.table;
    kernel.launch = {nullptr, k.blocks, k.threads, k.sharedBytes, state.options.isOverlapped};
    if (k.blocks > INT32_MAX) return badInput("a kernel would take more than 2147483647 blocks");
    const std::string why =
        state.driver->find(code->module, k.function.c_str(), k.sharedBytes, &kernel.launch.function);
    if (!why.empty()) return internalError("a generated kernel cannot be loaded: " + why);
    code->spilledBytes += state.driver->localBytes(kernel.launch.function);
  }
  return std::shared_ptr<const CudaCompiled>(new CudaCompiled(std::move(code)));
}

std::vector<std::shared_ptr<const CudaCompiled>> CudaLoops::compileTiles(
    const std::vector<codegen::ProductTile>& tiles) const {
  std::vector<std::shared_ptr<const CudaCompiled>> out(tiles.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < tiles.size(); i = next++) {
      const Result<codegen::CudaCode> made = code(tiles[i]);
      if (!made) continue;
      if (auto compiled = compile(*made)) out[i] = std::move(*compiled);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < std::min<size_t>(tiles.size(), std::max(1U, std::thread::hardware_concurrency())); ++i)
      threads.emplace_back(work);
    work();
  }
  return out;
}

}  // namespace graft::ops
