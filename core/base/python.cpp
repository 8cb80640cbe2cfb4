#include "core/base/python.h"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "core/base/child.h"

namespace graft {

Result<std::string> findPython(const std::string& named, const std::string& option, const std::string& purpose,
                               const Job& job) {
  std::vector<std::string> candidates;
  const char* environment = std::getenv("GRAFT_PYTHON");
  if (!named.empty())
    candidates = {named};
  else if (environment && *environment)
    candidates = {environment};
  else
    candidates = {GRAFT_BUILD_PYTHON, "python3"};
  std::string why;
  for (const std::string& python : candidates) {
    auto child = Child::start({python, "-c", "import importlib.util as u; print(u.find_spec('torch') is not None)"});
    auto answer = child ? child->readLine(job, "looking for PyTorch") : child.error();
    if (answer && *answer == "True") return python;
    if (!answer && answer.error().kind == ErrorKind::Cancelled) return answer.error();
    why += fmt::format("{}{}", why.empty() ? "" : "; ", answer ? python + " has no torch" : answer.error().message);
  }
  return Error{ErrorKind::BadInput,
               fmt::format("{} needs a Python with PyTorch: {}. Name one by {}GRAFT_PYTHON", purpose, why,
                           option.empty() ? "" : option + " or "),
               {}};
}

}  // namespace graft
