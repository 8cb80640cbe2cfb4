// Result<T>: a value, or an Error that a person can act on. For everything a user can cause; broken invariants assert.
//
//   Result<Graph> g = readModel(path);
//   if (!g) return g.error();
//   use(*g);
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace graft {

/// What went wrong, sorted by whose move it is. The command line's exit codes follow from it.
enum class ErrorKind {
  Internal,      ///< a defect of ours: exit 1
  Usage,         ///< the call was wrong: exit 2
  BadInput,      ///< a file or its content is wrong: exit 3
  Expectation,   ///< a rule matched another number of times than expected: exit 4
  Verification,  ///< the rewritten model computes something else: exit 5
  NoDevice,      ///< the asked-for device is not there: exit 6
  Cancelled,     ///< the user stopped it: exit 130
};

/// A place in a text file. Lines and columns count from 1; 0 means unknown.
struct Position {
  std::string file;
  int line = 0;
  int column = 0;
  std::string text;  ///< the line itself, for the caret; may be empty
};

struct Error {
  ErrorKind kind = ErrorKind::BadInput;
  std::string message;  ///< what is wrong and what to do, one or two sentences
  std::optional<Position> position;

  /// "file:line:column: message", then the line and a caret under the column where they are known.
  std::string format() const;
};

inline Error badInput(std::string message) { return {ErrorKind::BadInput, std::move(message), {}}; }
inline Error badInputAt(Position p, std::string message) {
  return {ErrorKind::BadInput, std::move(message), std::move(p)};
}
inline Error internalError(std::string message) { return {ErrorKind::Internal, std::move(message), {}}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  bool ok() const { return state_.index() == 0; }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::move(std::get<0>(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error, where there is nothing to return.
struct Done {};
using Status = Result<Done>;
inline Status done() { return Done{}; }

}  // namespace graft
