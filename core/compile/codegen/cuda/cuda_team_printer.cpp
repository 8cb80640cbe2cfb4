// CudaPrinter for rows and columns: a team of threads reduces a row in passes, which keep in registers what several of
// them read.
#include <fmt/format.h>

#include <algorithm>

#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::Store;
using Role = loops::Buffer::Role;

const CudaRow& CudaPrinter::rowOf(RangeId range) const {
  for (const auto& [length, row] : plan_->rows)
    if (row.range == range) return row;
  return plan_->rows.begin()->second;
}

void CudaPrinter::barrier() {
  line(plan_->team > 32 || plan_->kind == CudaPlan::Kind::Columns ? "join_block();" : "join_warp();");
}

/// Reduces of one row, none of which needs another one's result, and stores that need none of theirs: what they read is
/// read once.
void CudaPrinter::reducePass(const std::vector<ExprId>& together, const std::vector<const Store*>& stores) {
  struct Part {
    ExprId id;
    Expr e;
    std::string type, name;
  };
  std::vector<Part> parts;
  const CudaRow* row = &rowOf(program_.expressions[together[0]].ranges[0]);
  const Pass p = passOf(*row);
  for (const ExprId id : together) {
    const Expr e = program_.expressions[id];
    const DType dtype = program_.expressions[e.operands[0]].dtype;
    const std::string type = cudaAccumulator(e.reduce, dtype), start = cudaStart(e.reduce, dtype);
    const Part& part = parts.emplace_back(Part{id, e, type, newName("part")});
    if (p.vector > 1) line(fmt::format("{} {}[{}];", type, part.name, p.vector));
    line(p.vector > 1 ? fmt::format("fill<{}>({}, {});", p.vector, part.name, start)
                      : fmt::format("{} {} = {};", type, part.name, start));
  }
  if (row->length > 0) {
    eachChunk(p, [&] {
      for (const Part& part : parts) {
        const std::string next = value(part.e.operands[0]);
        const std::string place = p.vector > 1 && row->vector > 1 ? "jv" : "j";
        const std::string item =
            isPlace(part.e) ? fmt::format("{}{{{}, {}}}", part.type, bareText(next), place) : bareText(next);
        const std::string sum = part.name + (p.vector > 1 ? "[v]" : "");
        const std::string combination = cudaCombination(part.e.reduce);
        line(withOrigin(part.id, fmt::format("{0} = {1}::of<{2}>({0}, {3})", sum, combination, part.type, item)) + ";");
      }
      std::vector<std::string> after;
      for (const Store* s : stores) store(*s, after);
      if (p.vector > 1) close();
      for (const std::string& text : after) line(text);
    });
  }
  for (const Part& part : parts) {
    std::string name = joined(part.e, part.type, part.name, p.vector);
    if (isPlace(part.e)) name += ".place";
    scopes_[iteration_].names[part.id] = name;
  }
}

