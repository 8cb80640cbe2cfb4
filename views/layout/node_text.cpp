#include "views/layout/node_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/ir/operators/operator_facts.h"

namespace graft {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool isOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view baseOf(std::string_view op) {
  size_t first = op.find('.');
  if (first == std::string_view::npos) return op;
  std::string_view rest = op.substr(first + 1);
  return rest.substr(0, rest.find('.'));
}

const Type* typeOfArgument(const Graph& graph, const Node& node, std::string_view parameter) {
  const Argument* a = node.findArgument(parameter);
  return a && a->isValue() ? &graph.value(a->valueId()).type : nullptr;
}

std::optional<std::vector<int64_t>> shapeOf(const Type* type) {
  if (!type || !type->isTensor() || !type->tensorInfo.shape) return {};
  std::vector<int64_t> shape;
  for (const Dim& d : *type->tensorInfo.shape) shape.push_back(d.size);
  return shape;
}

std::string times(const std::vector<int64_t>& shape, size_t from = 0) {
  std::string s;
  for (size_t i = from; i < shape.size(); ++i)
    s += (i > from ? "×" : "") + (shape[i] < 0 ? "?" : std::to_string(shape[i]));
  return s;
}

/// The one line that products, convolutions and lookups are known by; empty where the weight's shape is unknown.
std::string productDetail(const Graph& graph, const Node& node, std::string_view base) {
  auto shape = shapeOf(typeOfArgument(graph, node, "weight"));
  if (!shape) return {};
  if (contains(base, "linear") && shape->size() == 2) return fmt::format("{} → {}", (*shape)[1], (*shape)[0]);
  if (base == "embedding" && shape->size() == 2) return fmt::format("{} → {}", (*shape)[0], (*shape)[1]);
  if (contains(base, "conv") && shape->size() > 2)
    return fmt::format("{} → {}, {}{}", (*shape)[1], (*shape)[0], shape->size() == 3 ? "kernel " : "",
                       times(*shape, 2));
  return {};
}

bool isBoring(std::string_view parameter) {
  return isOneOf(parameter,
                 {"cudnn_enable", "cudnn_enabled", "pin_memory", "layout", "memory_format", "non_blocking", "copy",
                  "device", "normalized_shape", "scale_grad_by_freq", "sparse", "padding_idx", "training", "benchmark",
                  "deterministic", "allow_tf32", "transposed", "output_padding", "generator"});
}

std::string literalText(const Argument& a, const Graph& graph) {
  if (const double* d = a.as<double>()) return fmt::format("{:.5g}", *d);
  if (const auto* items = a.items()) {
    std::string s = "[";
    for (size_t i = 0; i < items->size(); ++i)
      s += (i ? ", " : "") + ((*items)[i].isValue() ? std::string("·") : literalText((*items)[i], graph));
    return s + "]";
  }
  return argumentText(a, graph);
}

/// A convolution's stride, padding or dilation where all of its dimensions have one, and its groups.
std::optional<int64_t> onlySize(const Argument& a) {
  if (const int64_t* n = a.as<int64_t>()) return *n;
  const auto* items = a.items();
  if (!items || items->empty()) return {};
  const int64_t* first = (*items)[0].as<int64_t>();
  const bool areEqual = first && std::all_of(items->begin(), items->end(), [&](const Argument& i) {
                          const int64_t* n = i.as<int64_t>();
                          return n && *n == *first;
                        });
  return areEqual ? std::optional(*first) : std::nullopt;
}

/// What a convolution does where nobody says otherwise.
bool isUsualOfConvolution(std::string_view parameter, int64_t size) {
  return size == (parameter == "padding" ? 0 : 1) && isOneOf(parameter, {"stride", "padding", "dilation", "groups"});
}

/// "relu" of "aten.relu_.default", "softmax" of "aten._softmax.default".
std::string_view plainName(std::string_view op) {
  std::string_view base = baseOf(op);
  while (base.starts_with("_")) base.remove_prefix(1);
  if (base.ends_with("_") && base.size() > 1) base.remove_suffix(1);
  return base;
}

// Of operators that the table of facts lacks, other libraries' for instance: what their names tell.
BoxKind kindByName(std::string_view op) {
  const std::string_view base = plainName(op);
  const auto says = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view w) { return contains(base, w); });
  };
  if (contains(base, "norm")) return BoxKind::Normalization;
  if (says({"linear", "matmul", "conv", "scaled_dot_product"})) return BoxKind::Product;
  if (contains(base, "embedding")) return BoxKind::Lookup;
  if (says({"softmax", "pool", "elu", "sigmoid", "hard", "loss"})) return BoxKind::Activation;
  if (says({"view", "size", "like", "split"})) return BoxKind::Shape;
  return BoxKind::Arithmetic;
}

}  // namespace

