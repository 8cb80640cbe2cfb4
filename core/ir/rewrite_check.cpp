#include "core/ir/rewrite_check.h"

namespace graft {

std::string_view verdictName(RewriteProof::Verdict v) {
  using V = RewriteProof::Verdict;
  switch (v) {
    case V::Unchecked:
      return "unchecked";
    case V::Proven:
      return "proven";
    case V::Measured:
      return "measured";
    case V::Unproven:
      return "unproven";
    case V::Failed:
      return "failed";
  }
  return "";
}

}  // namespace graft
