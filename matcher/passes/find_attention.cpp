// find_attention: attention that a model spells with products and a softmax becomes graft::attention, which keeps the
// scores in registers. Rules name the spellings of known families; this pass goes from the product behind a softmax
// back to the product of queries and keys, through whatever lies between, and sums that up as a scale and a mask:
//
//   softmax((q kᵀ * a + bias) * b + mask) v   ->   attention(q, k, v, bias * b + mask, scale=a * b)
//
// Between them may stand: products and quotients with numbers and with a number for each head, sums with tensors,
// masked_fill and where with numbers that no score outweighs, casts between floating-point types, copies, and reshapes
// that take batch and heads together and apart, as torch.bmm needs them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/ir/calls/einsum.h"
#include "matcher/passes/pass.h"
#include "matcher/rewrite/view_relaxation.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

constexpr int64_t mostHeadSize = 256;  // of the kernels
/// What float32 has of lowest numbers: as part of a mask it swallows every score, and rows that are hidden whole stay
/// the average that softmax makes of them.
constexpr double lowest = -3.4028234663852886e38;
/// At most this is as low as that: -1e4, which some models add, is not.
constexpr double swallowsAll = -1e30;
constexpr double lowestOfHalf = -65504;

/// What is added to the scores.
struct MaskTerm {
  ValueId tensor;
  double factor = 1;
  /// The tensor is a condition: where it holds, the score is hidden.
  bool hides = false;
  bool isInverted = false;  ///< where it does not hold
  double fill = 0;          ///< of a condition: what the score is there
  size_t rank = 0;          ///< of the scores there
};

/// A value, and the order of its dimensions in which it is wanted; empty: as it lies.
struct Operand {
  ValueId value;
  std::vector<int64_t> order;
};

struct FoundAttention {
  Operand q, k, v;                   ///< [..., queries, head size], [..., keys, head size], [..., keys, head size]
  std::vector<int64_t> resultOrder;  ///< of the dimensions that attention gives; empty: as they lie
  double scale = 1;
  /// What the scores are multiplied with or divided by, the same for all of a head.
  ValueId headScale;
  bool dividesHeads = false;
  std::vector<MaskTerm> terms;
  /// Batch and heads where the products have them as one: their sizes, as the reshape that takes them apart names them.
  std::optional<std::array<Argument, 2>> leading;
  /// Of products of four dimensions whose mask has five: the two that the first one is, samples and windows.
  std::optional<std::array<Argument, 2>> windows;
  ValueId result;             ///< of the last product; of the reshape behind it, where that takes these two apart
  std::vector<NodeId> nodes;  ///< from what makes the result back to the first product
};

/// torch.einsum of two operands as a product of matrices.
struct Contraction : EinsumEquation {
  std::string batch;           ///< in both operands and the result, in the order of the result
  char rows = 0, columns = 0;  ///< of the first, of the second operand
  char inner = 0;              ///< summed up

  static std::optional<Contraction> of(EinsumEquation);
};

std::optional<Contraction> Contraction::of(EinsumEquation equation) {
  Contraction c{std::move(equation), {}};
  const auto holds = [](const std::string& s, char letter) { return s.find(letter) != std::string::npos; };
  const auto take = [](char& place, char letter) { return std::exchange(place, letter) == 0; };
  bool isOne = true;
  for (const char letter : c.result) {
    const bool first = holds(c.operands[0], letter), second = holds(c.operands[1], letter);
    if (first && second)
      c.batch += letter;
    else
      isOne = isOne && (first || second) && take(first ? c.rows : c.columns, letter);
  }
  for (const char letter : c.operands[0])
    if (!holds(c.result, letter)) isOne = isOne && holds(c.operands[1], letter) && take(c.inner, letter);
  const bool isWhole = c.rows && c.columns && c.inner && c.operands[0].size() == c.batch.size() + 2 &&
                       c.operands[1].size() == c.batch.size() + 2 && c.result.size() == c.batch.size() + 2;
  return isOne && isWhole ? std::optional(c) : std::nullopt;
}

/// Where each of these letters stands in `from`; empty: in this order.
std::vector<int64_t> orderOf(const std::string& letters, const std::string& from) {
  std::vector<int64_t> order;
  for (const char letter : letters) order.push_back(static_cast<int64_t>(from.find(letter)));
  return std::ranges::is_sorted(order) ? std::vector<int64_t>() : order;
}

