#include "core/compile/loops/interpret.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

#include "core/compile/loops/element.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"

namespace graft::loops {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;  // of a buffer that the interpreter makes itself

// Where the elements of a buffer lie, and how many there are.
struct View {
  std::byte* data = nullptr;
  std::vector<int64_t> sizes, strides;
  std::unique_ptr<std::byte[]> own;  // of temporaries and locals
};

class Interpreter {
 public:
  explicit Interpreter(const Program& program) : program_(program), pool_(program.expressions) {}

  Status run(std::span<const int64_t> sizes, std::span<const Memory> buffers) {
    if (Status s = checkSizes(program_, sizes); !s) return s;
    sizes_ = sizes;
    nodes_.resize(pool_.size());
    rangeValues_.resize(program_.ranges.size());
    rangeTimes_.resize(program_.ranges.size());
    if (Status s = bind(buffers); !s) return s;
    for (const Nest& n : program_.nests) {
      forAll(n.outer, [&] {
        for (const Store& s : n.stores) {
          store(s);
          if (failed_) return;
        }
      });
      if (failed_) return error_;
    }
    if (!complaint_.empty()) return badInput(complaint_);
    return done();
  }

 private:
  // What is kept of a node: its last value, when that was computed, and what it depends on.
  struct Node {
    Element value;
    uint64_t time = 0;  // 0: never
    bool isKnown = false;
    bool readsWritten = false;
    std::vector<RangeId> ranges;
  };

  Status bind(std::span<const Memory> buffers) {
    views_.resize(program_.buffers.size());
    size_t next = 0;
    const auto given = [&](const std::vector<BufferId>& ids) {
      for (const BufferId id : ids) {
        if (next >= buffers.size()) return false;
        const Memory& m = buffers[next++];
        if (m.strides.size() != program_.buffer(id).sizes.size()) return false;
        views_[id.index].data = static_cast<std::byte*>(m.data);
        views_[id.index].strides = m.strides;
      }
      return true;
    };
    if (!given(program_.inputs()) || !given(program_.outputs()) || next != buffers.size())
      return internalError("the buffers of the call are not those of the program");
    for (uint32_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& b = program_.buffers[i];
      View& v = views_[i];
      for (const ExprId size : b.sizes) v.sizes.push_back(evaluate(size).integer);
      if (b.role == Buffer::Role::Input || b.role == Buffer::Role::Output) continue;
      int64_t count = 1;
      for (const int64_t size : v.sizes)
        if (__builtin_mul_overflow(count, size, &count) || count > kMostElements)
          return badInput(fmt::format("the buffer '{}' is too large to be interpreted", b.name));
      v.own = std::make_unique<std::byte[]>(static_cast<size_t>(std::max<int64_t>(count, 1)) * dtypeSize(b.dtype));
      v.data = v.own.get();
      v.strides.resize(v.sizes.size());
      int64_t stride = 1;
      for (size_t d = v.sizes.size(); d-- > 0; stride *= v.sizes[d]) v.strides[d] = stride;
    }
    return done();
  }

  void fail(Error error) {
    if (!failed_) error_ = std::move(error);
    failed_ = true;
  }
  // A check that failed: the run goes on, and says so in the end.
  void complain(std::string what) {
    if (complaint_.empty()) complaint_ = std::move(what);
  }

  void setRange(RangeId r, int64_t value) {
    rangeValues_[r.index] = value;
    rangeTimes_[r.index] = ++clock_;
  }

  // Calls `body` for all values of the ranges, the last one fastest.
  template <class Body>
  void forAll(const std::vector<RangeId>& ranges, const Body& body) {
    std::vector<int64_t> extents;
    for (const RangeId r : ranges) extents.push_back(evaluate(program_.range(r).extent).integer);
    if (std::any_of(extents.begin(), extents.end(), [](int64_t n) { return n <= 0; })) return;
    std::vector<int64_t> at(ranges.size(), 0);
    for (const RangeId r : ranges) setRange(r, 0);
    for (;;) {
      body();
      if (failed_) return;
      size_t d = ranges.size();
      while (d > 0 && at[d - 1] + 1 == extents[d - 1]) {
        --d;
        at[d] = 0;
        setRange(ranges[d], 0);
      }
      if (d == 0) return;
      setRange(ranges[d - 1], ++at[d - 1]);
    }
  }

  std::byte* element(BufferId id, const std::vector<ExprId>& index) {
    const View& v = views_[id.index];
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t i = evaluate(index[d]).integer;
      if (i < 0 || i >= v.sizes[d]) {
        fail(internalError(
            fmt::format("index {} of dimension {} of '{}', which has {}", i, d, program_.buffer(id).name, v.sizes[d])));
        return nullptr;
      }
      offset += i * v.strides[d];
    }
    return v.data + offset * static_cast<int64_t>(dtypeSize(program_.buffer(id).dtype));
  }

  void write(const Store& s, Element value) {
    std::byte* at = element(s.buffer, s.index);
    if (at == nullptr) return;
    storeElement(at, program_.buffer(s.buffer).dtype, value);
    writeTime_ = ++clock_;
  }

  void store(const Store& s) {
    if (!s.scan) {
      forAll(s.ranges, [&] { write(s, evaluate(s.value)); });
      return;
    }
    // The scanned range runs inside of all others.
    std::vector<RangeId> others = s.ranges;
    std::erase(others, *s.scan);
    forAll(others, [&] {
      Accumulator sum(s.scanKind, pool_[s.value].dtype);
      forAll({*s.scan}, [&] {
        sum.add(evaluate(s.value));
        write(s, sum.result());
      });
    });
  }

