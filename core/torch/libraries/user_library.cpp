#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string_view>

#include "core/base/demangle.h"
#include "core/torch/libraries/library_list.h"
#include "core/torch/libraries/python_operators.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

/// What a library may bring: operators, and kernels for operators that are there already.
using Registrations = std::set<std::pair<std::string, c10::DispatchKey>>;
Registrations registrations() {
  constexpr std::array keys{c10::DispatchKey::CPU,
                            c10::DispatchKey::CUDA,
                            c10::DispatchKey::Meta,
                            c10::DispatchKey::CompositeExplicitAutograd,
                            c10::DispatchKey::CompositeImplicitAutograd,
                            c10::DispatchKey::Autograd};
  Registrations out;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames())
    if (dispatcher.findSchema(name)) out.emplace(graftName(name), c10::DispatchKey::Undefined);
  for (const c10::DispatchKey key : keys)
    for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(key))
      out.emplace(graftName(name), key);
  return out;
}

/// "libtorch.so" of what dlopen says where it does not find a library that another one needs.
std::string lacking(const std::string& said) {
  const size_t at = said.find(": cannot open shared object file");
  return at == std::string::npos ? "" : said.substr(0, at);
}

/// The symbol that dlopen found nowhere.
std::string undefined(const std::string& said) {
  constexpr std::string_view sign = "undefined symbol: ";
  const size_t at = said.find(sign);
  if (at == std::string::npos) return "";
  const std::string symbol = said.substr(at + sign.size());
  return symbol.substr(0, symbol.find_first_of(" \t\n,"));
}

bool isPythons(const std::string& symbol) {
  return symbol.starts_with("Py") || symbol.starts_with("_Py") || symbol.starts_with("THPVariable");
}

/// What dlopen says, in words of what to do.
std::string whyNotLoaded(const std::string& path, const std::string& said) {
  const std::string symbol = undefined(said), library = lacking(said);
  if (isPythons(symbol) || library == "libtorch_python.so")
    return fmt::format(
        "{} is a Python extension, and this program holds no Python (it lacks {}). Build it with torch/library.h "
        "instead of torch/extension.h, with is_python_module=False and the linker's option --as-needed, or give a "
        "Python "
        "module that imports it: --library MODULE.py",
        path, library.empty() ? symbol : library);
  if (!symbol.empty()) {
    const std::string name = demangled(symbol);
    const bool isTorch = name.find("c10::") != std::string::npos || name.find("at::") != std::string::npos ||
                         name.find("torch::") != std::string::npos;
    if (isTorch)
      return fmt::format(
          "{} was built for another PyTorch than {}, which this program uses: it needs `{}`. Build it again, against "
          "this PyTorch",
          path, TORCH_VERSION, name);
    return fmt::format("{} needs `{}`, which is in no library that it names: link it with that library", path, name);
  }
  if (!library.empty())
    return fmt::format("{} needs {}, which is not found: set LD_LIBRARY_PATH to its folder", path, library);
  return fmt::format("{} cannot be loaded: {}", path, said);
}

/// The folder of this program's PyTorch. Libraries that torch.utils.cpp_extension builds do not say where it is.
std::filesystem::path torchFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&c10::Dispatcher::realSingleton), &info) == 0 || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

/// Opens the library, after those of PyTorch's that it needs and that are not here yet. "", or what dlopen says.
std::string open(const std::string& path) {
  std::string said;
  constexpr int mostNeeded = 16;
  for (int i = 0; i < mostNeeded; ++i) {
    // RTLD_GLOBAL: a library with kernels for another's operators finds that one's symbols.
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return "";
    const char* why = dlerror();
    said = why ? why : "unknown reason";
    const std::string needed = lacking(said);
    if (needed.empty() || needed == "libtorch_python.so") break;
    if (!dlopen((torchFolder() / needed).c_str(), RTLD_NOW | RTLD_GLOBAL)) break;
  }
  // An extension whose operators are plain C++, with a function for Python's `import` beside them: nobody calls that.
  if (isPythons(undefined(said)) && dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL)) return "";
  return said;
}

