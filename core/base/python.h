// The user's Python, for what only Python can do: PyTorch's own modes beside a model, operators that a module defines.
//
//   auto python = findPython(o.python, "--python", "--against", job);
//   auto child = Child::start({*python, "-c", script});
#pragma once

#include <string>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft {

/// The Python to ask: the one named, else $GRAFT_PYTHON, the build's own or python3, whichever has torch. For an error,
/// `option` is how to name one beside GRAFT_PYTHON ("--python"; "": no option does), and `purpose` what needs it.
Result<std::string> findPython(const std::string& named, const std::string& option, const std::string& purpose,
                               const Job&);

}  // namespace graft
