#include "core/formats/pt2_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/ir/size_expression.h"

namespace graft {
namespace {

using nlohmann::json;

std::string trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return std::string(s);
}

// The text as Name(argument, ...); nothing where it has another form.
struct Application {
  std::string_view name;
  std::vector<std::string_view> arguments;
};

std::optional<Application> application(std::string_view text) {
  const size_t open = text.find('(');
  if (open == text.npos || text.back() != ')') return std::nullopt;
  Application out{text.substr(0, open), {}};
  for (char c : out.name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return std::nullopt;
  int depth = 0;
  size_t from = open + 1;
  for (size_t i = open + 1; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth < 0) return std::nullopt;
    if (text[i] == ',' && depth == 0) {
      out.arguments.push_back(text.substr(from, i - from));
      from = i + 1;
    }
  }
  if (from < text.size() - 1) out.arguments.push_back(text.substr(from, text.size() - 1 - from));
  return out;
}

std::string expression(std::string_view raw, int depth) {
  const std::string text = trimmed(raw);
  const auto call = depth < 60 ? application(text) : std::nullopt;
  if (!call || call->arguments.empty()) return text;
  const std::string_view last =
      call->name.substr(call->name.rfind('.') == call->name.npos ? 0 : call->name.rfind('.') + 1);
  if (last == "Symbol") {
    std::string name = trimmed(call->arguments[0]);
    if (name.size() >= 2 && (name.front() == '\'' || name.front() == '"')) name = name.substr(1, name.size() - 2);
    return name;
  }
  if (last == "Integer") return trimmed(call->arguments[0]);
  const auto isNumber = [](std::string_view part) { return part.find_first_not_of("-0123456789") == part.npos; };
  const auto joined = [&](std::string_view between, bool products) {
    std::string out;
    for (std::string_view a : call->arguments) {
      std::string part = expression(a, depth + 1);
      const bool first = out.empty();
      // Products and quotients are read from the left: a*(b//c) is not a*b//c, nor a//(b*c) a//b*c.
      const bool grouped = part.find_first_of("+- ") != part.npos || part.find("//") != part.npos ||
                           (!first && between == "//" && part.find('*') != part.npos);
      if (products && grouped && !isNumber(part)) part = "(" + part + ")";
      if (!first && between == " + " && part.starts_with('-') && isNumber(part))
        out += " - " + part.substr(1);
      else
        out += (first ? "" : std::string(between)) + part;
    }
    return out;
  };
  if (last == "Mul") return joined("*", true);
  if (last == "Add") return joined(" + ", false);
  if (last == "FloorDiv" || last == "CleanDiv" || last == "IntTrueDiv") return joined("//", true);
  return std::string(last) + "(" + joined(", ", false) + ")";
}

}  // namespace

