#include "core/compile/codegen/cpu_code.h"

#include <fmt/format.h>

#include <set>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/nest_emitter.h"
#include "core/compile/codegen/placement.h"
#include "core/compile/codegen/prepare.h"

namespace graft::codegen {

using loops::Buffer;

namespace {

// About what one vector instruction takes on a current processor, most of them waiting for memory now and then.
constexpr double kNanoseconds = 0.3;

}  // namespace

Layout constantLayout(loops::Program& program, const std::vector<int64_t>& strides) {
  Layout layout;
  for (const int64_t stride : strides) layout.strides.push_back(program.expressions.integer(stride));
  return layout;
}

Layout denseLayout(loops::Program& program, loops::BufferId buffer, const std::vector<size_t>& order) {
  if (order.empty()) return {rowMajor(program, buffer)};
  loops::Simplifier s(program);
  Layout layout{std::vector<loops::ExprId>(order.size())};
  loops::ExprId stride = s.integer(1);
  for (size_t i = order.size(); i-- > 0;) {
    layout.strides[order[i]] = stride;
    stride = s.multiply(stride, program.buffer(buffer).sizes[order[i]]);
  }
  return layout;
}

Result<CpuCode> makeCpuCode(loops::Program given, const CpuOptions& options) {
  CpuCode code{std::move(given), {}, {}, {}};
  loops::Program& program = code.program;
  Placement placement = placeBuffersOnCpu(program, options);
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].role != Buffer::Role::Temporary) continue;
    loops::Simplifier s(program);
    loops::ExprId bytes = s.integer(static_cast<int64_t>(dtypeSize(program.buffers[i].dtype)));
    for (const loops::ExprId size : std::vector<loops::ExprId>(program.buffers[i].sizes))
      bytes = s.multiply(bytes, size);
    code.temporaryBytes.push_back(bytes);
  }
  Accesses accesses(program, std::move(placement.strides));
  accesses.guesses = options.guesses;
  NestRewriter rewriter(accesses, program);
  std::set<std::string> declarations, helpers;
  std::string functions;
  for (size_t i = 0; i < program.nests.size(); ++i) {
    NestEmitter emitter(accesses, rewriter, options.level, lanesOf(options.level), placement.slots, options.schedule);
    const loops::Nest nest = rewriter.prepare(program.nests[i]);
    const std::string name = "nest_" + std::to_string(i);
    const NestEmitter::Emitted emitted = emitter.emit(nest, name);
    functions += emitted.function + "\n";
    declarations.insert(emitter.declarations().begin(), emitter.declarations().end());
    helpers.insert(emitter.helpers().begin(), emitter.helpers().end());
    code.nests.push_back({name, emitted.iterations, emitted.scratchBytes, emitted.instructions * kNanoseconds});
  }
  code.ir = fmt::format("@graft.nothing = internal constant [{} x i8] zeroinitializer, align 64\n\n", kNothingBytes) +
            functions;
  for (const std::string& h : helpers) code.ir += h + "\n";
  for (const std::string& d : declarations) code.ir += d + "\n";
  code.ir += options.level == CpuLevel::Avx512
                 ? "\nattributes #0 = { nounwind \"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\" }\n"
                 : "\nattributes #0 = { nounwind }\n";
  return code;
}

}  // namespace graft::codegen