std::vector<int64_t> lastTwoSwapped(size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

class AttentionSearch {
 public:
  AttentionSearch(const GraphIndex& index, bool onGpu) : g_(index.graph), index_(index), onGpu_(onGpu) {}

  /// The attention whose last node that product is.
  std::optional<FoundAttention> find(const Node& last) {
    found_ = {};
    factor_ = 1;
    apart_.reset();
    windowsApart_.reset();
    hidesByInfinity_ = false;
    const auto operands = operandsOf(last);
    if (!operands || isNamed(last, {"baddbmm"})) return std::nullopt;
    last_ = &last;
    rank_ = shapeOf(last.outputs[0]) ? shapeOf(last.outputs[0])->size() : 0;
    if (rank_ < 3 || rank_ > 5) return std::nullopt;
    found_.v = {(*operands)[1], {}};
    if (const auto c = contractionOf(last)) {
      if (c->operands[0] != c->batch + c->rows + c->inner) return std::nullopt;
      found_.v.order = orderOf(c->batch + c->inner + c->columns, c->operands[1]);
      found_.resultOrder = orderOf(c->result, c->batch + c->rows + c->columns);
    }
    found_.nodes.push_back(last.id);
    const Node* n = producer((*operands)[0]);
    while (n && onlyHandsOn(*n)) n = step(*n);
    if (!n || !isSoftmax(*n)) return std::nullopt;
    n = step(*n);
    while (n && !isFirst(*n)) n = between(*n);
    if (!n || !products(*n) || !fits() || (hidesByInfinity_ && looksForNan(last))) return std::nullopt;
    found_.result = last.outputs[0];
    if (found_.leading) takeReshape();
    return found_;
  }

 private:
  const std::vector<Dim>* shapeOf(ValueId v) const {
    const auto& shape = g_.value(v).type.tensorInfo.shape;
    return g_.value(v).type.isTensor() && shape ? &*shape : nullptr;
  }
  static bool areSame(const Dim& a, const Dim& b) { return a.isKnown() && a == b; }
  static bool areSame(const std::vector<Dim>& a, const std::vector<Dim>& b) {
    return std::ranges::equal(a, b, [](const Dim& x, const Dim& y) { return areSame(x, y); });
  }
  std::optional<DType> dtypeOf(ValueId v) const { return g_.value(v).type.tensorInfo.dtype; }
  bool isFloat(ValueId v) const { return dtypeOf(v) && isFloatingPoint(*dtypeOf(v)); }

  /// Whether its only reader names it in several places: `p @ p`.
  bool readsTwice(const Value& value) const {
    size_t places = 0;
    const auto count = [&](ValueId v) { places += v == value.id; };
    const Node& reader = g_.node(value.users.front());
    for (const Argument& a : reader.args) a.forEachValue(count);
    for (const auto& [key, a] : reader.kwargs) a.forEachValue(count);
    return places != 1;
  }

  /// What makes a value that nobody else reads, in the block and region of the last product.
  const Node* producer(ValueId v) const {
    const Value& value = g_.value(v);
    if (!value.producer || value.users.size() != 1 || value.returnUses > 0 || readsTwice(value)) return nullptr;
    const Node& n = g_.node(value.producer);
    const bool isHere = n.parent == last_->parent && index_.regionOf(n.id) == index_.regionOf(last_->id);
    return isHere && n.op->pure() && n.outputs.size() == 1 && !n.args.empty() ? &n : nullptr;
  }

  /// Notes the node, and gives what makes its first operand.
  const Node* step(const Node& n, size_t operand = 0) {
    found_.nodes.push_back(n.id);
    return n.args[operand].isValue() ? producer(n.args[operand].valueId()) : nullptr;
  }

  static bool isNamed(const Node& n, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), n.op->baseName()) != names.end();
  }
  std::optional<Contraction> contractionOf(const Node& n) const {
    const auto* text = isNamed(n, {"einsum"}) && n.args.size() >= 2 ? n.args[0].as<std::string>() : nullptr;
    const std::vector<Argument>* operands = text ? n.args[1].items() : nullptr;
    if (!operands || operands->size() != 2) return std::nullopt;
    std::array<size_t, 2> ranks{};
    for (size_t k = 0; k < 2; ++k) {
      const auto* shape = (*operands)[k].isValue() ? shapeOf((*operands)[k].valueId()) : nullptr;
      if (!shape) return std::nullopt;
      ranks[k] = shape->size();
    }
    auto equation = EinsumEquation::of(*text, ranks);
    return equation ? Contraction::of(std::move(*equation)) : std::nullopt;
  }
  /// What a product of matrices multiplies.
  std::optional<std::array<ValueId, 2>> operandsOf(const Node& n) const {
    const std::vector<Argument>* from = &n.args;
    size_t first = 0;
    if (isNamed(n, {"einsum"})) {
      if (!contractionOf(n)) return std::nullopt;
      from = n.args[1].items();
    } else if (isNamed(n, {"baddbmm"})) {
      first = 1;
    } else if (!isNamed(n, {"matmul", "bmm"})) {
      return std::nullopt;
    }
    if (from->size() < first + 2 || !(*from)[first].isValue() || !(*from)[first + 1].isValue()) return std::nullopt;
    return std::array{(*from)[first].valueId(), (*from)[first + 1].valueId()};
  }
  bool isFirst(const Node& n) const { return operandsOf(n).has_value(); }

  static bool isCastOrCopy(const Node& n) {
    return isNamed(n, {"to", "_to_copy", "type_as", "clone", "contiguous", "alias"});
  }

  /// A cast between floating-point types, a copy, or a reshape that leaves queries and keys as they are.
  bool onlyHandsOn(const Node& n) {
    if (!n.args[0].isValue()) return false;
    const ValueId from = n.args[0].valueId(), to = n.outputs[0];
    const auto *before = shapeOf(from), *after = shapeOf(to);
    if (!before || !after || !isFloat(from) || !isFloat(to)) return false;
    if (isCastOrCopy(n)) return areSame(*before, *after);
    if (dtypeOf(from) != dtypeOf(to)) return false;
    if (isNamed(n, {"expand"})) return areSame(*before, *after);
    if (!n.op->is(OperatorFact::Reshape) || before->size() < 3 || after->size() < 3) return false;
    const size_t b = before->size(), a = after->size();
    if (!areSame((*before)[b - 1], (*after)[a - 1]) || !areSame((*before)[b - 2], (*after)[a - 2])) return false;
    if (areSame(*before, *after)) return true;
    // Of [batch, heads, queries, keys] it makes one of three dimensions, or the other way round; of [samples * windows,
    // heads, queries, keys] one of five, or the other way round.
    const bool ofHeads = b + a == 7 && rank_ == 3,
               ofWindows = b + a == 9 && rank_ == 4 && areSame((*before)[b - 3], (*after)[a - 3]);
    if (!ofHeads && !ofWindows) return false;
    if (a < b) return true;
    const std::vector<Argument>* sizes = n.args.size() > 1 ? n.args[1].items() : nullptr;
    if (!sizes || sizes->size() != a) return false;
    const std::array first{(*sizes)[0], (*sizes)[1]};
    const int64_t* second = first[1].as<int64_t>();
    if (ofWindows && second && *second < 0) return false;
    auto& names = ofWindows ? found_.windows : found_.leading;
    auto& dims = ofWindows ? windowsApart_ : apart_;
    if (dims && (!areSame((*dims)[0], (*after)[0]) || !areSame((*dims)[1], (*after)[1]))) return false;
    names = first;
    dims = {(*after)[0], (*after)[1]};
    return true;
  }

  bool isSoftmax(const Node& n) const {
    if (!isNamed(n, {"softmax", "_softmax", "_safe_softmax"}) || !n.args[0].isValue()) return false;
    const auto* shape = shapeOf(n.args[0].valueId());
    const Argument* dim = n.findArgument("dim");
    const int64_t* at = dim ? dim->as<int64_t>() : nullptr;
    return shape && at && isFloat(n.outputs[0]) && (*at == -1 || *at == static_cast<int64_t>(shape->size()) - 1);
  }

  /// A node between the softmax and the first product; null where it is none that can be summed up.
  const Node* between(const Node& n) {
    if (onlyHandsOn(n)) return step(n);
    if (isNamed(n, {"mul", "div"}) && n.args.size() >= 2) {
      const bool isSecond = n.args[0].isValue();  // the number, of `2 * scores` the first
      const Argument* rounding = n.findArgument("rounding_mode");
      if (n.args[0].isValue() && n.args[1].isValue())
        return rounding && !rounding->isNone() ? nullptr : scaledByHead(n);
      const auto number = n.args[isSecond ? 1 : 0].number();
      if (!number || *number == 0 || !std::isfinite(*number) || (rounding && !rounding->isNone())) return nullptr;
      if (!isSecond && isNamed(n, {"div"})) return nullptr;
      factor_ *= isNamed(n, {"mul"}) ? *number : 1 / *number;
      return step(n, isSecond ? 0 : 1);
    }
    if (isNamed(n, {"add", "sub"}) && n.args.size() >= 2) return added(n);
    if (isNamed(n, {"masked_fill"}) && n.args.size() >= 3 && n.args[1].isValue())
      return hidden(n, 0, n.args[1].valueId(), n.args[2].number(), false);
    if (isNamed(n, {"where"}) && n.args.size() == 3 && n.args[0].isValue()) {
      const size_t scores = n.args[1].isValue() ? 1 : 2;
      return hidden(n, scores, n.args[0].valueId(), n.args[3 - scores].number(), scores == 1);
    }
    return nullptr;
  }

  /// A sum of the scores and a tensor that does not make them larger, or a difference. Which is which: the scores lead
  /// to a product.
  const Node* added(const Node& n) {
    const Argument* alpha = n.findArgument("alpha");
    const auto times = alpha ? alpha->number() : 1;
    if (!times || !std::isfinite(*times)) return nullptr;
    const bool isPlain = isNamed(n, {"add"}) && *times == 1;
    for (const size_t scores : {size_t{0}, size_t{1}}) {
      if (!n.args[scores].isValue() || !leadsToProduct(n.args[scores].valueId())) continue;
      if (!sameShape(n, scores) || (scores == 1 && !isPlain)) continue;
      const Argument& other = n.args[1 - scores];
      if (other.isValue()) {
        if (!isFloat(other.valueId()) || !shapeOf(other.valueId())) return nullptr;
        addTerm({other.valueId(), isNamed(n, {"sub"}) ? -factor_ * *times : factor_ * *times},
                n.args[scores].valueId());
      }  // a number is added to all, and changes no softmax
      return step(n, scores);
    }
    return nullptr;
  }

  void addTerm(MaskTerm term, ValueId scores) {
    term.rank = shapeOf(scores)->size();
    found_.terms.push_back(term);
  }

  /// A product or quotient with a tensor that is the same for all scores of a head.
  const Node* scaledByHead(const Node& n) {
    for (const size_t scores : {size_t{0}, size_t{1}}) {
      const ValueId other = n.args[1 - scores].valueId();
      const auto* shape = shapeOf(other);
      if (!shape || !leadsToProduct(n.args[scores].valueId()) || !sameShape(n, scores)) continue;
      const auto isOne = [&](size_t fromBehind) {
        return shape->size() < fromBehind || (*shape)[shape->size() - fromBehind].size == 1;
      };
      if (found_.headScale || !isOne(1) || !isOne(2) || (scores == 1 && isNamed(n, {"div"}))) return nullptr;
      found_.headScale = other;
      found_.dividesHeads = isNamed(n, {"div"});
      headScaleRank_ = shapeOf(n.outputs[0])->size();
      termsOutside_ = found_.terms.size();
      return step(n, scores);
    }
    return nullptr;
  }

  const Node* hidden(const Node& n, size_t scores, ValueId condition, std::optional<double> fill, bool isInverted) {
    if (!fill || factor_ <= 0 || dtypeOf(condition) != DType::Bool || !shapeOf(condition)) return nullptr;
    if (!n.args[scores].isValue() || !sameShape(n, scores)) return nullptr;
    const bool isLowest = *fill * factor_ <= swallowsAll ||
                          (*fill <= lowestOfHalf && dtypeOf(n.args[scores].valueId()) == DType::Float16);
    if (!isLowest) return nullptr;
    // Rows that are hidden whole by infinity are no numbers, or zeros; attention gives zeros.
    hidesByInfinity_ = hidesByInfinity_ || std::isinf(*fill);
    addTerm({condition, 1, true, isInverted, std::isinf(*fill) ? *fill : lowest}, n.args[scores].valueId());
    return step(n, scores);
  }

  bool sameShape(const Node& n, size_t scores) const {
    const auto *before = shapeOf(n.args[scores].valueId()), *after = shapeOf(n.outputs[0]);
    return before && after && areSame(*before, *after);
  }

  /// Whether a product is found through what may stand between.
  bool leadsToProduct(ValueId v) const {
    int left = 64;  // steps, in all ways together
    return leadsToProduct(v, left);
  }
  bool leadsToProduct(ValueId v, int& left) const {
    while (--left > 0) {
      const Node* n = producer(v);
      if (!n) return false;
      if (isFirst(*n)) return true;
      const bool passes = n->op->is(OperatorFact::Reshape) || isCastOrCopy(*n) ||
                          isNamed(*n, {"expand", "mul", "div", "add", "sub", "masked_fill", "where"});
      if (!passes) return false;
      size_t operand = 0;
      if (isNamed(*n, {"where"})) operand = n->args[1].isValue() ? 1 : 2;
      if (isNamed(*n, {"mul"}) && !n->args[0].isValue()) operand = 1;
      if (isNamed(*n, {"add"}) && n->args[0].isValue() && n->args[1].isValue() &&
          !leadsToProduct(n->args[0].valueId(), left))
        operand = 1;
      if (operand >= n->args.size() || !n->args[operand].isValue()) return false;
      v = n->args[operand].valueId();
    }
    return false;
  }

  /// The first product's operands.
  bool products(const Node& first) {
    if (isNamed(first, {"baddbmm"})) {
      const Argument *beta = first.findArgument("beta"), *alpha = first.findArgument("alpha");
      const auto b = beta ? beta->number() : 1, a = alpha ? alpha->number() : 1;
      if (!a || !b || *a == 0 || !first.args[0].isValue()) return false;
      if (*b != 0) {
        if (!shapeOf(first.args[0].valueId())) return false;
        addTerm({first.args[0].valueId(), factor_ * *b}, first.outputs[0]);
      }
      factor_ *= *a;
    }
    found_.nodes.push_back(first.id);
    found_.scale = factor_;
    const auto operands = operandsOf(first);
    found_.q = {(*operands)[0], {}};
    found_.k = {(*operands)[1], {}};
    if (const auto c = contractionOf(first)) {
      if (c->result != c->batch + c->rows + c->columns) return false;
      found_.q.order = orderOf(c->batch + c->rows + c->inner, c->operands[0]);
      found_.k.order = orderOf(c->batch + c->columns + c->inner, c->operands[1]);
    } else {
      found_.k.order = lastTwoSwapped(rank_);
    }
    // The kernels compute in float32 whatever they read.
    for (Operand* o : {&found_.q, &found_.k, &found_.v}) o->value = beforeCast(o->value);
    return true;
  }

  ValueId beforeCast(ValueId v) const {
    const Node* n = g_.value(v).producer ? &g_.node(g_.value(v).producer) : nullptr;
    if (!n || !isNamed(*n, {"to", "_to_copy"}) || n->args.empty() || !n->args[0].isValue()) return v;
    const ValueId from = n->args[0].valueId();
    const auto isHalf = dtypeOf(from) == DType::Float16 || dtypeOf(from) == DType::BFloat16;
    return isHalf && dtypeOf(v) == DType::Float32 ? from : v;
  }

  std::optional<std::vector<Dim>> shapeOf(const Operand& o) const {
    const auto* lies = shapeOf(o.value);
    if (!lies || lies->size() != rank_) return std::nullopt;
    std::vector<Dim> out = *lies;
    for (size_t i = 0; i < o.order.size(); ++i) out[i] = (*lies)[static_cast<size_t>(o.order[i])];
    return out;
  }

  bool fits() const {
    const auto q = shapeOf(found_.q), k = shapeOf(found_.k), v = shapeOf(found_.v);
    if (!q || !k || !v) return false;
    const auto dtype = dtypeOf(found_.q.value);
    const auto isMemoryStill = [&](ValueId x) { return !index_.isWritten(index_.memoryOf(x)); };
    const auto isAlike = [&](const Operand& o) { return dtypeOf(o.value) == dtype && isMemoryStill(o.value); };
    if (!dtype || !isFloatingPoint(*dtype) || dtypeOf(last_->outputs[0]) != dtype || !isAlike(found_.q) ||
        !isAlike(found_.k) || !isAlike(found_.v))
      return false;
    for (size_t i = 0; i + 2 < rank_; ++i)
      if (!servesAll((*q)[i], (*k)[i], i) || !servesAll((*q)[i], (*v)[i], i)) return false;
    if (rank_ == 4 && !areSame((*k)[1], (*v)[1])) return false;
    // An einsum would broadcast one key to many.
    const Dim &keys = (*k)[rank_ - 2], &values = (*v)[rank_ - 2];
    if (keys.isStatic() && values.isStatic() && keys.size != values.size) return false;
    const Dim &size = (*q)[rank_ - 1], &valueSize = (*v)[rank_ - 1];
    if (!size.isStatic() || !valueSize.isStatic() || size.size > mostHeadSize || valueSize.size > mostHeadSize ||
        !areSame((*k)[rank_ - 1], size))
      return false;
    // Other kernels of a GPU are no faster than libraries' products.
    if (onGpu_ &&
        (*dtype == DType::Float32 || *dtype == DType::Float64 || size.size % 8 != 0 || valueSize.size % 8 != 0))
      return false;
    if (found_.headScale && (dtypeOf(found_.headScale) != dtype || !isMemoryStill(found_.headScale) ||
                             found_.terms.size() > termsOutside_ || (found_.leading && headScaleRank_ == 3) ||
                             (headScaleRank_ == 5 && shapeOf(found_.headScale)->size() > 3)))
      return false;
    return std::all_of(found_.terms.begin(), found_.terms.end(),
                       [&](const MaskTerm& t) { return isMemoryStill(t.tensor) && fitsMask(t, (*q)[0]); });
  }

  /// Whether keys and values have the batch or heads that the queries have, or one for all of them.
  bool servesAll(const Dim& ofQueries, const Dim& ofKeys, size_t dimension) const {
    const bool mayBeOne = rank_ <= 4 && !found_.leading && !found_.windows && dimension < 2;
    return areSame(ofQueries, ofKeys) || (mayBeOne && ofKeys.size == 1 && ofQueries.isKnown());
  }

  bool fitsMask(const MaskTerm& t, const Dim& batchAndHeads) const {
    const std::vector<Dim>& shape = *shapeOf(t.tensor);
    if (t.rank == 5) return shape.size() <= 3 || rank_ == 4;
    return !found_.leading || t.rank == 4 || shape.size() < 3 || shape[0].size == 1 || shape[0] == batchAndHeads;
  }

  /// Whether the model puts something else than zeros in the place of rows that are hidden whole.
  bool looksForNan(const Node& last) const {
    return std::ranges::any_of(g_.value(last.outputs[0]).users, [&](NodeId user) {
      const Node& n = g_.node(user);
      const Argument* nan = n.findArgument("nan");
      return isNamed(n, {"isnan"}) || (isNamed(n, {"nan_to_num"}) && nan && !nan->isNone() && nan->number() != 0.0);
    });
  }

  /// A reshape behind the last product that takes batch and heads apart is part of it.
  void takeReshape() {
    const Value& product = g_.value(last_->outputs[0]);
    if (product.users.size() != 1 || product.returnUses > 0) return;
    const Node& n = g_.node(product.users.front());
    if (n.parent != last_->parent || !n.op->is(OperatorFact::Reshape) || n.outputs.size() != 1) return;
    const auto *from = shapeOf(last_->outputs[0]), *to = shapeOf(n.outputs[0]);
    if (!from || !to || to->size() != 4 || !areSame((*to)[2], (*from)[1]) || !areSame((*to)[3], (*from)[2])) return;
    if (!apart_ || !areSame((*to)[0], (*apart_)[0]) || !areSame((*to)[1], (*apart_)[1])) return;
    found_.result = n.outputs[0];
    found_.nodes.insert(found_.nodes.begin(), n.id);
  }

  const Graph& g_;
  const GraphIndex& index_;
  bool onGpu_;
  const Node* last_ = nullptr;
  size_t rank_ = 0;
  double factor_ = 1;                               ///< what the scores are multiplied by from here to the softmax
  std::optional<std::array<Dim, 2>> apart_;         ///< batch and heads, where `leading` is known
  std::optional<std::array<Dim, 2>> windowsApart_;  ///< the same of `windows`
  bool hidesByInfinity_ = false;
  size_t headScaleRank_ = 0, termsOutside_ = 0;
  FoundAttention found_;
};

