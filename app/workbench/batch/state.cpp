#include "app/workbench/batch/state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace graft::workbench {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int schemaNumber = 1;

std::string compact(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Size and time of each file that the task reads: whoever replaces one wants the model done again.
json stamps(const BatchTask& task) {
  json out = json::object();
  for (const std::string& file : task.files) {
    std::error_code none;
    const auto size = fs::file_size(file, none);
    const auto time = fs::last_write_time(file, none);
    out[file] = {none ? 0 : size, none ? 0 : time.time_since_epoch().count()};
  }
  return out;
}

}  // namespace

Result<BatchState> BatchState::open(const std::string& path, const std::string& version) {
  BatchState out;
  out.path_ = path;
  out.version_ = version;
  out.file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out.file_ < 0)
    return badInput(fmt::format("the state file {} cannot be written: {}", path, std::strerror(errno)));
  if (flock(out.file_, LOCK_EX | LOCK_NB) != 0)
    return badInput(fmt::format("another batch works with the state file {}", path));
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto isNone = [&](int line) {
    return badInputAt({path, line, 0, ""}, "this is no state of a batch; name another file with --state");
  };
  size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = text.substr(begin, end - begin);
    const json entry = json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("words") || entry.value("schema", json()) != schemaNumber)
      return isNone(number);
    out.lines_[compact(entry["words"])] = line;
    begin = end + 1;
  }
  // A line that was cut off goes; the next one must not stand behind it. Another kind of file stays as it is.
  if (begin == text.size()) return out;
  if (begin == 0 && !text.starts_with("{\"e")) return isNone(1);
  if (ftruncate(out.file_, static_cast<off_t>(begin)) != 0)
    return badInput(fmt::format("the state file {} cannot be written: {}", path, std::strerror(errno)));
  return out;
}

BatchState::BatchState(BatchState&& other) noexcept
    : path_(std::move(other.path_)),
      version_(std::move(other.version_)),
      file_(std::exchange(other.file_, -1)),
      lines_(std::move(other.lines_)) {}

BatchState::~BatchState() {
  if (file_ >= 0) close(file_);
}

std::optional<BatchResult> BatchState::doneBefore(const BatchTask& task) const {
  auto out = lastOf(task);
  if (!out || out->outcome == BatchOutcome::Failed) return {};
  std::error_code none;
  if (out->outcome == BatchOutcome::Done && !fs::exists(task.output, none)) return {};
  return out;
}

std::optional<BatchResult> BatchState::lastOf(const BatchTask& task) const {
  const auto it = lines_.find(compact(json(task.words)));
  if (it == lines_.end()) return {};
  const json entry = json::parse(it->second, nullptr, false);
  BatchResult out;
  try {
    const auto outcome = entry.at("outcome").get<std::string>();
    bool isKnown = false;
    for (const BatchOutcome one : {BatchOutcome::Done, BatchOutcome::Unchanged, BatchOutcome::Failed})
      if (outcome == outcomeName(one)) {
        out.outcome = one;
        isKnown = true;
      }
    if (!isKnown || entry.at("version") != version_ || entry.at("files") != stamps(task)) return {};
    out.error = entry.value("error", "");
    out.exitCode = entry.at("exitCode").get<int>();
    out.seconds = entry.at("seconds").get<double>();
    if (entry.contains("report")) out.report = entry["report"].dump();
  } catch (const json::exception&) {
    return {};
  }
  out.task = task;
  out.isFromState = true;
  return out;
}

Status BatchState::absorb(const std::string& path) {
  std::error_code none;
  if (!fs::exists(path, none)) return done();
  auto other = open(path, version_);
  if (!other) return other.error();
  for (const auto& [words, line] : other->lines_) {
    if (Status s = write(line + "\n"); !s) return s;
    lines_[words] = line;
  }
  return done();
}

Status BatchState::add(const BatchResult& r) {
  json entry{{"schema", schemaNumber},
             {"words", r.task.words},
             {"version", version_},
             {"files", stamps(r.task)},
             {"outcome", std::string(outcomeName(r.outcome))},
             {"exitCode", r.exitCode},
             {"seconds", r.seconds}};
  if (!r.error.empty()) entry["error"] = r.error;
  if (json report = json::parse(r.report, nullptr, false); !report.is_discarded()) entry["report"] = std::move(report);
  return write(compact(entry) + "\n");
}

Status BatchState::write(const std::string& line) {
  const ssize_t written = ::write(file_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size()) || fdatasync(file_) != 0)
    return badInput(fmt::format("the state file {} cannot be written: {}", path_, std::strerror(errno)));
  return done();
}

}  // namespace graft::workbench
