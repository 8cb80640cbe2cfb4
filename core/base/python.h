// The user's Python, for what only Python can do: PyTorch's own modes beside a model, operators that a module defines.
//
//   auto python = findPython("", "--against", job);
//   auto child = Child::start({*python, "-c", script});
#pragma once

#include <string>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft {

/// The Python to ask: the one named, else $GRAFT_PYTHON, the build's own or python3, whichever has torch. `purpose`
/// says in an error what needs it: "--against".
Result<std::string> findPython(const std::string& named, const std::string& purpose, const Job&);

}  // namespace graft