std::string_view boxKindName(BoxKind kind) {
  static constexpr std::array<std::string_view, boxKindCount> names = {"matrix product, convolution",
                                                                       "normalization",
                                                                       "activation, reduction",
                                                                       "lookup",
                                                                       "fused kernel",
                                                                       "shape",
                                                                       "control flow",
                                                                       "arithmetic",
                                                                       "",
                                                                       "",
                                                                       "module"};
  return names[static_cast<size_t>(kind)];
}

BoxKind kindOfOperator(std::string_view op) {
  if (op.starts_with("graft.")) return BoxKind::Kernel;
  OperatorFamily family = factsOf(op).family;
  // In place, without a wrapper's underscore, or another library's of the same name.
  if (family == OperatorFamily::Unknown) family = factsOf("aten." + std::string(plainName(op))).family;
  switch (family) {
    case OperatorFamily::Control:
      return BoxKind::Control;
    case OperatorFamily::Normalization:
      return BoxKind::Normalization;
    case OperatorFamily::Product:
    case OperatorFamily::Convolution:
      return BoxKind::Product;
    case OperatorFamily::Lookup:
      return BoxKind::Lookup;
    case OperatorFamily::Activation:
    case OperatorFamily::Softmax:
    case OperatorFamily::Reduction:
    case OperatorFamily::Scan:
    case OperatorFamily::Pooling:
      return BoxKind::Activation;
    case OperatorFamily::Shape:
    case OperatorFamily::Cast:
    case OperatorFamily::Factory:
    case OperatorFamily::Query:
      return BoxKind::Shape;
    case OperatorFamily::Arithmetic:
      return BoxKind::Arithmetic;
    case OperatorFamily::Unknown:
      return kindByName(op);
  }
  return BoxKind::Arithmetic;
}

NodeText describeNode(const Graph& graph, const Node& node) {
  NodeText text;
  text.kind = kindOfOperator(node.op->name);
  std::string_view base = baseOf(node.op->name);
  text.title = std::string(base);
  text.detail = productDetail(graph, node, base);
  bool compact = !text.detail.empty();
  if (text.kind == BoxKind::Normalization && text.detail.empty())
    if (auto shape = shapeOf(typeOfArgument(graph, node, "weight"))) text.detail = times(*shape), compact = true;

  const bool isConvolution = compact && text.kind == BoxKind::Product && contains(base, "conv");
  std::vector<std::string> details;
  auto chip = [&](std::string_view parameter, ValueId v) {
    const Value& value = graph.value(v);
    std::string label(parameter);
    if (label.empty()) label = value.path.empty() ? value.name : value.path.substr(value.path.rfind('.') + 1);
    auto shape = shapeOf(&value.type);
    if (!compact && shape && !shape->empty()) label += " " + times(*shape);
    text.chips.push_back(std::move(label));
  };
  auto visit = [&](std::string_view parameter, const Argument& a, const Argument* byDefault, bool onlyOperand) {
    if (a.isValue()) {
      if (graph.isWeight(a.valueId())) chip(parameter == "self" ? "" : parameter, a.valueId());
      return;
    }
    if (a.holdsValue()) {  // lists: their weights are chips; lists of sizes show what is known of them
      a.forEachValue([&](ValueId v) {
        if (graph.isWeight(v)) chip("", v);
      });
      bool sizes = a.items() && std::any_of(a.items()->begin(), a.items()->end(),
                                            [](const Argument& i) { return i.as<int64_t>() != nullptr; });
      if (sizes) details.push_back(literalText(a, graph));
      return;
    }
    const int64_t* whole = a.as<int64_t>();
    if (whole && (*whole == INT64_MAX || (*whole == 0 && parameter == "start"))) return;  // a slice's open ends
    if (a.isNone() || isBoring(parameter) || (byDefault && *byDefault == a)) return;
    if (compact && parameter == "eps") return;
    if (isConvolution)
      if (const std::optional<int64_t> size = onlySize(a)) {
        if (!isUsualOfConvolution(parameter, *size)) details.push_back(fmt::format("{}={}", parameter, *size));
        return;
      }
    bool bare = onlyOperand || parameter.empty() || isOneOf(parameter, {"size", "shape", "dims", "repeats"});
    details.push_back(bare ? literalText(a, graph) : fmt::format("{}={}", parameter, literalText(a, graph)));
  };
  for (size_t i = 0; i < node.args.size(); ++i) {
    bool named = i < node.op->parameters.size();
    std::string_view parameter = named ? std::string_view(node.op->parameters[i].name) : std::string_view();
    const Argument* byDefault =
        named && node.op->parameters[i].defaultValue ? &*node.op->parameters[i].defaultValue : nullptr;
    visit(parameter, node.args[i], byDefault, isOneOf(parameter, {"other", "exponent"}));
  }
  for (const auto& [name, value] : node.kwargs) visit(name, value, nullptr, false);
  for (const std::string& d : details) {
    if (text.detail.size() + d.size() > 60) break;
    text.detail += (text.detail.empty() ? "" : ", ") + d;
  }
  return text;
}

