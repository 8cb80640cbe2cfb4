#include "app/json/numbers_json.h"

#include <algorithm>

#include "app/json/list_json.h"
#include "core/base/numbers/ratio_range.h"
#include "core/json/finite.h"

namespace graft {

using nlohmann::json;

namespace {

/// Both sides with what the runs tell of them: of PairedTiming and FlushedTiming.
template <class Pairs>
json pairsJson(const Pairs& t, size_t mostSamples) {
  const RatioRange range = ratioRange(t.a.samplesMs, t.b.samplesMs);
  return {{"original", toJson(t.a, mostSamples)},
          {"rewritten", toJson(t.b, mostSamples)},
          {"ratio", t.ratio},
          {"ratioLow", range.low},
          {"ratioHigh", range.high},
          {"speed", speedName(speedOf(t.ratio, range))},
          {"repetitions", t.repetitions}};
}

json layerJson(const Difference& d, const std::string& original, const std::string& rewritten) {
  json out = toJson(d);
  out.erase("ulpHistogram");
  out["original"] = original;
  out["rewritten"] = rewritten;
  return out;
}

}  // namespace

json toJson(const Difference& d) {
  const auto figure = [&](double v) { return d.measured ? finiteJson(v) : json(nullptr); };
  json out = {{"name", d.name},
              {"type", d.type},
              {"maxAbs", figure(d.maxAbs)},
              {"maxRel", figure(d.maxRel)},
              {"rmse", figure(d.rmse)},
              {"rmseRatio", d.rmseRatio ? finiteJson(*d.rmseRatio) : json(nullptr)},
              {"cosine", figure(d.cosine)},
              {"elements", d.elements},
              {"ulpHistogram", d.ulpHistogram},
              {"passed", d.passed},
              {"dtypeAlone", d.dtypeAlone},
              {"why", d.why}};
  if (!d.actualType.empty()) out["actualType"] = d.actualType;
  if (d.nonFinite > 0) out["nonFinite"] = d.nonFinite;
  if (d.nothingCompared) out["nothingCompared"] = true;
  return out;
}

json toJson(const Overflow& o) {
  return {{"node", o.node}, {"operator", o.op}, {"scope", o.scope}, {"elements", o.elements}};
}

json toJson(const LayerDifference& l) { return layerJson(l.difference, l.original, l.rewritten); }

json toJson(const Verification& v) {
  if (v.isEmpty()) return {{"passed", nullptr}, {"skipped", true}, {"notVerified", v.notVerified}};
  json out{{"passed", v.passed}, {"inputSets", v.inputSets}, {"outputs", listJson(v.outputs)}, {"why", v.why}};
  if (v.nothingCompared()) {
    out["passed"] = nullptr;
    out["nothingCompared"] = true;
  }
  if (v.overflow) out["overflow"] = toJson(*v.overflow);
  if (v.isOutOfTime) out["outOfTime"] = true;
  if (!v.notVerified.empty()) out["notVerified"] = v.notVerified;
  return out;
}

json toJson(const Timing& t, size_t mostSamples) {
  const size_t n = t.samplesMs.size(), shown = std::min(n, mostSamples);
  json samples = json::array();
  for (size_t i = 0; i < shown; ++i) samples.push_back(t.samplesMs[i * n / shown]);
  return {{"medianMs", t.medianMs}, {"p10Ms", t.p10Ms}, {"p90Ms", t.p90Ms}, {"samplesMs", std::move(samples)}};
}

json toJson(const PairedTiming& t, size_t mostSamples) {
  json out = pairsJson(t, mostSamples);
  out["protocol"] = t.protocol;
  if (t.flushed) out["flushed"] = pairsJson(*t.flushed, mostSamples);
  return out;
}

namespace workbench {

json toJson(const LayerRow& l) { return layerJson(l.difference, l.original, l.rewritten); }

json toJson(const AgainstOriginal& t) {
  json out = graft::toJson(t.times);
  out["against"] = t.original;
  out["timed"] = t.rewritten;
  if (!t.notTimed.empty()) out["notTimed"] = t.notTimed;
  return out;
}

namespace {

json timesJson(const Timing& t, const Timing& host) {
  json out = graft::toJson(t);
  out["host"] = graft::toJson(host);
  return out;
}

json toJson(const BaselineTiming& b) {
  json row = b.error.empty() ? timesJson(b.times, b.host) : json{{"error", b.error}};
  row["mode"] = b.mode;
  if (b.error.empty()) {
    row["description"] = b.description;
    row["ratio"] = b.ratio;
    row["readySeconds"] = b.readySeconds;
    row["peakBytes"] = b.peakBytes;
  }
  return row;
}

}  // namespace

json toJson(const BaselineComparison& c) {
  json out{{"rewritten", timesJson(c.rewritten, c.rewrittenHost)}, {"protocol", c.protocol}, {"modes", json::array()}};
  out["rewritten"]["how"] = c.how;
  out["rewritten"]["readySeconds"] = c.readySeconds;
  for (const BaselineTiming& b : c.baselines) out["modes"].push_back(toJson(b));
  return out;
}

json toJson(const TrainingComparison& c) {
  json out{{"protocol", c.protocol}, {"modes", json::array()}};
  for (const TrainingTiming& t : c.modes) {
    json row = toJson(t.step);
    if (t.step.error.empty()) row["losses"] = t.losses;
    out["modes"].push_back(std::move(row));
  }
  return out;
}

json toJson(const NodeDescription& d) {
  return {{"operator", d.op}, {"schema", d.schema}, {"doc", d.doc}, {"effects", d.effects}};
}

json toJson(const NodeSource& s) {
  return {{"file", s.file},
          {"line", s.line},
          {"first", s.first},
          {"lines", s.lines},
          {"from", s.isFile ? "file" : "model"}};
}

json toJson(const WeightReport& w) {
  const WeightStatistics& s = w.statistics;
  json first = json::array();
  for (double x : s.first) first.push_back(finiteJson(x));
  return {{"type", w.type},
          {"min", finiteJson(s.min)},
          {"max", finiteJson(s.max)},
          {"mean", finiteJson(s.mean)},
          {"std", finiteJson(s.std)},
          {"histogram", {{"edges", s.edges}, {"counts", s.counts}}},
          {"first", std::move(first)},
          {"zeros", s.zeros},
          {"nonFinite", s.nonFinite}};
}

}  // namespace workbench
}  // namespace graft
