#include <fmt/format.h>
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/compile/loops/marks.h"
#include "core/compile/loops/reachable.h"
#include "core/compile/loops/spelling.h"
#include "core/compile/loops/text.h"

namespace graft::loops {
namespace {

// A part that occurs more than once gets a name from this many operations on; any part does that nests deeper.
constexpr size_t kSmallPart = 5;
constexpr size_t kDeepestPart = 40;

class Printer {
 public:
  explicit Printer(const Program& program, bool hasMarks = false)
      : program_(program), pool_(program.expressions), hasMarks_(hasMarks) {
    for (const Size& s : program_.sizes) sizes_.push_back(unusedName(s.name));
    for (const Range& r : program_.ranges) ranges_.push_back(unusedName(r.name));
    for (const Buffer& b : program_.buffers) buffers_.push_back(unusedName(b.name));
  }

  std::string program() {
    out_ = fmt::format("loops {}\n", kProgramVersion);
    for (size_t i = 0; i < program_.sizes.size(); ++i) {
      const Size& s = program_.sizes[i];
      out_ += fmt::format("size {} in {}..{}\n", sizes_[i], s.min, s.max ? fmt::format("{}", *s.max) : "");
    }
    findLocals();
    for (uint32_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].role != Buffer::Role::Local || !nestOf_.contains(BufferId(i))) declare(BufferId(i), "");
    for (size_t i = 0; i < program_.nests.size(); ++i) nest(i);
    return std::move(out_);
  }

  std::string one(ExprId id) {
    measure({id});
    std::string lines;
    names(id, {}, lines, "");
    return lines + text(id, Precedence::Or);
  }

 private:
  // What the printing of a part needs to know.
  struct Part {
    size_t uses = 0;
    size_t operations = 1;        // written out, a name is one
    size_t depth = 0;             // likewise
    std::string name;             // where it has one
    std::vector<RangeId> ranges;  // that it needs
    bool isNamed = false;
  };

  std::string unusedName(std::string_view wish) {
    const std::string plain = plainName(wish);
    std::string name = plain;
    for (int n = 1; !taken_.insert(name).second; ++n) name = fmt::format("{}_{}", plain, n);
    return name;
  }

  template <class Ids>
  std::string list(const Ids& ids) {
    std::string out;
    for (const ExprId id : ids) out += (out.empty() ? "" : ", ") + text(id, Precedence::Or);
    return out;
  }
  // Sizes and extents are written out: names of parts are known only from their line on.
  template <class Write>
  std::string writtenOut(const Write& write) {
    const bool before = std::exchange(usesNames_, false);
    std::string out = write();
    usesNames_ = before;
    return out;
  }
  template <class Ids>
  std::string rangeList(const Ids& ids) {
    return writtenOut([&] {
      std::string out;
      for (const RangeId r : ids)
        out += fmt::format("{}{} < {}", out.empty() ? "" : ", ", ranges_[r.index],
                           text(program_.range(r).extent, Precedence::Sum));
      return out;
    });
  }

  void declare(BufferId id, std::string_view indent) {
    static constexpr std::array<std::string_view, 4> roles{"input", "output", "temporary", "local"};
    const Buffer& b = program_.buffer(id);
    out_ += fmt::format("{}{} {}: {}[{}]\n", indent, roles[static_cast<size_t>(b.role)], buffers_[id.index],
                        dtypeText(b.dtype), writtenOut([&] { return list(b.sizes); }));
  }

  // A local is declared in the first nest that mentions it.
  void findLocals() {
    localsOf_.resize(program_.nests.size());
    for (size_t i = 0; i < program_.nests.size(); ++i) {
      for (const Store& s : program_.nests[i].stores) nestOf_.try_emplace(s.buffer, i);
      for (const ExprId id : reachable(pool_, roots(program_.nests[i])))
        if (pool_[id].op == Op::Load) nestOf_.try_emplace(pool_[id].buffer(), i);
    }
    for (uint32_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].role == Buffer::Role::Local && nestOf_.contains(BufferId(i)))
        localsOf_[nestOf_.at(BufferId(i))].emplace_back(i);
  }

  void nest(size_t at) {
    const Nest& n = program_.nests[at];
    out_ += n.outer.empty() ? "nest\n" : fmt::format("nest {}\n", rangeList(n.outer));
    for (const BufferId local : localsOf_[at]) declare(local, "  ");
    measure(roots(n));
    for (const Store& s : n.stores) store(n, s);
  }

  void store(const Nest& n, const Store& s) {
    for (const ExprId id : s.index) names(id, n.outer, out_, "  ");
    names(s.value, n.outer, out_, "  ");
    out_ += fmt::format("  {}[{}] = {}", buffers_[s.buffer.index], list(s.index), text(s.value, Precedence::Or));
    if (!s.ranges.empty()) out_ += fmt::format(" for {}", rangeList(s.ranges));
    if (s.scan) out_ += fmt::format(" scan {} over {}", reduceName(s.scanKind), ranges_[s.scan->index]);
    out_ += "\n";
  }

