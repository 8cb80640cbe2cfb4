#include "core/ir/rewrite_check.h"

#include <sstream>

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
  const auto number = [](double d) {
    std::ostringstream out;
    out << d;
    return out.str();
  };
  std::string out;
  if (t.rmse) out = "an RMSE of " + number(100 * *t.rmse) + " % of the result's";
  if (t.rtol || t.atol)
    out += (out.empty() ? "" : " and ") + number(t.atol.value_or(0)) + " + " + number(t.rtol.value_or(0)) +
           " of the expected at each element";
  return out;
}

}  // namespace graft
