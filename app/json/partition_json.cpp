#include "app/json/documents_json.h"
#include "app/json/list_json.h"
#include "app/json/numbers_json.h"
#include "app/workbench/training/partition.h"

namespace graft {

nlohmann::json toJson(const ReturnedRole& r) {
  return {{"kind", spelling(r.kind)}, {"of", r.of.empty() ? nlohmann::json() : nlohmann::json(r.of)}};
}

nlohmann::json toJson(const TrainingSignature& s) {
  return {{"returns", listJson(s.returns)}, {"tangents", s.tangents}, {"parameters", s.parameters}};
}

}  // namespace graft

namespace graft::workbench {

using nlohmann::json;

namespace {

const char* spelling(SavedKind kind) {
  switch (kind) {
    case SavedKind::Must:
      return "must";
    case SavedKind::Dear:
      return "dear";
    case SavedKind::Cheap:
      return "cheap";
    case SavedKind::Asked:
      return "asked";
  }
  return "";
}

json toJson(const SavedTensor& s) {
  return {{"name", s.name},          {"type", s.type},
          {"bytes", s.bytes},        {"producer", s.producer.empty() ? json() : json(s.producer)},
          {"module", s.module},      {"consumers", s.consumers},
          {"us", s.microseconds},    {"reason", s.reason},
          {"kind", spelling(s.kind)}};
}

json toJson(const RecomputedNode& n) {
  return {{"name", n.name},   {"operator", n.op},     {"module", n.module},
          {"bytes", n.bytes}, {"us", n.microseconds}, {"reason", n.reason}};
}

json toJson(const PeakBytes& p) { return {{"forward", p.forward}, {"backward", p.backward}}; }

json toJson(const LiveNode& n) { return {{"name", n.name}, {"bytes", n.bytes}}; }

json toJson(const BudgetPoint& p) {
  return {{"memory", p.memory},
          {"savedBytes", p.savedBytes},
          {"recomputedUs", p.recomputedMicroseconds},
          {"simulatedPeak", toJson(p.simulated)}};
}

json toJson(const WrittenHalf& h) {
  return {{"output", h.path.empty() ? json() : json(h.path)},
          {"nodes", h.nodes},
          {"inputs", h.inputs},
          {"returns", listJson(h.returns)}};
}

json differencesJson(const PartitionReport& r) {
  if (!r.differences) return nullptr;
  json out = json::array();
  for (const Difference& d : *r.differences) {
    const size_t i = static_cast<size_t>(std::strtoul(d.name.c_str(), nullptr, 10));
    out.push_back(graft::toJson(d));
    if (i < r.names.size()) out.back()["name"] = r.names[i];
  }
  return out;
}

}  // namespace

json toJson(const CutWishes& w) {
  return {{"partition", kCutFileVersion}, {"memory", w.memory}, {"save", w.save}, {"recompute", w.recompute}};
}

json toJson(const PartitionReport& r) {
  json verification{{"passed", r.differences ? json(!r.failure) : json()}, {"differences", differencesJson(r)}};
  if (!r.notRun.empty()) verification["notRun"] = r.notRun;
  json saved = json::array(), recomputed = json::array();
  for (const SavedTensor& s : r.saved) saved.push_back(toJson(s));
  for (const RecomputedNode& n : r.recomputed) recomputed.push_back(toJson(n));
  json live = {{"forward", json::array()}, {"backward", json::array()}}, curve = json::array();
  for (const LiveNode& n : r.liveForward) live["forward"].push_back(toJson(n));
  for (const LiveNode& n : r.liveBackward) live["backward"].push_back(toJson(n));
  for (const BudgetPoint& p : r.curve) curve.push_back(toJson(p));
  return {{"model", r.model},
          {"method", r.method},
          {"memory", r.memory},
          {"saved", std::move(saved)},
          {"recomputed", std::move(recomputed)},
          {"savedBytes", r.savedBytes},
          {"defaultBytes", r.defaultBytes},
          {"nothingBytes", r.nothingBytes},
          {"leastBytes", r.leastBytes},
          {"recomputedUs", r.recomputedMicroseconds},
          {"timesAreMeasured", r.timesAreMeasured},
          {"simulatedPeak", toJson(r.simulated)},
          {"live", std::move(live)},
          {"curve", std::move(curve)},
          {"measuredPeak", r.measured ? toJson(*r.measured) : json()},
          {"verification", std::move(verification)},
          {"notFinite", r.notFinite},
          {"notes", r.notes},
          {"forward", toJson(r.forward)},
          {"backward", toJson(r.backward)}};
}

}  // namespace graft::workbench