/// Puts one attention in place.
class AttentionEdit {
 public:
  /// `replaced`: what took the place of results of others.
  /// `views`: what turns views behind it into reshapes, since attention lays its result out in its own way.
  AttentionEdit(GraphEditor& editor, FoundAttention found, std::unordered_map<ValueId, ValueId>& replaced,
                ViewRelaxation& views)
      : editor_(editor),
        g_(editor.graph()),
        found_(std::move(found)),
        replaced_(replaced),
        views_(views),
        last_(found_.nodes.front()),
        b_(editor, last_) {}

  void apply() {
    const auto now = [&](ValueId& v) {
      if (const auto by = replaced_.find(v); by != replaced_.end()) v = by->second;
    };
    for (Operand* o : {&found_.q, &found_.k, &found_.v}) now(o->value);
    if (found_.headScale) now(found_.headScale);
    for (MaskTerm& t : found_.terms) now(t.tensor);
    editor_.begin(last_);
    const ValueId result = found_.result;
    const Argument made = insert();
    if (b_.error()) {
      editor_.cancel();
      return editor_.noteRefused(b_.error()->message);
    }
    editor_.setType(made.valueId(), g_.value(result).type);
    const std::vector<NodeId> before(found_.nodes.rbegin(), found_.nodes.rend());
    if (!passesCheck(editor_, "find_attention", last_, before, {{result, made.valueId()}})) return;
    editor_.replaceValue(result, made.valueId());
    replaced_.emplace(result, made.valueId());
    views_.below(result, made.valueId());
    for (const NodeId n : found_.nodes) editor_.erase(n);
    editor_.commit();
  }

