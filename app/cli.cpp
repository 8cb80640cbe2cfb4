#include "app/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "app/interrupt.h"
#include "core/torch/graph_in_dtype.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"

namespace graft::cli {
namespace {

// Width on screen of UTF-8 text: code points, which serves for what we print.
size_t width(const std::string& s) {
  size_t n = 0;
  for (unsigned char c : s) n += (c & 0xC0) != 0x80;
  return n;
}

}  // namespace

Console::Console(const Common& common) : common_(common) {
  const bool noColour = std::getenv("NO_COLOR") && *std::getenv("NO_COLOR");
  colour_ = isatty(STDOUT_FILENO) && !noColour && !common.json;
  progress_ = isatty(STDERR_FILENO) && !common.quiet;
  cancel_ = onInterrupt();
}

void Console::print(const std::string& text) const {
  if (common_.json) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

void Console::note(const std::string& text) const {
  if (!common_.quiet) warn(text);
}

void Console::warn(const std::string& text) const {
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", text);
}

void Console::document(const nlohmann::json& doc) const {
  if (common_.json) fmt::print("{}\n", doc.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

Job Console::job() const {
  Job job;
  job.cancel = cancel_;
  if (progress_)
    job.onProgress = [](std::string_view what, size_t done, size_t total) {
      if (total > 0)
        fmt::print(stderr, "\r\033[K{} {:.0f} %", what, 100.0 * static_cast<double>(done) / static_cast<double>(total));
      else
        fmt::print(stderr, "\r\033[K{}", what);
      // Of what has no end that can be known, the last report stays until the next.
      if (total > 0 && done >= total) fmt::print(stderr, "\r\033[K");
      std::fflush(stderr);
    };
  return job;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& r : rows)
    for (size_t i = 0; i < r.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], width(r[i]));
  std::string out;
  for (size_t k = 0; k < rows.size(); ++k) {
    std::string line;
    for (size_t i = 0; i < rows[k].size(); ++i) {
      line += rows[k][i];
      if (i + 1 < rows[k].size()) line += std::string(widths[i] - width(rows[k][i]) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
    if (k > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) out += (i ? "  " : "") + std::string(widths[i], '-');
    out += "\n";
  }
  return out;
}

int exitCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Internal:
      return 1;
    case ErrorKind::Usage:
      return 2;
    case ErrorKind::BadInput:
      return 3;
    case ErrorKind::Expectation:
      return 4;
    case ErrorKind::Verification:
      return 5;
    case ErrorKind::NoDevice:
      return 6;
    case ErrorKind::Cancelled:
      return 130;
  }
  return 1;
}

const Semantics& semantics() {
  static const std::unique_ptr<Semantics> one = [] {
    if (Status s = loadOperatorLibrary(); !s) fmt::print(stderr, "graft: {}\n", s.error().format());
    return makeTorchSemantics();
  }();
  return *one;
}

Result<RunOptions> runOptions(const Common& common) {
  RunOptions options;
  options.device = common.device;
  if (!common.dtype.empty()) {
    options.dtype = parseDType(common.dtype);
    if (!options.dtype || !isFloatingPoint(*options.dtype))
      return Error{ErrorKind::Usage,
                   fmt::format("--dtype {}: no floating-point dtype; try float16, bfloat16 or float32", common.dtype),
                   {}};
  }
  const std::string& d = common.device;
  if (d != "cpu" && d != "cuda" && !d.starts_with("cuda:"))
    return Error{ErrorKind::Usage, fmt::format("--device {}: use cpu, cuda or cuda:N", d), {}};
  return options;
}

Result<Model> openModel(const std::string& path, const Common& common, const ImportOptions& options, const Job& job) {
  auto run = runOptions(common);
  if (!run) return run.error();
  auto model = importModel(path, semantics(), options, job);
  if (!model || !run->dtype) return model;
  auto cast = inDType(model->graph, *run->dtype);
  if (!cast) return cast.error();
  model->graph = std::move(cast->graph);
  return model;
}

Result<TensorSet> commandInputs(const Graph& g, const Common& common) {
  auto run = runOptions(common);
  if (!run) return run.error();
  auto tensors = common.inputs.empty() ? makeInputs(g, common.specs, common.seed) : loadTensors(common.inputs);
  if (!tensors) return tensors.error();
  if (!common.givesInputs() && !common.quiet && !g.inputs().empty()) {
    std::fflush(stdout);
    fmt::print(stderr, "no inputs given: random ones of small sizes, {}; --inputs or --input give others\n",
               fmt::join(tensors->describe(), " "));
  }
  return convert(*tensors, run->device, run->dtype);
}

Result<TensorSet> typedInputs(Model& model, const Common& common, OpenSizes sizes) {
  auto inputs = commandInputs(model.graph, common);
  if (!inputs) return inputs;
  const bool keepSymbols = sizes == OpenSizes::Stay && model.format->declaresSizes;
  if (Status s = recordTypes(model.graph, *inputs, keepSymbols); !s) return s.error();
  return inputs;
}

void addCommon(CLI::App& command, Common& common, bool takesInputs) {
  command.add_flag("--json", common.json, "Make stdout one JSON document");
  command.add_flag("-q,--quiet", common.quiet, "No progress and notes on stderr");
  if (!takesInputs) return;
  command
      .add_option("--inputs", common.inputs, "Tensors saved from Python by torch.save: a tensor, list, tuple or dict")
      ->type_name("FILE");
  command
      .add_option("--input", common.specs,
                  "One input's specification, like f16[1,128]:randn or i64[2,9]:randint(0,30522); repeat for each")
      ->type_name("SPEC");
  command.add_option("--seed", common.seed, "Seed of random inputs")->capture_default_str();
  command.add_option("--device", common.device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", common.dtype, "Cast floating-point weights and inputs to this dtype");
}

}  // namespace graft::cli
