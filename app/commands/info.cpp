// graft info: what a file is and holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/workbench/info.h"
#include "core/base/words.h"
#include "core/ir/calls/default_values.h"
#include "core/ir/used_symbols.h"
#include "core/text/text.h"

namespace graft::cli {
namespace {

struct InfoFlags : Common {
  std::string model;
};

/// A row for each name, the most frequent first.
std::vector<std::vector<std::string>> countRows(const char* heading, const char* count,
                                                const std::map<std::string, size_t>& counts) {
  std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> rows{{heading, count}};
  for (const auto& [name, n] : sorted) rows.push_back({name.empty() ? "(unknown type)" : name, std::to_string(n)});
  return rows;
}

/// "returns 3 new values of buffers (bn.running_mean, …), 1 output, 10 gradients (fc.weight, …)"
std::string signatureText(const TrainingSignature& s) {
  using enum ReturnedRole::Kind;
  std::string out;
  for (const auto& [kind, noun] : {std::pair(Mutation, "new value"), std::pair(Output, "output"),
                                   std::pair(Gradient, "gradient"), std::pair(Saved, "saved value")}) {
    std::vector<std::string> names;
    size_t count = 0;
    for (const ReturnedRole& r : s.returns) {
      if (r.kind != kind) continue;
      ++count;
      if (!r.of.empty()) names.push_back(r.of);
    }
    if (count > 0)
      out += (out.empty() ? "returns " : ", ") + counted(count, noun) +
             (names.empty() ? "" : fmt::format(" ({})", firstFew(names, 3)));
  }
  if (!s.tangents.empty()) out += fmt::format("; takes tangents: {}", firstFew(s.tangents, 3));
  return out;
}

std::string captureText(const Capturing& c) {
  if (!c.obstacle.empty()) return "on a GPU it runs operator by operator: " + c.obstacle;
  std::string text = "on a GPU it runs as a CUDA graph";
  if (!c.writes.empty()) text += fmt::format(", which writes {} as well", fmt::join(c.writes, ", "));
  if (!c.waits.empty())
    text +=
        fmt::format("; {} where that waits for the GPU: {}. Keep the number as a tensor, or calculate it from sizes",
                    c.inPieces ? "as several, with single operators between them," : "operator by operator", c.waits);
  return text;
}

void print(const workbench::ModelInfo& info, const std::string& path, const Console& console) {
  const Model& m = info.model;
  const Graph& g = m.graph;
  console.print(fmt::format("{}  {} {}, {}", console.bold(g.name.empty() ? path : g.name), m.format->name, path,
                            bytesText(m.fileBytes)));
  for (ValueId v : g.inputs()) {
    const Argument* byDefault = findDefault(g, v);
    console.print(fmt::format("  input   {} : {}{}", g.value(v).name, toString(g.value(v).type),
                              byDefault ? " = " + toText(*byDefault, g) : ""));
  }
  for (const Symbol& s : usedSymbols(g)) console.print(fmt::format("  size    {} in {}", s.name, rangeText(s)));
  for (const Argument& r : g.returns()) {
    std::string type;
    r.forEachValue([&](ValueId v) { type += (type.empty() ? "" : ", ") + toString(g.value(v).type); });
    console.print(fmt::format("  output  {} : {}", toText(r, g), type));
  }
  constexpr size_t million = 1'000'000;
  const std::string elements =
      info.weightElements < million
          ? fmt::format("{} elements", info.weightElements)
          : fmt::format("{:.1f} million elements", static_cast<double>(info.weightElements) / million);
  console.print(fmt::format("  {} nodes, {} module calls, {} weights ({} in {})", g.nodeCount(), g.moduleCalls().size(),
                            g.weights().size(), bytesText(m.weightBytes), elements));
  if (m.signature) console.print("  " + signatureText(*m.signature));
  if (!m.methods.empty()) console.print(fmt::format("  other methods: {}", fmt::join(m.methods, ", ")));
  if (!m.operatorLibraries.empty())
    console.print(fmt::format("  needs operator libraries: {}", fmt::join(m.operatorLibraries, ", ")));
  for (const MissingOperator& m : info.missing)
    console.print(
        fmt::format("  lacks {}, which {} {}", m.name, firstFew(m.nodes, 4), m.nodes.size() == 1 ? "calls" : "call"));
  console.print("  " + captureText(info.capture));
  size_t guards = 0;
  for (const std::string& note : m.notes)
    if (note.starts_with("guard: "))
      ++guards;
    else
      console.print("  " + note);
  if (guards > 0) console.print(fmt::format("  captured under {} guards; --json lists them", guards));
  console.print("\n" + table(countRows("operator", "count", info.operators)));
  if (!info.modules.empty()) console.print(table(countRows("module", "calls", info.modules)));
}

Status info(const InfoFlags& o) {
  const Console console(o.printing);
  auto found = workbench::info({o.model, methodOf(o)}, semantics(), console.job());
  if (!found) return found.error();
  if (console.json())
    console.document(workbench::document(toJson(*found)));
  else
    print(*found, o.model, console);
  noteMissing(o.model, found->missing, "Here the model can be drawn, matched and rewritten, but not run.", console);
  return done();
}

}  // namespace

void addInfo(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("info", "Say what a file holds: format, inputs, outputs, operators, modules, weights");
  auto o = std::make_shared<InfoFlags>();
  c->add_option("model", o->model, modelHelp())->required()->type_name("MODEL");
  addMethodOption(*c, *o);
  addCommon(*c, *o, false);
  c->callback([&run, o] { run = [o] { return info(*o); }; });
}

}  // namespace graft::cli
