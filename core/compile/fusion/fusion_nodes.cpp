#include "core/compile/fusion/fusion_nodes.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "core/compile/fusion/fusion.h"
#include "core/compile/fusion/group_text.h"
#include "core/compile/fusion/loop_conditions.h"
#include "core/compile/fusion/product_split.h"
#include "core/compile/loops/slow_scan.h"
#include "core/compile/lower/lower.h"
#include "core/ir/calls/memory_format.h"
#include "core/ir/calls/written_arguments.h"
#include "core/ir/calls/written_sources.h"
#include "core/text/node_names.h"

namespace graft {
namespace {

using Role = FusionNode::Role;

constexpr int64_t kFewElements = 16;  // that a row may be longer by and still be the same row
constexpr double unknownSize = 64;    // of a dimension that varies, for prices alone

bool isNumber(const Type& type) { return type.kind == Type::Kind::Int; }
bool isItem(const Node& n) { return n.op->name == "prim.getitem"; }

bool hasKnownShape(const Type& type) { return type.isTensor() && type.tensorInfo.dtype && type.tensorInfo.shape; }

bool holdsSymbol(const Argument& a) {
  if (a.as<SymbolicInt>()) return true;
  const std::vector<Argument>* items = a.items();
  return items && std::any_of(items->begin(), items->end(), holdsSymbol);
}

/// Why a group may not hold the node, whatever lowering says; empty where it may.
std::string obstacle(const Graph& g, const Node& n, const FusionOptions& options) {
  if (!n.op->pure() || !n.blocks.empty()) return "it writes, draws random numbers or has effects";
  if (isNamed(g, n, options.apart)) return "it is to stay apart";
  if (!options.only.empty() && !isNamed(g, n, options.only)) return "only others are to be fused";
  std::string why;
  const auto look = [&](ValueId v) {
    const Type& type = g.value(v).type;
    if (isNumber(type) || hasKnownShape(type) || !why.empty()) return;
    const bool isList = type.kind == Type::Kind::List && type.element().isTensor();
    if (!isList) why = "%" + g.value(v).name + " is no tensor whose dtype and shape are known";
  };
  for (const Argument& a : n.args) {
    if (holdsSymbol(a)) return "one of its sizes is computed by no node";
    a.forEachValue(look);
  }
  for (const ValueId v : n.outputs) look(v);
  return why;
}

/// The operands of a list of several tensors (meshgrid, broadcast_tensors); null where a list is of one's pieces.
const std::vector<Argument>* listedOperands(const Graph& g, ValueId list) {
  const NodeId producer = g.value(list).producer;
  return producer && !g.node(producer).args.empty() ? g.node(producer).args.front().items() : nullptr;
}

/// The value whose elements a view gives. Of an item of a list: the operand that stands there, or what all are pieces
/// of; of a list of several tensors itself the first.
ValueId viewedBy(const Graph& g, const Node& n) {
  if (const std::vector<Argument>* own = n.args.front().items()) return own->front().valueId();
  const ValueId first = n.args.front().valueId();
  const std::vector<Argument>* operands = isItem(n) ? listedOperands(g, first) : nullptr;
  return operands ? operands->at(static_cast<size_t>(*n.args[1].as<int64_t>())).valueId() : first;
}

/// Whether all that becomes of the list are items at known places, so that each item is a view of one operand.
bool isTakenApart(const Graph& g, const Node& list) {
  const std::vector<Argument>* operands = list.args.empty() ? nullptr : list.args.front().items();
  const Value& value = g.value(list.outputs.front());
  if (!operands || operands->empty() || value.type.kind != Type::Kind::List || value.returnUses > 0) return false;
  return std::all_of(operands->begin(), operands->end(), [](const Argument& a) { return a.isValue(); }) &&
         std::all_of(value.users.begin(), value.users.end(), [&](NodeId user) {
           const Node& n = g.node(user);
           const int64_t* place = isItem(n) ? n.args.at(1).as<int64_t>() : nullptr;
           return place && *place >= 0 && static_cast<size_t>(*place) < operands->size();
         });
}

/// A view that leaves the elements in their order: reshaping what it gives needs no copy.
bool keepsOrder(const Node& n) {
  const std::string_view name = n.op->baseName();
  return n.op->is(OperatorFact::Reshape | OperatorFact::Identity) || name == "unsqueeze" || name == "squeeze";
}

/// Whether it swaps the second and the third of four dimensions.
bool swapsMiddle(const Graph& g, const Node& n) {
  if (g.value(n.outputs.front()).type.tensorInfo.rank() != 4) return false;
  const auto dimOf = [](const Argument& a) {
    const int64_t* d = a.as<int64_t>();
    return d ? (*d < 0 ? *d + 4 : *d) : -1;
  };
  if (n.op->baseName() == "transpose") {
    const int64_t a = dimOf(n.args.at(1)), b = dimOf(n.args.at(2));
    return std::min(a, b) == 1 && std::max(a, b) == 2;
  }
  const std::vector<Argument>* order = n.op->baseName() == "permute" ? n.args.at(1).items() : nullptr;
  return order && order->size() == 4 && dimOf((*order)[0]) == 0 && dimOf((*order)[1]) == 2 && dimOf((*order)[2]) == 1 &&
         dimOf((*order)[3]) == 3;
}

/// Whether views permute what some operator made: a projection's result, taken apart into heads.
bool isPermuted(const Graph& g, ValueId v) {
  for (NodeId producer = g.value(v).producer; producer; producer = g.value(v).producer) {
    const Node& n = g.node(producer);
    if (n.op->baseName() == "permute" || n.op->baseName() == "transpose") return true;
    if (!n.op->is(OperatorFact::View | OperatorFact::MayView) || n.args.empty() || !n.args.front().isValue())
      return false;
    v = n.args.front().valueId();
  }
  return false;
}

/// Whether its operand is what attention gives with heads behind the length. Graft's kernels write that in a row, and
/// PyTorch's where the queries lie so. Nothing is copied then.
bool readsAttentionInOrder(const Graph& g, const Node& n) {
  bool isSwapped = false;
  for (ValueId v = n.args.front().valueId();;) {
    const NodeId producer = g.value(v).producer;
    if (!producer) return false;
    const Node& before = g.node(producer);
    const std::string_view name = before.op->baseName();
    if (before.op->name == "graft.attention.default") return isSwapped;
    if (name == "scaled_dot_product_attention")
      return isSwapped && before.args.front().isValue() && isPermuted(g, before.args.front().valueId());
    if (before.args.empty() || !before.args.front().isValue() || before.outputs.size() != 1) return false;
    const ValueId operand = before.args.front().valueId();
    const auto &from = g.value(operand).type.tensorInfo.shape, &to = g.value(v).type.tensorInfo.shape;
    if (!isSwapped && swapsMiddle(g, before))
      isSwapped = true;
    else if (!before.op->is(OperatorFact::Reshape | OperatorFact::Identity) || !from || from != to)
      return false;
    v = operand;
  }
}

/// Whether its operand is a view that leaves elements out or takes them in another order: a slice, a permutation.
bool readsOutOfOrder(const Graph& g, const std::vector<FusionNode>& nodes, const Node& n) {
  if (readsAttentionInOrder(g, n)) return false;
  for (ValueId v = n.args.front().valueId();;) {
    const NodeId producer = g.value(v).producer;
    if (!producer || nodes[producer.index].role != Role::View) return false;
    const Node& before = g.node(producer);
    if (!keepsOrder(before)) return !before.args.front().isValue() || !readsAttentionInOrder(g, before);
    v = viewedBy(g, before);
  }
}

/// Whether a caller's image is laid out with channels last. Callers seldom give images that lie so.
bool laysGivenImage(const Graph& g, const std::vector<FusionNode>& nodes, const Node& n) {
  const bool lays = laysChannelsLast(n) && n.args.front().isValue() && mayBeImage(g.value(n.outputs.front()).type);
  return lays && !readsOutOfOrder(g, nodes, n) && g.isInput(baseOf(g, nodes, n.args.front().valueId(), n.parent));
}

/// Whether it permutes (batch, places …, channels), which lies with channels last where its operand lies in rows.
bool bringsChannelsForward(const Graph& g, ValueId v) {
  const NodeId producer = g.value(v).producer;
  if (!producer || g.node(producer).op->baseName() != "permute") return false;
  const std::vector<Argument>* order = g.node(producer).args.at(1).items();
  if (!order || order->size() < 4) return false;
  const auto rank = static_cast<int64_t>(order->size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t* dim = (*order)[static_cast<size_t>(i)].as<int64_t>();
    const int64_t from = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
    if (!dim || (*dim < 0 ? *dim + rank : *dim) != from) return false;
  }
  return true;
}

/// Whether a reshape does no more than to part dimensions, or to add or leave out some of one element: of whatever lies
/// in memory in whatever way it gives a view.
bool partsDimensions(const Graph& g, const Node& n) {
  if (!n.op->is(OperatorFact::Reshape) || !n.args.front().isValue()) return false;
  const auto &from = g.value(n.args.front().valueId()).type.tensorInfo.shape,
             &to = g.value(n.outputs.front()).type.tensorInfo.shape;
  if (!from || !to) return false;
  const auto isOne = [](const Dim& d) { return d.size == 1; };
  size_t at = 0;
  for (const Dim& whole : *from) {
    if (isOne(whole)) continue;
    while (at < to->size() && isOne((*to)[at])) ++at;
    if (at < to->size() && whole.isKnown() && (*to)[at] == whole) {
      ++at;
      continue;
    }
    int64_t parts = 1;
    while (whole.isStatic() && at < to->size() && parts < whole.size && (*to)[at].isStatic()) parts *= (*to)[at++].size;
    if (parts != whole.size) return false;
  }
  return std::all_of(to->begin() + static_cast<std::ptrdiff_t>(at), to->end(), isOne);
}

/// Whether ATen copies here: a reshape below a permutation, a contiguous() of one.
bool copies(const Graph& g, const std::vector<FusionNode>& nodes, const Node& n) {
  if (laysChannelsLast(n) && bringsChannelsForward(g, n.args.front().valueId())) return false;
  if (partsDimensions(g, n)) return false;
  return n.op->is(OperatorFact::MayView) ? readsOutOfOrder(g, nodes, n) : !n.op->is(OperatorFact::View);
}

/// A pad that adds a few elements behind each row: it goes over the same rows as what it reads.
bool lengthensRows(const Node& n) {
  const std::vector<Argument>* pads = n.op->baseName() == "constant_pad_nd" ? n.args.at(1).items() : nullptr;
  if (!pads || pads->size() < 2) return false;
  return std::all_of(pads->begin(), pads->end(), [&](const Argument& a) {
    const int64_t* by = a.as<int64_t>();
    return by && (&a == &pads->at(1) ? *by > 0 && *by < kFewElements : *by == 0);
  });
}

/// Operators for which ATen launches several kernels on a GPU. Batched products copy operands whose batches do not lie
/// one behind the other.
bool takesSeveralKernels(const Graph& g, const Node& n) {
  static const std::set<std::string_view> names{
      "group_norm", "native_group_norm", "instance_norm", "rms_norm",          "logsumexp",         "einsum",
      "roll",       "constant_pad_nd",   "_weight_norm",  "cosine_similarity", "pairwise_distance", "pad"};
  if (names.contains(n.op->baseName()) || isConvolution(n.op->name)) return true;
  const auto rankOf = [&](const Argument& a) { return a.isValue() ? g.value(a.valueId()).type.tensorInfo.rank() : 0; };
  return n.op->baseName() == "matmul" && rankOf(n.args[0]) >= 4 && rankOf(n.args[1]) >= 4;
}

bool isPoolGradient(const Node& n) { return n.op->baseName().ends_with("_with_indices_backward"); }

/// Whether it joins images for a convolution, of which a caller gives some: these need not lie as those that the model
/// computes, and a kernel of our own writes the result as a convolution reads it.
bool joinsGivenImages(const Graph& g, const Node& n) {
  const std::vector<Argument>* images = n.op->baseName() == "cat" ? n.args.at(0).items() : nullptr;
  if (!images) return false;
  const Value& joined = g.value(n.outputs.front());
  const auto isRead = [&](NodeId user) { return isConvolution(g.node(user).op->name); };
  if (!mayBeImage(joined.type) || std::none_of(joined.users.begin(), joined.users.end(), isRead)) return false;
  return std::any_of(images->begin(), images->end(),
                     [&](const Argument& a) { return a.isValue() && g.isInput(a.valueId()); });
}

/// Whether the places of greatest elements, of which ATen's kernels for GPUs move few at a time, are a result or read.
bool poolsWithPlaces(const Node& n) {
  static const std::set<std::string_view> names{"max_pool2d_with_indices", "max_pool3d_with_indices"};
  return names.contains(n.op->baseName()) || isPoolGradient(n);
}

/// Whether PyTorch's kernel for a CPU leaves time that one of our own may save although nothing is fused with it
/// (docs/measurements/cpu.md, "Operators alone"): it calls a function for each element, goes over rows or windows
/// without vectors, or copies element by element.
bool isWorthAKernelOnCpu(const Node& n, const lower::Traits& traits, double elements, bool copiesOutOfOrder) {
  constexpr double kLeastElements = 4096;  // below, a call costs more than what it computes
  constexpr double kFunction = 13;         // the cost of exp and its like
  static const std::set<std::string_view> copies{"constant_pad_nd", "pad", "pixel_shuffle", "pixel_unshuffle",
                                                 "channel_shuffle", "roll"};
  if (elements < kLeastElements) return false;
  switch (traits.kind) {
    case lower::Kind::Pointwise:
      return traits.cost >= kFunction;
    case lower::Kind::Reduction:
    case lower::Kind::Window:
      return true;
    case lower::Kind::View:
      return copiesOutOfOrder || copies.contains(n.op->baseName());
    default:
      return false;
  }
}

/// Whether an operand is repeated along a dimension of the result. ATen's kernels read 16 bytes at a time only where
/// all operands lie as the result does.
bool repeatsOperand(const Graph& g, const Node& n) {
  const auto& result = g.value(n.outputs.front()).type.tensorInfo.shape;
  return std::any_of(n.args.begin(), n.args.end(), [&](const Argument& a) {
    if (!a.isValue() || !g.value(a.valueId()).type.isTensor()) return false;
    const Type& type = g.value(a.valueId()).type;
    return elementsOf(type) > 1 && type.tensorInfo.shape != result;
  });
}

/// Whether PyTorch's kernel for a GPU leaves time that one of our own may save although nothing is fused with it
/// (docs/measurements/zoo.md, "A batch of 16"): it reads an element at a time, or gives each row one block. Ours also
/// starts while the kernel before it ends.
bool isWorthAKernelOnGpu(const Graph& g, const Node& n, const lower::Traits& traits, const FusionNode& f) {
  constexpr double leastElements = 16384;  // below, both take what a launch takes
  constexpr double longRow = 8192;         // a block of ATen's reads such rows as fast as memory gives them
  if (f.elements < leastElements) return false;
  switch (traits.kind) {
    case lower::Kind::Reduction:
      return f.elements < f.rows * longRow;
    case lower::Kind::Window:
      return true;
    case lower::Kind::Pointwise:
      return repeatsOperand(g, n);
    default:
      return false;
  }
}

class Reader {
 public:
  Reader(const Graph& g, const FusionOptions& options)
      : g_(g), options_(options), nodes_(g.nodeBound()), written_(writtenMemory(g)) {}

