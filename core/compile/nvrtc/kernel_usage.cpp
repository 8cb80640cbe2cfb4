#include "core/compile/nvrtc/kernel_usage.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace graft {
namespace {

/// The number in front of `what`.
std::optional<int64_t> numberBefore(std::string_view line, std::string_view what) {
  const size_t at = line.find(what);
  if (at == line.npos || at == 0) return std::nullopt;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t n = 0;
  const auto read = std::from_chars(line.data() + begin, line.data() + at, n);
  return read.ec == std::errc() && read.ptr == line.data() + at ? std::optional(n) : std::nullopt;
}

/// What a multiprocessor has, by compute capability: CUDA C++ Programming Guide, "Technical specifications".
struct Multiprocessor {
  int capability, warps, blocks;
  int64_t sharedBytes, reservedBytes;  ///< reserved: of each block
};
constexpr int64_t kKilobyte = 1024;
constexpr std::array<Multiprocessor, 10> multiprocessors{{{75, 32, 16, 64 * kKilobyte, 0},
                                                          {80, 64, 32, 164 * kKilobyte, kKilobyte},
                                                          {86, 48, 16, 100 * kKilobyte, kKilobyte},
                                                          {87, 48, 16, 164 * kKilobyte, kKilobyte},
                                                          {89, 48, 24, 100 * kKilobyte, kKilobyte},
                                                          {90, 64, 32, 228 * kKilobyte, kKilobyte},
                                                          {100, 64, 32, 228 * kKilobyte, kKilobyte},
                                                          {103, 64, 32, 228 * kKilobyte, kKilobyte},
                                                          {120, 48, 24, 100 * kKilobyte, kKilobyte},
                                                          {121, 48, 24, 100 * kKilobyte, kKilobyte}}};
constexpr int kWarpThreads = 32;
constexpr int kRegisters = 65536, kParts = 4;  // of a multiprocessor, in four parts that share nothing
constexpr int kRegisterUnit = 256;             // a warp gets a multiple of so many
constexpr int64_t kSharedUnit = 128;           // a block, likewise, of bytes

template <class T>
T roundedUp(T n, T unit) {
  return (n + unit - 1) / unit * unit;
}

const Multiprocessor* multiprocessorOf(int capability) {
  const auto* const m = std::find_if(multiprocessors.begin(), multiprocessors.end(),
                                     [&](const Multiprocessor& one) { return one.capability == capability; });
  return m == multiprocessors.end() ? nullptr : m;
}

}  // namespace

std::vector<KernelUsage> kernelUsage(std::string_view log) {
  std::vector<KernelUsage> out;
  KernelUsage now;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    constexpr std::string_view head = "Compiling entry function '";
    if (const size_t at = line.find(head); at != line.npos) {
      const std::string_view rest = line.substr(at + head.size());
      now = {.function = std::string(rest.substr(0, rest.find('\'')))};
    }
    if (const auto n = numberBefore(line, " bytes stack frame")) now.stackBytes = *n;
    if (const auto n = numberBefore(line, " bytes spill stores")) now.spillBytes = *n;
    if (const auto n = numberBefore(line, " bytes spill loads")) now.spillBytes += *n;
    const auto registers = numberBefore(line, " registers");
    if (!registers || now.function.empty()) continue;
    now.registers = static_cast<int>(*registers);
    now.sharedBytes = numberBefore(line, " bytes smem").value_or(0);
    out.push_back(std::move(now));
    now = {};
  }
  return out;
}

std::optional<Occupancy> occupancy(int capability, int threads, int registers, int64_t sharedBytes) {
  const Multiprocessor* const m = multiprocessorOf(capability);
  if (!m || threads <= 0) return std::nullopt;
  const int warps = (threads + kWarpThreads - 1) / kWarpThreads;
  Occupancy out{m->blocks, 0, 0, "blocks"};
  const auto atMost = [&](int64_t blocks, const char* limit) {
    if (blocks >= out.blocks) return;
    out.blocks = static_cast<int>(blocks);
    out.limit = limit;
  };
  atMost(m->warps / warps, "threads");
  if (registers > 0) {
    const int each = roundedUp(registers * kWarpThreads, kRegisterUnit);
    atMost(kRegisters / kParts / each * kParts / warps, "registers");
  }
  const int64_t shared = roundedUp(sharedBytes + m->reservedBytes, kSharedUnit);
  if (shared > 0) atMost(m->sharedBytes / shared, "shared memory");
  out.warps = out.blocks * warps;
  out.share = static_cast<double>(out.warps) / m->warps;
  return out;
}

std::optional<int64_t> sharedBytesOfBlock(int capability) {
  const Multiprocessor* const m = multiprocessorOf(capability);
  return m ? std::optional(m->sharedBytes - m->reservedBytes) : std::nullopt;
}

int gpuCapability() {
  static const int found = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return 0;
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto device = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
    const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
    constexpr int majorAttribute = 75, minorAttribute = 76;
    int handle = 0, major = 0, minor = 0;
    if (!init || !device || !attribute || init(0) != 0 || device(&handle, 0) != 0 ||
        attribute(&major, majorAttribute, handle) != 0 || attribute(&minor, minorAttribute, handle) != 0)
      return 0;
    return major * 10 + minor;
  }();
  return found;
}

}  // namespace graft
