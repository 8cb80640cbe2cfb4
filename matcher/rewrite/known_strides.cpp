#include "matcher/rewrite/known_strides.h"

#include <algorithm>
#include <string_view>

#include "core/ir/calls/memory_format.h"
#include "core/ir/calls/weight_layout.h"

namespace graft {
namespace {

using Sizes = std::vector<int64_t>;

std::optional<Sizes> sizesOf(const Type& type) {
  if (!type.isTensor() || !type.tensorInfo.shape) return {};
  Sizes out;
  for (const Dim& d : *type.tensorInfo.shape) {
    if (!d.isStatic() || d.size == 0) return {};
    out.push_back(d.size);
  }
  return out;
}

/// Of memory in which the dimensions of `order` lie from the outermost to the innermost.
Strides stridesInOrder(const Sizes& sizes, const std::vector<size_t>& order) {
  Strides out(sizes.size());
  int64_t stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    out[*d] = stride;
    stride *= sizes[*d];
  }
  return out;
}
Strides inRows(const Sizes& sizes) {
  std::vector<size_t> order(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  return stridesInOrder(sizes, order);
}
Strides withChannelsLast(const Sizes& sizes) {
  std::vector<size_t> order{0};
  for (size_t d = 2; d < sizes.size(); ++d) order.push_back(d);
  order.push_back(1);
  return stridesInOrder(sizes, order);
}

/// The dimension that an argument names.
std::optional<size_t> dimensionOf(const Argument* a, size_t rank) {
  const int64_t* d = a ? a->as<int64_t>() : nullptr;
  const auto n = static_cast<int64_t>(rank);
  if (!d || *d < -n || *d >= n) return {};
  return static_cast<size_t>(*d < 0 ? *d + n : *d);
}

std::optional<Strides> permuted(const Node& n, const Strides& of) {
  const Argument* const said = n.findArgument("dims");
  const std::vector<Argument>* const dims = said ? said->items() : nullptr;
  if (!dims || dims->size() != of.size()) return {};
  Strides out;
  for (const Argument& a : *dims) {
    const auto d = dimensionOf(&a, of.size());
    if (!d) return {};
    out.push_back(of[*d]);
  }
  return out;
}

std::optional<Strides> transposed(const Node& n, Strides of) {
  const auto a = dimensionOf(n.findArgument("dim0"), of.size()), b = dimensionOf(n.findArgument("dim1"), of.size());
  if (!a || !b) return {};
  std::swap(of[*a], of[*b]);
  return of;
}

std::optional<Strides> withoutDimension(const Node& n, Strides of) {
  const auto d = dimensionOf(n.findArgument("dim"), of.size());
  if (!d) return {};
  of.erase(of.begin() + static_cast<int64_t>(*d));
  return of;
}

std::optional<Strides> sliced(const Node& n, Strides of) {
  const auto d = dimensionOf(n.findArgument("dim"), of.size());
  const Argument* const by = n.findArgument("step");
  const int64_t* const step = by ? by->as<int64_t>() : nullptr;
  if (!d || !step) return {};
  of[*d] *= *step;
  return of;
}

}  // namespace

std::optional<Strides> stridesOfView(const std::vector<int64_t>& sizes, const Strides& strides,
                                     const std::vector<int64_t>& viewSizes) {
  Strides out(viewSizes.size());
  auto view = static_cast<int64_t>(viewSizes.size()) - 1;
  int64_t elements = 1, viewed = 1;
  int64_t base = strides.empty() ? 1 : strides.back();
  for (auto d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    elements *= sizes[i];
    // Up to here the dimensions lie as one.
    if (d != 0 && (sizes[i - 1] == 1 || strides[i - 1] == elements * base)) continue;
    while (view >= 0 && (viewed < elements || viewSizes[static_cast<size_t>(view)] == 1)) {
      out[static_cast<size_t>(view)] = viewed * base;
      viewed *= viewSizes[static_cast<size_t>(view)];
      --view;
    }
    if (viewed != elements) return {};
    if (d > 0) base = strides[i - 1], elements = viewed = 1;
  }
  return view == -1 ? std::optional(out) : std::nullopt;
}

const Strides* KnownStrides::of(ValueId v) {
  // From the first value on whose operand is known: deep models would go deep here.
  std::vector<ValueId> chain{v};
  while (!known_.contains(chain.back())) {
    const NodeId maker = g_.value(chain.back()).producer;
    if (!maker || g_.node(maker).args.empty() || !g_.node(maker).args[0].isValue()) break;
    chain.push_back(g_.node(maker).args[0].valueId());
  }
  for (auto value = chain.rbegin(); value != chain.rend(); ++value)
    if (!known_.contains(*value)) known_.emplace(*value, find(*value));
  const auto& found = known_.at(v);
  return found ? &*found : nullptr;
}

/// Of a convolution's result: as its weight, where that lies with channels last. Filters of one channel lie both ways:
/// then the image decides.
bool KnownStrides::laysImages(const Node& n) {
  const Argument* const weight =
      n.op->facts->family == OperatorFamily::Convolution ? n.findArgument("weight") : nullptr;
  if (!weight || !weight->isValue()) return false;
  const std::optional<Sizes> sizes = sizesOf(g_.value(weight->valueId()).type);
  const Strides* const lies = of(weight->valueId());
  return sizes && lies && sizes->size() >= 4 && (*sizes)[1] > 1 && *lies == withChannelsLast(*sizes);
}

std::optional<Strides> KnownStrides::find(ValueId v) {
  const NodeId maker = g_.value(v).producer;
  if (const auto* weight = dynamic_cast<const WeightLayout*>(g_.value(v).data.get());
      weight && sizesOf(g_.value(v).type))
    return weight->strides();
  if (!maker || !g_.node(maker).blocks.empty()) return {};
  const Node& n = g_.node(maker);
  const Type& type = g_.value(v).type;
  if (n.op->is(OperatorFact::Splits) && type.kind == Type::Kind::List) {
    const std::string_view base = n.op->baseName();
    const Strides* const before = n.args[0].isValue() ? of(n.args[0].valueId()) : nullptr;
    if (!before) return {};
    if (base == "unbind") return withoutDimension(n, *before);
    return base == "chunk" || base == "split" || base == "split_with_sizes" ? std::optional(*before) : std::nullopt;
  }
  const std::optional<Sizes> sizes = sizesOf(type);
  if (!sizes) return {};
  const bool isImage = sizes->size() == 4 || sizes->size() == 5;
  if (isImage && (laysChannelsLast(n) || laysImages(n))) return withChannelsLast(*sizes);
  if (laysChannelsLast(n)) return {};
  if (n.op->is(OperatorFact::RowMajor)) return inRows(*sizes);
  return ofView(n, *sizes);
}

std::optional<Strides> KnownStrides::ofView(const Node& n, const std::vector<int64_t>& sizes) {
  const Strides* const before = !n.args.empty() && n.args[0].isValue() ? of(n.args[0].valueId()) : nullptr;
  if (!before) return {};
  const std::string_view base = n.op->baseName();
  if (base == "getitem" || n.op->is(OperatorFact::Identity))
    return before->size() == sizes.size() ? std::optional(*before) : std::nullopt;
  if (base == "permute") return permuted(n, *before);
  if (base == "transpose") return transposed(n, *before);
  if (base == "select") return withoutDimension(n, *before);
  if (base == "slice") return sliced(n, *before);
  if (base == "narrow") return *before;
  if (n.op->name == "aten.view.dtype" || !n.op->is(OperatorFact::Reshape)) return {};
  const std::optional<Sizes> from = sizesOf(g_.value(n.args[0].valueId()).type);
  if (!from || from->size() != before->size()) return {};
  if (auto viewed = stridesOfView(*from, *before, sizes)) return viewed;
  return n.op->is(OperatorFact::MayView) ? std::optional(inRows(sizes)) : std::nullopt;
}

}  // namespace graft
