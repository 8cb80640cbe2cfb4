#include "core/ir/rewrite_check.h"

#include <fmt/format.h>

namespace graft {

std::string_view verdictName(RewriteVerification::Verdict v) {
  using V = RewriteVerification::Verdict;
  switch (v) {
    case V::Unchecked:
      return "unchecked";
    case V::Verified:
      return "verified";
    case V::Measured:
      return "measured";
    case V::Unverified:
      return "unverified";
    case V::Failed:
      return "failed";
  }
  return "";
}

std::string toString(const RewriteTolerance& t) {
  std::string out;
  if (t.rmse) out = fmt::format("an RMSE of {:g} % of the result's", 100 * *t.rmse);
  if (t.rtol || t.atol)
    out += fmt::format("{}{:g} + {:g} of the expected at each element", out.empty() ? "" : " and ", t.atol.value_or(0),
                       t.rtol.value_or(0));
  return out;
}

}  // namespace graft
