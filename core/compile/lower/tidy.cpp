// The program without what scheduling tried and left.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/compile/lower/schedule.h"

namespace graft::lower {
namespace {

using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::Program;
using loops::SizeId;
using loops::Store;

class Tidier {
 public:
  explicit Tidier(const Program& from) : from_(from) {}

  Program run() {
    findStoredTwice();
    for (const loops::Size& s : from_.sizes) {
      to_.addSize(s);
      names_.insert(s.name);
    }
    // Inputs and outputs in their order, which is the order of a call.
    for (const Buffer::Role role : {Buffer::Role::Input, Buffer::Role::Output})
      for (uint32_t b = 0; b < from_.buffers.size(); ++b)
        if (from_.buffers[b].role == role) buffer(BufferId(b));
    for (const loops::Nest& n : from_.nests) {
      loops::Nest out;
      for (const RangeId r : n.outer) out.outer.push_back(range(r, 'i'));
      known_.clear();
      for (const Store& s : n.stores)
        if (!copies_.contains(&s) && !isKnown(s)) out.stores.push_back(store(s));
      if (!out.stores.empty()) to_.nests.push_back(std::move(out));
    }
    return std::move(to_);
  }

 private:
  /// Outputs that are copies of temporaries, element by element: the output holds what others read.
  void findStoredTwice() {
    for (const loops::Nest& n : from_.nests)
      for (const Store& s : n.stores) {
        const Expr& value = from_.expressions[s.value];
        const Buffer& to = from_.buffer(s.buffer);
        if (to.role != Buffer::Role::Output || value.op != Op::Load || value.operands != s.index || s.scan) continue;
        const BufferId source = value.buffer();
        const Buffer& from = from_.buffer(source);
        if (from.role != Buffer::Role::Temporary || from.dtype != to.dtype || from.sizes != to.sizes) continue;
        if (isWhole(s, to) && copied_.emplace(source, s.buffer).second) copies_.insert(&s);
      }
  }

  /// Whether the store's ranges run over all places of the buffer, one for each dimension other than 1.
  bool isWhole(const Store& s, const Buffer& b) {
    std::unordered_set<uint32_t> seen;
    for (size_t k = 0; k < s.index.size(); ++k) {
      const Expr& e = from_.expressions[s.index[k]];
      const int64_t* size = from_.expressions.findInteger(b.sizes[k]);
      if (size && *size == 1) continue;
      if (e.op != Op::Range || from_.range(e.range()).extent != b.sizes[k] || !seen.insert(e.range().index).second)
        return false;
    }
    return true;
  }

  /// A number of an iteration that the nest has already, under another name, which stands for both from here on.
  bool isKnown(const Store& s) {
    const Buffer& b = from_.buffer(s.buffer);
    if (b.role != Buffer::Role::Local || !b.sizes.empty() || !s.ranges.empty() || s.scan) return false;
    const auto [at, isNew] = known_.try_emplace({expression(s.value), b.dtype}, s.buffer);
    if (!isNew) buffers_.emplace(s.buffer, buffer(at->second));
    return !isNew;
  }

  Store store(const Store& s) {
    Store out;
    out.buffer = buffer(s.buffer);
    out.scanKind = s.scanKind;
    for (const RangeId r : s.ranges) out.ranges.push_back(range(r, 'j'));
    for (const ExprId e : s.index) out.index.push_back(expression(e));
    out.value = expression(s.value);
    if (s.scan) out.scan = range(*s.scan, 'j');
    return out;
  }

  /// Letters, digits and underscores, and nothing that a range or size is called.
  std::string nameOf(const std::string& wish) {
    std::string name;
    for (const char c : wish) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    const bool isShort = name.size() > 1 && std::all_of(name.begin() + 1, name.end(), [](char c) {
                           return std::isdigit(static_cast<unsigned char>(c));
                         });
    if (name.empty() || isShort || std::isdigit(static_cast<unsigned char>(name[0]))) name = "t_" + name;
    std::string unique = name;
    for (int& n = suffixes_[name]; !names_.insert(unique).second;) unique = fmt::format("{}_{}", name, ++n);
    return unique;
  }

  BufferId buffer(BufferId b) {
    if (const auto at = copied_.find(b); at != copied_.end()) b = at->second;
    if (const auto it = buffers_.find(b); it != buffers_.end()) return it->second;
    const Buffer& was = from_.buffer(b);
    std::string wish = was.name;
    const bool isOwn = was.role == Buffer::Role::Temporary || was.role == Buffer::Role::Local;
    if (const size_t number = wish.rfind('_'); isOwn && number != wish.npos) wish.resize(number);
    std::vector<ExprId> sizes;
    for (const ExprId e : was.sizes) sizes.push_back(expression(e));
    const BufferId made = to_.addBuffer(nameOf(wish), was.dtype, std::move(sizes), was.role);
    buffers_.emplace(b, made);
    return made;
  }

  RangeId range(RangeId r, char letter) {
    if (const auto it = ranges_.find(r); it != ranges_.end()) return it->second;
    const ExprId extent = expression(from_.range(r).extent);
    const RangeId made = to_.addRange(fmt::format("{}{}", letter, next_[letter]++), extent);
    ranges_.emplace(r, made);
    return made;
  }

  ExprId expression(ExprId id) {
    if (const auto it = expressions_.find(id); it != expressions_.end()) return it->second;
    Expr e = from_.expressions[id];
    for (RangeId& r : e.ranges) r = range(r, 'r');
    for (ExprId& o : e.operands) o = expression(o);
    if (e.op == Op::Load) e.index = buffer(e.buffer()).index;
    if (e.op == Op::Range) e.index = range(e.range(), 'r').index;
    const loops::ExprPool::MadeFor origin(to_.expressions, from_.expressions.origin(id));
    const ExprId made = to_.expressions.add(std::move(e));
    expressions_.emplace(id, made);
    return made;
  }

  const Program& from_;
  Program to_;
  std::unordered_map<BufferId, BufferId> copied_;  ///< temporaries, and the outputs that hold the same
  std::unordered_set<const Store*> copies_;
  std::map<std::pair<ExprId, DType>, BufferId> known_;  ///< numbers of an iteration of this nest, by their values
  std::unordered_map<BufferId, BufferId> buffers_;
  std::unordered_map<RangeId, RangeId> ranges_;
  std::unordered_map<ExprId, ExprId> expressions_;
  std::unordered_map<char, int> next_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> suffixes_;
};

}  // namespace

Program tidied(const Program& p) { return Tidier(p).run(); }

}  // namespace graft::lower
