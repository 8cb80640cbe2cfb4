// graft kernels: what the operator library offers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/json/list_json.h"
#include "app/workbench/info.h"

namespace graft::cli {
namespace {

Status kernels(const Common& o) {
  const Console console(o.printing);
  auto list = workbench::kernels();
  if (!list) return list.error();
  for (const workbench::KernelInfo& k : *list)
    console.print(fmt::format("{}\n  {}\n  {}\n  runs on: {}\n  needs: {}", console.bold(k.name), k.schema, k.doc,
                              fmt::join(k.runsOn, ", "), k.needs));
  console.document(workbench::document({{"operators", listJson(*list)}}));
  return done();
}

}  // namespace

void addKernels(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("kernels", "List the graft:: operators, where they run and what they need");
  auto o = std::make_shared<Common>();
  addCommon(*c, *o, false);
  c->callback([&run, o] { run = [o] { return kernels(*o); }; });
}

}  // namespace graft::cli