 private:
  Argument insert() {
    const size_t rank = *g_.value(found_.q.value).type.tensorInfo.rank();
    Argument q = inOrder(Argument(found_.q.value), found_.q.order),
             k = inOrder(Argument(found_.k.value), found_.k.order),
             v = inOrder(Argument(found_.v.value), found_.v.order);
    std::vector<Argument> sizes;
    if (rank == 5)
      for (const int64_t d : {0, 1}) sizes.push_back(b_.call("aten.size.int", {q, Argument(d)}));
    if (found_.leading) sizes = {(*found_.leading)[0], (*found_.leading)[1]};
    for (Argument* a : {&q, &k, &v}) {
      if (rank == 5) *a = together(*a);
      if (found_.leading) *a = apart(*a, sizes);
    }
    if (found_.headScale)
      q = b_.call(found_.dividesHeads ? "aten.div.Tensor" : "aten.mul.Tensor", {q, Argument(found_.headScale)});
    const Argument made =
        b_.call("graft.attention.default", {q, k, v, mask(sizes), Argument(found_.scale), Argument(false)});
    if (rank == 5) return inOrder(apart(made, sizes), found_.resultOrder);
    const bool isApart = g_.value(found_.result).type.tensorInfo.rank() == 4;
    return inOrder(found_.leading && !isApart ? together(made) : made, found_.resultOrder);
  }

