#include "kernels/generated/call_kind.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/torch/values/values.h"

namespace graft::ops {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

bool areEqual(const Rows& rows, size_t a, size_t b, int64_t offset = 0) {
  return std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return row[a] == row[b] + offset; });
}

}  // namespace

bool isHostNumber(const at::Tensor& t) { return t.defined() && t.dim() == 0 && t.is_cpu(); }

c10::Device deviceOf(at::TensorList tensors) {
  const auto saysWhere = [](const at::Tensor& t) { return t.defined() && !isHostNumber(t); };
  const auto at = std::find_if(tensors.begin(), tensors.end(), saysWhere);
  return at == tensors.end() ? c10::Device(c10::kCPU) : at->device();
}

at::Tensor broughtTo(const c10::Device& device, const at::Tensor& number) {
  if (!isHostNumber(number) || !device.is_cuda()) return number;
  at::Tensor there = at::full({}, number.item(), number.options().device(device));
  if (number.unsafeGetTensorImpl()->is_wrapped_number()) there.unsafeGetTensorImpl()->set_wrapped_number(true);
  return there;
}

bool lieAlike(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

bool arePlain(at::TensorList tensors, const c10::Device& device) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& t) {
    // "cpu" and "cpu:0" are one device.
    return t.defined() && (device.is_cpu() ? t.device().is_cpu() : t.device() == device) &&
           t.layout() == at::kStrided && !t.is_quantized() && !t.is_conj() && !t.is_neg() &&
           graftDType(t.scalar_type()) && !t.is_complex();
  });
}

std::vector<StrideForm> strideForms(const at::Tensor& t) {
  const at::IntArrayRef sizes = t.sizes(), strides = t.strides();
  std::vector<StrideForm> forms(sizes.size());
  for (size_t d = 0; d < forms.size(); ++d) forms[d].dim = d;
  std::sort(forms.begin(), forms.end(), [&](const StrideForm& a, const StrideForm& b) {
    return strides[a.dim] != strides[b.dim] ? strides[a.dim] < strides[b.dim] : a.dim > b.dim;
  });
  for (size_t i = 0; i < forms.size(); ++i) {
    const int64_t stride = strides[forms[i].dim];
    const bool hasBase = i > 0 && forms[i - 1].form != StrideForm::Form::Zero;
    if (stride == 0)
      forms[i].form = StrideForm::Form::Zero;
    else if (hasBase && stride == strides[forms[i - 1].dim] * sizes[forms[i - 1].dim])
      forms[i].form = StrideForm::Form::Follows;
    else if (stride == 1)
      forms[i].form = StrideForm::Form::Unit;
  }
  return forms;
}

CallKind::CallKind(at::TensorList inputs, at::IntArrayRef sizes) {
  for (const at::Tensor& t : inputs) {
    family += static_cast<char>(t.scalar_type());
    family += static_cast<char>(t.dim());
    for (const int64_t n : t.sizes()) {
      numbers.push_back(n);
      isSize.push_back(true);
      family += static_cast<char>(std::min<int64_t>(n, 2));
    }
    for (const StrideForm& f : strideForms(t)) {
      family += static_cast<char>(f.dim);
      family += static_cast<char>(f.form);
      if (f.form != StrideForm::Form::Own) continue;
      numbers.push_back(t.stride(static_cast<int64_t>(f.dim)));
      isSize.push_back(false);
    }
  }
  numbers.insert(numbers.end(), sizes.begin(), sizes.end());
  isSize.resize(numbers.size(), false);
}

std::optional<SizePattern> SizePattern::of(const Rows& rows, const std::vector<bool>& isSize, const Options& options,
                                           const std::function<bool(const std::string&)>& taken) {
  SizePattern p;
  const std::vector<int64_t>& first = rows.front();
  size_t next = 0;
  // Sizes of tensors come before strides and integers: what equals a size is that size.
  std::vector<size_t> order;
  for (const bool wanted : {true, false})
    for (size_t i = 0; i < first.size(); ++i)
      if (isSize[i] == wanted) order.push_back(i);
  p.numbers_.resize(first.size());
  p.symbolOf_.assign(first.size(), -1);
  for (const size_t i : order) {
    if (std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return row[i] == first[i]; })) {
      p.numbers_[i] = Dim(first[i]);
      continue;
    }
    const auto same = std::find_if(p.symbols_.begin(), p.symbols_.end(),
                                   [&](const Symbol& s) { return areEqual(rows, i, s.number); });
    if (same != p.symbols_.end()) {
      p.numbers_[i] = p.numbers_[same->number];
      p.symbolOf_[i] = p.symbolOf_[same->number];
      continue;
    }
    if (options.relations && isSize[i]) {
      const auto related = std::find_if(p.symbols_.begin(), p.symbols_.end(), [&](const Symbol& s) {
        return isSize[s.number] && areEqual(rows, i, s.number, first[i] - first[s.number]);
      });
      if (related != p.symbols_.end()) {
        const int64_t offset = first[i] - first[related->number];
        p.numbers_[i] =
            Dim(p.numbers_[related->number].symbol + (offset < 0 ? " - " : " + ") + std::to_string(std::abs(offset)));
        continue;
      }
    }
    int64_t least = first[i], most = first[i];
    for (const auto& row : rows) {
      least = std::min(least, row[i]);
      most = std::max(most, row[i]);
    }
    if (least < 0) return std::nullopt;
    Symbol symbol;
    do symbol.name = "s" + std::to_string(next++);
    while (taken(symbol.name));
    symbol.number = i;
    symbol.min = options.fromObserved ? least : isSize[i] ? 2 : 0;
    if (isSize[i] && most <= usualMost) symbol.max = usualMost;
    if (isSize[i])
      symbol.factor = std::accumulate(rows.begin(), rows.end(), options.factor,
                                      [&](int64_t f, const auto& row) { return std::gcd(f, row[i]); });
    if (symbol.factor == 1) {
      p.symbolOf_[i] = static_cast<int>(p.symbols_.size());
      p.numbers_[i] = Dim(symbol.name);
    } else {
      symbol.min = std::max<int64_t>(1, symbol.min / symbol.factor);
      p.numbers_[i] = Dim(std::to_string(symbol.factor) + "*" + symbol.name);
    }
    p.symbols_.push_back(std::move(symbol));
  }
  if (p.symbols_.empty()) return std::nullopt;
  p.finish();
  return p;
}

