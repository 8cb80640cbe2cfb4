#include "app/workbench/batch/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/atomic_file.h"
#include "core/base/suggest.h"

namespace graft::workbench {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// One model as its manifest line says it, the defaults filled in.
struct Described {
  std::string model, output, inputs, rules, recipe, fusion, method, device, dtype;
  std::vector<std::string> input, expect, library;
};

constexpr std::array<std::string_view, 12> keys{"model",  "output", "inputs", "rules", "recipe", "fusion",
                                                "method", "device", "dtype",  "input", "expect", "library"};

Result<BatchTask> made(const Described& d, const BatchDefaults& defaults) {
  const bool hasRules = !d.rules.empty();
  if (!hasRules && (!d.recipe.empty() || !d.expect.empty() || !defaults.flagsOfRules.empty()))
    return Error{ErrorKind::Usage,
                 fmt::format("{}: {} needs a rule file; give one with --rules", d.model,
                             !d.recipe.empty()   ? "a recipe"
                             : !d.expect.empty() ? "an expected number of rewrites"
                                                 : defaults.flagsOfRules.front()),
                 {}};
  BatchTask task{d.model, d.output, {hasRules ? "apply" : "optimize", d.model}, {d.model}};
  const auto say = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    task.words.emplace_back(option);
    task.words.push_back(value);
  };
  const auto read = [&](const char* option, const std::string& file) {
    say(option, file);
    if (!file.empty()) task.files.push_back(file);
  };
  if (task.output.empty()) {
    if (defaults.outputFolder.empty())
      return Error{ErrorKind::Usage, fmt::format("{}: no output is named; give a folder with -o", d.model), {}};
    task.output = (fs::path(defaults.outputFolder) / fs::path(d.model).stem()).string() + ".pt";
  }
  read("--rules", d.rules);
  say("--recipe", d.recipe);
  read("--fusion", d.fusion);
  say("-o", task.output);
  say("--method", d.method);
  read("--inputs", d.inputs);
  for (const std::string& i : d.input) say("--input", i);
  say("--device", d.device);
  say("--dtype", d.dtype);
  for (const std::string& e : d.expect) say("--expect", e);
  for (const std::string& l : d.library) read("--library", l);
  task.words.insert(task.words.end(), defaults.flags.begin(), defaults.flags.end());
  if (hasRules) task.words.insert(task.words.end(), defaults.flagsOfRules.begin(), defaults.flagsOfRules.end());
  return task;
}

Described described(const BatchDefaults& d) {
  Described out;
  out.rules = d.rules;
  out.recipe = d.recipe;
  out.fusion = d.fusion;
  out.device = d.device;
  out.dtype = d.dtype;
  out.library = d.libraries;
  return out;
}

