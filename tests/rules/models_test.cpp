// The shipped recipes on the sample models: what they find follows from each model's configuration. The models are
// those of samples/models/build.py and samples/minilm, which the fixture `samples` of the end-to-end tests builds.
#include <array>
#include <filesystem>
#include <map>

#include "core/ir/verify.h"
#include "core/torch/executor.h"
#include "core/torch/model.h"
#include "matcher/lang/rule_file.h"
#include "matcher/passes.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

template <class T>
T take(Result<T> r) {
  if (!r) throw std::runtime_error(r.error().format());
  return std::move(r).value();
}

using Counts = std::map<std::string, size_t>;

/// How often each rule of the recipe rewrote something; rules that did nothing are left out.
Counts counts(const std::string& model, const std::string& inputs, const std::string& rules,
              const std::string& recipe) {
  static const bool loaded = static_cast<bool>(loadOperatorLibrary());
  REQUIRE(loaded);
  static const std::unique_ptr<Semantics> semantics = makeTorchSemantics();
  const std::string folder = GRAFT_BINARY_DIR "/samples/";
  Graph graph = take(importModel(folder + model, *semantics)).graph;
  const TensorSet tensors = take(loadTensors(folder + inputs));
  const Status typed = recordTypes(graph, tensors);
  INFO((typed ? "" : typed.error().format()));
  REQUIRE(typed);
  const RuleFile file = take(loadRuleFile(GRAFT_SOURCE_DIR "/resources/rules/" + rules, semantics->operators()));
  const Recipe* found = file.findRecipe(recipe);
  REQUIRE(found);
  const RecipeRun run = take(runRecipe(graph, file, *found, *semantics));
  CHECK(verify(graph));
  Counts out;
  for (const StepRun& s : run.steps) {
    CHECK(s.refused.empty());
    if (s.isRule && !s.records.empty()) out[s.name] = s.records.size();
  }
  return out;
}
Counts ofModel(const std::string& name, const std::string& rules, const std::string& recipe,
               const char* suffix = ".pt") {
  return counts("models/" + name + suffix, "models/" + name + "_inputs.pt", rules, recipe);
}

}  // namespace

TEST_CASE("encoders: one attention and one feed-forward layer for each layer, two norms") {
  CHECK(counts("minilm.pt", "sentences.pt", "transformer.py", "Encoder") == Counts{{"QkvProjection", 6},
                                                                                   {"Attention", 6},
                                                                                   {"GeluLinear", 6},
                                                                                   {"EmbeddingLayerNorm", 1},
                                                                                   {"AddLayerNorm", 12},
                                                                                   {"Linear", 12}});
  // Of a layer's six products, q, k and v become one and FC1 takes its GELU along: two are left to Linear.
  const Counts two{{"QkvProjection", 2},      {"Attention", 2},    {"GeluLinear", 2},
                   {"EmbeddingLayerNorm", 1}, {"AddLayerNorm", 4}, {"Linear", 4}};
  CHECK(ofModel("bert", "transformer.py", "Encoder") == two);
  CHECK(ofModel("roberta", "transformer.py", "Encoder") == two);
  // DistilBERT adds two embeddings, not three.
  CHECK(ofModel("distilbert", "transformer.py", "Encoder") ==
        Counts{{"QkvProjection", 2}, {"Attention", 2}, {"GeluLinear", 2}, {"AddLayerNorm", 4}, {"Linear", 4}});
}

TEST_CASE("encoders that normalise before: sums go on as residuals, so only the last norm takes its addition along") {
  CHECK(
      ofModel("vit", "transformer.py", "Encoder") ==
      Counts{{"QkvProjection", 2}, {"AttentionWithoutMask", 2}, {"GeluLinear", 2}, {"AddLayerNorm", 1}, {"Linear", 4}});
  // Whisper's keys have no bias and its queries are scaled before they are split: three products stay.
  CHECK(ofModel("whisper", "transformer.py", "Encoder") == Counts{{"AttentionScaledBeforeWithoutMask", 2},
                                                                  {"GeluLinear", 2},
                                                                  {"AddLayerNorm", 1},
                                                                  {"Linear", 8},
                                                                  {"LinearWithoutBias", 2}});
}

TEST_CASE("decoders of two layers") {
  CHECK(
      ofModel("gpt2", "decoders.py", "Gpt2") ==
      Counts{
          {"Conv1D", 8}, {"Attention", 2}, {"NewGelu", 2}, {"GeluTanhLinear", 2}, {"AddLayerNorm", 1}, {"Linear", 6}});
  CHECK(ofModel("llama", "decoders.py", "Llama") == Counts{{"GroupedQueryAttention", 2},
                                                           {"Rotary", 2},
                                                           {"AddRmsNorm", 4},
                                                           {"RmsNorm", 1},
                                                           {"SwiGlu", 2},
                                                           {"LinearWithoutBias", 14}});
  CHECK(
      ofModel("t5", "decoders.py", "T5") ==
      Counts{{"BiasedAttention", 2}, {"AddRmsNorm", 4}, {"RmsNorm", 1}, {"ReluLinear", 2}, {"LinearWithoutBias", 10}});
}

TEST_CASE("convolutional networks: every batch norm is folded, every ReLU taken along") {
  CHECK(ofModel("resnet", "conv.py", "ConvNet") == Counts{{"FoldBatchNorm", 20}, {"ConvAddRelu", 8}, {"ConvRelu", 9}});
  // In training a batch norm depends on the batch: nothing may be folded.
  CHECK(ofModel("conv_bn_relu", "conv.py", "ConvNet") == Counts{});
}

TEST_CASE("what torch.export writes is matched as often as what tracing writes") {
  CHECK(counts("minilm.pt2", "sentences.pt", "transformer.py", "Encoder") ==
        counts("minilm.pt", "sentences.pt", "transformer.py", "Encoder"));
  for (const auto& [model, rules, recipe] :
       std::initializer_list<std::array<const char*, 3>>{{"whisper", "transformer.py", "Encoder"},
                                                         {"distilbert", "transformer.py", "Encoder"},
                                                         {"gpt2", "decoders.py", "Gpt2"},
                                                         {"llama", "decoders.py", "Llama"},
                                                         {"t5", "decoders.py", "T5"},
                                                         {"resnet", "conv.py", "ConvNet"}}) {
    INFO(model);
    CHECK(ofModel(model, rules, recipe, ".pt2") == ofModel(model, rules, recipe));
  }
}
