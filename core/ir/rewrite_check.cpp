#include "core/ir/rewrite_check.h"

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

}  // namespace graft