/// Whether the file is a whole shared library. dlopen takes that for granted: of a file that was cut off it maps what
/// is not there, and the first look at it ends the program.
Status checkSharedLibrary(const std::string& path) {
  const Error none = badInput(fmt::format("{} is no shared library", path));
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN)
    return none;
  std::error_code failed;
  const uint64_t size = std::filesystem::file_size(path, failed);
  const auto isInside = [&](uint64_t offset, uint64_t bytes) { return offset <= size && bytes <= size - offset; };
  const Error cut = badInput(fmt::format("{} is not whole: parts of this shared library are missing", path));
  if (failed || header.e_phentsize != sizeof(Elf64_Phdr) ||
      !isInside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))
    return cut;
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!in.read(reinterpret_cast<char*>(&segment), sizeof segment) ||
        (segment.p_type == PT_LOAD && !isInside(segment.p_offset, segment.p_filesz)))
      return cut;
  }
  return done();
}

std::string* opening = nullptr;  ///< the file whose initialisers run

/// What a registration throws (an operator of that name is there already, say) cannot leave dlopen: the C++ runtime
/// ends the program. Then it ends with words, as any bad input ends a command; graft-gui starts another engine.
[[noreturn]] void sayWhyAndEnd() {
  std::string why = "its initialisation failed";
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    why = shortMessage(e);
  } catch (...) {
  }
  constexpr int badInputCode = 3;
  fmt::print(stderr, "graft: {} cannot be loaded: {}\n", opening ? *opening : "a library", why);
  std::_Exit(badInputCode);
}

/// True where it was in the process already.
Result<bool> openShared(const std::string& path) {
  if (Status s = checkSharedLibrary(path); !s) return s.error();
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) return true;
  std::string name = path;
  opening = &name;
  const std::terminate_handler before = std::set_terminate(sayWhyAndEnd);
  const std::string said = open(path);
  std::set_terminate(before);
  opening = nullptr;
  if (said.empty()) return false;
  return badInput(whyNotLoaded(path, said));
}

bool isInProcess(const char* library) { return dlopen(library, RTLD_NOW | RTLD_NOLOAD) != nullptr; }

/// Whether it is one of the operators that libtorch_cuda.so has kernels for.
bool isOfPyTorch(std::string_view name) {
  const std::string_view space = name.substr(0, name.find('.'));
  for (std::string_view own :
       {"aten", "prim", "prims", "quantized", "quantization", "sparse", "c10d", "_c10d_functional",
        "_c10d_functional_autograd", "symm_mem", "inductor", "cuda", "mkldnn", "_quantized"})
    if (space == own) return true;
  return false;
}

Result<UserLibrary> load(const std::string& path, const Job& job) {
  if (path.ends_with(".py")) {
    auto operators = registerPythonOperators(path, job);
    if (!operators) return operators.error();
    return UserLibrary{path, std::move(*operators)};
  }
  const Registrations before = registrations();
  const bool hadCuda = isInProcess("libtorch_cuda.so");
  auto wasThere = openShared(path);
  if (!wasThere) return wasThere.error();
  const bool broughtCuda = !hadCuda && isInProcess("libtorch_cuda.so");  // and with it kernels of PyTorch's own
  UserLibrary out{path, {}};
  std::set<std::string> names;
  for (const auto& r : registrations())
    if (!before.contains(r) && !(broughtCuda && isOfPyTorch(r.first))) names.insert(r.first);
  out.operators.assign(names.begin(), names.end());
  if (out.operators.empty() && !*wasThere)
    return badInput(
        fmt::format("{} defines no operator: a library of operators says TORCH_LIBRARY(my, m) {{ "
                    "m.def(...); }} in its source",
                    path));
  return out;
}

}  // namespace

Result<UserLibrary> loadUserLibrary(const std::string& path, const Job& job) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return badInput(fmt::format("there is no library {}", path));
  if (std::filesystem::is_directory(path, none))
    return badInput(fmt::format("{} is a folder, not a library of operators", path));
  static std::mutex loading;
  const std::lock_guard lock(loading);
  if (const auto known = findUserLibrary(path)) return *known;
  auto out = load(canonicalPath(path), job);
  if (out) addUserLibrary(*out);
  return out;
}

}  // namespace graft
