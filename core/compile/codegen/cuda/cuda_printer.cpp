#include "core/compile/codegen/cuda/cuda_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/compile/codegen/cuda/cuda_spelling.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::Store;
using Role = loops::Buffer::Role;

namespace {

/// Of a multiprocessor, at least, where threads keep sums of columns: each has 128 registers.
constexpr int kThreadsWithSums = 512;

}  // namespace

std::string CudaPrinter::typeName(DType dtype) { return cudaType(dtype); }

CudaPrinter::CudaPrinter(Accesses& accesses, CudaPlanner& planner, const CudaOptions& options,
                         const std::vector<int>& slots, const std::vector<int64_t>& alignments)
    : accesses_(accesses),
      planner_(planner),
      program_(accesses.program()),
      options_(options),
      slots_(slots),
      alignments_(alignments) {}

void CudaPrinter::line(const std::string& text) {
  scopes_.back().text += std::string(static_cast<size_t>(scopes_.back().depth) * 2, ' ') + text + "\n";
}

/// The heads belong to the text of the scope: what it needs from outside is printed before them, while it is open.
void CudaPrinter::open(const std::vector<std::string>& heads, const std::string& end) {
  Scope s;
  const std::string indent(static_cast<size_t>(scopes_.back().depth) * 2, ' ');
  for (const std::string& head : heads) s.text += indent + head + "\n";
  s.depth = scopes_.back().depth + 1;
  s.end = end;
  scopes_.push_back(std::move(s));
}

void CudaPrinter::close() {
  Scope s = std::move(scopes_.back());
  scopes_.pop_back();
  scopes_.back().text += s.text;
  if (!s.end.empty()) line(s.end);
}

void CudaPrinter::at(size_t target, const std::function<void()>& print) {
  std::vector<Scope> aside;
  for (; scopes_.size() > target + 1; scopes_.pop_back()) aside.push_back(std::move(scopes_.back()));
  std::vector<Guard> guards;
  for (; !guards_.empty() && guards_.back().scope > target; guards_.pop_back()) guards.push_back(guards_.back());
  print();
  for (; !guards.empty(); guards.pop_back()) guards_.push_back(guards.back());
  for (; !aside.empty(); aside.pop_back()) scopes_.push_back(std::move(aside.back()));
}

std::string CudaPrinter::slot(const Pass& p) const {
  return std::string(p.chunks > 1 ? "[k]" : "") + (p.vector > 1 ? "[v]" : "");
}
std::string CudaPrinter::dimensions(const Pass& p) const {
  return (p.chunks > 1 ? fmt::format("[{}]", p.chunks) : "") + (p.vector > 1 ? fmt::format("[{}]", p.vector) : "");
}
CudaPrinter::Pass CudaPrinter::passOf(const CudaRow& r) const {
  if (hasColumnLanes()) return {"i", &r, plan_->index, plan_->vector, r.chunks, r.isInRegisters};
  return {"j", &r, r.range, r.vector, r.chunks, r.isInRegisters};
}

std::string CudaPrinter::header(const std::string& function) {
  std::vector<BufferId> reads, writes;
  std::unordered_set<ExprId> seen;
  const auto walk = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id).second) return;
    const Expr& e = program_.expressions[id];
    if (e.op == Op::Load && !storedRows_.contains(e.buffer()) &&
        std::find(reads.begin(), reads.end(), e.buffer()) == reads.end())
      reads.push_back(e.buffer());
    for (const ExprId operand : e.operands) self(self, operand);
  };
  for (const CudaColumnSum& s : plan_->sums) {
    walk(walk, s.value);
    writes.push_back(s.parts);
  }
  for (const Store& s : plan_->nest.stores) {
    walk(walk, s.value);
    for (const ExprId i : s.index) walk(walk, i);
    if (std::find(writes.begin(), writes.end(), s.buffer) == writes.end()) writes.push_back(s.buffer);
  }
  std::string parameters, addresses;
  std::vector<int> places;
  const auto add = [&](BufferId b, const char* how, const char* alone) {
    const loops::Buffer& buffer = program_.buffer(b);
    if (buffer.role == Role::Local) return;
    if (isInParts())
      addresses += fmt::format("  {0}{1}* {2}_ = ({0}{1}*)parts.part[part].at[{3}];\n", how, cudaType(buffer.dtype),
                               buffer.name, places.size());
    places.push_back(slots_[b.index]);
    parameters +=
        (parameters.empty() ? "" : ", ") + std::string(how) + cudaType(buffer.dtype) + "*" + alone + buffer.name + "_";
  };
  // Of `const __restrict__`, the compiler knows that nobody writes it while the kernel runs, and may load it ahead of
  // overlap(). There the kernel before still writes it.
  for (const BufferId b : reads) add(b, "const ", options_.isOverlapped ? " " : " __restrict__ ");
  for (const BufferId b : writes) add(b, "", " __restrict__ ");
  for (size_t i = 0; i < printed_.scratchBytes.size(); ++i)
    parameters += (parameters.empty() ? "" : ", ") + fmt::format("void* __restrict__ scratch{}", i + 1);
  printed_.kernel.buffers.insert(printed_.kernel.buffers.begin(), places.begin(), places.end());
  if (isInParts()) {
    printed_.kernel.table = CudaPartTable::of(static_cast<int64_t>(places.size()), options_.parts);
    printed_.kernel.table.vector = plan_->vector;
    printed_.kernel.table.blockElements = int64_t{plan_->vector} * plan_->threads;
    printed_.kernel.helpers = cudaPartHelpers(printed_.kernel.table, "Parts");
    parameters = "const __grid_constant__ Parts parts";
  }
  const std::string cluster = plan_->cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", plan_->cluster) : "";
  std::string bounds = std::to_string(plan_->threads);
  if (!plan_->sums.empty()) bounds += fmt::format(", {}", std::max(1, kThreadsWithSums / plan_->threads));
  std::string text = fmt::format("// {}\nextern \"C\" __global__ void {}__launch_bounds__({}) {}({}) {{\n",
                                 plan_->describe(), cluster, bounds, function, parameters);
  if (sharedBytes_ > 0) text += "  extern __shared__ __align__(1024) unsigned char shared[];\n";
  if (options_.isOverlapped) text += "  overlap();\n";
  if (isInParts())
    text +=
        "  const i32 part = part_of(parts, (i32)blockIdx.x);\n"
        "  const i32 block = (i32)blockIdx.x - parts.part[part].block, length = parts.part[part].length;\n" +
        addresses;
  return text;
}

