// Subscripts: of tuples and shapes at once, of tensors as the slices, selections and new dimensions that PyTorch makes
// of them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "matcher/lang/body.h"

namespace graft::lang {
namespace {

bool isNone(const Syntax& s) { return s.kind == Syntax::Kind::Constant && s.literal.isNone(); }
bool isEllipsis(const Syntax& s) { return s.kind == Syntax::Kind::Constant && s.literal.as<Ellipsis>(); }
bool isFullSlice(const Syntax& s) {
  return s.kind == Syntax::Kind::Slice && isNone(s.items[0]) && isNone(s.items[1]) && isNone(s.items[2]);
}

}  // namespace

Term Body::evaluateSubscript(const Syntax& s) {
  const Term object = evaluate(s.items[0]);
  if (s.items.size() < 2) fail(s.span, "there is nothing in these brackets");
  if (const auto* module = object.as<ModuleRef>()) return subscriptModule(s, **module);
  if (const auto* n = s.items[1].literal.as<int64_t>(); n && *n >= 0 && s.items.size() == 2 && isModuleCall(object)) {
    // call_module(nn.LSTM, x)[0]: a result. Of a module that returns a tensor, it is a row of that.
    const Argument* type = graph.node(graph.value(object.as<GraphValue>()->id).producer).findArgument("type");
    const std::string* name = type ? type->as<std::string>() : nullptr;
    for (std::string_view several : {"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.nn.MultiheadAttention"})
      if (name && *name == several) return moduleOutput(*object.as<GraphValue>(), static_cast<size_t>(*n), s.span);
  }
  if (object.isTensorLike() && !object.as<GraphValue>()->isList && side_ != Side::Where)
    return subscriptTensor(s, object);
  if (s.items.size() > 2) fail(s.items[2].span, "this takes one index");
  const Syntax& index = s.items[1];
  if (object.as<Sequence>() || (object.as<GraphValue>() && object.as<GraphValue>()->isList)) {
    if (index.kind == Syntax::Kind::Slice) {
      const auto* seq = object.as<Sequence>();
      if (!seq) fail(index.span, "a list of tensors is taken apart by plain indices");
      int64_t bounds[3] = {0, static_cast<int64_t>(seq->items.size()), 1};
      const int64_t size = bounds[1];
      for (size_t i = 0; i < 3; ++i) {
        if (isNone(index.items[i])) continue;
        const Term bound = evaluate(index.items[i]);
        const auto* n = bound.literal() ? bound.literal()->as<int64_t>() : nullptr;
        if (!n) fail(index.items[i].span, "the bounds of this slice must be numbers that the rule knows");
        bounds[i] = *n < 0 && i < 2 ? std::max<int64_t>(0, *n + size) : i < 2 ? std::min(*n, size) : *n;
      }
      if (bounds[2] <= 0) fail(index.span, "a step must be positive");
      Sequence out;
      out.isTuple = seq->isTuple;
      for (int64_t i = bounds[0]; i < bounds[1]; i += bounds[2])
        out.items.push_back(seq->items[static_cast<size_t>(i)]);
      return Term{std::move(out), s.span};
    }
    const Term i = evaluate(index);
    const auto* n = i.literal() ? i.literal()->as<int64_t>() : nullptr;
    if (!n) fail(index.span, "this index must be a number that the rule knows");
    return element(object, *n, s.span);
  }
  const auto host = tryHost(object, side_ == Side::Where);
  if (!host) fail(s.items[0].span, "this cannot be indexed");
  Expression e;
  e.source = text_->location(s.span);
  const auto bound = [&](const Syntax& part) {
    const auto value = tryHost(evaluate(part));
    if (!value) fail(part.span, "an index must be known at the match");
    return *value;
  };
  if (index.kind == Syntax::Kind::Slice) {
    Expression slice;
    slice.kind = Expression::Kind::Slice;
    slice.source = text_->location(index.span);
    for (const Syntax& part : index.items) slice.operands.push_back(bound(part));
    e.kind = Expression::Kind::Subscript;
    e.operands = {*host, std::move(slice)};
  } else {
    e.kind = Expression::Kind::Subscript;
    e.operands = {*host, bound(index)};
  }
  return Term{std::move(e), s.span};
}

Term Body::subscriptTensor(const Syntax& s, Term tensor) {
  // After an ellipsis dimensions are counted from the end, so the rank need not be known.
  std::vector<const Syntax*> items;
  bool ellipsis = false;
  for (size_t i = 1; i < s.items.size(); ++i) {
    if (s.items.size() == 2 && s.items[1].kind == Syntax::Kind::Tuple) {
      for (const Syntax& inner : s.items[1].items) items.push_back(&inner);
      break;
    }
    items.push_back(&s.items[i]);
  }
  const auto literal = [](int64_t n, Span at) { return Term{Argument(n), at}; };
  int64_t dim = 0;
  // Indices that are tensors stand in one list, by dimension: those before the ellipsis, and those after it.
  std::vector<Term> leading, ending;
  size_t leadingDimensions = 0;
  bool indexed = false;
  const auto keepsDimension = [&](const Syntax& item) {
    if (!ellipsis)
      ++dim;
    else
      ending.push_back(Term{Argument(), item.span});
  };
  for (size_t k = 0; k < items.size(); ++k) {
    const Syntax& item = *items[k];
    if (isEllipsis(item)) {
      if (ellipsis) fail(item.span, "one `...` is enough");
      ellipsis = true;
      leadingDimensions = static_cast<size_t>(dim);
      continue;
    }
    if (ellipsis) {
      dim = 0;
      for (size_t j = k; j < items.size(); ++j) dim -= !isNone(*items[j]);
      if (isNone(item)) --dim;
    }
    if (isFullSlice(item)) {
      keepsDimension(item);
      continue;
    }
    if (isNone(item)) {
      tensor = operation("aten.unsqueeze", "[None]", {tensor, literal(dim, item.span)}, s.span);
      keepsDimension(item);
    } else if (item.kind == Syntax::Kind::Slice) {
      std::vector<Term> args{tensor, literal(dim, item.span)};
      args.push_back(isNone(item.items[0]) ? literal(0, item.span) : evaluate(item.items[0]));
      args.push_back(isNone(item.items[1]) ? literal(std::numeric_limits<int64_t>::max(), item.span)
                                           : evaluate(item.items[1]));
      args.push_back(isNone(item.items[2]) ? literal(1, item.span) : evaluate(item.items[2]));
      tensor = operation("aten.slice", "[:]", std::move(args), s.span);
      keepsDimension(item);
    } else {
      Term index = evaluate(item);
      if (index.isTensorLike() || index.as<Sequence>()) {
        if (!index.isTensorLike()) fail(item.span, "an index that is a list is a tensor in the model: give it as one");
        if (!ellipsis) leading.resize(static_cast<size_t>(dim), Term{Argument(), item.span});
        (ellipsis ? ending : leading).push_back(std::move(index));
        if (!ellipsis) ++dim;
        indexed = true;
        continue;
      }
      tensor = operation("aten.select", "[i]", {tensor, literal(dim, item.span), std::move(index)}, s.span);
    }
  }
  // Numbers, slices and new dimensions come first, then all indices that are tensors at once.
  if (indexed) {
    Sequence list;
    list.items = std::move(leading);
    // How many dimensions the ellipsis stands for is known at the match.
    if (std::any_of(ending.begin(), ending.end(), [](const Term& t) { return t.isTensorLike(); })) {
      list.items.resize(std::max(list.items.size(), leadingDimensions), Term{Argument(), s.span});
      list.items.push_back(Term{Argument(Ellipsis{}), s.span});
      list.items.insert(list.items.end(), ending.begin(), ending.end());
    }
    return operation("aten.index", "[index]", {tensor, Term{std::move(list), s.span}}, s.span);
  }
  tensor.span = s.span;
  return tensor;
}

}  // namespace graft::lang