  std::vector<FusionNode> read() {
    size_t epoch = 0;
    for (const NodeId id : g_.order()) {
      const Node& n = g_.node(id);
      FusionNode& f = nodes_[id.index];
      f.epoch = epoch;
      readsWithin(n);
      if (n.op->writes() || n.op->sideEffects || !n.op->hasSchema) ++epoch;
      f.why = obstacle(g_, n, options_);
      if (f.why.empty()) classify(n, f);
      readsOf(n, f);
    }
    return std::move(nodes_);
  }

 private:
  /// Whether it gives its operand or a copy of it, and something writes to one of both: which of them sees the write
  /// depends on how the operand lies in memory.
  bool mayMissWrites(const Node& n) const {
    if (!n.op->is(OperatorFact::MayView) && !mayReturnArgument(n)) return false;
    bool any = false;
    const auto look = [&](ValueId v) { any |= written_.contains(v); };
    for (const Argument& a : n.args) a.forEachValue(look);
    for (const ValueId v : n.outputs) look(v);
    return any;
  }

  void classify(const Node& n, FusionNode& f) {
    if (mayMissWrites(n)) {
      f.why = "something writes to its operand, or to what it gives";
      return;
    }
    if (isItem(n)) {
      const NodeId list = n.args.front().isValue() ? g_.value(n.args.front().valueId()).producer : NodeId();
      const bool isHere = list && g_.node(list).parent == n.parent;
      if (isHere && nodes_[list.index].role == Role::View && n.args.at(1).as<int64_t>())
        f.role = Role::View;
      else
        f.why = "it takes an item of what no kernel makes";
      return;
    }
    const lower::Traits traits = lower::traitsOf(g_, n);
    if (traits.kind == lower::Kind::None || traits.kind == lower::Kind::Size) {
      f.why = traits.kind == lower::Kind::Size ? "it computes a size" : traits.whyNot;
      return;
    }
    if (traits.kind == lower::Kind::Product) {
      f.why = productObstacle(n);
      if (!f.why.empty()) return;
      f.isProduct = true;
    }
    if (traits.kind == lower::Kind::Window && isConvolution(n.op->name)) {
      if (!options_.hasProducts) f.why = "kernels with convolutions are generated for GPUs alone";
      if (!f.why.empty()) return;
    }
    if (isPoolGradient(n) && !options_.hasProducts) {
      f.why = "on a CPU, ATen's kernel writes each gradient to its place, and looks for none";
      return;
    }
    if (!options_.hasProducts && findsPlacesOfEquals(n)) {
      f.why = "on a CPU, ATen's sort gives the places of equal elements in an order of its own";
      return;
    }
    if (options_.hasProducts && scansLongRows(n, traits)) {
      f.why = "few long rows are scanned by one thread each here, and by many in ATen's kernel";
      return;
    }
    f.isWindow = traits.kind == lower::Kind::Window && !isConvolution(n.op->name);
    kind_ = traits.kind;
    multiplied_ = traits.multiplied;
    const bool isView = traits.kind == lower::Kind::View && !n.args.empty() && n.args.front().isValue();
    // A kernel of our own does that in a quarter of the time of PyTorch's copy on a GPU.
    const bool laysImage = isView && options_.hasProducts && laysGivenImage(g_, nodes_, n);
    if ((isView && !laysImage && !copies(g_, nodes_, n)) || (traits.kind == lower::Kind::View && isTakenApart(g_, n))) {
      f.role = Role::View;
      return;
    }
    for (const ValueId v : n.outputs)
      if (!hasKnownShape(g_.value(v).type)) {
        f.why = "its results are no tensors";
        return;
      }
    f.role = Role::Compute;
    f.operations = traits.cost;
    f.isJoin = traits.kind == lower::Kind::View && !n.args.empty() && !n.args.front().isValue();
    for (const ValueId v : n.outputs) {
      f.outputBytes += bytesOf(g_.value(v).type);
      f.elements = std::max(f.elements, elementsOf(g_.value(v).type));
    }
    if (lengthensRows(n)) f.elements = elementsOf(g_.value(n.args.front().valueId()).type);
    f.hasRows = traits.kind == lower::Kind::Reduction || traits.kind == lower::Kind::Scan;
    // ATen's copies of what does not lie in a row go element by element.
    const bool copiesOutOfOrder = isView && readsOutOfOrder(g_, nodes_, n);
    const double results = f.elements;
    if (f.hasRows) rowsOf(n, traits, f);
    f.mayBeAlone = options_.hasProducts ? takesSeveralKernels(g_, n) || poolsWithPlaces(n) || joinsGivenImages(g_, n) ||
                                              copiesOutOfOrder || laysImage || isWorthAKernelOnGpu(g_, n, traits, f)
                                        : isWorthAKernelOnCpu(n, traits, f.elements, copiesOutOfOrder);
    if (!f.hasRows) return;
    if (traits.picksFromFirst) {
      f.picksFrom = baseOf(g_, nodes_, n.args.at(0).valueId(), n.parent);
      f.picks = elementsOf(g_.value(n.args.at(1).valueId()).type);
    }
    f.mayBeAlone = f.mayBeAlone || (traits.takesRowsApart && results == f.elements);
  }

