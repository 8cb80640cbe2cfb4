// RoomyVector: a vector whose copies have room for an eighth more. A graph is copied to be rewritten, and a copy that
// is full moves all its nodes to new memory at the first one added, which costs more than hundreds of rewrites. Room
// that nobody uses is address space, not memory, where it counts: big blocks come from the system untouched.
#pragma once

#include <utility>
#include <vector>

namespace graft {

template <class T>
class RoomyVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  RoomyVector() = default;
  RoomyVector(const RoomyVector& other) : std::vector<T>() {
    this->reserve(other.size() + other.size() / 8 + 2);
    this->insert(this->end(), other.begin(), other.end());
  }
  RoomyVector(RoomyVector&&) noexcept = default;
  RoomyVector& operator=(const RoomyVector& other) {
    if (this != &other) *this = RoomyVector(other);
    return *this;
  }
  RoomyVector& operator=(RoomyVector&&) noexcept = default;
  ~RoomyVector() = default;
};

}  // namespace graft
