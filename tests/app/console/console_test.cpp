#include "app/console/console.h"

#include "tests/support/catch.h"

using namespace graft::cli;

TEST_CASE("Progress is never past its end, and never as wide as the terminal") {
  CHECK(progressText("matching", 2, 5, 80) == "matching 40 %");
  CHECK(progressText("matching", 7, 5, 80) == "matching 100 %");
  CHECK(progressText("matching", 7, 0, 80) == "matching");
  CHECK(progressText("a model with a long name", 1, 2, 20) == "a model with … 50 %");
  CHECK(progressText(std::string(300, 'x'), 1, 2, 3).size() < 20);
}

TEST_CASE("A table ends its last column where the terminal ends") {
  const std::vector<std::vector<std::string>> rows{{"rule", "where"},
                                                   {"Swish", "layers.0.mlp, layers.1.mlp, layers.2.mlp"}};
  CHECK(table(rows, std::string::npos) ==
        "rule   where\n-----  ----------------------------------------\nSwish  layers.0.mlp, layers.1.mlp, "
        "layers.2.mlp\n");
  CHECK(table(rows, 30) == "rule   where\n-----  -----------------------\nSwish  layers.0.mlp, layers.1…\n");
  CHECK(table(rows, 5) == "rule   where\n-----  ------------\nSwish  layers.0.ml…\n");
  CHECK(table({{"é", "ü"}, {"ééé", "üüüüüüüüüüüüüü"}}, 17) == "é    ü\n---  ------------\nééé  üüüüüüüüüüü…\n");
}

TEST_CASE("Columns that the terminal has no room for go into a table below, beside the first column") {
  const std::vector<std::vector<std::string>> rows{{"model", "result", "speed", "why"},
                                                   {"a.pt", "failed", "1.25x", "it is no model that Graft knows"}};
  CHECK(table(rows, 40) ==
        "model  result  speed  why\n-----  ------  -----  ------------------\na.pt   failed  1.25x  it is no model "
        "th…\n");
  CHECK(table(rows, 30) ==
        "model  result  speed\n-----  ------  -----\na.pt   failed  1.25x\n\n"
        "model  why\n-----  -----------------------\na.pt   it is no model that Gr…\n");
  CHECK(table({{"path", "count", "more"}, {"a.very.long.path.of.a.module", "12", "345678"}}, 20) ==
        "path           count\n-------------  -----\na.very.long.…  12\n\n"
        "path          more\n------------  ------\na.very.long…  345678\n");
}