  /// Whether it sorts whole numbers, many of which are equal, and something reads where they stood. On a GPU, and where
  /// the model asks for it, ATen's sort is stable as ours is.
  bool findsPlacesOfEquals(const Node& n) const {
    const bool sorts = n.op->name == "aten.sort.default", finds = n.op->name == "aten.argsort.default";
    if ((!sorts && !finds) || !n.args.front().isValue()) return false;
    const auto dtype = g_.value(n.args.front().valueId()).type.tensorInfo.dtype;
    return dtype && !isFloatingPoint(*dtype) && !g_.isUnused(n.outputs.back());
  }

  /// Whether a GPU's threads, of which each goes over a row, would be few and wait long.
  bool scansLongRows(const Node& n, const lower::Traits& traits) const {
    const bool scansAll = n.op->name == "aten.masked_scatter.default";
    if (traits.kind != lower::Kind::Scan && !scansAll) return false;
    const Type& type = g_.value(n.args.front().valueId()).type;
    double length = elementsOf(type), rows = 1;
    if (!scansAll && type.tensorInfo.shape && !traits.reducedDims.empty()) {
      const Dim& d = (*type.tensorInfo.shape)[static_cast<size_t>(traits.reducedDims.front())];
      const double along = d.isStatic() ? static_cast<double>(std::max<int64_t>(d.size, 1)) : unknownSize;
      rows = length / along;
      length = along;
    }
    return loops::isSlowScan(length, rows);
  }

