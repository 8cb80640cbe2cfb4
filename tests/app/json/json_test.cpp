#include <nlohmann/json.hpp>
#include <string>

#include "app/json/documents_json.h"
#include "app/json/numbers_json.h"
#include "app/json/rewrites_json.h"
#include "tests/support/catch.h"

using namespace graft;
using nlohmann::json;

static PairedTiming timing(std::vector<double> a, std::vector<double> b, double ratio) {
  PairedTiming t;
  t.a.samplesMs = std::move(a);
  t.b.samplesMs = std::move(b);
  t.ratio = ratio;
  t.protocol = "cpu";
  return t;
}

TEST_CASE("A timing has both sides and how far their ratio can be told") {
  const PairedTiming t = timing({2.0, 2.1, 1.9, 2.0, 2.2, 2.0}, {1, 1, 1, 1, 1, 1}, 2.0);
  const json j = toJson(t);
  CHECK(j["ratioLow"] == 1.9);
  CHECK(j["ratioHigh"] == 2.2);
  CHECK(j["protocol"] == "cpu");
  CHECK_FALSE(j.contains("flushed"));
}

TEST_CASE("What a flushed cache costs is told as what a warm one does") {
  PairedTiming t = timing({2.0, 2.1, 1.9, 2.0, 2.2, 2.0}, {1, 1, 1, 1, 1, 1}, 2.0);
  const PairedTiming slow = timing({3.0, 3.0, 3.3, 3.0, 2.4}, {1, 1, 1, 1, 1}, 3.0);
  t.flushed = {slow.a, slow.b, slow.ratio, 5};
  t.flushed->a.medianMs = 3;
  t.flushed->a.p10Ms = 2.64;
  t.flushed->a.p90Ms = 3.18;
  const json j = toJson(t)["flushed"];
  CHECK(j["original"]["medianMs"] == 3.0);
  CHECK(j["original"]["p10Ms"] == 2.64);
  CHECK(j["original"]["p90Ms"] == 3.18);
  CHECK(j["original"]["samplesMs"].size() == 5);
  CHECK(j["rewritten"]["samplesMs"] == std::vector<double>{1, 1, 1, 1, 1});
  CHECK(j["ratio"] == 3.0);
  CHECK(j["ratioLow"] == 2.4);
  CHECK(j["ratioHigh"] == 3.3);
  CHECK(j["repetitions"] == 5);
}

TEST_CASE("Of many samples some are sent, evenly taken") {
  Timing t;
  for (int i = 0; i < 10; ++i) t.samplesMs.push_back(i);
  CHECK(toJson(t)["samplesMs"].size() == 10);
  CHECK(toJson(t, 5)["samplesMs"] == std::vector<double>{0, 2, 4, 6, 8});
}

TEST_CASE("The baselines' JSON has both times with their percentiles, and why a mode does not run") {
  workbench::BaselineComparison c;
  c.rewritten = {0.166, 0.161, 0.172, {0.166}};
  c.rewrittenHost = {0.181, 0.176, 0.2, {0.181}};
  workbench::BaselineTiming eager;
  eager.mode = eager.description = "eager";
  eager.times = {3.34, 3.3, 3.4, {3.34}};
  eager.host = {3.412, 3.35, 3.5, {3.412}};
  workbench::BaselineTiming jit;
  jit.mode = "jit";
  jit.error = "RuntimeError: no";
  c.baselines = {eager, jit};
  const json j = toJson(c);
  CHECK(j["rewritten"]["medianMs"] == 0.166);
  CHECK(j["rewritten"]["host"]["medianMs"] == 0.181);
  CHECK(j["modes"][0]["host"]["p10Ms"] == 3.35);
  CHECK(j["modes"][0]["host"]["p90Ms"] == 3.5);
  CHECK(j["modes"][0]["host"]["samplesMs"].size() == 1);
  CHECK(j["modes"][1]["error"] == "RuntimeError: no");
  CHECK_FALSE(j["modes"][1].contains("host"));
}

TEST_CASE("Figures of a difference are null where shapes differ, and texts where they are not finite") {
  Difference d;
  d.name = "0";
  d.maxAbs = 1;
  CHECK(toJson(d)["maxAbs"].is_null());
  d.measured = true;
  CHECK(toJson(d)["maxAbs"] == 1.0);
  d.maxAbs = std::numeric_limits<double>::quiet_NaN();
  d.rmseRatio = std::numeric_limits<double>::infinity();
  CHECK(toJson(d)["maxAbs"] == "nan");
  CHECK(toJson(d)["rmseRatio"] == "inf");
}

TEST_CASE("Each document begins with its schema, and models are a list even where there is one") {
  const json one = json::parse(workbench::document({{"model", "a.pt"}}));
  CHECK(one == json{{"schema", 1}, {"model", "a.pt"}});
  const json models = json::parse(workbench::documentOfModels(json::array({json{{"model", "a.pt"}}})));
  CHECK(models["schema"] == 1);
  CHECK(models["models"].size() == 1);
  CHECK(json::parse(workbench::documentOfModels(json::array()))["models"].empty());
}

TEST_CASE("A step says what was verified of its rewrites and what was taken back") {
  StepRun s;
  s.name = "Bias";
  s.isRule = true;
  s.records.emplace_back();
  s.records[0].verification.verdict = RewriteVerification::Verdict::Verified;
  s.records[0].verification.inputSets = 13;
  s.rolledBack.emplace_back();
  s.rolledBack[0].verification.verdict = RewriteVerification::Verdict::Failed;
  const json j = toJson(s);
  CHECK(j["rewrites"] == 1);
  CHECK(j["records"][0]["verification"] == json{{"verdict", "verified"}, {"inputSets", 13}});
  CHECK(j["rolledBack"][0]["verification"]["verdict"] == "failed");
  CHECK_FALSE(j.contains("verification"));
}
