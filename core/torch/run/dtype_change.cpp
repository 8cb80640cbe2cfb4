#include "core/torch/run/dtype_change.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_fill.h>
#include <c10/util/BFloat16.h>

#include <cmath>
#include <limits>
#include <map>

#include "core/torch/values/values.h"

namespace graft {

double largest(DType d) {
  switch (d) {
    case DType::Float16:
      return 65504.0;
    case DType::BFloat16:
      return static_cast<double>(std::numeric_limits<c10::BFloat16>::max());
    case DType::Float8E4M3:
      return 448.0;
    case DType::Float8E5M2:
      return 57344.0;
    case DType::Float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

std::optional<DType> modelDType(const Graph& g) {
  std::map<DType, size_t> bytes;
  for (ValueId w : g.weights()) {
    const auto& info = g.value(w).type.tensorInfo;
    if (info.dtype && isFloatingPoint(*info.dtype))
      bytes[*info.dtype] += g.value(w).data ? g.value(w).data->byteSize() : 1;
  }
  if (bytes.empty())
    for (ValueId i : g.inputs())
      if (const auto d = g.value(i).type.tensorInfo.dtype; d && isFloatingPoint(*d)) ++bytes[*d];
  std::optional<DType> best;
  for (const auto& [d, n] : bytes)
    if (!best || n > bytes[*best]) best = d;
  return best;
}

DTypeChange changeTo(const Graph& g, std::optional<DType> to) {
  if (!to) return {};
  const DTypeChange change{modelDType(g), to};
  return change.from == to ? DTypeChange() : change;
}

DType DTypeChange::of(DType d) const {
  if (!to || !isFloatingPoint(d)) return d;
  // The model's own dtype follows; a cast to more precision than asked for (softmax in float32) stays one.
  return d == from || dtypeSize(d) < dtypeSize(*to) ? *to : d;
}

double DTypeChange::number(double x) const {
  if (!to || !std::isfinite(x)) return x;
  const double most = largest(*to);
  return x > most ? most : x < -most ? -most : x;
}

template <class OfDType, class OfNumber>
Argument DTypeChange::mapped(const Argument& a, const OfDType& ofDType, const OfNumber& ofNumber) {
  if (const auto* d = a.as<DType>()) return Argument(ofDType(*d));
  if (const auto* x = a.as<double>()) return Argument(ofNumber(*x));
  const auto* items = a.items();
  if (!items) return a;
  std::vector<Argument> out;
  for (const Argument& i : *items) out.push_back(mapped(i, ofDType, ofNumber));
  return a.isList() ? Argument::list(std::move(out)) : Argument::tuple(std::move(out));
}

Argument DTypeChange::argument(const Argument& a) const {
  return mapped(
      a, [&](DType d) { return of(d); }, [&](double x) { return number(x); });
}

Argument DTypeChange::keptArgument(const Argument& a) const {
  return mapped(
      a, [](DType d) { return d; }, [&](double x) { return x < 0 ? number(x) : x; });
}

bool makesFloats(const Node& n) {
  return n.op->facts->dtype == DTypeRule::DefaultFloat ||
         (n.op->packetName() == "aten.full" && n.args.size() > 1 && n.args[1].as<double>());
}

at::Tensor keptWeight(const at::Tensor& data, DType to) {
  const at::Tensor low = data.isfinite().logical_and(data.lt(-largest(to)));
  return low.any().item<bool>() ? data.masked_fill(low, -largest(to)) : data;
}

at::Tensor weightInDType(const Value& v, const at::Tensor& data, DType to) {
  const at::ScalarType dtype = torchDType(to);
  if (!c10::isFloatingType(data.scalar_type()) || data.scalar_type() == dtype) return data;
  at::Tensor cast = data.to(dtype);
  if ((v.isBuffer || v.isConstant) && dtypeSize(to) < static_cast<size_t>(data.element_size())) {
    const double most = largest(to);
    if (data.isfinite().logical_and(cast.isinf()).any().item<bool>()) cast = data.clamp(-most, most).to(dtype);
  }
  return cast;
}

}  // namespace graft
