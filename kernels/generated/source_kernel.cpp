#include "kernels/generated/source_kernel.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include "core/base/atomic_file.h"
#include "core/base/temporary_folder.h"
#include "core/compile/fusion/kernel_choice.h"
#include "kernels/generated/code_cache.h"

namespace graft::ops {
namespace {

/// The object of that C++, from the disk or compiled now.
Result<std::string> objectOf(const std::string& text) {
  const std::string key = "C++\n" + codegen::cppCompiler() + "\n" + text;
  if (std::optional<std::string> known = codeCache().find(key)) return std::move(*known);
  Result<std::string> object = codegen::compileCpp(text);
  if (object) codeCache().store(key, *object);
  return object;
}

/// Opened, its file is needed no more.
Result<void*> opened(const std::string& object) {
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string path = folder->file("kernel.so");
  if (Status s = writeFileAtomically(path, object); !s) return s.error();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return badInput(std::string("a hand-edited kernel cannot be loaded: ") + dlerror());
  return library;
}

}  // namespace

std::unique_ptr<const SourceKernel> SourceKernel::make(const std::string& source, const loops::Program& program) {
  if (source.empty()) return nullptr;
  if (!areSourcesTrusted()) {
    TORCH_WARN_ONCE(
        "graft::generated: the file holds hand-edited C++, which is not compiled, because nobody says that the file is "
        "trusted (",
        kTrustVariable, "=1); generated kernels run instead");
    return nullptr;
  }
  const Result<std::string> object = objectOf(codegen::callableCpp(program, source));
  const Result<void*> library = object ? opened(*object) : Result<void*>(object.error());
  if (!library) {
    TORCH_CHECK(!areEditedKernelsRequired(), "graft::generated: ", library.error().message);
    TORCH_WARN_ONCE("graft::generated: ", library.error().message, "; the generated kernel runs instead");
    return nullptr;
  }
  const auto function = reinterpret_cast<codegen::CppFunction>(dlsym(*library, codegen::kCppFunction));
  return std::unique_ptr<const SourceKernel>(new SourceKernel(*library, function));
}

SourceKernel::~SourceKernel() { dlclose(library_); }

bool SourceKernel::run(at::TensorList inputs, const std::vector<at::Tensor>& outputs,
                       const std::vector<int64_t>& sizes) const {
  std::vector<at::Tensor> dense;  // the kernel knows no strides
  std::vector<void*> buffers;
  for (const at::Tensor& t : inputs) {
    dense.push_back(t.contiguous());
    buffers.push_back(const_cast<void*>(dense.back().const_data_ptr()));
  }
  for (const at::Tensor& t : outputs) {
    dense.push_back(t.is_contiguous() ? t : at::empty(t.sizes(), t.options()));
    buffers.push_back(dense.back().mutable_data_ptr());
  }
  const bool isDone = function_(buffers.data(), sizes.data(), at::get_num_threads()) == 0;
  for (size_t i = 0; i < outputs.size() && isDone; ++i)
    if (!outputs[i].is_contiguous()) outputs[i].copy_(dense[inputs.size() + i]);
  return isDone;
}

}  // namespace graft::ops
