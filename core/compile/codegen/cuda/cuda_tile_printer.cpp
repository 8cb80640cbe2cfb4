// CudaPrinter for transpositions: a block reads a square along one range and writes it along the other.
#include <fmt/format.h>

#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"

namespace graft::codegen {

using loops::Expr;
using loops::Store;

void CudaPrinter::printTiles() {
  const CudaPlan& plan = *plan_;
  const int64_t a = extentOf(plan.along), c = extentOf(plan.across), side = plan.tile;
  // Halves go in pairs, where their places allow it.
  int vector = 2;
  LaneSteps across(accesses_, plan.across, vector);
  for (const ExprId load : plan.transposed) {
    const Expr e = program_.expressions[load];
    const auto bytes = static_cast<int64_t>(dtypeSize(e.dtype));
    if (bytes != 2 || c % 2 != 0 || a % 2 != 0 ||
        across.width(offsetOf(load), alignments_[e.buffer().index], bytes) < 2)
      vector = 1;
  }
  const int64_t alongs = (a + side - 1) / side, acrosses = (c + side - 1) / side;
  const int64_t columns = side / vector, rows = plan.threads / columns;
  // Columns of a square lie in different banks of the memory.
  tilePitch_ = side == 64 && vector == 1 ? 66 : side + 1;
  line(fmt::format("const i32 i = (i32)((u32)blockIdx.x / {}u);", alongs * acrosses));
  line(fmt::format("const i32 a0 = (i32)((u32)blockIdx.x % {}u) * {};", alongs, side));
  line(fmt::format("const i32 c0 = (i32)((u32)blockIdx.x / {}u % {}u) * {};", alongs, acrosses, side));
  line(fmt::format("const i32 x = (i32)(threadIdx.x % {0}u){1}, y = (i32)(threadIdx.x / {0}u);", columns,
                   vector > 1 ? " * 2" : ""));
  std::vector<std::string> names;
  for (const ExprId load : plan.transposed) {
    const std::string type = cudaType(program_.expressions[load].dtype);
    names.push_back(newName("tile"));
    const int64_t at =
        sharedSlot(side * tilePitch_ * static_cast<int64_t>(dtypeSize(program_.expressions[load].dtype)));
    line(fmt::format("{0}* {1} = ({0}*)(shared + {2});", type, names.back(), at));
  }
  const auto openRows = [&](const std::string& along, const std::string& across) {
    open({"#pragma unroll", fmt::format("for (i32 k = 0; k < {0}; k += {1}) {{", side, rows)});
    line(fmt::format("const i32 a = {}, c = {};", along, across));
    std::string condition = a % side != 0 ? fmt::format("a < {}", a) : "";
    if (c % side != 0) condition += (condition.empty() ? "" : " && ") + fmt::format("c < {}", c);
    open({condition.empty() ? "{" : "if (" + condition + ") {"});
    ranges_[plan.along] = {scopes_.size() - 1, "a"};
    ranges_[plan.across] = {scopes_.size() - 1, "c"};
  };
  openRows("a0 + k + y", "c0 + x");
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string to = fmt::format("{}[(k + y) * {} + x]", names[i], tilePitch_);
    const std::string from = loadText(plan.transposed[i]);
    line(vector > 1 ? fmt::format("load<2, 2>(&{}, &{});", to, from) : to + " = " + from + ";");
  }
  close();
  close();
  line("join_block();");
  for (size_t i = 0; i < names.size(); ++i) tiles_[plan.transposed[i]] = names[i];
  openRows("a0 + x", "c0 + k + y");
  chunk_ = lane_ = scopes_.size() - 1;
  if (vector > 1) {
    pass_.name = "a";
    pass_.range = plan.along;
    pass_.vector = vector;
    steps_.emplace(accesses_, plan.along, vector);
    open({"#pragma unroll", "for (i32 v = 0; v < 2; ++v) {"});
    lane_ = scopes_.size() - 1;
    line("const i32 av = a + v;");
  }
  std::vector<std::string> after;
  for (const Store& s : plan.nest.stores) store(s, after);
  if (vector > 1) close();
  for (const std::string& text : after) line(text);
  close();
  close();
}

}  // namespace graft::codegen