  Argument inOrder(const Argument& x, const std::vector<int64_t>& order) {
    const auto n = static_cast<int64_t>(order.size());
    if (order.empty()) return x;
    if (order == lastTwoSwapped(order.size()))
      return b_.call("aten.transpose.int", {x, Argument(n - 2), Argument(n - 1)});
    return b_.call("aten.permute.default", {x, Argument::ints(order)});
  }

  /// A mask of [samples, windows, heads, queries, keys], where the products have the first two as one.
  Argument ofWindows(Argument mask, size_t rank) {
    const Argument windows = (*found_.windows)[1];
    Argument samples = (*found_.windows)[0];
    const int64_t first = found_.q.order.empty() ? 0 : found_.q.order.front();
    if (const int64_t* n = samples.as<int64_t>(); n && *n < 0)
      samples = b_.call("aten.floordiv.int",
                        {b_.call("aten.size.int", {Argument(found_.q.value), Argument(first)}), windows});
    if (rank == 4) mask = b_.call("aten.unsqueeze.default", {mask, Argument(int64_t{0})});
    const Argument same(int64_t{-1});
    return together(b_.call("aten.expand.default", {mask, Argument::list({samples, windows, same, same, same})}));
  }

  Argument together(const Argument& x) {
    return b_.call("aten.flatten.using_ints", {x, Argument(int64_t{0}), Argument(int64_t{1})});
  }
  Argument apart(const Argument& x, const std::vector<Argument>& sizes) {
    return b_.call("aten.unflatten.int", {x, Argument(int64_t{0}), Argument::list(sizes)});
  }