std::optional<SizePattern> SizePattern::declared(const std::vector<int64_t>& row, const std::vector<bool>& isSize,
                                                 const std::vector<Dim>& declared) {
  SizePattern p;
  p.numbers_.resize(row.size());
  p.symbolOf_.assign(row.size(), -1);
  for (size_t i = 0; i < row.size(); ++i) {
    p.numbers_[i] = Dim(row[i]);
    if (!isSymbolName(declared[i].symbol)) continue;
    auto symbol = std::find_if(p.symbols_.begin(), p.symbols_.end(),
                               [&](const Symbol& s) { return s.name == declared[i].symbol; });
    if (symbol == p.symbols_.end()) {
      if (row[i] < 2) return std::nullopt;
      const auto most = row[i] <= usualMost ? std::optional(usualMost) : std::nullopt;
      symbol = p.symbols_.insert(symbol, {declared[i].symbol, i, 1, 2, most});
    }
    p.symbolOf_[i] = static_cast<int>(symbol - p.symbols_.begin());
    p.numbers_[i] = declared[i];
  }
  std::vector<int64_t> values;
  for (const Symbol& s : p.symbols_) values.push_back(row[s.number]);
  for (size_t i = 0; i < row.size(); ++i) {
    if (p.symbolOf_[i] >= 0) continue;
    // An integer that the group takes beside its tensors is likely to be a size of them.
    const auto same = std::find(values.begin(), values.end(), row[i]);
    const auto e = isSize[i] ? SizeExpression::parse(declared[i].symbol) : std::nullopt;
    if (e && valueOf(*e, p.symbols_, values) == row[i]) {
      p.numbers_[i] = declared[i];
    } else if (!isSize[i] && same != values.end()) {
      p.symbolOf_[i] = static_cast<int>(same - values.begin());
      p.numbers_[i] = Dim(p.symbols_[static_cast<size_t>(p.symbolOf_[i])].name);
    }
  }
  if (p.symbols_.empty()) return std::nullopt;
  p.finish();
  if (!p.match(row)) return std::nullopt;
  return p;
}

void SizePattern::finish() {
  expressions_.resize(numbers_.size());
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const Dim& d = numbers_[i];
    if (!d.isStatic() && symbolOf_[i] < 0) expressions_[i] = SizeExpression::parse(d.symbol);
    text_ += (d.symbol.empty() ? std::to_string(d.size) : d.symbol) + ",";
  }
  for (const Symbol& s : symbols_) text_ += " " + std::to_string(s.min) + (s.max ? "!" : "");
}

std::optional<int64_t> valueOf(const SizeExpression& e, const std::vector<SizePattern::Symbol>& symbols,
                               const std::vector<int64_t>& values) {
  return e.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i].name == name) return values[i];
    return std::nullopt;
  });
}

std::optional<std::vector<int64_t>> SizePattern::match(const std::vector<int64_t>& numbers) const {
  if (numbers.size() != numbers_.size()) return std::nullopt;
  std::vector<int64_t> values;
  values.reserve(symbols_.size());
  for (const Symbol& s : symbols_) {
    const int64_t value = numbers[s.number] / s.factor;
    if (value < s.min || (s.max && value > *s.max)) return std::nullopt;
    values.push_back(value);
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::optional<int64_t> wanted = numbers_[i].size;
    if (symbolOf_[i] >= 0)
      wanted = values[static_cast<size_t>(symbolOf_[i])];
    else if (expressions_[i])
      wanted = valueOf(*expressions_[i], symbols_, values);
    if (wanted != numbers[i]) return std::nullopt;
  }
  return values;
}

}  // namespace graft::ops
