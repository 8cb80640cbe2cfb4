#include "core/compile/nvrtc/nvrtc.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "core/compile/nvrtc/loaded_torch.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

/// The version that LibTorch was built with comes first: it is the one that its wheel brings along.
void* openLibrary() {
  std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12"};
  std::vector<fs::path> folders{""};
  if (const fs::path torch = loadedTorch(); !torch.empty()) {
    const fs::path packages = torch.parent_path().parent_path() / "nvidia";
    folders.push_back(packages / "cu13" / "lib");
    folders.push_back(packages / "cuda_nvrtc" / "lib");
    folders.push_back(torch);
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  for (const std::string& name : names)
    for (const fs::path& folder : folders)
      if (void* library = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

}  // namespace

struct OpenedNvrtc {
  Nvrtc nvrtc;
  std::string why;

  OpenedNvrtc() {
    void* library = openLibrary();
    if (!library) {
      why = "there is no libnvrtc.so; PyTorch's wheels for CUDA bring it along";
      return;
    }
    bool isWhole = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      isWhole &= function != nullptr;
    };
    Nvrtc::Functions& f = nvrtc.f_;
    find(f.version, "nvrtcVersion");
    find(f.errorText, "nvrtcGetErrorString");
    find(f.create, "nvrtcCreateProgram");
    find(f.compile, "nvrtcCompileProgram");
    find(f.destroy, "nvrtcDestroyProgram");
    find(f.logSize, "nvrtcGetProgramLogSize");
    find(f.log, "nvrtcGetProgramLog");
    find(f.binarySize, "nvrtcGetCUBINSize");
    find(f.binary, "nvrtcGetCUBIN");
    find(f.ptxSize, "nvrtcGetPTXSize");
    find(f.ptx, "nvrtcGetPTX");
    int major = 0, minor = 0;
    if (!isWhole || f.version(&major, &minor) != 0) {
      why = "the libnvrtc.so here lacks functions";
      return;
    }
    nvrtc.version_ = std::to_string(major) + "." + std::to_string(minor);
  }
};

namespace {

const OpenedNvrtc& opened() {
  static const auto* const result = new OpenedNvrtc();
  return *result;
}

}  // namespace

const Nvrtc* findNvrtc() { return opened().why.empty() ? &opened().nvrtc : nullptr; }
const std::string& nvrtcStatus() { return opened().why; }

Result<std::string> Nvrtc::compile(const std::string& source, int capability, Form form) const {
  Result<Readable> made = compileWith(source, capability, form, false);
  if (!made) return made.error();
  return std::move(made->code);
}

Result<Nvrtc::Readable> Nvrtc::compileReadable(const std::string& source, int capability, Form form) const {
  return compileWith(source, capability, form, true);
}

Result<Nvrtc::Readable> Nvrtc::compileWith(const std::string& source, int capability, Form form,
                                           bool isReadable) const {
  void* program = nullptr;
  if (const int status = f_.create(&program, source.c_str(), "generated.cu", 0, nullptr, nullptr); status != 0)
    return internalError(std::string("NVRTC: ") + f_.errorText(status));
  struct Destroy {
    const Functions& f;
    void* program;
    ~Destroy() { f.destroy(&program); }
  } const destroy{f_, program};
  // Binaries are for this GPU alone, so they may use what its successors lack.
  const bool isOwn = form == Form::Binary && capability == 90;
  const std::string architecture = std::string("--gpu-architecture=") + (form == Form::Binary ? "sm_" : "compute_") +
                                   std::to_string(capability) + (isOwn ? "a" : "");
  std::vector<const char*> options{architecture.c_str(), "--std=c++17", "--disable-warnings"};
  if (isReadable) options.push_back("--generate-line-info");
  if (isReadable && form == Form::Binary) options.push_back("--ptxas-options=-v");
  const int status = f_.compile(program, static_cast<int>(options.size()), options.data());
  std::string log;
  if (size_t size = 0; (status != 0 || isReadable) && f_.logSize(program, &size) == 0 && size > 1) {
    log.resize(size);
    f_.log(program, log.data());
    log.resize(size - 1);
  }
  if (status != 0) return internalError("NVRTC refuses generated code: " + (log.empty() ? f_.errorText(status) : log));
  size_t size = 0;
  const bool isBinary = form == Form::Binary;
  if ((isBinary ? f_.binarySize : f_.ptxSize)(program, &size) != 0 || size == 0)
    return internalError("NVRTC gave no code");
  std::string code(size, '\0');
  if ((isBinary ? f_.binary : f_.ptx)(program, code.data()) != 0) return internalError("NVRTC gave no code");
  if (!isBinary) code.resize(size - 1);  // PTX ends with 0
  return Readable{std::move(code), std::move(log)};
}

}  // namespace graft