  // Operands before what uses them: an operand's number is smaller.
  void measure(const std::vector<ExprId>& roots) {
    parts_.clear();
    visited_.clear();
    std::vector<ExprId> open = roots, order;
    for (const ExprId id : roots) ++parts_[id].uses;
    while (!open.empty()) {
      const ExprId id = open.back();
      open.pop_back();
      if (!visited_.insert(id).second) continue;
      order.push_back(id);
      for (const ExprId o : pool_[id].operands) {
        ++parts_[o].uses;
        open.push_back(o);
      }
    }
    std::sort(order.begin(), order.end());
    for (const ExprId id : order) {
      const Expr& e = pool_[id];
      Part& p = parts_.at(id);
      for (const ExprId o : e.operands) {
        const Part& part = parts_.at(o);
        p.operations += part.isNamed ? 1 : part.operations;
        p.depth = std::max(p.depth, part.isNamed ? 0 : part.depth + 1);
        p.ranges.insert(p.ranges.end(), part.ranges.begin(), part.ranges.end());
      }
      if (e.op == Op::Range) p.ranges.push_back(e.range());
      std::sort(p.ranges.begin(), p.ranges.end());
      p.ranges.erase(std::unique(p.ranges.begin(), p.ranges.end()), p.ranges.end());
      std::erase_if(p.ranges,
                    [&](RangeId r) { return std::find(e.ranges.begin(), e.ranges.end(), r) != e.ranges.end(); });
      p.isNamed = (p.uses > 1 && p.operations > kSmallPart) || p.depth >= kDeepestPart;
    }
    visited_.clear();
  }

  // Writes the names that an expression needs and that are not written yet, in the order of the text.
  void names(ExprId root, const std::vector<RangeId>& outer, std::string& out, std::string_view indent) {
    std::vector<std::pair<ExprId, bool>> open{{root, false}};
    while (!open.empty()) {
      const auto [id, isReady] = open.back();
      open.pop_back();
      if (isReady) {
        Part& p = parts_.at(id);
        std::string line = text(id, Precedence::Or);
        std::vector<RangeId> inner = p.ranges;
        std::erase_if(inner, [&](RangeId r) { return std::find(outer.begin(), outer.end(), r) != outer.end(); });
        // By name, since the numbers of ranges are not part of the text.
        std::sort(inner.begin(), inner.end(),
                  [&](RangeId a, RangeId b) { return ranges_[a.index] < ranges_[b.index]; });
        if (!inner.empty()) line += fmt::format(" for {}", rangeList(inner));
        p.name = nextName();
        out += fmt::format("{}let {} = {}\n", indent, p.name, line);
        continue;
      }
      if (!visited_.insert(id).second) continue;
      if (parts_.at(id).isNamed) open.emplace_back(id, true);
      const std::vector<ExprId>& operands = pool_[id].operands;
      for (auto o = operands.rbegin(); o != operands.rend(); ++o) open.emplace_back(*o, false);
    }
  }

  std::string nextName() {
    std::string name;
    do {
      name = fmt::format("t{}", named_++);
    } while (!taken_.insert(name).second);
    return name;
  }

  std::string text(ExprId id, Precedence around) {
    const bool isMarked = hasMarks_ && usesNames_ && operandCount(pool_[id].op) > 0;
    return marked(plainText(id, around), isMarked ? pool_.origin(id) : 0);
  }

  std::string plainText(ExprId id, Precedence around) {
    if (const auto part = parts_.find(id); usesNames_ && part != parts_.end() && !part->second.name.empty())
      return part->second.name;
    const Expr& e = pool_[id];
    const auto enclosed = [&](std::string inner, Precedence own) {
      return own < around ? fmt::format("({})", inner) : inner;
    };
    switch (e.op) {
      case Op::Constant:
        return constantText(pool_, id);
      case Op::Range:
        return ranges_[e.index];
      case Op::Size:
        return sizes_[e.index];
      case Op::Load:
        return fmt::format("{}[{}]", buffers_[e.index], list(e.operands));
      case Op::Cast:
        return fmt::format("{}({})", dtypeText(e.dtype), text(e.operands[0], Precedence::Or));
      case Op::Negate: {
        // -(3) is no constant.
        const bool isConstant = pool_[e.operands[0]].op == Op::Constant;
        const std::string inner = text(e.operands[0], isConstant ? Precedence::Or : Precedence::Sign);
        return enclosed(isConstant ? fmt::format("-({})", inner) : "-" + inner, Precedence::Sign);
      }
      case Op::Not:
        if (e.dtype != DType::Bool) break;
        return enclosed("not " + text(e.operands[0], Precedence::Not), Precedence::Not);
      case Op::Reduce:
        return fmt::format("{}({}: {})", reduceName(e.reduce), rangeList(e.ranges),
                           text(e.operands[0], Precedence::Or));
      default:
        break;
    }
    if (const Infix* infix = findInfix(e.op, e.dtype)) {
      // a - (b - c) and (a < b) == c keep their parentheses.
      const auto next = static_cast<Precedence>(static_cast<uint8_t>(infix->precedence) + 1);
      const Precedence left = infix->precedence == Precedence::Comparison ? next : infix->precedence;
      return enclosed(fmt::format("{} {} {}", text(e.operands[0], left), infix->sign, text(e.operands[1], next)),
                      infix->precedence);
    }
    return fmt::format("{}({})", callName(e.op, e.dtype), list(e.operands));
  }

  const Program& program_;
  const ExprPool& pool_;
  std::string out_;
  std::unordered_set<std::string> taken_;
  std::vector<std::string> sizes_, ranges_, buffers_;
  std::unordered_map<BufferId, size_t> nestOf_;  // the first that mentions it
  std::vector<std::vector<BufferId>> localsOf_;  // each nest
  std::unordered_map<ExprId, Part> parts_;
  std::unordered_set<ExprId> visited_;
  int named_ = 0;
  bool usesNames_ = true;
  bool hasMarks_;
};

}  // namespace

std::string printProgram(const Program& program, bool hasMarks) { return Printer(program, hasMarks).program(); }
std::string printExpression(const Program& program, ExprId id) { return Printer(program).one(id); }

}  // namespace graft::loops
