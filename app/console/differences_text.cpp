#include "app/console/differences_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace graft::cli {
namespace {

/// One of the figures, "1.20e-05"; "-" where the numbers could not be compared.
std::string figure(const Difference& of, double d) { return of.measured ? fmt::format("{:.2e}", d) : "-"; }

/// How much further from fp64 it is than what is expected, "1.14".
std::string ratioText(const Difference& d) { return d.rmseRatio ? fmt::format("{:.2f}", *d.rmseRatio) : "-"; }

std::string verdict(const Difference& d, bool onPurpose) {
  if (onPurpose && !d.passed) return "changed on purpose";
  if (d.passed && d.nothingCompared) return d.why;
  if (d.passed) return d.why.empty() ? "ok" : "ok: " + d.why;
  return d.dtypeAlone ? "FAILED for its dtype: " + d.why : "FAILED: " + d.why;
}

}  // namespace

std::string differencesTable(const std::vector<Difference>& differences, bool onPurpose) {
  std::vector<std::vector<std::string>> rows{
      {"output", "type", "max abs", "max rel", "rmse", "rmse ratio", "cosine", ""}};
  for (const Difference& d : differences)
    rows.push_back({d.name, d.type, figure(d, d.maxAbs), figure(d, d.maxRel), figure(d, d.rmse), ratioText(d),
                    d.measured ? fmt::format("{:.7f}", d.cosine) : "-", verdict(d, onPurpose)});
  return table(rows);
}

void warnOfNotCompared(const std::vector<Difference>& outputs, const std::optional<Overflow>& overflow,
                       const Console& console) {
  for (const std::string& text : notCompared(outputs)) console.warn(text);
  if (overflow) console.warn(overflowText(*overflow));
}

std::string layersText(const std::vector<LayerDifference>& layers) {
  const auto first = std::find_if(layers.begin(), layers.end(),
                                  [](const auto& l) { return !l.difference.passed && !l.difference.dtypeAlone; });
  const bool dtypesDiffer =
      std::any_of(layers.begin(), layers.end(), [](const auto& l) { return l.difference.dtypeAlone; });
  std::vector<std::vector<std::string>> rows{{"in A", "in B", "type", "max abs", "rmse", "rmse ratio", ""}};
  constexpr std::ptrdiff_t behind = 5;
  const auto end = first + std::min<std::ptrdiff_t>(behind, layers.end() - first);
  for (auto l = layers.begin(); l != end; ++l) {
    const Difference& d = l->difference;
    rows.push_back({l->original, l->rewritten, d.type, figure(d, d.maxAbs), figure(d, d.rmse), ratioText(d),
                    d.passed       ? "ok"
                    : d.dtypeAlone ? "ok but for its dtype"
                                   : d.why});
  }
  if (first != layers.end())
    return table(rows) + fmt::format("the numbers part at {} ({} in B)", first->original, first->rewritten);
  return table(rows) + fmt::format("{} values inside correspond, and all agree{}", layers.size(),
                                   dtypesDiffer ? " but for their dtypes" : "");
}

}  // namespace graft::cli
