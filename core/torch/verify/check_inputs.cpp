#include "core/torch/verify/check_inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/sort.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "core/torch/values/values.h"
#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

/// Tensors of fewer elements are scales and the like, whose edge values mean nothing: what is divided by 0 is hidden by
/// a mask on one side, say, and not on the other.
constexpr int64_t few = 8;

bool isFloating(const at::Tensor& t) { return c10::isFloatingType(t.scalar_type()); }

/// Zeros and ones only, as attention masks are.
bool isMask(const at::Tensor& t) {
  if (t.numel() == 0 || isFloating(t) || t.is_complex()) return false;
  const at::Tensor c = t.cpu().to(at::kLong);
  return t.dim() >= 2 && c.min().item<int64_t>() >= 0 && c.max().item<int64_t>() == 1;
}

/// What is added to scores to switch some of them off: the least number or something like it.
bool isAdditiveMask(const at::Tensor& t) {
  return isFloating(t) && t.numel() > 0 && t.min().to(at::kDouble).item<double>() <= -1e4;
}

/// The same elements in another order: stays within what was given, embedding tables are not overrun.
at::Tensor shuffled(const at::Tensor& t, at::Generator& g) {
  if (t.numel() < 2) return t.clone();
  return t.cpu().reshape({-1}).index({at::randperm(t.numel(), g, at::kLong)}).reshape(t.sizes()).to(t.device());
}

/// Whether each row ascends, as boundaries do: operators that search in them take no others.
bool ascends(const at::Tensor& t) {
  constexpr int64_t fewest = 8;  // fewer often do by chance
  if (t.dim() == 0 || t.numel() == 0 || t.size(-1) < fewest) return false;
  return t.select(-1, -1).gt(t.select(-1, 0)).all().item<bool>() &&
         t.slice(-1, 1).ge(t.slice(-1, 0, -1)).all().item<bool>();
}

/// Normal numbers: random parts of one sequence, which is drawn once. Drawing as many as a layer's values have takes
/// longer than computing with them.
template <class T>
at::Tensor gaussian(at::IntArrayRef sizes, at::ScalarType type, at::Generator& g) {
  constexpr int64_t drawn = 1 << 20;
  static const at::Tensor sequence = [] {
    auto generator = at::detail::createCPUGenerator(verificationSeed);
    return at::randn({drawn}, generator, at::kDouble);
  }();
  at::Tensor out = at::empty(sizes, type);
  const auto* from = sequence.const_data_ptr<double>();
  auto* to = out.mutable_data_ptr<T>();
  for (int64_t done = 0; done < out.numel();) {
    const int64_t begin = at::randint(drawn, {1}, g, at::kLong).item<int64_t>();
    const int64_t n = std::min(drawn - begin, out.numel() - done);
    for (int64_t i = 0; i < n; ++i) to[done + i] = static_cast<T>(from[begin + i]);
    done += n;
  }
  return out;
}

/// How large the numbers are: the root of their mean square; 1 for zeros, and where some are not finite.
double sizeOf(const at::Tensor& t) {
  const at::Tensor x = t.element_size() == 1 ? t.to(at::kFloat) : t;
  const double norm = at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).item<double>();
  return std::isfinite(norm) && norm > 0 ? norm / std::sqrt(static_cast<double>(t.numel())) : 1;
}

/// Normal numbers of both signs, as large as the given ones; in order where those are.
at::Tensor gaussianLike(const at::Tensor& t, at::Generator& g, double factor = 1) {
  if (t.numel() == 0) return t.clone();
  // Each double takes all of its digits: what rounds them to floats shall show.
  const at::Tensor x = t.scalar_type() == at::kDouble ? gaussian<double>(t.sizes(), at::kDouble, g)
                                                      : gaussian<float>(t.sizes(), at::kFloat, g);
  x.mul_(sizeOf(t) * factor);
  return (ascends(t) ? std::get<0>(x.sort(-1)) : x).to(t.scalar_type()).to(t.device());
}

bool anyTensor(const TensorSet& given, const std::function<bool(const at::Tensor&)>& holds) {
  bool found = false;
  mapTensors(given, [&](const at::Tensor& t) {
    found = found || holds(t);
    return t;
  });
  return found;
}

/// Every floating tensor but additive masks by f; the rest as it is.
std::function<TensorSet()> floatsBy(const TensorSet& given, std::function<at::Tensor(const at::Tensor&)> f) {
  return [&given, f = std::move(f)] {
    return mapTensors(given,
                      [&](const at::Tensor& t) { return isFloating(t) && !isAdditiveMask(t) ? f(t) : t.clone(); });
  };
}

