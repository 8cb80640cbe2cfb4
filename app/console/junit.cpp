#include "app/console/junit.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/atomic_file.h"

namespace graft::cli {
namespace {

/// For an attribute or for text. XML has no place for most control characters.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\n')
      out += "&#10;";
    else
      out += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '?' : c;
  }
  return out;
}

/// A sort of failure, as CI systems group them.
const char* kindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Internal:
      return "internal";
    case ErrorKind::Usage:
      return "usage";
    case ErrorKind::BadInput:
      return "input";
    case ErrorKind::Expectation:
      return "expectation";
    case ErrorKind::Verification:
      return "verification";
    case ErrorKind::NoDevice:
      return "device";
    case ErrorKind::Cancelled:
      return "cancelled";
  }
  return "?";
}

}  // namespace

void JUnitFile::add(const std::string& name, double seconds, const std::optional<Error>& error,
                    const std::string& skipped) {
  cases_.push_back({name, seconds, error, skipped});
}

std::string JUnitFile::text() const {
  double seconds = 0;
  for (const Case& c : cases_) seconds += c.seconds;
  const auto count = [&](auto&& has) { return std::count_if(cases_.begin(), cases_.end(), has); };
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"0\" skipped=\"{}\" time=\"{:.3f}\">\n",
      escaped(suite_), cases_.size(), count([](const Case& c) { return c.error.has_value(); }),
      count([](const Case& c) { return !c.error && !c.skipped.empty(); }), seconds);
  for (const Case& c : cases_) {
    out += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"", escaped(suite_), escaped(c.name),
                       c.seconds);
    if (c.error)
      out += fmt::format("><failure type=\"{}\" message=\"{}\">{}</failure></testcase>\n", kindName(c.error->kind),
                         escaped(c.error->message.substr(0, c.error->message.find('\n'))), escaped(c.error->format()));
    else if (!c.skipped.empty())
      out += fmt::format("><skipped message=\"{}\"/></testcase>\n", escaped(c.skipped));
    else
      out += "/>\n";
  }
  return out + "</testsuite>\n</testsuites>\n";
}

Status JUnitFile::write() const { return path_.empty() ? done() : writeFileAtomically(path_, text()); }

}  // namespace graft::cli
