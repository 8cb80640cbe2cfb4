#include "core/compile/codegen/cuda/cuda_code.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/compile/codegen/cuda/cuda_plan.h"
#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"
#include "core/compile/codegen/placement.h"
#include "core/compile/loops/reachable.h"

namespace graft::codegen {

using loops::Buffer;
using loops::BufferId;
using loops::Nest;
using loops::Program;

namespace {

/// Makes the kernels of nests, one nest after another.
class KernelMaker {
 public:
  KernelMaker(const Program& program, std::string name, CudaPlanner& planner, CudaPrinter& printer)
      : nests_(program.nests), name_(std::move(name)), planner_(planner), printer_(printer) {
    for (const Nest& nest : nests_) reads_.push_back(loops::readBuffers(program, nest));
  }

  /// Of the nest and those that join it; none where an earlier one has taken the nest along.
  Result<std::vector<CudaPrinter::Printed>> make(size_t nest, size_t kernels) {
    if (joined_.contains(nest)) return std::vector<CudaPrinter::Printed>();
    std::vector<size_t> taken;
    if (const std::optional<CudaPlan> plan = withColumnSums(nest, taken))
      if (auto all = printer_.print(*plan, nameOf(kernels))) {
        joined_.insert(taken.begin(), taken.end());
        std::vector<CudaPrinter::Printed> one;
        one.push_back(std::move(*all));
        return one;
      }
    Status status = done();
    for (const bool hasTeams : {true, false}) {
      std::vector<CudaPrinter::Printed> printed;
      status = done();
      for (const CudaPlan& plan : planner_.plan(nests_[nest], hasTeams)) {
        if (plan.iterations == 0) continue;
        auto one = printer_.print(plan, nameOf(kernels + printed.size()));
        if (one)
          printed.push_back(std::move(*one));
        else
          status = one.error();
      }
      if (status) return printed;
    }
    return status.error();
  }

 private:
  /// One kernel for a nest of rows and nests of parts of its columns. The first of them is `nest`; the others are
  /// `taken` along.
  std::optional<CudaPlan> withColumnSums(size_t nest, std::vector<size_t>& taken) {
    std::optional<CudaPlan> plan;
    size_t rows = nest;
    std::vector<const Nest*> columns;
    for (size_t other = nest + 1; other < nests_.size(); ++other) {
      if (joined_.contains(other)) continue;
      std::optional<CudaPlan> more;
      // What the rows store, a block has at hand when it adds it up.
      if (mayComeEarlier(other, nest, rows)) {
        columns.push_back(&nests_[other]);
        more = planner_.planWithColumnSums(nests_[rows], columns);
        if (!more) columns.pop_back();
      }
      if (!more && !plan && mayComeEarlier(other, nest)) {
        columns = {&nests_[nest]};
        more = planner_.planWithColumnSums(nests_[other], columns);
        if (more)
          rows = other;
        else
          columns.clear();
      }
      if (!more) continue;
      plan = std::move(more);
      taken.push_back(other);
    }
    return plan;
  }

  std::string nameOf(size_t kernel) const { return name_ + "_" + std::to_string(kernel); }

  /// Whether nothing from the earlier nest on writes what the later one reads, but for `except`.
  bool mayComeEarlier(size_t later, size_t earlier, std::optional<size_t> except = {}) const {
    for (size_t i = earlier; i < later; ++i)
      if (i != except && std::any_of(nests_[i].stores.begin(), nests_[i].stores.end(),
                                     [&](const loops::Store& s) { return reads_[later].contains(s.buffer); }))
        return false;
    return true;
  }

  const std::vector<Nest> nests_;  ///< planning adds to the program
  std::vector<std::set<BufferId>> reads_;
  const std::string name_;
  CudaPlanner& planner_;
  CudaPrinter& printer_;
  std::set<size_t> joined_;
};

}  // namespace

Result<CudaCode> makeCudaCode(loops::Program program, const CudaOptions& options) {
  if (options.parts > 0)
    if (const Status s = checkParts(program); !s) return s.error();
  if (options.sizes.size() != program.sizes.size())
    return internalError("code for a GPU is made for given sizes: the program has " +
                         std::to_string(program.sizes.size()) + ", " + std::to_string(options.sizes.size()) + " came");
  if (!options.hasNames)
    for (size_t i = 0; i < program.buffers.size(); ++i) program.buffers[i].name = "b" + std::to_string(i);
  const Placement placement = placeBuffers(program, {CpuLevel::Base, options.layouts, options.sizes});
  CudaPlanning planning{std::vector<int64_t>(program.buffers.size(), 16), options.limits, options.tile,
                        options.parts > 0};
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
  KernelMaker maker(program, options.name, planner, printer);
  for (size_t nest = 0, nests = program.nests.size(); nest < nests; ++nest) {
    auto printed = maker.make(nest, code.kernels.size());
    if (!printed) return printed.error();
    for (CudaPrinter::Printed& p : *printed) {
      for (int& slot : p.kernel.buffers)
        if (slot < 0) slot = slots - slot - 1;
      slots += static_cast<int>(p.scratchBytes.size());
      code.temporaryBytes.insert(code.temporaryBytes.end(), p.scratchBytes.begin(), p.scratchBytes.end());
      kernels += (kernels.empty() ? "" : "\n") + p.text;
      code.kernels.push_back(std::move(p.kernel));
    }
  }
  if (options.parts > 0 && code.kernels.size() != 1) return badInput("it is not elementwise: it takes several kernels");
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
