#include "app/differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "core/json/finite.h"

namespace graft::cli {

using nlohmann::json;

namespace {

json number(const Difference& of, double d) { return of.measured ? finiteJson(d) : json(nullptr); }

std::string verdict(const Difference& d) {
  return d.passed ? "ok" : d.dtypeAlone ? "FAILED for its dtype: " + d.why : "FAILED: " + d.why;
}

}  // namespace

std::string figure(const Difference& of, double d) { return of.measured ? fmt::format("{:.2e}", d) : "-"; }

std::string ratioText(const Difference& d) { return d.rmseRatio ? fmt::format("{:.2f}", *d.rmseRatio) : "-"; }

std::string differencesTable(const std::vector<Difference>& differences) {
  std::vector<std::vector<std::string>> rows{
      {"output", "type", "max abs", "max rel", "rmse", "rmse ratio", "cosine", ""}};
  for (const Difference& d : differences)
    rows.push_back({d.name, d.type, figure(d, d.maxAbs), figure(d, d.maxRel), figure(d, d.rmse), ratioText(d),
                    d.measured ? fmt::format("{:.7f}", d.cosine) : "-", verdict(d)});
  return table(rows);
}

json differencesJson(const std::vector<Difference>& differences) {
  json out = json::array();
  for (const Difference& d : differences) {
    json row = {{"name", d.name},
                {"type", d.type},
                {"max_abs", number(d, d.maxAbs)},
                {"max_rel", number(d, d.maxRel)},
                {"rmse", number(d, d.rmse)},
                {"cosine", number(d, d.cosine)},
                {"elements", d.elements},
                {"ulp_histogram", d.ulpHistogram},
                {"passed", d.passed},
                {"dtype_alone", d.dtypeAlone}};
    if (!d.actualType.empty()) row["actual_type"] = d.actualType;
    row["rmse_ratio"] = d.rmseRatio ? finiteJson(*d.rmseRatio) : json(nullptr);
    if (!d.why.empty()) row["why"] = d.why;
    out.push_back(std::move(row));
  }
  return out;
}

json notVerifiedJson() { return {{"passed", nullptr}, {"skipped", true}}; }

bool allPassed(const std::vector<Difference>& differences) {
  return std::all_of(differences.begin(), differences.end(), [](const Difference& d) { return d.passed; });
}

std::string firstFailure(const std::vector<Difference>& differences) {
  for (const Difference& d : differences)
    if (!d.passed) return fmt::format("output {}: {}", d.name, d.why);
  return "";
}

}  // namespace graft::cli
