#include "app/workbench/rules.h"
#include "tests/support/catch.h"

using namespace graft;

static std::vector<std::pair<std::string, Argument>> keywordsAfter(Step step, const std::string& device) {
  Recipe recipe;
  recipe.steps = {std::move(step)};
  workbench::planForDevice(recipe, device);
  return recipe.steps.front().kwargs;
}

TEST_CASE("passes that tell a GPU from a CPU plan for the device that a model will run on") {
  for (const char* name : {"fuse", "split_bias", "channels_last", "conv1d_as_conv2d"})
    for (const char* device : {"cuda", "cuda:1"}) {
      Step step;
      step.name = name;
      const auto keywords = keywordsAfter(step, device);
      INFO(name << " for " << device);
      REQUIRE(keywords.size() == 1);
      CHECK(keywords[0].first == "gpu");
      CHECK(*keywords[0].second.as<bool>());
    }
}

TEST_CASE("what a step says of its device stays, as do other steps and all steps for a CPU") {
  Step fuse, normalize;
  fuse.name = "fuse";
  normalize.name = "normalize";
  CHECK(keywordsAfter(fuse, "cpu").empty());
  CHECK(keywordsAfter(normalize, "cuda").empty());
  fuse.kwargs.emplace_back("gpu", Argument(false));
  const auto keywords = keywordsAfter(fuse, "cuda");
  REQUIRE(keywords.size() == 1);
  CHECK_FALSE(*keywords[0].second.as<bool>());
}