  /// What the model adds and hides, in its order: a place that two conditions hide is no lower than others.
  Argument mask(const std::vector<Argument>& sizes) {
    Argument sum;
    for (auto t = found_.terms.rbegin(); t != found_.terms.rend(); ++t) {
      Argument a(t->tensor);
      const std::vector<Dim>& shape = *g_.value(t->tensor).type.tensorInfo.shape;
      if (found_.leading && t->rank == 3 && shape.size() == 3 && shape[0].size != 1) a = apart(a, sizes);
      if (found_.windows && t->rank == 5 && shape.size() > 3) a = ofWindows(a, shape.size());
      if (t->hides) {
        sum = hidden(a, *t, sum);
        continue;
      }
      if (t->factor != 1) a = b_.call("aten.mul.Tensor", {a, Argument(t->factor)});
      sum = sum.isNone() ? a : b_.call("aten.add.Tensor", {sum, a});
    }
    return sum;
  }

  Argument hidden(const Argument& condition, const MaskTerm& t, Argument sum) {
    const Argument low(t.fill);
    if (sum.isNone()) {
      const Argument none(0.0);
      return b_.call("aten.where.Scalar", {condition, t.isInverted ? none : low, t.isInverted ? low : none});
    }
    const auto dtype = sum.isValue() ? g_.value(sum.valueId()).type.tensorInfo.dtype : std::nullopt;
    // Half types have no such number.
    if (dtype == DType::Float16 || dtype == DType::BFloat16)
      sum = b_.call("aten.to.dtype", {sum, Argument(DType::Float32)});
    return t.isInverted ? b_.call("aten.where.ScalarOther", {condition, sum, low})
                        : b_.call("aten.where.ScalarSelf", {condition, low, sum});
  }

