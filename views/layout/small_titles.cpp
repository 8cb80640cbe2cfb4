#include "views/layout/small_titles.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "views/layout/node_text.h"

namespace graft {
namespace {

bool isLower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }
bool isUpper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

/// The two lines of a title whose longer one is shortest: "scaled_dot_", "product_attention". Of one word, nothing.
std::pair<std::string_view, std::string_view> inTwoLines(std::string_view title) {
  size_t best = 0;
  double least = textWidth(title, Metrics::titleSize);
  for (size_t at = 1; at < title.size(); ++at) {
    const char before = title[at - 1];
    const bool isBetweenWords =
        before == '_' || before == '.' || before == ' ' || (isLower(before) && isUpper(title[at]));
    if (!isBetweenWords) continue;
    const double longer =
        std::max(textWidth(title.substr(0, at), Metrics::titleSize), textWidth(title.substr(at), Metrics::titleSize));
    if (longer < least) least = longer, best = at;
  }
  if (best == 0) return {};
  return {title.substr(0, best), title.substr(best)};
}

/// What the field, or Python, calls it in short; empty where there is no such name.
std::string_view usualName(std::string_view title) {
  static const std::unordered_map<std::string_view, std::string_view> names = {
      {"add", "+"},
      {"sub", "−"},
      {"mul", "×"},
      {"div", "÷"},
      {"pow", "^"},
      {"sqrt", "√"},
      {"rsqrt", "1/√"},
      {"sum", "Σ"},
      {"bitwise_and", "&"},
      {"logical_and", "&"},
      {"bitwise_or", "|"},
      {"logical_or", "|"},
      {"bitwise_not", "¬"},
      {"logical_not", "¬"},
      {"le", "≤"},
      {"lt", "<"},
      {"ge", "≥"},
      {"gt", ">"},
      {"eq", "="},
      {"ne", "≠"},
      {"matmul", "@"},
      {"bmm", "@"},
      {"mm", "@"},
      {"addmm", "@+"},
      {"baddbmm", "@+"},
      {"linear", "lin"},
      {"conv1d", "conv"},
      {"conv2d", "conv"},
      {"conv3d", "conv"},
      {"convolution", "conv"},
      {"layer_norm", "LN"},
      {"batch_norm", "BN"},
      {"batch_norm_legit", "BN"},
      {"batch_norm_legit_no_training", "BN"},
      {"group_norm", "GN"},
      {"rms_norm", "RMS"},
      {"attention", "attn"},
      {"qkv_projection", "QKV"},
      {"embedding", "emb"},
      {"dropout", "drop"},
      {"softmax", "smax"},
      {"sigmoid", "σ"},
      {"hardswish", "h-swish"},
      {"cross_entropy_loss", "CE"},
      {"nll_loss", "NLL"},
      {"mse_loss", "MSE"},
      {"transpose", "T"},
      {"permute", "perm"},
      {"reshape", "resh"},
      {"unsqueeze", "unsq"},
      {"expand", "bcast"},
      {"arange", "0…n"},
      {"select", "[i]"},
      {"getitem", "[i]"},
      {"slice", "[:]"},
      {"index", "idx"},
      {"index_select", "idx"},
      {"masked_fill", "mask"},
      {"contiguous", "contig"},
      {"to_copy", "to"},
      {"constant", "const"},
      {"constant_pad_nd", "pad"},
      {"max_pool2d", "maxpool"},
      {"max_pool2d_with_indices", "maxpool"},
      {"avg_pool2d", "avgpool"},
      {"adaptive_avg_pool2d", "avgpool"},
      {"attention_mask", "mask"},
      {"input_ids", "ids"},
      {"token_type_ids", "types"},
      {"pixel_values", "pixels"},
      {"input", "in"},
      {"inputs", "in"},
      {"output", "out"},
      {"outputs", "out"},
  };
  if (title.starts_with("scaled_dot_product_")) return "SDPA";  // of several backends
  const auto it = names.find(title);
  return it == names.end() ? std::string_view() : it->second;
}

/// "native_layer_norm_backward": "layer_norm bwd", "LN bwd". Of "inputs_0", "in 0".
void addBriefNames(std::string_view title, TitleForms& forms) {
  std::string_view core = title;
  if (core.size() > 1 && core.ends_with('_')) core.remove_suffix(1);  // in place
  std::string end;
  for (const std::string_view backward : {"_dense_backward", "_backward_data", "_backward"})
    if (end.empty() && core.size() > backward.size() && core.ends_with(backward))
      core.remove_suffix(backward.size()), end = " bwd";
  if (const size_t digits = core.size() - std::min(core.size(), core.find_last_not_of("0123456789") + 1);
      digits > 0 && digits < core.size()) {
    std::string_view stem = core.substr(0, core.size() - digits);
    if (stem.ends_with('_') || stem.ends_with(' ')) stem.remove_suffix(1);
    if (stem == "input" || stem == "inputs" || stem == "output" || stem == "outputs") {
      forms.stem = stem;
      forms.hasUsual = true;
      forms.brief = {std::string(usualName(stem)) + " " + std::string(core.substr(core.size() - digits))};
      return;
    }
  }
  const std::string_view all = core;
  for (const std::string_view prefix : {"_", "native_", "unsafe_"})
    if (core.size() > prefix.size() && core.starts_with(prefix)) core.remove_prefix(prefix.size());
  forms.stem = core;
  if (core != all || !end.empty()) forms.brief.push_back(std::string(core) + end);
  const std::string_view usual = usualName(core);
  forms.hasUsual = !usual.empty();
  if (forms.hasUsual) forms.brief.push_back(std::string(usual) + end);
}

}  // namespace

TitleForms titleForms(std::string_view title) {
  TitleForms forms;
  const auto [first, second] = inTwoLines(title);
  forms.first = first;
  forms.second = second;
  addBriefNames(title, forms);
  return forms;
}

void Spellings::add(std::string_view title, const TitleForms& forms, size_t spelling) {
  if (forms.brief.empty()) return;
  auto it = titles_.find(title);
  if (it == titles_.end()) it = titles_.emplace(title, Known{forms, 0}).first;
  it->second.spelling = std::max(it->second.spelling, spelling);
  if (forms.hasUsual && spelling == forms.brief.size()) usual_.insert(forms.stem);
}

size_t Spellings::of(std::string_view title) const {
  const auto it = titles_.find(title);
  if (it == titles_.end()) return 0;
  const auto& [forms, spelling] = it->second;
  return forms.hasUsual && usual_.contains(forms.stem) ? forms.brief.size() : spelling;
}

std::vector<std::pair<std::string, std::string>> Spellings::shortNames() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [title, known] : titles_)
    if (const size_t spelling = of(title); spelling > 0) out.emplace_back(spelled(title, known.forms, spelling), title);
  return out;
}

}  // namespace graft
