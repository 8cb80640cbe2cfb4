// The rule files that come with the program: they compile, quickly.
#include <chrono>
#include <filesystem>

#include "core/text/text.h"
#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("every shipped rule file compiles") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GRAFT_SOURCE_DIR "/resources/rules")) {
    if (entry.path().extension() != ".py") continue;
    ++files;
    const auto rules = loadRuleFile(entry.path().string(), test::operators());
    INFO((rules ? "" : rules.error().format()));
    REQUIRE(rules);
    for (const Rule& r : rules->rules) {
      CHECK_FALSE(r.description.empty());
      CHECK(r.replacement);
    }
  }
  CHECK(files > 0);
}

TEST_CASE("a file of ten rules compiles in a few milliseconds") {
  const std::string path = GRAFT_SOURCE_DIR "/resources/rules/transformer.py";
  REQUIRE(loadRuleFile(path, test::operators()));  // the first time loads schemas
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto rules = loadRuleFile(path, test::operators());
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    REQUIRE(rules);
  }
  INFO("compiled in " << best << " ms");
  CHECK(best < 50);  // 5 ms is the goal; a debug build or a busy machine is allowed more
}