  GraphEditor& editor_;
  const Graph& g_;
  FoundAttention found_;
  std::unordered_map<ValueId, ValueId>& replaced_;
  ViewRelaxation& views_;
  NodeId last_;
  NodeBuilder b_;
};

Status findAttention(GraphEditor& editor, const Step& step) {
  const bool onGpu = isForGpu(editor.graph(), step);
  const GraphIndex index(editor.graph());
  std::vector<FoundAttention> all;
  AttentionSearch search(index, onGpu);
  std::unordered_set<NodeId> taken;  // the last product of one may be the first of another
  for (const NodeId id : index.order) {
    auto found = search.find(editor.graph().node(id));
    const auto isTaken = [&](NodeId n) { return taken.contains(n); };
    if (!found || std::ranges::any_of(found->nodes, isTaken)) continue;
    taken.insert(found->nodes.begin(), found->nodes.end());
    all.push_back(std::move(*found));
  }
  if (editor.check() && !all.empty()) {
    std::vector<std::vector<NodeId>> places;
    for (const FoundAttention& f : all) places.emplace_back(f.nodes.rbegin(), f.nodes.rend());
    editor.check()->prepare(editor.graph(), places);
  }
  std::unordered_map<ValueId, ValueId> replaced;
  ViewRelaxation views(editor);
  for (FoundAttention& f : all) AttentionEdit(editor, std::move(f), replaced, views).apply();
  return done();
}

}  // namespace

GRAFT_PASS(find_attention, "gpu=True", "attention that is spelled with products and a softmax becomes one kernel",
           findAttention, true, true)

}  // namespace graft
