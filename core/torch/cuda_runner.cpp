#include "core/torch/cuda_runner.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <list>
#include <mutex>

#include "core/torch/internal/cuda_graphs.h"
#include "core/torch/internal/device.h"
#include "core/torch/internal/values.h"

namespace graft {
namespace {

/// Beside the program (build/bin/graft, build/bin/tests/name: build/lib) or on the loader's path.
Result<const GraftCudaGraphs*> loadLibrary() {
  static std::mutex mutex;
  static const GraftCudaGraphs* table = nullptr;
  const std::scoped_lock lock(mutex);
  if (table) return table;
  constexpr const char* name = "libgraft_cuda_runner.so";
  std::error_code ignored;
  void* library = nullptr;
  auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int up = 0; up < 3 && !library; ++up, folder = folder.parent_path())
    if (const auto file = folder / "lib" / name; std::filesystem::exists(file, ignored))
      library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) return Error{ErrorKind::NoDevice, fmt::format("CUDA graphs are not available: {}", dlerror()), {}};
  auto* function = reinterpret_cast<GraftCudaGraphsFunction>(dlsym(library, "graft_cuda_graphs"));
  if (!function || function()->version != 1)
    return Error{ErrorKind::NoDevice, fmt::format("{} belongs to another version of this program", name), {}};
  table = function();
  return table;
}

/// Tells tensors of different shapes apart, and other values by what they are.
std::string keyOf(const std::vector<c10::IValue>& values) {
  std::string key;
  for (const c10::IValue& v : values) key += describe(v) + ";";
  return key;
}

template <class F>
c10::IValue eachTensor(const c10::IValue& v, const F& f) {
  if (v.isTensor() && v.toTensor().defined()) return f(v.toTensor());
  std::vector<c10::IValue> out;
  if (v.isTuple()) {
    for (const c10::IValue& m : v.toTupleRef().elements()) out.push_back(eachTensor(m, f));
    return c10::ivalue::Tuple::create(std::move(out));
  }
  if (v.isList()) {
    const auto list = v.toList();
    c10::impl::GenericList copy(list.elementType());
    for (size_t i = 0; i < list.size(); ++i) copy.push_back(eachTensor(list.get(i), f));
    return copy;
  }
  if (v.isGenericDict()) {
    const auto dict = v.toGenericDict();
    c10::impl::GenericDict copy(dict.keyType(), dict.valueType());
    for (const auto& e : dict) copy.insert(e.key(), eachTensor(e.value(), f));
    return copy;
  }
  return v;
}

void copyInto(const c10::IValue& to, const c10::IValue& from) {
  if (to.isTensor() && to.toTensor().defined()) {
    to.toTensor().copy_(from.toTensor(), /*non_blocking=*/true);
  } else if (to.isTuple()) {
    for (size_t i = 0; i < to.toTupleRef().size(); ++i)
      copyInto(to.toTupleRef().elements()[i], from.toTupleRef().elements()[i]);
  } else if (to.isList()) {
    const auto a = to.toList(), b = from.toList();
    for (size_t i = 0; i < a.size(); ++i) copyInto(a.get(i), b.get(i));
  } else if (to.isGenericDict()) {
    for (const auto& e : to.toGenericDict()) copyInto(e.value(), from.toGenericDict().at(e.key()));
  }
}

/// Lets our kernels fetch weights early: a captured graph writes to none of them.
void promiseConstantWeights(bool constant) {
  const auto op = c10::Dispatcher::singleton().findSchema({"graft::cuda_options", ""});
  if (!op) return;
  torch::jit::Stack stack{c10::IValue(), constant, c10::IValue()};
  op->callBoxed(&stack);
}

}  // namespace

struct CudaRunner::Impl {
  struct Capture {
    std::string key;
    TensorSet inputs, outputs;  ///< the graph's own memory
    void* graph = nullptr;
  };

  const Program* program = nullptr;
  const GraftCudaGraphs* library = nullptr;
  int device = 0;
  void* pool = nullptr;
  size_t limit = 16;
  std::mutex mutex;
  std::list<Capture> captures;  ///< most recently used first
  std::array<char, 1024> error{};

  ~Impl() {
    for (Capture& c : captures) free(c);
    if (pool) library->freePool(pool);
  }
  void free(Capture& c) {
    c.outputs = {};
    if (c.graph) library->freeGraph(c.graph);
    c.graph = nullptr;
  }

  Error failed(const std::string& what) const {
    return badInput(fmt::format("{}: {}", what, std::string_view(error.data())));
  }