std::string typeLabel(const Type& type) {
  if (!type.isTensor()) return type.kind == Type::Kind::Any ? "" : toString(type);
  const TensorInfo& info = type.tensorInfo;
  std::string s;
  if (info.shape) {
    for (size_t i = 0; i < info.shape->size(); ++i) {
      const Dim& d = (*info.shape)[i];
      s += (i ? "×" : "") + (d.isStatic() ? std::to_string(d.size) : d.symbol.empty() ? "?" : d.symbol);
    }
    if (info.shape->empty()) s = "scalar";
  }
  if (info.dtype) s += (s.empty() ? "" : " ") + std::string(dtypeShort(*info.dtype));
  return s;
}

std::string shortCount(double n) {
  if (n >= 1e9) return fmt::format("{:.1f} G", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.1f} M", n / 1e6);
  if (n >= 1e4) return fmt::format("{:.0f} k", n / 1e3);
  return fmt::format("{:.0f}", n);
}

std::string argumentText(const Argument& a, const Graph& graph) {
  auto joined = [&](const std::vector<Argument>& items) {
    std::string s;
    for (size_t i = 0; i < items.size(); ++i) s += (i ? ", " : "") + argumentText(items[i], graph);
    return s;
  };
  struct Visitor {
    const Graph& graph;
    decltype(joined)& join;
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(ValueId v) const { return graph.value(v).name; }
    std::string operator()(bool b) const { return b ? "True" : "False"; }
    std::string operator()(int64_t n) const { return std::to_string(n); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::complex<double>& c) const { return fmt::format("({}{:+}j)", c.real(), c.imag()); }
    std::string operator()(const std::string& s) const { return "\"" + s + "\""; }
    std::string operator()(DType d) const { return std::string(dtypeName(d)); }
    std::string operator()(const DeviceName& d) const { return d.name; }
    std::string operator()(const Named& n) const { return n.name; }
    std::string operator()(const SymbolicInt& s) const { return s.expression; }
    std::string operator()(const Ellipsis&) const { return "..."; }
    std::string operator()(const Argument::List& l) const { return "[" + join(l.items) + "]"; }
    std::string operator()(const Argument::Tuple& t) const {
      return "(" + join(t.items) + (t.items.size() == 1 ? ",)" : ")");
    }
    std::string operator()(const Argument::Dict& d) const {
      std::string s = "{";
      for (size_t i = 0; i < d.items.size(); ++i)
        s += (i ? ", " : "") + argumentText(d.items[i].first, graph) + ": " + argumentText(d.items[i].second, graph);
      return s + "}";
    }
    std::string operator()(const Argument::Slice& s) const { return "slice(" + join(s.bounds) + ")"; }
  };
  return std::visit(Visitor{graph, joined}, a.data);
}

double textWidth(std::string_view text, double size) {
  // Advance widths of Inter Medium in thousandths of the size, from the space on.
  static constexpr std::array<short, 95> widths = {
      265, 294, 400, 637, 643, 828, 651, 217, 378, 378, 522, 666, 288, 463, 283, 368, 646, 473, 613,
      644, 654, 620, 636, 579, 631, 636, 283, 288, 666, 666, 666, 526, 968, 700, 654, 735, 722, 603,
      586, 749, 742, 270, 552, 664, 564, 898, 747, 768, 639, 768, 645, 643, 651, 738, 700, 978, 666,
      685, 639, 378, 368, 378, 475, 460, 497, 569, 626, 568, 626, 587, 369, 617, 602, 249, 249, 556,
      249, 884, 597, 602, 617, 617, 384, 536, 372, 594, 566, 825, 551, 566, 551, 378, 342, 378, 666};
  double sum = 0;
  for (unsigned char c : text) {
    if (c >= 32 && c < 127)
      sum += widths[c - 32];
    else if (c >= 0xE0)
      sum += 955;  // the first byte of three: arrows and the like
    else if (c >= 0xC0)
      sum += 680;
  }
  return sum * size / 1000;
}

std::string elide(std::string_view text, double size, double width, bool middle) {
  if (textWidth(text, size) <= width) return std::string(text);
  auto boundary = [&](size_t i) {
    while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) ++i;
    return i;
  };
  size_t low = 0, high = text.size();
  auto cut = [&](size_t keep) {
    size_t head = middle ? (keep + 1) / 2 : keep;
    size_t tail = boundary(text.size() - (keep - head));
    while (head > 0 && head < text.size() && (static_cast<unsigned char>(text[head]) & 0xC0) == 0x80) --head;
    return std::string(text.substr(0, head)) + "…" + std::string(text.substr(tail));
  };
  while (low < high) {
    size_t keep = (low + high + 1) / 2;
    if (textWidth(cut(keep), size) <= width)
      low = keep;
    else
      high = keep - 1;
  }
  return cut(low);
}

}  // namespace graft
