// The rule files that come with the program: they compile; and how long a file takes.
#include <filesystem>
#include <string>

#include "core/text/text.h"
#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"
#include "tests/support/growth.h"
#include "tests/support/temp_dir.h"

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

TEST_CASE("the time to compile a file grows in step with its rules") {
  const test::TempDir dir;
  const auto secondsFor = [&](int count) {
    std::string text = "import torch\nfrom graft import Rule\n";
    for (int i = 0; i < count; ++i)
      text += "\n\nclass R" + std::to_string(i) +
              "(Rule):\n    \"\"\"Two activations.\"\"\"\n\n"
              "    def pattern(x):\n        return torch.relu(torch.tanh(x))\n\n"
              "    def replacement(x):\n        return torch.tanh(torch.relu(x))\n";
    test::writeFile(dir / "rules.py", text);
    return test::processorSeconds([&] {
      const auto rules = loadRuleFile((dir / "rules.py").string(), test::operators());
      INFO((rules ? "" : rules.error().format()));
      REQUIRE(rules);
      REQUIRE(rules->rules.size() == static_cast<size_t>(count));
    });
  };
  secondsFor(1);  // the first file loads the schemas
  const double less = secondsFor(40);
  CHECK(test::growsInStep(less, secondsFor(200)));
}