  std::string productObstacle(const Node& n) const {
    if (!options_.hasProducts) return "kernels with matrix products are generated for GPUs alone";
    const DType dtype = *g_.value(n.outputs.front()).type.tensorInfo.dtype;
    if (dtype == DType::Float16 || dtype == DType::BFloat16) return "";
    return "matrix products of " + std::string(dtypeShort(dtype)) + " are left to libraries";
  }

  void rowsOf(const Node& n, const lower::Traits& traits, FusionNode& f) {
    const Type& type = g_.value(n.args.front().valueId()).type;
    const std::vector<Dim>& shape = *type.tensorInfo.shape;
    f.elements = std::max(f.elements, elementsOf(type));
    std::vector<char> isReduced(shape.size(), traits.reducedDims.empty());
    for (const int64_t d : traits.reducedDims) isReduced[static_cast<size_t>(d)] = true;
    f.rows = 1;
    for (size_t d = 0; d < shape.size(); ++d)
      if (!isReduced[d]) f.rows *= shape[d].isStatic() ? static_cast<double>(shape[d].size) : unknownSize;
    const bool isTrailing = std::is_sorted(isReduced.begin(), isReduced.end());
    f.rowKey = {static_cast<int64_t>(f.rows)};
    if (isTrailing) return;
    // A norm would go over its columns again once it has their statistics.
    f.isOfColumns = n.op->baseName() == "sum" && std::is_sorted(isReduced.rbegin(), isReduced.rend());
    for (size_t d = 0; d < shape.size(); ++d) f.rowKey.push_back(isReduced[d] ? -1 : shape[d].size);
  }