  Result<Capture*> find(const TensorSet& inputs) {
    const std::string key = keyOf(valuesOf(inputs));
    for (auto it = captures.begin(); it != captures.end(); ++it) {
      if (it->key != key) continue;
      captures.splice(captures.begin(), captures, it);
      return &captures.front();
    }
    Capture made;
    made.key = key;
    std::vector<c10::IValue> own;
    for (const c10::IValue& v : valuesOf(inputs))
      own.push_back(eachTensor(v, [](const at::Tensor& t) { return t.clone(); }));
    made.inputs = tensorSet(std::move(own));
    if (inputs.impl) made.inputs.impl->names = inputs.impl->names;
    struct Body {
      const Program* program;
      Capture* capture;
      std::optional<Error> error;
    } body{program, &made, {}};
    auto run = [](void* p) -> int {
      auto* b = static_cast<Body*>(p);
      auto out = b->program->run(b->capture->inputs);
      if (!out) {
        b->error = out.error();
        return 0;
      }
      b->capture->outputs = std::move(*out);
      return 1;
    };
    promiseConstantWeights(true);
    made.graph = library->capture(device, pool, run, &body, error.data(), error.size());
    promiseConstantWeights(false);
    if (!made.graph) {
      Error e = failed("the model cannot be captured in a CUDA graph");
      if (body.error) e.message += " (" + body.error->message + ")";
      return e;
    }
    captures.push_front(std::move(made));
    while (captures.size() > limit) {
      synchronize(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));  // it may be replaying
      free(captures.back());
      captures.pop_back();
    }
    return &captures.front();
  }
};

CudaRunner::CudaRunner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaRunner::CudaRunner(CudaRunner&&) noexcept = default;
CudaRunner& CudaRunner::operator=(CudaRunner&&) noexcept = default;
CudaRunner::~CudaRunner() = default;

Result<CudaRunner> CudaRunner::make(const Program& program, size_t captures) {
  auto device = requireDevice(program.options().device);
  if (!device) return device.error();
  if (device->is_cpu()) return Error{ErrorKind::NoDevice, "CUDA graphs need a program for 'cuda'", {}};
  auto library = loadLibrary();
  if (!library) return library.error();
  auto impl = std::make_unique<Impl>();
  impl->program = &program;
  impl->library = *library;
  impl->device = device->index();
  impl->limit = std::max<size_t>(captures, 1);
  impl->pool = (*library)->makePool();
  return CudaRunner(std::move(impl));
}

Result<TensorSet> CudaRunner::run(const TensorSet& inputs) {
  const std::scoped_lock lock(impl_->mutex);
  try {
    c10::InferenceMode inference;
    auto capture = impl_->find(inputs);
    if (!capture) return capture.error();
    const auto& from = valuesOf(inputs);
    const auto& to = valuesOf((*capture)->inputs);
    for (size_t i = 0; i < from.size(); ++i) copyInto(to[i], from[i]);
    if (!impl_->library->replay((*capture)->graph, impl_->error.data(), impl_->error.size()))
      return impl_->failed("replay failed");
    std::vector<c10::IValue> out;
    for (const c10::IValue& v : valuesOf((*capture)->outputs))
      out.push_back(eachTensor(v, [](const at::Tensor& t) { return t.clone(); }));
    return tensorSet(std::move(out));
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

Result<CudaRunner::Replay> CudaRunner::time(const TensorSet& inputs, bool flushed) {
  const std::scoped_lock lock(impl_->mutex);
  try {
    c10::InferenceMode inference;
    auto capture = impl_->find(inputs);
    if (!capture) return capture.error();
    Replay r;
    r.milliseconds = impl_->library->replayTimed((*capture)->graph, flushed, impl_->error.data(), impl_->error.size());
    if (r.milliseconds < 0) return impl_->failed("replay failed");
    r.kernels = impl_->library->kernelCount((*capture)->graph);
    return r;
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

std::optional<GpuState> gpuState(int device) {
  // NVML's C interface, of which these signatures have been stable since its version 2.
  using Handle = void*;
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::nullopt;
  auto find = [](const char* name) { return dlsym(library, name); };
  auto* init = reinterpret_cast<int (*)()>(find("nvmlInit_v2"));
  auto* handleOf = reinterpret_cast<int (*)(unsigned, Handle*)>(find("nvmlDeviceGetHandleByIndex_v2"));
  auto* nameOf = reinterpret_cast<int (*)(Handle, char*, unsigned)>(find("nvmlDeviceGetName"));
  auto* clockOf = reinterpret_cast<int (*)(Handle, int, unsigned*)>(find("nvmlDeviceGetClockInfo"));
  auto* powerOf = reinterpret_cast<int (*)(Handle, unsigned*)>(find("nvmlDeviceGetPowerUsage"));
  Handle handle = nullptr;
  if (!init || !handleOf || !nameOf || !clockOf || !powerOf || init() != 0 ||
      handleOf(static_cast<unsigned>(device), &handle) != 0)
    return std::nullopt;
  constexpr int smClock = 1, memoryClock = 2;
  GpuState state;
  std::array<char, 96> name{};
  if (nameOf(handle, name.data(), name.size()) == 0) state.name = name.data();
  clockOf(handle, smClock, &state.smClockMHz);
  clockOf(handle, memoryClock, &state.memoryClockMHz);
  unsigned milliwatts = 0;
  if (powerOf(handle, &milliwatts) == 0) state.powerWatts = milliwatts / 1000.0;
  return state;
}

}  // namespace graft
