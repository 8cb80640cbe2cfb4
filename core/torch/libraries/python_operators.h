// Operators that a Python module defines (torch.library), for a program without Python: a Python process imports the
// module and says its operators' schemas. They are registered here under these, and each call sends the tensors there
// and takes the outputs back.
//
// Private to core/torch.
#pragma once

#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft {

/// The names of the operators ("my.fused.default"). The process runs until this program ends. BadInput where there is
/// no Python with PyTorch, where the module does not import, and where it defines no operator.
Result<std::vector<std::string>> registerPythonOperators(const std::string& module, const Job&);

}  // namespace graft
