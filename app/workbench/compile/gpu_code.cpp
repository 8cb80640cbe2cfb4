#include "app/workbench/compile/gpu_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/nvrtc/disassembler.h"
#include "core/compile/nvrtc/kernel_usage.h"
#include "core/compile/nvrtc/machine_text.h"
#include "core/compile/nvrtc/nvrtc.h"

namespace graft::workbench {
namespace {

using loops::MarkedText;
using loops::OriginSpan;

/// Of a size that varies, where code is for given sizes.
constexpr int64_t kGuess = 128;

/// The kernels with a line break around each part of a node, and the origin of each line: compilers know lines alone.
struct Spread {
  std::string text;
  std::vector<uint32_t> origins;
};
Spread spreadOut(const MarkedText& kernels) {
  Spread out;
  uint32_t origin = 0;
  size_t next = 0;  // of the spans
  const auto& spans = kernels.spans;
  const auto breakLine = [&] {
    out.text += '\n';
    out.origins.push_back(origin);
  };
  for (size_t i = 0; i < kernels.text.size(); ++i) {
    if (next < spans.size() && origin != 0 && i == spans[next].end) {
      breakLine();
      origin = 0;
      ++next;
    }
    if (next < spans.size() && origin == 0 && i == spans[next].begin) {
      breakLine();
      origin = spans[next].origin;
    }
    if (kernels.text[i] == '\n')
      breakLine();
    else
      out.text += kernels.text[i];
  }
  out.origins.push_back(origin);
  return out;
}

/// What the assembler says of the source. People look at the same kernels again and again, in plans that differ in one.
Result<std::string> assemblerLog(const Nvrtc& nvrtc, const std::string& source, int capability) {
  constexpr size_t most = 4096;
  static std::mutex mutex;
  static std::unordered_map<std::string, std::string> known;
  const std::string key = std::to_string(capability) + "\n" + source;
  {
    const std::lock_guard lock(mutex);
    if (const auto at = known.find(key); at != known.end()) return at->second;
  }
  auto binary = nvrtc.compileReadable(source, capability, Nvrtc::Form::Binary);
  if (!binary) return binary.error();
  const std::lock_guard lock(mutex);
  if (known.size() >= most) known.clear();
  return known.emplace(key, std::move(binary->log)).first->second;
}

/// Whole lines, neighbours of one node together.
std::vector<OriginSpan> spansOf(const MachineText& machine, const Spread& source, int firstLine) {
  std::vector<OriginSpan> out;
  size_t begin = 0;
  for (const int line : machine.sourceLines) {
    const size_t end = machine.text.find('\n', begin);
    const size_t at = static_cast<size_t>(std::max(0, line - firstLine));
    const uint32_t origin = line < firstLine || at >= source.origins.size() ? 0 : source.origins[at];
    const size_t text = machine.text.find_first_not_of(" \t", begin);
    if (origin != 0 && text < end) out.push_back({origin, text, end});
    begin = end + 1;
  }
  return out;
}

std::vector<KernelLaunch> launchesOf(const codegen::CudaCode& code, std::string_view log, int capability) {
  const std::vector<KernelUsage> usage = kernelUsage(log);
  std::vector<KernelLaunch> out;
  for (const codegen::CudaKernel& k : code.kernels) {
    KernelLaunch launch{.function = k.function,
                        .schedule = k.schedule,
                        .blocks = k.blocks,
                        .threads = k.threads,
                        .sharedBytes = k.sharedBytes};
    const auto u =
        std::find_if(usage.begin(), usage.end(), [&](const KernelUsage& one) { return one.function == k.function; });
    if (u != usage.end()) {
      launch.sharedBytes += u->sharedBytes;
      KernelLaunch::Usage& taken = launch.usage.emplace();
      taken.registers = u->registers;
      taken.stackBytes = u->stackBytes;
      taken.spillBytes = u->spillBytes;
      if (const auto o = occupancy(capability, k.threads, u->registers, launch.sharedBytes)) {
        taken.occupancy = o->share;
        taken.blocks = o->blocks;
        taken.limit = o->limit;
      }
    }
    out.push_back(std::move(launch));
  }
  return out;
}

}  // namespace

Result<GpuCode> gpuCode(loops::Program program, const GpuCodeRequest& request, const Job& job) {
  codegen::CudaOptions options;
  options.hasMarks = true;
  options.limits.capability = request.capability;
  options.limits.cluster = 1;
  if (const auto bytes = sharedBytesOfBlock(request.capability)) options.limits.sharedBytes = *bytes;
  std::string given;
  for (const loops::Size& s : program.sizes) {
    options.sizes.push_back(std::clamp(kGuess, s.min, s.max ? std::max(*s.max, s.min) : INT64_MAX));
    given += fmt::format("{}{} = {}", given.empty() ? "// where " : ", ", s.name, options.sizes.back());
  }
  const Result<codegen::CudaCode> code = codegen::makeCudaCode(std::move(program), options);
  if (!code) return code.error();
  const std::string prelude = code->source.substr(0, code->preludeBytes);
  const MarkedText kernels = loops::withoutMarks(std::string_view(code->source).substr(code->preludeBytes));
  GpuCode out;
  if (request.form == CodeForm::Cuda) {
    // What stands in front of all kernels is left out.
    const std::string head = given.empty() ? "" : given + "\n";
    out.text = head + kernels.text;
    for (const OriginSpan& s : kernels.spans)
      out.spans.push_back({s.origin, s.begin + head.size(), s.end + head.size()});
  }
  if (request.form == CodeForm::Cuda && !request.hasUsage) {
    out.launches = launchesOf(*code, "", request.capability);
    return out;
  }
  const Nvrtc* nvrtc = findNvrtc();
  if (!nvrtc) return badInput("nothing is compiled for a GPU: " + nvrtcStatus());
  const Spread spread = spreadOut(kernels);
  const int firstLine = 1 + static_cast<int>(std::count(prelude.begin(), prelude.end(), '\n'));
  std::string log;
  if (request.form == CodeForm::Ptx) {
    auto ptx = nvrtc->compileReadable(prelude + spread.text, request.capability, Nvrtc::Form::Ptx);
    if (!ptx) return ptx.error();
    MachineText machine = readPtx(ptx->code, {firstLine});
    out.spans = spansOf(machine, spread, firstLine);
    out.text = std::move(machine.text);
  }
  if (request.form == CodeForm::Sass) {
    auto binary = nvrtc->compileReadable(prelude + spread.text, request.capability, Nvrtc::Form::Binary);
    if (!binary) return binary.error();
    log = std::move(binary->log);
    auto sass = disassemble(binary->code, job);
    if (!sass) return sass.error();
    MachineText machine = readSass(*sass, {firstLine});
    out.spans = spansOf(machine, spread, firstLine);
    out.text = std::move(machine.text);
  } else if (request.hasUsage) {
    auto said = assemblerLog(*nvrtc, prelude + kernels.text, request.capability);
    if (!said) return said.error();
    log = std::move(*said);
  }
  out.launches = launchesOf(*code, log, request.capability);
  return out;
}

}  // namespace graft::workbench