/// Random numbers with some of `values` at random places.
std::function<TensorSet()> sprinkled(const TensorSet& given, uint64_t offset,
                                     std::function<std::vector<double>(at::ScalarType)> values) {
  return [&given, offset, values = std::move(values)] {
    auto generator = at::detail::createCPUGenerator(verificationSeed + offset);
    return floatsBy(given, [&](const at::Tensor& t) {
      if (t.numel() < few) return t.clone();
      at::Tensor x = gaussianLike(t, generator).contiguous().cpu();
      const at::Tensor flat = x.view({-1});
      const int64_t most = std::max<int64_t>(t.numel() / 4, 1);
      std::vector<int64_t> places;
      for (double v : values(t.scalar_type())) {
        if (static_cast<int64_t>(places.size()) == most) break;
        int64_t place = 0;
        do {
          place = at::randint(t.numel(), {1}, generator, at::kLong).item<int64_t>();
        } while (std::find(places.begin(), places.end(), place) != places.end());
        places.push_back(place);
        flat[place].fill_(v);
      }
      return x.to(t.device());
    })();
  };
}

/// Between 1 and the next number.
double unitOf(at::ScalarType t) {
  switch (t) {
    case at::kHalf:
      return 0x1p-10;
    case at::kBFloat16:
      return 0x1p-7;
    case at::kDouble:
      return 0x1p-52;
    case at::kFloat:
      return 0x1p-23;
    default:
      return 0;  // of the formats of 8 bits, steps differ widely
  }
}

std::vector<double> smallest(at::ScalarType t) {
  switch (t) {
    case at::kHalf:
      return {6.1e-5, 6e-8, -0.0, -6e-8};
    case at::kDouble:
      return {std::numeric_limits<double>::min(), std::numeric_limits<double>::denorm_min(), -0.0};
    default:
      return {std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min(), -0.0, -1e-40};
  }
}

/// The same numbers in memory of another order: what a transposition leaves.
at::Tensor restrided(const at::Tensor& t) {
  if (t.dim() == 0 || t.numel() < 2) return t.clone();
  if (t.dim() == 1) {
    at::Tensor wide = at::empty_strided({t.size(0), 2}, {2, 1}, t.options());
    wide.select(1, 0).copy_(t);
    return wide.select(1, 0);
  }
  return t.transpose(-1, -2).clone(at::MemoryFormat::Contiguous).transpose(-1, -2);
}

/// "s0", and not "2*s0".
bool isName(const std::string& symbol) {
  return !symbol.empty() &&
         std::all_of(symbol.begin(), symbol.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

/// The given values with those sizes changed: elements repeated or left out, so that they stay within their ranges.
TensorSet resized(const TensorSet& given, const DimNames& names,
                  const std::vector<std::pair<std::string, int64_t>>& changed) {
  std::vector<c10::IValue> out = valuesOf(given);
  const auto sizeOf = [&](const std::string& name) -> const int64_t* {
    for (const auto& [n, size] : changed)
      if (n == name) return &size;
    return nullptr;
  };
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].isInt() && names[i].size() == 1) {
      if (const int64_t* size = sizeOf(names[i][0])) out[i] = *size;
    }
    if (!out[i].isTensor()) continue;
    at::Tensor t = out[i].toTensor();
    for (size_t d = 0; d < names[i].size(); ++d) {
      const int64_t* size = sizeOf(names[i][d]);
      const auto dim = static_cast<int64_t>(d);
      if (!size || *size == t.size(dim)) continue;
      const at::Tensor places = at::arange(*size, at::kLong).remainder(t.size(dim)).to(t.device());
      t = t.index_select(dim, places);
    }
    const at::Tensor whole = out[i].toTensor();
    out[i] = isFloating(whole) && ascends(whole) ? std::get<0>(t.sort(-1)) : t;
  }
  TensorSet result = tensorSet(std::move(out));
  if (given.impl) result.impl->names = given.impl->names;
  return result;
}

TensorSet random(const TensorSet& given, uint64_t offset, double factor) {
  auto generator = at::detail::createCPUGenerator(verificationSeed + offset);
  return mapTensors(given, [&](const at::Tensor& t) {
    if (isMask(t) || isAdditiveMask(t)) return t.clone();  // shuffled, they might leave a row nothing to see
    if (!isFloating(t)) return shuffled(t, generator);
    return gaussianLike(t, generator, factor);
  });
}

}  // namespace

TensorSet nearlyEqual(const TensorSet& set, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(verificationSeed + seed);
  return floatsBy(set, [&](const at::Tensor& t) {
    if (seed == 0)
      return t.dim() == 4   ? t.contiguous(at::MemoryFormat::ChannelsLast)
             : t.dim() == 5 ? t.contiguous(at::MemoryFormat::ChannelsLast3d)
                            : t;
    const double unit = unitOf(t.scalar_type());
    const at::Tensor steps = at::randint(-1, 2, t.sizes(), generator, at::kDouble);
    return (t.cpu().to(at::kDouble) * (1.0 + steps * unit)).to(t.scalar_type()).to(t.device());
  })();
}