  /// Whether a branch or a loop of that node makes the value.
  bool isMadeWithin(ValueId v, NodeId owner) const {
    const Value& value = g_.value(v);
    BlockId block = value.producer ? g_.node(value.producer).parent : value.block;
    while (block && g_.block(block).owner != owner)
      block = g_.block(block).owner ? g_.node(g_.block(block).owner).parent : BlockId();
    return bool(block);
  }

  /// What a branch or a loop reads of outside is read by the node that owns it, and by those that own that.
  void readsWithin(const Node& n) {
    for (NodeId owner = g_.block(n.parent).owner; owner; owner = g_.block(g_.node(owner).parent).owner) {
      const BlockId block = g_.node(owner).parent;
      std::vector<FusionRead>& reads = nodes_[owner.index].reads;
      const auto note = [&](ValueId v) {
        if (!isMadeWithin(v, owner)) reads.push_back({baseOf(g_, nodes_, v, block), false});
      };
      for (const Argument& a : n.args) a.forEachValue(note);
      for (const auto& [key, a] : n.kwargs) a.forEachValue(note);
      for (const BlockId b : n.blocks)
        for (const Argument& a : g_.block(b).returns) a.forEachValue(note);
    }
  }

  void readsOf(const Node& n, FusionNode& f) {
    for (const BlockId b : n.blocks)
      for (const Argument& a : g_.block(b).returns)
        a.forEachValue([&](ValueId v) { f.reads.push_back({baseOf(g_, nodes_, v, n.parent), false}); });
    for (const auto& [key, a] : n.kwargs)
      a.forEachValue([&](ValueId v) { f.reads.push_back({baseOf(g_, nodes_, v, n.parent), false}); });
    size_t place = 0;
    for (const Argument& a : n.args) {
      a.forEachValue([&](ValueId v) {
        bool mayInline = true;
        if (f.role == Role::Compute)
          mayInline = kind_ != lower::Kind::Window && !(kind_ == lower::Kind::Gather && place == 0) &&
                      (!f.isProduct || std::find(multiplied_.begin(), multiplied_.end(), place) == multiplied_.end());
        addRead(f, {baseOf(g_, nodes_, v, n.parent), mayInline});
        addSizes(f, v, n.parent);
      });
      ++place;
    }
  }

