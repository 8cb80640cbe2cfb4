// SlackVector: a vector whose copies have room for an eighth more elements. Rewriting starts with a copy of the graph.
// Without slack the first added node would move all nodes to new memory, which costs more than hundreds of rewrites.
// The slack of a large graph costs address space, not memory: the system provides a page when it is first touched.
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