/// What a thread has, combined with what the others of its team have: the name of that.
std::string CudaPrinter::joined(const Expr& e, const std::string& type, const std::string& parts, int vector) {
  const CudaPlan& plan = *plan_;
  const std::string combination = cudaCombination(e.reduce);
  const auto bytes = isPlace(e) ? 16 : static_cast<int64_t>(dtypeSize(program_.expressions[e.operands[0]].dtype));
  const auto memory = [&](int64_t elements) {
    return fmt::format("({}*)(shared + {})", type, sharedSlot(bytes * elements));
  };
  const int block = plan.team / plan.cluster;
  const char* isFirst = isJoined_ ? "false" : "true";
  isJoined_ = true;
  if (plan.kind == CudaPlan::Kind::Columns) {
    // In place: an element of each column of the thread.
    const std::string own = (plan.vector > 1 ? "" : "&") + parts;
    const int inWarp = std::min(block, std::max(1, 32 / plan.width));  // threads of a team
    line(fmt::format("join_columns<{}, {}, {}, {}, {}>({}, team, {});", combination, type, block, plan.width,
                     plan.vector, own, memory(static_cast<int64_t>(plan.vector) * plan.threads / inWarp)));
    if (plan.cluster > 1)
      line(fmt::format("join_column_blocks<{}, {}, {}, {}, {}, {}, {}>({}, team, {});", combination, type, block,
                       plan.width, plan.vector, plan.cluster, isFirst, own,
                       memory(static_cast<int64_t>(plan.vector) * plan.width * plan.cluster)));
    return parts + (plan.vector > 1 ? "[v]" : "");
  }
  std::string name = newName(std::string(loops::reduceName(e.reduce)));
  const std::string folded = vector > 1 ? fmt::format("fold<{}, {}>({})", combination, vector, parts) : parts;
  if (plan.cluster > 1) {
    line(fmt::format("const {} {} = join_row_blocks<{}, {}, {}, {}, {}>({}, {});", type, name, combination, type, block,
                     plan.cluster, isFirst, folded, memory(plan.cluster + divideUp(block, 32))));
    return name;
  }
  const std::string warps =
      block > 32 ? fmt::format("{} + team * {}", memory(divideUp(plan.threads, 32)), block / 32) : "nullptr";
  line(fmt::format("const {} {} = join_row<{}, {}, {}>({}, t, {});", type, name, combination, type, block, folded,
                   warps));
  return name;
}

void CudaPrinter::rowStore(const Store& s) {
  const bool isLocal = program_.buffer(s.buffer).role == Role::Local;
  const bool isLive = plan_->isAlwaysLive();
  const std::string first = std::string("if (t == 0") + (isLive ? "" : " && isLive") + ") ";
  if (hasColumnLanes()) {
    if (!isLocal) open({first + "{"});
    openColumns();
    std::vector<std::string> after;
    store(s, after);
    close();
    for (const std::string& text : after) line(text);
    closePass();
    if (!isLocal) close();
    return;
  }
  const std::string text = bareText(value(s.value));
  if (isLocal) {
    const Local& l = locals_.at(s.buffer);
    line((l.place == Local::Place::Shared ? "if (t == 0) " : "") + localElement(s.buffer, s.index) + " = " + text +
         ";");
    if (l.place == Local::Place::Shared) barrier();
    return;
  }
  line(first + element(s.buffer, planner_.offset(s.buffer, s.index)) + " = " + text + ";");
}

void CudaPrinter::storePass(const std::vector<const Store*>& together) {
  const CudaRow* row = &rowOf(together[0]->ranges[0]);
  if (row->length == 0) return;
  const Pass p = passOf(*row);
  bool isShared = false;
  eachChunk(p, [&] {
    std::vector<std::string> after;
    for (const Store* s : together) {
      store(*s, after);
      written(s->buffer);
      isShared |= program_.buffer(s->buffer).role == Role::Local && locals_.at(s->buffer).place == Local::Place::Shared;
    }
    if (p.vector > 1) close();
    for (const std::string& text : after) line(text);
  });
  if (isShared) barrier();
}

void CudaPrinter::reducesOf(ExprId value, std::vector<ExprId>& order) const {
  std::unordered_set<ExprId> seen(order.begin(), order.end());
  const auto walk = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id).second || scopes_[iteration_].names.contains(id)) return;
    for (const ExprId operand : program_.expressions[id].operands) self(self, operand);
    if (plan_->rowReduces.contains(id)) order.push_back(id);
  };
  walk(walk, value);
}

