#include "core/compile/nvrtc/disassembler.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/child.h"
#include "core/base/temporary_folder.h"
#include "core/compile/nvrtc/loaded_torch.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr double mostSeconds = 60;

std::vector<fs::path> folders() {
  std::vector<fs::path> out;
  if (const char* path = std::getenv("PATH")) {
    std::istringstream in(path);
    for (std::string folder; std::getline(in, folder, ':');)
      if (!folder.empty()) out.emplace_back(folder);
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable); home && *home) out.push_back(fs::path(home) / "bin");
  out.emplace_back("/usr/local/cuda/bin");
  if (const fs::path torch = loadedTorch(); !torch.empty()) {
    const fs::path packages = torch.parent_path().parent_path();
    out.push_back(packages / "triton" / "backends" / "nvidia" / "bin");
    out.push_back(packages / "nvidia" / "cu13" / "bin");
    out.push_back(packages / "nvidia" / "cuda_nvcc" / "bin");
  }
  return out;
}

bool isCuobjdump(const std::string& program) { return fs::path(program).filename() == "cuobjdump"; }

}  // namespace

std::string findDisassembler() {
  if (const char* named = std::getenv("GRAFT_DISASSEMBLER"); named && *named)
    return access(named, X_OK) == 0 ? named : "";
  for (const char* name : {"nvdisasm", "cuobjdump"})
    for (const fs::path& folder : folders())
      if (const fs::path program = folder / name; access(program.c_str(), X_OK) == 0) return program;
  return "";
}

Result<std::string> disassemble(const std::string& binary, const Job& job) {
  const std::string program = findDisassembler();
  if (program.empty())
    return badInput(
        "SASS is read by nvdisasm or cuobjdump, and neither is installed: they come with the CUDA toolkit and with "
        "Triton (pip install triton), or name one in GRAFT_DISASSEMBLER");
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string file = folder->file("kernel.cubin");
  if (Status s = writeFileAtomically(file, binary); !s) return s.error();
  const std::vector<std::string> command =
      isCuobjdump(program) ? std::vector<std::string>{program, "--dump-sass", file}
                           : std::vector<std::string>{program, "--print-line-info-inline", "--print-code", file};
  auto child = Child::start(command);
  if (!child) return child.error();
  child->setLimit(mostSeconds);
  auto end = child->end(job);
  if (!end) return end.error();
  if (end->code != 0 || end->output.empty())
    return badInput(program + " cannot read the kernel: " + (end->errors.empty() ? "it says nothing" : end->errors));
  return std::move(end->output);
}

}  // namespace graft