std::vector<InputSet> furtherInputs(const TensorSet& given) {
  std::vector<InputSet> out;
  out.push_back({"random inputs of the same ranges", [&given] { return random(given, 0, 1); }});
  if (anyTensor(given, isMask))
    out.push_back({"half of every mask row zero", [&given] {
                     return mapTensors(given, [](const at::Tensor& t) {
                       if (!isMask(t) || t.size(-1) < 2) return t.clone();
                       at::Tensor m = t.clone();
                       m.narrow(-1, t.size(-1) / 2, t.size(-1) - t.size(-1) / 2).zero_();
                       return m;
                     });
                   }});
  if (anyTensor(given, isFloating)) {
    out.push_back({"random inputs ten times as large", [&given] { return random(given, 1, 10); }});
    out.push_back({"inputs of zeros", [&given] {
                     return mapTensors(
                         given, [](const at::Tensor& t) { return isFloating(t) ? t.clone().zero_() : t.clone(); });
                   }});
  }
  out.push_back({"other random inputs", [&given] { return random(given, 2, 1); }});
  return out;
}

std::vector<InputSet> furtherPartInputs(const TensorSet& given) {
  std::vector<InputSet> out;
  out.push_back({.what = "random values", .make = [&given] { return random(given, 0, 1); }, .mayBeSensitive = true});
  if (anyTensor(given, isFloating)) {
    out.push_back({.what = "random values ten times as large",
                   .make = [&given] { return random(given, 1, 10); },
                   .mayBeSensitive = true});
    out.push_back({"zeros of both signs", floatsBy(given, [](const at::Tensor& t) {
                     if (t.numel() < few) return t.clone();
                     at::Tensor z = t.clone(at::MemoryFormat::Contiguous).zero_();
                     if (z.numel() > 1) z.view({-1}).slice(0, 0, z.numel(), 2).fill_(-0.0);
                     return z;
                   })});
    out.push_back({"NaN and infinities",
                   sprinkled(given, 3,
                             [](at::ScalarType) {
                               constexpr double inf = std::numeric_limits<double>::infinity();
                               return std::vector<double>{std::numeric_limits<double>::quiet_NaN(), inf, -inf};
                             }),
                   false, true});
    out.push_back({"the smallest numbers", sprinkled(given, 4, smallest), false, true});
    out.push_back({"other strides", [&given] {
                     return mapTensors(random(given, 5, 1), [](const at::Tensor& t) { return restrided(t); });
                   }});
  }
  if (anyTensor(given, isAdditiveMask))
    out.push_back({"everything masked",
                   [&given] {
                     return mapTensors(given, [](const at::Tensor& t) {
                       return isAdditiveMask(t) ? t.min().expand(t.sizes()).clone() : t.clone();
                     });
                   },
                   true});
  const auto isBool = [](const at::Tensor& t) { return t.scalar_type() == at::kBool; };
  if (anyTensor(given, isBool))
    for (const bool value : {true, false})
      out.push_back({value ? "masks of True" : "masks of False",
                     [&given, isBool, value] {
                       return mapTensors(
                           given, [&](const at::Tensor& t) { return isBool(t) ? t.clone().fill_(value) : t.clone(); });
                     },
                     true});
  return out;
}

DimNames sizesOfInputs(const Graph& g, const TensorSet& given) {
  const auto& values = valuesOf(given);
  DimNames out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ValueId input = i < g.inputs().size() ? g.inputs()[i] : ValueId();
    if (given.impl && given.impl->names.size() == values.size())
      for (ValueId v : g.inputs())
        if (g.value(v).name == given.impl->names[i]) input = v;
    if (!input || !values[i].isTensor()) continue;
    const auto& shape = g.value(input).type.tensorInfo.shape;
    const at::Tensor& t = values[i].toTensor();
    if (!shape || static_cast<int64_t>(shape->size()) != t.dim()) continue;
    for (size_t d = 0; d < shape->size(); ++d) {
      const Dim& dim = (*shape)[d];
      out[i].push_back(dim.isStatic()       ? ""
                       : dim.symbol.empty() ? fmt::format("size {}", t.size(static_cast<int64_t>(d)))
                                            : dim.symbol);
    }
  }
  return out;
}

DimNames sizesByValue(const TensorSet& given) {
  DimNames out;
  for (const c10::IValue& v : valuesOf(given)) {
    std::vector<std::string>& names = out.emplace_back();
    if (!v.isTensor()) continue;
    for (const int64_t size : v.toTensor().sizes()) names.push_back(fmt::format("size {}", size));
  }
  return out;
}

