#include "core/compile/codegen/cuda/cuda_code.h"

#include <algorithm>

#include "core/compile/codegen/cuda/cuda_plan.h"
#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"
#include "core/compile/codegen/placement.h"

namespace graft::codegen {

using loops::Buffer;

Result<CudaCode> makeCudaCode(loops::Program program, const CudaOptions& options) {
  if (options.sizes.size() != program.sizes.size())
    return internalError("code for a GPU is made for given sizes: the program has " +
                         std::to_string(program.sizes.size()) + ", " + std::to_string(options.sizes.size()) + " came");
  if (!options.hasNames)
    for (size_t i = 0; i < program.buffers.size(); ++i) program.buffers[i].name = "b" + std::to_string(i);
  const Placement placement = placeBuffers(program, {CpuLevel::Base, options.layouts, options.sizes});
  CudaPlanning planning{std::vector<int64_t>(program.buffers.size(), 16), options.limits, options.tile};
  CudaCode code;
  int slots = 0;
  size_t given = 0;
  for (const Buffer::Role role : {Buffer::Role::Input, Buffer::Role::Output, Buffer::Role::Temporary})
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& b = program.buffers[i];
      if (b.role != role) continue;
      ++slots;
      if (role != Buffer::Role::Temporary) {
        if (!options.alignments.empty()) planning.alignments[i] = options.alignments.at(given++);
        continue;
      }
      auto bytes = static_cast<int64_t>(dtypeSize(b.dtype));
      for (const loops::ExprId size : b.sizes) bytes *= *program.expressions.findInteger(size);
      code.temporaryBytes.push_back(bytes);
    }
  Accesses accesses(program, placement.strides);
  CudaPlanner planner(accesses, program, placement.strides, planning);
  CudaPrinter printer(accesses, planner, options, placement.slots, planning.alignments);
  std::string kernels;
  for (const loops::Nest& nest : std::vector<loops::Nest>(program.nests)) {
    std::vector<CudaPrinter::Printed> printed;
    for (const bool hasTeams : {true, false}) {
      printed.clear();
      Status status = done();
      for (const CudaPlan& plan : planner.plan(nest, hasTeams)) {
        if (plan.iterations == 0) continue;
        auto one = printer.print(plan, "kernel_" + std::to_string(code.kernels.size() + printed.size()));
        if (one)
          printed.push_back(std::move(*one));
        else
          status = one.error();
      }
      if (status) break;
      if (!hasTeams) return status.error();
    }
    for (CudaPrinter::Printed& p : printed) {
      for (int& slot : p.kernel.buffers)
        if (slot < 0) slot = slots - slot - 1;
      slots += static_cast<int>(p.scratchBytes.size());
      code.temporaryBytes.insert(code.temporaryBytes.end(), p.scratchBytes.begin(), p.scratchBytes.end());
      kernels += (kernels.empty() ? "" : "\n") + p.text;
      code.kernels.push_back(std::move(p.kernel));
    }
  }
  code.source = std::string(cudaMachinePrelude()) + std::string(cudaHelpers());
  if (std::any_of(code.kernels.begin(), code.kernels.end(), [](const CudaKernel& k) { return k.product.has_value(); }))
    code.source += std::string(cudaProductMachine()) + std::string(cudaProductHelpers());
  for (const CudaKernel& k : code.kernels) code.source += k.helpers;
  code.source += "\n";
  code.preludeBytes = code.source.size();
  code.source += kernels;
  return code;
}

}  // namespace graft::codegen
