// Programs of loops: whatever parses must print, parse again and print the same; and a small one that was accepted must
// run inside of its buffers, with every size that it may be called with.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "core/compile/loops/interpret.h"
#include "core/compile/loops/reachable.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"

using namespace graft;
using namespace graft::loops;

namespace {

constexpr int64_t kMostElements = 4096;
constexpr int64_t kMostSteps = 20000;

// How often the innermost loops run, about; too many where there are too many to count.
int64_t steps(const Program& p, const std::vector<int64_t>& sizes) {
  int64_t reduced = 1, all = 0;
  const auto times = [&](int64_t n, RangeId r) {
    const int64_t extent = p.evaluate(p.range(r).extent, sizes);
    return extent > kMostSteps || n > kMostSteps ? kMostSteps * kMostSteps : n * std::max<int64_t>(extent, 1);
  };
  for (const ExprId id : reachable(p.expressions, roots(p)))
    for (const RangeId r : p.expressions[id].ranges) reduced = times(reduced, r);
  for (const Nest& n : p.nests)
    for (const Store& s : n.stores) {
      int64_t runs = reduced;
      for (const RangeId r : n.outer) runs = times(runs, r);
      for (const RangeId r : s.ranges) runs = times(runs, r);
      all += runs;
    }
  return all;
}

void run(const Program& p, const std::vector<int64_t>& sizes) {
  if (!checkSizes(p, sizes) || steps(p, sizes) > kMostSteps) return;
  std::vector<std::unique_ptr<std::byte[]>> storage;
  std::vector<Memory> buffers;
  std::vector<BufferId> ids = p.inputs();
  for (const BufferId id : p.outputs()) ids.push_back(id);
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    int64_t count = 1;
    for (const int64_t n : p.shape(BufferId(i), sizes)) {
      if (n > kMostElements) return;
      count = std::min(count * n, kMostElements + 1);
    }
    if (count > kMostElements) return;
  }
  for (const BufferId id : ids) {
    const std::vector<int64_t> shape = p.shape(id, sizes);
    Memory m;
    m.strides.resize(shape.size());
    int64_t count = 1;
    for (size_t d = shape.size(); d-- > 0; count *= shape[d]) m.strides[d] = count;
    // Exactly as many bytes as there are, so that one beside them is found.
    const size_t bytes = static_cast<size_t>(count) * dtypeSize(p.buffer(id).dtype);
    storage.push_back(std::make_unique<std::byte[]>(bytes));
    for (size_t i = 0; i < bytes; ++i) storage.back()[i] = static_cast<std::byte>(i * 37 + 11);
    m.data = storage.back().get();
    buffers.push_back(std::move(m));
  }
  const Status s = interpret(p, sizes, buffers);
  // An index outside is an internal error: verify() has accepted the program.
  if (!s && s.error().kind == ErrorKind::Internal) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto p = parseProgram({reinterpret_cast<const char*>(data), size});
  if (!p) return 0;
  const std::string once = printProgram(*p);
  const auto again = parseProgram(once);
  if (!again || printProgram(*again) != once) std::abort();
  for (const int64_t extra : {0, 1, 3}) {
    std::vector<int64_t> sizes;
    for (const Size& s : p->sizes) sizes.push_back(std::min(s.min + extra, s.max.value_or(INT64_MAX)));
    run(*p, sizes);
  }
  return 0;
}