std::optional<DType> pt2DType(int64_t code) {
  switch (code) {
    case 1:
      return DType::UInt8;
    case 2:
      return DType::Int8;
    case 3:
      return DType::Int16;
    case 4:
      return DType::Int32;
    case 5:
      return DType::Int64;
    case 6:
      return DType::Float16;
    case 7:
      return DType::Float32;
    case 8:
      return DType::Float64;
    case 9:
      return DType::Complex32;
    case 10:
      return DType::Complex64;
    case 11:
      return DType::Complex128;
    case 12:
      return DType::Bool;
    case 13:
      return DType::BFloat16;
    case 28:
      return DType::UInt16;
    case 29:
      return DType::Float8E4M3;
    case 30:
      return DType::Float8E5M2;
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> pt2Code(DType dtype) {
  for (int64_t code = 1; code <= 30; ++code)
    if (pt2DType(code) == dtype) return code;
  return std::nullopt;
}

Argument pt2Layout(int64_t code) {
  static constexpr std::array<const char*, 8> names{"",
                                                    "torch.sparse_coo",
                                                    "torch.sparse_csr",
                                                    "torch.sparse_csc",
                                                    "torch.sparse_bsr",
                                                    "torch.sparse_bsc",
                                                    "torch._mkldnn",
                                                    "torch.strided"};
  if (code < 1 || code > 7) throw std::runtime_error("unknown layout " + std::to_string(code));
  return Argument(Named{names[static_cast<size_t>(code)]});
}

Argument pt2MemoryFormat(int64_t code) {
  static constexpr std::array<const char*, 5> names{"", "torch.contiguous_format", "torch.channels_last",
                                                    "torch.channels_last_3d", "torch.preserve_format"};
  if (code < 1 || code > 4) throw std::runtime_error("unknown memory format " + std::to_string(code));
  return Argument(Named{names[static_cast<size_t>(code)]});
}

Argument pt2Number(JsonValue v) {
  if (v.isBoolean()) return Argument(v.boolean());
  if (v.isInteger()) return Argument(v.integer());
  if (v.isNumber()) return Argument(v.number());
  const std::string text = v.text();
  if (text == "Infinity") return Argument(std::numeric_limits<double>::infinity());
  if (text == "-Infinity") return Argument(-std::numeric_limits<double>::infinity());
  if (text == "NaN") return Argument(std::numeric_limits<double>::quiet_NaN());
  throw std::runtime_error("'" + text.substr(0, 40) + "' is no number");
}

void pt2Range(Graph& g, const std::string& symbol, JsonValue min, JsonValue max) {
  const auto bound = [](JsonValue v) { return v.isInteger() ? std::optional(v.integer()) : std::nullopt; };
  const Symbol s{symbol, bound(min), bound(max)};
  if (!isSymbolName(symbol)) return;
  if (s.min.value_or(0) <= 0 && !s.max) return;  // no size is below zero, so this says nothing
  if (s.min && s.max && *s.min > *s.max) throw std::runtime_error("the size " + symbol + " has an empty range");
  g.setSymbol(s);
}

void requirePossible(const TensorInfo& info) {
  int64_t elements = 1;
  for (const Dim& d : *info.shape) {
    if (!d.symbol.empty()) continue;
    if (d.size < 0) throw std::runtime_error(fmt::format("a tensor has the size {}", d.size));
    if (__builtin_mul_overflow(elements, std::max<int64_t>(d.size, 1), &elements) || elements > (int64_t{1} << 56))
      throw std::runtime_error("a tensor has more elements than any memory holds");
  }
}

Type pt2TensorType(JsonValue meta) {
  TensorInfo info;
  const int64_t dtype = meta.at("dtype").integer();
  info.dtype = pt2DType(dtype);
  if (!info.dtype) throw std::runtime_error(fmt::format("unknown dtype {}", dtype));
  info.shape.emplace();
  for (JsonValue n : meta.at("sizes")) {
    if (const JsonValue number = n.find("as_int"))
      info.shape->push_back(Dim(number.integer()));
    else
      info.shape->push_back(Dim(pt2Expression(n.at("as_expr").at("expr_str").text())));
  }
  requirePossible(info);
  const JsonValue device = meta.at("device");
  info.device = device.at("type").text();
  if (const JsonValue index = device.find("index"); index.isInteger())
    info.device += fmt::format(":{}", index.integer());
  return Type::tensor(std::move(info));
}

std::string pt2Expression(std::string_view sympy) { return expression(sympy, 0); }

namespace {

std::string sympyText(const SizeExpression& e, std::set<std::string>& symbols) {
  using Kind = SizeExpression::Kind;
  std::vector<std::string> stack;
  for (const SizeExpression::Step& s : e.steps()) {
    if (s.kind == Kind::Number) {
      stack.push_back(fmt::format("Integer({})", s.number));
      continue;
    }
    if (s.kind == Kind::Symbol) {
      symbols.insert(s.symbol);
      stack.push_back(fmt::format("Symbol('{}', positive=True, integer=True)", s.symbol));
      continue;
    }
    const auto negative = [](const std::string& a) {
      return a.starts_with("Integer(") && a[8] != '-' ? "Integer(-" + a.substr(8)
                                                      : fmt::format("Mul(Integer(-1), {})", a);
    };
    std::string b = std::move(stack.back());
    stack.pop_back();
    if (s.kind == Kind::Negate) {
      stack.push_back(negative(b));
      continue;
    }
    std::string& a = stack.back();
    if (s.kind == Kind::Subtract) b = negative(b);
    const char* function = s.kind == Kind::Multiply      ? "Mul"
                           : s.kind == Kind::FloorDivide ? "FloorDiv"
                           : s.kind == Kind::Mod         ? "Mod"
                           : s.kind == Kind::Max         ? "Max"
                           : s.kind == Kind::Min         ? "Min"
                                                         : "Add";
    a = fmt::format("{}({}, {})", function, a, b);
  }
  return std::move(stack.back());
}

}  // namespace

std::string pt2Spelling(std::string_view text) {
  const auto e = isSymbolName(text) ? std::nullopt : SizeExpression::parse(text);
  if (!e) return std::string(text);
  std::set<std::string> symbols;
  return pt2Expression(sympyText(*e, symbols));
}

std::optional<std::pair<std::string, int64_t>> pt2Sympy(std::string_view text, const Graph& g,
                                                        std::set<std::string>& symbols) {
  const auto e = SizeExpression::parse(text);
  if (!e) return std::nullopt;
  std::string sympy = sympyText(*e, symbols);
  // Any sizes will do, as long as symbols differ.
  const auto hint = e->evaluate([&](std::string_view name) -> std::optional<int64_t> {
    int64_t n = 48 + 16 * std::distance(symbols.begin(), symbols.find(std::string(name)));
    const Symbol* range = g.findSymbol(name);
    if (range && range->max) n = std::min(n, *range->max);
    if (range && range->min) n = std::max(n, *range->min);
    return n;
  });
  if (!hint) return std::nullopt;
  return std::pair(std::move(sympy), *hint);
}

std::vector<GraphBuilder::Entered> pt2ModuleStack(std::string_view stack, std::string& modelName) {
  std::vector<GraphBuilder::Entered> out;
  bool first = true;
  while (!stack.empty()) {
    const size_t end = std::min(stack.find(';'), stack.size());
    const std::string_view entry = stack.substr(0, end);
    stack.remove_prefix(std::min(end + 1, stack.size()));
    const size_t typeComma = entry.rfind(',');
    const size_t pathComma = typeComma == entry.npos || typeComma == 0 ? entry.npos : entry.rfind(',', typeComma - 1);
    if (pathComma == entry.npos) continue;
    GraphBuilder::Entered e{std::string(entry.substr(0, pathComma)),
                            std::string(entry.substr(pathComma + 1, typeComma - pathComma - 1)),
                            std::string(entry.substr(typeComma + 1))};
    if (e.path.starts_with("_empty_nn_module_stack")) return {};
    // A second call of one module: "fc@1".
    if (const size_t again = e.path.find('@'); again != std::string::npos) e.path.resize(again);
    if (first && e.path.empty() && modelName.empty())
      modelName = e.type.substr(e.type.rfind('.') == std::string::npos ? 0 : e.type.rfind('.') + 1);
    first = false;
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace graft