/// Reads one line's object; throws the message of what is wrong with it.
class Line {
 public:
  Line(const json& object, fs::path folder) : object_(object), folder_(std::move(folder)) {
    if (!object.is_object()) throw std::invalid_argument("a line is one JSON object");
    for (const auto& [key, value] : object.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      const auto near = nearestName(key, std::vector<std::string>(keys.begin(), keys.end()));
      throw std::invalid_argument(
          fmt::format("there is no key \"{}\"{}", key, near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
    }
  }

  void text(const char* key, std::string& out) const {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return;
    if (!it->is_string() || it->get_ref<const std::string&>().empty())
      throw std::invalid_argument(fmt::format("\"{}\" is a text", key));
    out = it->get<std::string>();
  }
  void path(const char* key, std::string& out) const {
    std::string said;
    text(key, said);
    if (!said.empty()) out = (folder_ / said).lexically_normal().string();
  }
  /// A text, or a list of texts.
  void texts(const char* key, std::vector<std::string>& out, bool arePaths = false) const {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return;
    out.clear();
    for (const json& one : it->is_array() ? *it : json::array({*it})) {
      if (!one.is_string()) throw std::invalid_argument(fmt::format("\"{}\" is a text or a list of texts", key));
      const auto said = one.get<std::string>();
      out.push_back(arePaths ? (folder_ / said).lexically_normal().string() : said);
    }
  }
  /// {"Attention": 6}
  void counts(const char* key, std::vector<std::string>& out) const {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return;
    if (!it->is_object()) throw std::invalid_argument(fmt::format("\"{}\" is an object like {{\"Rule\": 2}}", key));
    for (const auto& [rule, count] : it->items()) {
      if (!count.is_number_unsigned()) throw std::invalid_argument(fmt::format("\"{}\" holds whole numbers", key));
      out.push_back(fmt::format("{}={}", rule, count.get<uint64_t>()));
    }
  }

 private:
  const json& object_;
  fs::path folder_;
};

Described read(const Line& line, Described out) {
  line.path("model", out.model);
  if (out.model.empty()) throw std::invalid_argument("\"model\" is missing: the path of the model's file");
  line.path("output", out.output);
  line.path("inputs", out.inputs);
  line.path("rules", out.rules);
  line.text("recipe", out.recipe);
  line.path("fusion", out.fusion);
  line.text("method", out.method);
  line.text("device", out.device);
  line.text("dtype", out.dtype);
  line.texts("input", out.input);
  line.texts("library", out.library, true);
  line.counts("expect", out.expect);
  return out;
}

}  // namespace

Result<BatchTask> taskFor(const std::string& model, const BatchDefaults& defaults) {
  Described d = described(defaults);
  d.model = model;
  const std::string beside = fs::path(model).replace_extension().string() + ".inputs.pt";
  std::error_code none;
  if (fs::is_regular_file(beside, none)) d.inputs = beside;
  return made(d, defaults);
}

Result<std::vector<BatchTask>> readManifest(const std::string& path, const BatchDefaults& defaults) {
  std::ifstream in(path);
  if (!in) return badInput(fmt::format("the manifest {} cannot be read", path));
  std::vector<BatchTask> out;
  std::string text;
  for (int line = 1; std::getline(in, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Position at{path, line, 0, text.size() > 200 ? "" : text};
    try {
      const json object = json::parse(text);
      auto task = made(read(Line(object, fs::path(path).parent_path()), described(defaults)), defaults);
      if (!task) return Error{task.error().kind, task.error().message, at};
      out.push_back(std::move(*task));
    } catch (const json::exception& e) {
      const std::string what = e.what();
      return badInputAt(at,
                        "this line is no JSON: " + what.substr(what.find(']') == what.npos ? 0 : what.find(']') + 2));
    } catch (const std::invalid_argument& e) {
      return badInputAt(at, e.what());
    }
  }
  if (out.empty()) return badInput(fmt::format("the manifest {} names no model", path));
  return out;
}

Status writePart(const std::string& path, const std::vector<BatchTask>& tasks) {
  json list = json::array();
  for (const BatchTask& t : tasks)
    list.push_back({{"model", t.model}, {"output", t.output}, {"words", t.words}, {"files", t.files}});
  return writeFileAtomically(path, json{{"tasks", std::move(list)}}.dump());
}

Result<std::vector<BatchTask>> readPart(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const json part = json::parse(in, nullptr, false);
  std::vector<BatchTask> out;
  try {
    for (const json& t : part.at("tasks"))
      out.push_back({t.at("model").get<std::string>(), t.at("output").get<std::string>(),
                     t.at("words").get<std::vector<std::string>>(), t.at("files").get<std::vector<std::string>>()});
  } catch (const json::exception& e) {
    return badInput(fmt::format("{} is no part of a batch: {}", path, e.what()));
  }
  return out;
}

Status checkOutputs(const std::vector<BatchTask>& tasks) {
  std::map<std::string, std::string> writtenFor, readFor;
  const auto key = [](const std::string& path) {
    std::error_code none;
    const fs::path whole = fs::weakly_canonical(path, none);
    return none ? path : whole.string();
  };
  for (const BatchTask& t : tasks)
    for (const std::string& file : t.files) readFor.emplace(key(file), file);
  for (const BatchTask& t : tasks) {
    const auto [other, first] = writtenFor.emplace(key(t.output), t.model);
    if (!first)
      return Error{ErrorKind::Usage,
                   fmt::format("{} and {} would both be written to {}; name outputs of their own in a manifest",
                               other->second, t.model, t.output),
                   {}};
    if (const auto read = readFor.find(key(t.output)); read != readFor.end())
      return Error{ErrorKind::Usage, fmt::format("the result of {} would overwrite {}", t.model, read->second), {}};
  }
  return done();
}

}  // namespace graft::workbench