  static void addRead(FusionNode& f, FusionRead read) {
    for (FusionRead& known : f.reads)
      if (known.base == read.base) {
        known.mayInline = known.mayInline && read.mayInline;
        return;
      }
    f.reads.push_back(read);
  }

  /// What views between the node and `v`'s base take beside it: numbers, and the other operands of a list.
  void addSizes(FusionNode& f, ValueId v, BlockId block) {
    const auto add = [&](ValueId other) { addRead(f, {baseOf(g_, nodes_, other, block), true}); };
    while (const NodeId id = viewBehind(g_, nodes_, v, block)) {
      const Node& n = g_.node(id);
      for (size_t i = 1; i < n.args.size(); ++i) n.args[i].forEachValue(add);
      if (const auto* operands = isItem(n) ? listedOperands(g_, n.args.front().valueId()) : nullptr)
        for (const Argument& a : *operands) a.forEachValue(add);
      v = viewedBy(g_, n);
    }
  }

  const Graph& g_;
  const FusionOptions& options_;
  std::vector<FusionNode> nodes_;
  const std::unordered_set<ValueId> written_;  ///< and what it may be a view of, and views of it
  lower::Kind kind_ = lower::Kind::None;       // of the node that was classified last, as the next
  std::vector<size_t> multiplied_;
};

}  // namespace

double elementsOf(const Type& type) {
  if (!type.tensorInfo.shape) return unknownSize;
  double n = 1;
  for (const Dim& d : *type.tensorInfo.shape) n *= d.isStatic() ? static_cast<double>(d.size) : unknownSize;
  return n;
}

double bytesOf(const Type& type) {
  return elementsOf(type) * static_cast<double>(type.tensorInfo.dtype ? dtypeSize(*type.tensorInfo.dtype) : 4);
}

NodeId viewBehind(const Graph& g, const std::vector<FusionNode>& nodes, ValueId value, BlockId block) {
  const NodeId producer = g.value(value).producer;
  return producer && nodes[producer.index].role == Role::View && g.node(producer).parent == block ? producer : NodeId();
}

ValueId baseOf(const Graph& g, const std::vector<FusionNode>& nodes, ValueId value, BlockId block) {
  while (const NodeId view = viewBehind(g, nodes, value, block)) value = viewedBy(g, g.node(view));
  return value;
}

std::vector<FusionNode> fusionNodes(const Graph& g, const FusionOptions& options) {
  std::vector<FusionNode> nodes = Reader(g, options).read();
  for (const NodeId id : loopConditionNodes(g)) {
    if (nodes[id.index].role != FusionNode::Role::Compute) continue;
    nodes[id.index].role = FusionNode::Role::Barrier;
    nodes[id.index].why = "a loop asks it whether to go on";
  }
  return nodes;
}

}  // namespace graft