DimNames sizesOfValues(const Graph& g, const std::vector<ValueId>& values) {
  DimNames out;
  for (ValueId v : values) {
    std::vector<std::string>& names = out.emplace_back();
    const Value& value = g.value(v);
    if (value.type.kind == Type::Kind::Int) {
      const Node* n = value.producer ? &g.node(value.producer) : nullptr;
      if (!n || (n->op->packetName() != "aten.sym_size" && n->op->packetName() != "aten.size")) return {};
      const auto* d = n->args.size() > 1 ? n->args[1].as<int64_t>() : nullptr;
      if (!d || !n->args[0].isValue()) return {};
      const auto& shape = g.value(n->args[0].valueId()).type.tensorInfo.shape;
      if (!shape) return {};
      const auto at = static_cast<size_t>(*d < 0 ? *d + static_cast<int64_t>(shape->size()) : *d);
      if (at >= shape->size() || !isName((*shape)[at].symbol)) return {};
      names.push_back((*shape)[at].symbol);
      continue;
    }
    if (!value.type.isTensor() || !value.type.tensorInfo.shape) return {};
    for (const Dim& d : *value.type.tensorInfo.shape) {
      if (!d.isStatic() && !isName(d.symbol)) return {};
      names.push_back(d.isStatic() ? "" : d.symbol);
    }
  }
  return out;
}

std::vector<InputSet> otherSizes(const TensorSet& given, const DimNames& names, std::span<const Symbol> symbols) {
  const auto& values = valuesOf(given);
  std::vector<std::pair<std::string, int64_t>> sizes;  // by name, in order of first use
  bool consistent = names.size() == values.size();
  const auto note = [&](const std::string& name, int64_t size) {
    if (name.empty()) return;
    const auto at = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.first == name; });
    consistent = consistent && size > 0 && (at == sizes.end() || at->second == size);
    if (at == sizes.end()) sizes.emplace_back(name, size);
  };
  for (size_t i = 0; consistent && i < values.size(); ++i) {
    if (values[i].isInt() && names[i].size() == 1) note(names[i][0], values[i].toInt());
    if (!values[i].isTensor() || static_cast<int64_t>(names[i].size()) != values[i].toTensor().dim()) continue;
    for (size_t d = 0; d < names[i].size(); ++d) note(names[i][d], values[i].toTensor().size(static_cast<int64_t>(d)));
  }
  if (!consistent || sizes.empty()) return {};
  const auto odd = [](int64_t n) { return n < 3 ? 3 : n == 3 ? 5 : n % 2 == 1 ? n - 2 : n - 1; };
  const auto larger = [](int64_t n) { return n % 2 == 1 ? n + 2 : n + 1; };
  const auto allowed = [&](const std::pair<std::string, int64_t>& s) {
    const auto at = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& k) { return k.name == s.first; });
    return at == symbols.end() || (s.second >= at->min.value_or(s.second) && s.second <= at->max.value_or(s.second));
  };
  std::vector<InputSet> out;
  const auto add = [&](std::vector<std::pair<std::string, int64_t>> changed, bool fewRows = false,
                       bool instead = false) {
    std::string what;
    std::erase_if(
        changed, [&](const auto& c) { return !allowed(c) || std::find(sizes.begin(), sizes.end(), c) != sizes.end(); });
    for (const auto& [name, size] : changed) what += fmt::format("{}{} = {}", what.empty() ? "" : ", ", name, size);
    const auto same = [&](const InputSet& s) { return s.what == "other sizes, " + what; };
    if (changed.empty() || std::any_of(out.begin(), out.end(), same)) return;
    InputSet set{"other sizes, " + what, [&given, names, changed] { return resized(given, names, changed); }};
    set.fewRows = fewRows;
    set.instead = instead;
    out.push_back(std::move(set));
  };
  const int64_t now = sizes[0].second, few = now > 3 ? 3 : odd(now);
  for (const int64_t batch : {int64_t{1}, few, larger(now), int64_t{0}})
    add({{sizes[0].first, batch}}, batch == few && few < now);
  if (sizes.size() < 2) return out;
  auto others = sizes, more = sizes, ones = sizes;
  for (auto& [name, size] : others) size = odd(size);
  for (auto& [name, size] : more) size = larger(size);
  for (auto& [name, size] : ones) size = 1;
  for (auto* changed : {&others, &more}) {
    (*changed)[0].second = few;
    const size_t before = out.size();
    if (few < now) add(*changed);
    const bool isSecond = out.size() > before;
    changed->erase(changed->begin());
    add(*changed, false, isSecond);
  }
  add(std::move(ones));
  return out;
}

int64_t elementsOf(const TensorSet& set) {
  int64_t count = 0;
  mapTensors(set, [&](const at::Tensor& t) {
    count += t.numel();
    return t;
  });
  return count;
}

}  // namespace graft