/// Elements of a row that several passes read stay in registers.
void CudaPrinter::keepLoads(const std::vector<std::vector<ExprId>>& passes) {
  std::unordered_map<ExprId, int> count;
  std::vector<ExprId> order;
  for (const std::vector<ExprId>& values : passes) {
    std::unordered_set<ExprId> seen;
    const auto walk = [&](const auto& self, ExprId id, bool isRoot) -> void {
      if (!seen.insert(id).second || (!isRoot && plan_->rowReduces.contains(id))) return;
      const Expr& e = program_.expressions[id];
      if (e.op == Op::Load && ++count[id] == 2) order.push_back(id);
      for (const ExprId operand : e.operands) self(self, operand, false);
    };
    for (const ExprId v : values) walk(walk, v, true);
  }
  for (const ExprId id : order) {
    const Expr& e = program_.expressions[id];
    const Dependence& d = accesses_.of(id);
    if (kept_.contains(id) || program_.buffer(e.buffer()).role == Role::Local || d.isUnsafe || !d.written.empty())
      continue;
    for (const auto& [length, row] : plan_->rows) {
      const bool isOfRow = d.depends(row.range) && d.ranges.size() <= (d.depends(plan_->index) ? 2U : 1U);
      if (!isOfRow) continue;
      // What all lanes share is no vector.
      const Pass p = passOf(row);
      LaneSteps steps(accesses_, p.range, p.vector);
      if (p.vector > 1 && steps.of(offsetOf(id)) == LaneSteps::Step::Same) continue;
      std::string name = newName("row");
      if (row.isInRegisters) {
        line(cudaType(e.dtype) + " " + name + dimensions(p) + ";");
      } else if (plan_->kind == CudaPlan::Kind::Rows && sharedBytes_ + bytesOfThreads(row, e.dtype) <= keptBytes()) {
        line(fmt::format("{0}* {1} = ({0}*)(shared + {2});", cudaType(e.dtype), name,
                         sharedSlot(bytesOfThreads(row, e.dtype))));
        keptOwn_.insert(id);
        hasOwn_ = true;
      } else {
        continue;
      }
      kept_[id] = name;
    }
  }
}

/// The last pass that reduces a row of this range, if it may compute the value, too: nothing from there on makes what
/// the value needs.
CudaPrinter::Step* CudaPrinter::findPass(std::vector<Step>& steps, ExprId value, RangeId range) const {
  const std::vector<BufferId>& reads = accesses_.of(value).written;
  std::vector<ExprId> needed;
  reducesOf(value, needed);
  std::erase(needed, value);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const bool isNeeded =
        std::any_of(step->reduces.begin(), step->reduces.end(),
                    [&](ExprId r) { return std::find(needed.begin(), needed.end(), r) != needed.end(); }) ||
        std::any_of(step->stores.begin(), step->stores.end(),
                    [&](const Store* s) { return std::find(reads.begin(), reads.end(), s->buffer) != reads.end(); });
    if (isNeeded) return nullptr;
    if (!step->reduces.empty() && program_.expressions[step->reduces[0]].ranges[0] == range) return &*step;
  }
  return nullptr;
}

/// Whether a store may join a pass that reduces its row. Of a row in registers a later pass has all that it needs.
bool CudaPrinter::mayJoinReduces(const Store& s) const {
  const bool isRow = s.ranges.size() == 1 && !s.scan && program_.buffer(s.buffer).role != Role::Local;
  const bool isInRegisters = isRow && plan_->kind == CudaPlan::Kind::Rows && rowOf(s.ranges[0]).isInRegisters;
  return isRow && !isInRegisters && accesses_.of(s.value).written.empty();
}

/// Passes over a row, in their order: Reduces together, and stores together where nothing stands between them.
std::vector<CudaPrinter::Step> CudaPrinter::stepsOfTeam() const {
  std::vector<Step> steps;
  std::vector<ExprId> reduces;
  const auto isArrayInBlock = [&](BufferId b) {
    return program_.buffer(b).role == Role::Local &&
           (locals_.at(b).place == Local::Place::Shared || locals_.at(b).place == Local::Place::Own);
  };
  for (const Store& s : plan_->nest.stores) {
    const size_t before = reduces.size();
    reducesOf(s.value, reduces);
    for (size_t i = before; i < reduces.size(); ++i) {
      if (Step* const step = findPass(steps, reduces[i], program_.expressions[reduces[i]].ranges[0]))
        step->reduces.push_back(reduces[i]);
      else
        steps.push_back({{reduces[i]}, {}});
    }
    if (Step* const step = mayJoinReduces(s) ? findPass(steps, s.value, s.ranges[0]) : nullptr) {
      step->stores.push_back(&s);
      continue;
    }
    const std::vector<BufferId>& reads = accesses_.of(s.value).written;
    const bool isBehind =
        !steps.empty() && steps.back().reduces.empty() && !s.ranges.empty() &&
        steps.back().stores[0]->ranges == s.ranges &&
        std::none_of(steps.back().stores.begin(), steps.back().stores.end(), [&](const Store* other) {
          return isArrayInBlock(other->buffer) && std::find(reads.begin(), reads.end(), other->buffer) != reads.end();
        });
    if (isBehind)
      steps.back().stores.push_back(&s);
    else
      steps.push_back({{}, {&s}});
    // What reads this local is computed anew behind it.
    if (program_.buffer(s.buffer).role == Role::Local)
      std::erase_if(reduces, [&](ExprId r) {
        const std::vector<BufferId>& of = accesses_.of(r).written;
        return std::find(of.begin(), of.end(), s.buffer) != of.end();
      });
  }
  return steps;
}

