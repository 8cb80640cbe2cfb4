#include <string>

#include "app/console/baselines_text.h"
#include "tests/support/catch.h"

using namespace graft;

/// A rewritten model and two modes, one of which does not run it.
static workbench::BaselineComparison comparison(bool byEvents) {
  workbench::BaselineComparison c;
  c.rewritten = {0.166, 0.161, 0.172, {0.166}};
  c.rewrittenHost = {0.181, 0.176, 0.2, {0.181}};
  c.byEvents = byEvents;
  c.how = "captured, 54 kernels";
  c.protocol = "cuda, 9 rounds";
  workbench::BaselineTiming eager;
  eager.mode = eager.description = "eager";
  eager.times = {3.34, 3.3, 3.4, {3.34}};
  eager.host = {3.412, 3.35, 3.5, {3.412}};
  eager.ratio = 20.12;
  workbench::BaselineTiming jit;
  jit.mode = "jit";
  jit.error = "RuntimeError: no";
  c.baselines = {eager, jit};
  return c;
}

TEST_CASE("On a GPU the host's time stands beside the GPU's") {
  const std::string t = cli::baselinesTable(comparison(true));
  CHECK_THAT(t, ContainsSubstring("mode       ms     p10    p90    host ms  rewritten is"));
  CHECK_THAT(t, ContainsSubstring("rewritten  0.166  0.161  0.172  0.181    -"));
  CHECK_THAT(t, ContainsSubstring("eager      3.340  3.300  3.400  3.412    20.1 times faster"));
  CHECK_THAT(t, ContainsSubstring("jit        -      -      -      -        -"));
}

TEST_CASE("On the CPU there is one time") {
  const std::string t = cli::baselinesTable(comparison(false));
  CHECK_THAT(t, !ContainsSubstring("host ms"));
  CHECK_THAT(t, ContainsSubstring("rewritten  0.166  0.161  0.172  -"));
}
