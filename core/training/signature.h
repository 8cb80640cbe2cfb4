// TrainingSignature: what the graphs of a training step take and return, place by place. Such a graph writes nothing in
// place: a buffer's new value is one of its results, and the signature says to which buffer it goes.
//
//   for (const ReturnedRole& r : signature.returns)
//     if (r.kind == ReturnedRole::Kind::Gradient) use(r.of);   // "encoder.layer.0.weight"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graft {

struct ReturnedRole {
  enum class Kind : uint8_t {
    Output,    ///< what the model returns
    Mutation,  ///< the new value of a buffer or an input
    Gradient,  ///< of a parameter or an input
    Saved,     ///< what the forward half keeps for the backward half
  };
  Kind kind = Kind::Output;
  std::string of;  ///< the path of the buffer or parameter, or the name of the input or the saved value; "": an output
  bool operator==(const ReturnedRole&) const = default;
};

struct TrainingSignature {
  std::vector<ReturnedRole> returns;    ///< one for each leaf of what the graph returns, None included
  std::vector<std::string> tangents;    ///< names of the inputs that are gradients of the model's outputs
  std::vector<std::string> parameters;  ///< names of the inputs that live as long as the model: keeping them is free
  bool operator==(const TrainingSignature&) const = default;
};

/// "output", "mutation", "gradient", "saved": as files and JSON spell it.
constexpr const char* spelling(ReturnedRole::Kind kind) {
  switch (kind) {
    case ReturnedRole::Kind::Output:
      return "output";
    case ReturnedRole::Kind::Mutation:
      return "mutation";
    case ReturnedRole::Kind::Gradient:
      return "gradient";
    case ReturnedRole::Kind::Saved:
      return "saved";
  }
  return "";
}

}  // namespace graft
