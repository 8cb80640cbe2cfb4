#include <nlohmann/json.hpp>
#include <string>

#include "app/baselines.h"
#include "tests/support/catch.h"

using namespace graft;

/// A rewritten model and two ways, one of which does not run it.
static cli::PeerComparison comparison(bool byEvents) {
  cli::PeerComparison c;
  c.rewritten = {0.166, 0.161, 0.172, {0.166}};
  c.rewrittenHost = {0.181, 0.176, 0.2, {0.181}};
  c.byEvents = byEvents;
  c.how = "captured, 54 kernels";
  c.protocol = "cuda, 9 rounds";
  cli::PeerTiming eager;
  eager.way = eager.what = "eager";
  eager.times = {3.34, 3.3, 3.4, {3.34}};
  eager.host = {3.412, 3.35, 3.5, {3.412}};
  eager.ratio = 20.12;
  cli::PeerTiming jit;
  jit.way = "jit";
  jit.error = "RuntimeError: no";
  c.peers = {eager, jit};
  return c;
}

TEST_CASE("On a GPU the host's time stands beside the GPU's") {
  const std::string t = cli::peersTable(comparison(true));
  CHECK_THAT(t, ContainsSubstring("way        ms     p10    p90    host ms  rewritten is"));
  CHECK_THAT(t, ContainsSubstring("rewritten  0.166  0.161  0.172  0.181    -"));
  CHECK_THAT(t, ContainsSubstring("eager      3.340  3.300  3.400  3.412    20.12x faster"));
  CHECK_THAT(t, ContainsSubstring("jit        -      -      -      -        -"));
}

TEST_CASE("On the CPU there is one time") {
  const std::string t = cli::peersTable(comparison(false));
  CHECK_THAT(t, !ContainsSubstring("host ms"));
  CHECK_THAT(t, ContainsSubstring("rewritten  0.166  0.161  0.172  -"));
}

TEST_CASE("The peers' JSON has both times with their percentiles, and why a way does not run") {
  const nlohmann::json j = cli::peersJson(comparison(true));
  CHECK(j["rewritten"]["median_ms"] == 0.166);
  CHECK(j["rewritten"]["host"]["median_ms"] == 0.181);
  CHECK(j["peers"][0]["host"]["p10_ms"] == 3.35);
  CHECK(j["peers"][0]["host"]["p90_ms"] == 3.5);
  CHECK(j["peers"][0]["host"]["samples_ms"].size() == 1);
  CHECK(j["peers"][1]["error"] == "RuntimeError: no");
  CHECK_FALSE(j["peers"][1].contains("host"));
}
