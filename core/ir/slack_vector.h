// SlackVector: a vector whose copies have room for an eighth more. A graph is copied to be rewritten, and a copy that
// is full moves all its nodes to new memory at the first one added, which costs more than hundreds of rewrites. Room
// that nobody uses is address space, not memory, where it counts: big blocks come from the system untouched.
#pragma once

#include <utility>
#include <vector>

namespace graft {

template <class T>
class SlackVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  SlackVector() = default;
  SlackVector(const SlackVector& other) : std::vector<T>() {
    this->reserve(other.size() + other.size() / 8 + 2);
    this->insert(this->end(), other.begin(), other.end());
  }
  SlackVector(SlackVector&&) noexcept = default;
  SlackVector& operator=(const SlackVector& other) {
    if (this != &other) *this = SlackVector(other);
    return *this;
  }
  SlackVector& operator=(SlackVector&&) noexcept = default;
  ~SlackVector() = default;
};

}  // namespace graft
