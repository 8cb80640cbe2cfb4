#include "app/console/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "app/console/interrupt.h"

namespace graft::cli {
namespace {

// The width of UTF-8 text on the screen, in code points: none of what we print is wider or narrower.
size_t width(std::string_view s) {
  size_t n = 0;
  for (unsigned char c : s) n += (c & 0xC0) != 0x80;
  return n;
}

/// The text in at most so many columns.
std::string shortened(std::string_view s, size_t most) {
  if (width(s) <= most) return std::string(s);
  size_t end = 0;
  for (size_t columns = 0; end < s.size(); ++end)
    if ((static_cast<unsigned char>(s[end]) & 0xC0) != 0x80 && ++columns >= most) break;
  return std::string(s.substr(0, end)) + "…";
}

/// Columns of a table that stand beside each other, and how wide each is there.
struct Part {
  std::vector<size_t> columns, widths;
  size_t width() const { return std::accumulate(widths.begin(), widths.end(), 2 * widths.size()) - 2; }
};

/// As few parts as fit into `most` columns of the screen. Each begins with the first column of the table, which says
/// what a row is of. A column that does not even fit so is shortened, and the last one before a part begins for it.
std::vector<Part> parts(std::vector<size_t> widths, size_t most) {
  constexpr size_t least = 12;  // of a column that is shortened
  std::vector<Part> out{{{0}, {widths[0]}}};
  for (size_t i = 1; i < widths.size(); ++i) {
    const size_t needed = i + 1 < widths.size() ? widths[i] : std::min(least, widths[i]);
    if (out.back().columns.size() > 1 && out.back().width() + 2 + needed > most) out.push_back({{0}, {widths[0]}});
    out.back().columns.push_back(i);
    out.back().widths.push_back(widths[i]);
  }
  for (Part& part : out)
    for (size_t& w : {std::ref(part.widths.back()), std::ref(part.widths.front())})
      if (const size_t all = part.width(); all > most) w = std::min(w, std::max(least, most - std::min(most, all - w)));
  return out;
}

std::string partText(const std::vector<std::vector<std::string>>& rows, const Part& part) {
  std::string out;
  for (size_t k = 0; k < rows.size(); ++k) {
    std::string line;
    for (size_t i = 0; i < part.columns.size() && part.columns[i] < rows[k].size(); ++i) {
      const std::string cell = shortened(rows[k][part.columns[i]], part.widths[i]);
      line += cell + std::string(part.widths[i] - width(cell) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
    if (k > 0) continue;
    for (size_t i = 0; i < part.widths.size(); ++i) out += (i ? "  " : "") + std::string(part.widths[i], '-');
    out += "\n";
  }
  return out;
}

size_t columnsOf(int file) {
  winsize size{};
  return isatty(file) && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : std::string::npos;
}

}  // namespace

/// The line on a terminal that says how far the work has come; or, for a program that shows it in its own way, a line
/// of JSON for each report. Reports come from any thread.
class Console::ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  explicit ProgressLine(bool asJson) : asJson_(asJson) {}
  void show(std::string_view what, size_t done, size_t total) {
    const std::scoped_lock lock(mutex_);
    if (asJson_) {
      const nlohmann::json step{{"progress", what}, {"done", done}, {"total", total}};
      fmt::print(stderr, "{}\n", step.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      return;
    }
    // Where the end is not known, the last report stays until the next one.
    stands_ = total == 0 || done < total;
    fmt::print(stderr, "\r\033[K{}", stands_ ? progressText(what, done, total, columnsOf(STDERR_FILENO)) : "");
    std::fflush(stderr);
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(stands_, false)) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }

 private:
  bool asJson_;
  std::mutex mutex_;
  bool stands_ = false;
};

Console::Console(Options options) : options_(options) {
  const bool noColour = std::getenv("NO_COLOR") && *std::getenv("NO_COLOR");
  colour_ = isatty(STDOUT_FILENO) && !noColour && !options.json;
  const char* wanted = std::getenv("GRAFT_PROGRESS");
  const bool asJson = wanted && std::string_view(wanted) == "json";
  if ((asJson || isatty(STDERR_FILENO)) && !options.quiet) progress_ = std::make_shared<ProgressLine>(asJson);
  cancel_ = onInterrupt();
}

void Console::print(const std::string& text) const {
  if (options_.json) return;
  if (progress_) progress_->clear();
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

void Console::note(const std::string& text) const {
  if (!options_.quiet) warn(text);
}

void Console::warn(const std::string& text) const {
  if (progress_) progress_->clear();
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", text);
}

void Console::document(const std::string& text) const {
  if (!options_.json) return;
  if (progress_) progress_->clear();
  fmt::print("{}\n", text);
}

Job Console::job() const {
  Job job;
  job.cancel = cancel_;
  if (progress_)
    job.onProgress = [line = progress_](std::string_view what, size_t done, size_t total) {
      line->show(what, done, total);
    };
  return job;
}

std::string progressText(std::string_view what, size_t done, size_t total, size_t most) {
  const std::string percent =
      total > 0
          ? fmt::format(" {:.0f} %", 100.0 * static_cast<double>(std::min(done, total)) / static_cast<double>(total))
          : "";
  // A line as wide as the terminal would wrap, and only its last part could be cleared.
  const size_t room = most > percent.size() + 8 ? most - percent.size() - 1 : 8;
  return shortened(what, room) + percent;
}

std::string bytesText(size_t n) {
  if (n >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(n) / 1e6);
  return n >= 1000 ? fmt::format("{:.1f} kB", static_cast<double>(n) / 1e3) : fmt::format("{} B", n);
}

size_t terminalWidth() { return columnsOf(STDOUT_FILENO); }

std::string table(const std::vector<std::vector<std::string>>& rows, size_t most) {
  if (rows.empty()) return "";
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& r : rows)
    for (size_t i = 0; i < r.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], width(r[i]));
  std::string out;
  for (const Part& part : parts(std::move(widths), most)) out += (out.empty() ? "" : "\n") + partText(rows, part);
  return out;
}

}  // namespace graft::cli
