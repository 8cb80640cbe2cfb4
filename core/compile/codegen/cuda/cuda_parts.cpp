#include "core/compile/codegen/cuda/cuda_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace graft::codegen {

using loops::Buffer;
using loops::Expr;
using loops::ExprId;
using loops::Nest;
using loops::Op;
using loops::Program;
using loops::Store;

CudaPartTable CudaPartTable::of(int64_t buffers, int64_t wanted) {
  CudaPartTable table{buffers, 1};
  const int64_t most = (kMostBytes - kHeadBytes) / table.partBytes();
  table.parts = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(most, 1));
  return table;
}

CudaPartLaunch::CudaPartLaunch(const CudaPartTable& shape, std::span<const CudaPart> parts)
    : table(static_cast<size_t>(shape.bytes())) {
  char* to = table.data();
  const auto put = [&](const auto& value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  put(static_cast<int32_t>(parts.size()));
  put(int32_t{0});
  for (const CudaPart& part : parts) {
    for (char* const buffer : part.buffers) put(buffer);
    put(static_cast<int32_t>(part.length));
    put(static_cast<int32_t>(blocks));
    blocks += (part.length + shape.blockElements - 1) / shape.blockElements;
  }
}

Status checkParts(const Program& program) {
  const auto no = [](const char* why) { return badInput(std::string("it is not elementwise: ") + why); };
  if (!program.sizes.empty()) return no("its sizes vary");
  if (program.nests.size() != 1 || program.nests[0].outer.size() != 1) return no("it has not one loop");
  const CudaPartTable one{static_cast<int64_t>(program.inputs().size() + program.outputs().size()), 1};
  if (one.bytes() > CudaPartTable::kMostBytes) return badInput("its tensors are more than a kernel takes");
  const Nest& nest = program.nests[0];
  const loops::RangeId range = nest.outer[0];
  const ExprId extent = program.range(range).extent;
  for (const Buffer& b : program.buffers)
    if (!b.sizes.empty() && b.sizes != std::vector<ExprId>{extent}) return no("its tensors have several lengths");
  std::unordered_set<ExprId> seen;
  const auto isPlain = [&](const auto& self, ExprId id) -> bool {
    if (!seen.insert(id).second) return true;
    const Expr e = program.expressions[id];
    if (e.op == Op::Range || e.op == Op::Size || e.op == Op::Reduce) return false;  // a part does not begin at 0
    if (e.op == Op::Load)
      return std::all_of(e.operands.begin(), e.operands.end(), [&](ExprId i) {
        const Expr at = program.expressions[i];
        return at.op == Op::Range && at.range() == range;
      });
    return std::all_of(e.operands.begin(), e.operands.end(), [&](ExprId o) { return self(self, o); });
  };
  for (const Store& s : nest.stores) {
    if (!s.ranges.empty() || s.scan) return no("a result has a loop of its own");
    const Buffer& to = program.buffer(s.buffer);
    if (to.role == Buffer::Role::Output && to.sizes.empty()) return no("a result has one element");
    if (!isPlain(isPlain, s.value)) return no("it reads elements at other places, or their numbers");
    for (const ExprId i : s.index)
      if (const Expr at = program.expressions[i]; at.op != Op::Range || at.range() != range)
        return no("it writes elements at other places");
  }
  return done();
}

std::string cudaPartHelpers(const CudaPartTable& table, const std::string& type) {
  return fmt::format(R"(
struct {0}_part {{ void* at[{1}]; i32 length, block; }};
struct {0} {{
  i32 count, unused;
  {0}_part part[{2}];
}};
// The last part that begins at this block or before it.
DEVICE i32 part_of(const {0}& parts, i32 block) {{
  i32 low = 0, high = parts.count;
  while (high - low > 1) {{
    const i32 middle = (low + high) / 2;
    if (parts.part[middle].block <= block) low = middle;
    else high = middle;
  }}
  return low;
}}
)",
                     type, std::max<int64_t>(table.buffers, 1), table.parts);
}

}  // namespace graft::codegen