/// The iteration of a team, `i`.
void CudaPrinter::openIteration() {
  const CudaPlan& plan = *plan_;
  const std::string type = plan.iterations + plan.perBlock < kSmall ? "i32" : "i64";
  const std::string group = plan.cluster > 1 ? fmt::format("blockIdx.x / {}", plan.cluster) : "blockIdx.x";
  const std::string rank =
      plan.cluster > 1 ? fmt::format("(i32)(blockIdx.x % {}) * {} + ", plan.cluster, plan.team / plan.cluster) : "";
  // Nobody writes into the memory of a block that has not begun.
  if (plan.cluster > 1) line("arrive_blocks();");
  int each = plan.perBlock;
  if (plan.kind == CudaPlan::Kind::Columns) {
    line(fmt::format("const i32 team = threadIdx.x % {0}, t = {1}(i32)(threadIdx.x / {0});", plan.width, rank));
    each = plan.width;
  } else if (plan.perBlock == 1) {
    line(fmt::format("const i32 team = 0, t = {}(i32)threadIdx.x;", rank));
  } else {
    line(fmt::format("const i32 team = threadIdx.x / {0}, t = threadIdx.x % {0};", plan.team));
  }
  std::string whole = fmt::format("({}){}", type, plan.cluster > 1 ? "(" + group + ")" : group);
  if (each > 1) whole += fmt::format(" * {} + team", each);
  if (hasColumnLanes()) whole = fmt::format("({}) * {}", whole, plan.vector);
  if (plan.isAlwaysLive()) {
    line(fmt::format("const {} i = {};", type, whole));
  } else {
    const std::string count = cudaNumber(plan.iterations, DType::Int64, plan.iterations < kSmall);
    line(fmt::format("const bool isLive = {} < {};", whole, count));
    line(fmt::format("const {} i = isLive ? {} : {} - {};", type, whole, count, hasColumnLanes() ? plan.vector : 1));
  }
}

Status CudaPrinter::printTeam() {
  const CudaPlan& plan = *plan_;
  std::vector<std::string> sums;
  if (plan.sums.empty())
    openIteration();
  else
    sums = openIterationsOfBlock();
  if (const Status s = placeLocals(); !s) return s;
  std::vector<Step> steps = stepsOfTeam();
  std::vector<std::vector<ExprId>> passes;
  for (const Step& s : steps) {
    std::vector<ExprId> values;
    values.insert(values.end(), s.reduces.begin(), s.reduces.end());
    for (const Store* store : s.stores)
      if (!store->ranges.empty()) values.push_back(store->value);
    passes.push_back(std::move(values));
  }
  std::vector<ExprId> summed;
  for (const CudaColumnSum& s : plan.sums) summed.push_back(s.value);
  passes.push_back(std::move(summed));
  keepLoads(passes);
  for (const Step& s : steps) {
    if (!s.reduces.empty()) {
      reducePass(s.reduces, s.stores);
    } else if (s.stores[0]->ranges.empty()) {
      rowStore(*s.stores[0]);
      written(s.stores[0]->buffer);
    } else {
      storePass(s.stores);
    }
  }
  if (!plan.sums.empty()) {
    sumColumns(sums);
    return joinColumnSums(sums);
  }
  return done();
}

}  // namespace graft::codegen
