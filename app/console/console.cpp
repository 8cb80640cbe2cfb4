#include "app/console/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "app/console/interrupt.h"

namespace graft::cli {
namespace {

// The width of UTF-8 text on the screen, in code points: none of what we print is wider or narrower.
size_t width(const std::string& s) {
  size_t n = 0;
  for (unsigned char c : s) n += (c & 0xC0) != 0x80;
  return n;
}

}  // namespace

Console::Console(Options options) : options_(options) {
  const bool noColour = std::getenv("NO_COLOR") && *std::getenv("NO_COLOR");
  colour_ = isatty(STDOUT_FILENO) && !noColour && !options.json;
  progress_ = isatty(STDERR_FILENO) && !options.quiet;
  cancel_ = onInterrupt();
}

void Console::print(const std::string& text) const {
  if (options_.json) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

void Console::note(const std::string& text) const {
  if (!options_.quiet) warn(text);
}

void Console::warn(const std::string& text) const {
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", text);
}

void Console::document(const std::string& text) const {
  if (options_.json) fmt::print("{}\n", text);
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
      // Where the end is not known, the last report stays until the next one.
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

}  // namespace graft::cli
