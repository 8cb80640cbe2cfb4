#include "views/layout/small_titles.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "views/layout/node_text.h"

using namespace graft;

namespace {

/// Every letter is a unit wide, the narrow ones as `narrowLetters` says.
struct Units {
  double each = 1;
  double width(std::string_view text) const {
    size_t letters = 0;
    for (const char c : text) letters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return static_cast<double>(letters) * each;
  }
  double ellipsis() const { return each; }
};

/// The only box of a drawing: "LN", "<layer_norm>" in narrow letters, "layer_|norm", "squ…", or "".
std::string set(std::string_view title, double room, int lines = 1) {
  const TitleForms forms = titleForms(title);
  const Units narrow{narrowLetters};
  const size_t spelling = firstSpelling(title, forms, room, lines, narrow).value_or(0);
  const FittedTitle t = fitTitle(title, forms, spelling, room, lines, Units{}, narrow);
  std::string s = std::string(t.first) + (t.second.empty() ? "" : "|") + std::string(t.second);
  if (t.form == FittedTitle::Form::Cut) s += "…";
  return t.isNarrow && t.form != FittedTitle::Form::Cut ? "<" + s + ">" : s;
}

std::string briefOf(std::string_view title) {
  std::string s;
  for (const std::string& brief : titleForms(title).brief) s += (s.empty() ? "" : ", ") + brief;
  return s;
}

}  // namespace

TEST_CASE("a title is cut only where nothing else has room") {
  CHECK(set("layer_norm", 10) == "layer_norm");
  CHECK(set("layer_norm", 9) == "<layer_norm>");
  CHECK(set("layer_norm", 6, 2) == "layer_|norm");
  CHECK(set("layer_norm", 5.5, 2) == "<layer_|norm>");
  CHECK(set("layer_norm", 6) == "LN");
  CHECK(set("layer_norm", 1.8) == "<LN>");
  CHECK(set("squeeze", 5, 2) == "sque…");
  CHECK(set("squeeze", 3.5) == "squ…");
  CHECK(set("squeeze", 3.3) == "");  // three letters alone would be another word
  CHECK(set("", 10) == "");
  CHECK(set("µ-µ-µ-µ", 5) == "µ-µ-…");
}

TEST_CASE("an operator has one spelling in a drawing: the first that all its boxes have room for") {
  const auto spell = [](const std::vector<std::pair<const char*, double>>& boxes) {
    Spellings spellings;
    for (const auto& [title, room] : boxes) {
      const TitleForms forms = titleForms(title);
      if (const auto first = firstSpelling(title, forms, room, 1, Units{})) spellings.add(title, forms, *first);
    }
    std::string s;
    for (const auto& [title, room] : boxes)
      s += (s.empty() ? "" : ", ") + std::string(spelled(title, titleForms(title), spellings.of(title)));
    return s;
  };
  CHECK(spell({{"layer_norm", 10}, {"layer_norm", 12}, {"add", 3}}) == "layer_norm, layer_norm, add");
  CHECK(spell({{"layer_norm", 10}, {"layer_norm", 5}, {"add", 3}}) == "LN, LN, add");
  // A box that has no room for any spelling takes none from the others.
  CHECK(spell({{"layer_norm", 10}, {"layer_norm", 1}}) == "layer_norm, layer_norm");
  // Variants and the backward pass go with it.
  CHECK(spell({{"layer_norm", 5}, {"native_layer_norm", 30}, {"native_layer_norm_backward", 30}}) == "LN, LN, LN bwd");
  CHECK(spell({{"softmax", 7}, {"_softmax", 7}}) == "softmax, softmax");
  CHECK(spell({{"softmax", 7}, {"_softmax", 4}}) == "smax, smax");
  CHECK(spell({{"output 0", 9}, {"output 12", 6}}) == "out 0, out 12");
  CHECK(spell({{"matmul", 1}, {"bmm", 3}}) == "@, bmm");  // another operator
}

TEST_CASE("a drawing tells what its short names stand for") {
  Spellings spellings;
  spellings.add("layer_norm", titleForms("layer_norm"), 1);
  spellings.add("add", titleForms("add"), 0);
  spellings.add("linear", titleForms("linear"), 1);
  CHECK(spellings.shortNames() ==
        std::vector<std::pair<std::string, std::string>>{{"LN", "layer_norm"}, {"lin", "linear"}});
}

TEST_CASE("titles become two lines between words") {
  const auto lines = [](std::string_view title) {
    const TitleForms forms = titleForms(title);
    return forms.first + "|" + forms.second;
  };
  CHECK(lines("scaled_dot_product_attention") == "scaled_dot_|product_attention");
  CHECK(lines("BertSelfAttention") == "BertSelf|Attention");
  CHECK(lines("layer.11") == "layer.|11");
  CHECK(lines("softmax") == "|");
}

TEST_CASE("titles have the short names that the field gives them") {
  CHECK(briefOf("matmul") == "@");
  CHECK(briefOf("mul_") == "×");
  CHECK(briefOf("transpose") == "T");
  CHECK(briefOf("addmm") == "@+");
  CHECK(briefOf("expand") == "bcast");
  CHECK(briefOf("arange") == "0…n");
  CHECK(briefOf("le") == "≤");
  CHECK(briefOf("select") == "[i]");
  CHECK(briefOf("slice") == "[:]");
  CHECK(briefOf("softmax") == "smax");
  CHECK(briefOf("_softmax") == "softmax, smax");
  CHECK(briefOf("_unsafe_view") == "view");
  CHECK(briefOf("native_layer_norm_backward") == "layer_norm bwd, LN bwd");
  CHECK(briefOf("embedding_dense_backward") == "embedding bwd, emb bwd");
  CHECK(briefOf("_softmax_backward_data") == "softmax bwd, smax bwd");
  CHECK(briefOf("_scaled_dot_product_flash_attention_for_cpu") == "scaled_dot_product_flash_attention_for_cpu, SDPA");
  CHECK(briefOf("inputs_0") == "in 0");
  CHECK(briefOf("output 12") == "out 12");
  CHECK(briefOf("outputs") == "out");
  CHECK(briefOf("layer.0").empty());
  CHECK(briefOf("7").empty());
  CHECK(briefOf("_").empty());
}

TEST_CASE("a short name takes less room than its title") {
  for (const char* title : {"add", "pow", "transpose", "native_dropout", "hardswish", "index", "sigmoid_backward"})
    for (const std::string& brief : titleForms(title).brief) CHECK(textWidth(brief, 9) < textWidth(title, 9));
}