  // The ranges and the memory that a node depends on. Operands first.
  void learn(ExprId root) {
    std::vector<ExprId> open{root}, order;
    while (!open.empty()) {
      const ExprId id = open.back();
      open.pop_back();
      if (std::exchange(nodes_[id.index].isKnown, true)) continue;
      order.push_back(id);
      open.insert(open.end(), pool_[id].operands.begin(), pool_[id].operands.end());
    }
    std::sort(order.begin(), order.end());
    for (const ExprId id : order) {
      const Expr& e = pool_[id];
      Node& n = nodes_[id.index];
      if (e.op == Op::Range) n.ranges.push_back(e.range());
      n.readsWritten = e.op == Op::Load && program_.buffer(e.buffer()).role != Buffer::Role::Input;
      for (const ExprId o : e.operands) {
        const Node& operand = nodes_[o.index];
        n.readsWritten = n.readsWritten || operand.readsWritten;
        n.ranges.insert(n.ranges.end(), operand.ranges.begin(), operand.ranges.end());
      }
      std::sort(n.ranges.begin(), n.ranges.end());
      n.ranges.erase(std::unique(n.ranges.begin(), n.ranges.end()), n.ranges.end());
      std::erase_if(n.ranges,
                    [&](RangeId r) { return std::find(e.ranges.begin(), e.ranges.end(), r) != e.ranges.end(); });
    }
  }

  bool isCurrent(const Node& n) const {
    if (n.time == 0 || (n.readsWritten && n.time <= writeTime_)) return false;
    return std::all_of(n.ranges.begin(), n.ranges.end(), [&](RangeId r) { return n.time > rangeTimes_[r.index]; });
  }

  // Without recursion but for reductions: an expression may be deep. What is current is not computed again.
  Element evaluate(ExprId root) {
    if (!nodes_[root.index].isKnown) learn(root);
    if (isCurrent(nodes_[root.index])) return nodes_[root.index].value;
    std::vector<ExprId> open{root};
    while (!open.empty() && !failed_) {
      const ExprId id = open.back();
      const Expr& e = pool_[id];
      const size_t before = open.size();
      const auto need = [&](ExprId o) {
        if (isCurrent(nodes_[o.index])) return true;
        open.push_back(o);
        return false;
      };
      // Of a choice, the condition and what it chooses.
      if (e.op == Op::Select) {
        if (need(e.operands[0])) need(e.operands[nodes_[e.operands[0].index].value.integer != 0 ? 1 : 2]);
      } else if (e.op != Op::Reduce) {
        for (const ExprId o : e.operands) need(o);
      }
      if (open.size() > before) continue;
      const Element value = compute(e);
      Node& n = nodes_[id.index];
      n.value = value;
      n.time = ++clock_;
      open.pop_back();
    }
    return nodes_[root.index].value;
  }

  Element compute(const Expr& e) {
    const auto operand = [&](size_t i) { return nodes_[e.operands[i].index].value; };
    switch (e.op) {
      case Op::Constant:
        return isFloatingPoint(e.dtype) ? Element::of(std::bit_cast<double>(e.bits))
                                        : Element::of(static_cast<int64_t>(e.bits));
      case Op::Range:
        return Element::of(rangeValues_[e.index]);
      case Op::Size:
        return Element::of(sizes_[e.index]);
      case Op::Load: {
        const std::byte* at = element(e.buffer(), e.operands);
        return at != nullptr ? loadElement(at, e.dtype) : Element{};
      }
      case Op::Cast:
        return castElement(operand(0), pool_[e.operands[0]].dtype, e.dtype);
      case Op::Select:
        return operand(operand(0).integer != 0 ? 1 : 2);
      case Op::CheckedIndex: {
        const int64_t value = operand(0).integer, size = operand(1).integer;
        if (value >= 0 && value < size) return operand(0);
        complain(fmt::format("the index {} is out of range: the size is {}", value, size));
        return Element::of(int64_t{0});
      }
      case Op::CheckedDivisor:
        if (operand(0).integer != 0) return operand(0);
        complain("an integer is divided by 0");
        return Element::of(int64_t{1});
      case Op::Reduce: {
        Accumulator sum(e.reduce, pool_[e.operands[0]].dtype);
        // A reduction inside of itself would change its own ranges: verify() refuses it.
        forAll(e.ranges, [&] { sum.add(evaluate(e.operands[0])); });
        return sum.result();
      }
      case Op::Uniform:
        return computeUniform(operand(0), operand(1), operand(2), operand(3));
      default:
        if (e.operands.size() == 1) return computeUnary(e.op, e.dtype, operand(0));
        return computeBinary(e.op, pool_[e.operands[0]].dtype, operand(0), operand(1));
    }
  }

  const Program& program_;
  const ExprPool& pool_;
  std::span<const int64_t> sizes_;
  std::vector<View> views_;
  std::vector<Node> nodes_;
  std::vector<int64_t> rangeValues_;
  std::vector<uint64_t> rangeTimes_;
  uint64_t clock_ = 0, writeTime_ = 0;
  bool failed_ = false;
  Error error_;
  std::string complaint_;
};

}  // namespace

Status interpret(const Program& program, std::span<const int64_t> sizes, std::span<const Memory> buffers) {
  return Interpreter(program).run(sizes, buffers);
}

}  // namespace graft::loops
