#include "kernels/cuda/gemm_cache.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <cublasLt.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace graft::cuda {
namespace {

namespace fs = std::filesystem;

// Changes when our kernels change so much that old choices mislead.
constexpr int kKernelVersion = 8;

fs::path folder() {
  if (const char* given = std::getenv("GRAFT_CACHE_DIR"); given && *given) return given;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return fs::path(xdg) / "graft";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache" / "graft";
  return {};
}

}  // namespace

GemmCache::GemmCache() {
  const fs::path at = folder();
  if (at.empty()) return;
  std::string gpu = at::cuda::getCurrentDeviceProperties()->name;
  for (char& c : gpu) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  std::ostringstream name;
  name << "gemm-" << gpu << "-lt" << cublasLtGetVersion() << "-v" << kKernelVersion << ".txt";
  path_ = (at / name.str()).string();
  std::ifstream in(path_);
  std::string line;
  while (std::getline(in, line)) {
    const size_t space = line.find(' ');
    if (space != std::string::npos) lines_[line.substr(0, space)] = line.substr(space + 1);
  }
}

std::optional<std::string> GemmCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = lines_.find(key);
  if (it == lines_.end()) return std::nullopt;
  return it->second;
}

void GemmCache::store(const std::string& key, const std::string& line) {
  const std::lock_guard lock(mutex_);
  lines_[key] = line;
  if (path_.empty()) return;
  std::error_code failed;
  fs::create_directories(fs::path(path_).parent_path(), failed);
  const std::string beside = path_ + "." + std::to_string(getpid());
  {
    std::ofstream out(beside);
    for (const auto& [k, v] : lines_) out << k << ' ' << v << '\n';
    if (!out.flush()) {
      fs::remove(beside, failed);
      return;
    }
  }
  fs::rename(beside, path_, failed);
}

GemmCache& gemmCache() {
  static GemmCache cache;
  return cache;
}

}  // namespace graft::cuda
