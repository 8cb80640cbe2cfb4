// Errors as GitHub's workflow commands, which a pull request shows beside the line.
//
//   console.print(annotation(error, "graft check"));   // ::error file=rules.py,line=8,col=3,title=graft check::…
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace graft::cli {

std::string annotation(const Error&, std::string_view title);

}  // namespace graft::cli