Result<CudaPrinter::Printed> CudaPrinter::print(const CudaPlan& plan, const std::string& function) {
  plan_ = &plan;
  scopes_.assign(1, {});
  scopes_[0].depth = 1;
  guards_.clear();
  chosen_.clear();
  locals_.clear();
  ranges_.clear();
  uses_.clear();
  kept_.clear();
  filled_.clear();
  keptOwn_.clear();
  storedRows_.clear();
  hasOwn_ = isJoined_ = false;
  pass_ = {};
  steps_.reset();
  chunk_ = lane_ = localScope_ = iteration_ = 0;
  sharedBytes_ = 0;
  names_ = 0;
  printed_ = {};
  for (const Store& s : plan.nest.stores) {
    countUses(s.value);
    const loops::Buffer& b = program_.buffer(s.buffer);
    if (b.role != Role::Local || isArray(b)) countUses(planner_.offset(s.buffer, s.index));
  }
  for (const CudaColumnSum& s : plan.sums) {
    countUses(s.value);
    countUses(s.offset);
  }
  tiles_.clear();
  const bool isTeam = plan.kind == CudaPlan::Kind::Rows || plan.kind == CudaPlan::Kind::Columns;
  if (plan.product) {
    for (const CudaProduct::Operand* o : {&plan.product->left, &plan.product->right}) countUses(offsetOf(o->load));
  }
  if (plan.kind == CudaPlan::Kind::Tiles)
    printTiles();
  else if (plan.kind == CudaPlan::Kind::Product)
    printProduct();
  else if (const Status s = isTeam ? printTeam() : printThreads(); !s)
    return s.error();
  const std::string head = header(function);
  printed_.text = head + scopes_[0].text + "}\n";
  printed_.kernel.function = function;
  printed_.kernel.schedule = plan.describe();
  const int64_t each =
      isTeam ? plan.iterationsOfBlock() : static_cast<int64_t>(plan.vector) * plan.chunks * plan.threads;
  printed_.kernel.blocks = (plan.iterations + each - 1) / each * plan.cluster;
  printed_.kernel.cluster = plan.cluster;
  if (plan.kind == CudaPlan::Kind::Tiles)
    for (const RangeId r : {plan.along, plan.across}) {
      const int64_t extent = extentOf(r);
      printed_.kernel.blocks =
          (r == plan.along ? plan.iterations : printed_.kernel.blocks) * ((extent + plan.tile - 1) / plan.tile);
    }
  if (plan.product) {
    const ProductSize& p = plan.product->size;
    printed_.kernel.product = p;
    if (plan.product->tile.isGrouped)
      printed_.kernel.helpers = cudaGroupMachine(plan.product->tile.columns, plan.product->dtype,
                                                 plan.product->left.isInnerFast, plan.product->right.isInnerFast) +
                                std::string(cudaGroupHelpers());
    printed_.kernel.blocks =
        p.batches * divideUp(p.rows, plan.product->tile.rows) * divideUp(p.columns, plan.product->tile.columns);
  }
  printed_.kernel.threads = plan.threads;
  printed_.kernel.sharedBytes = sharedBytes_;
  return std::move(printed_);
}

}  // namespace graft::codegen
