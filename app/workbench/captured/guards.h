// Guards: what torch.compile asks before it runs a captured graph, in words: which call would break the guard, so that
// the model is captured again.
//
//   explainGuard("CONSTANT_MATCH L['scale']: L['scale'] == 3", {})   // Arguments, "scale other than 3"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::workbench {

struct Guard {
  enum class About : uint8_t {
    Arguments,     ///< what the model is called with
    Model,         ///< the model's own modules and attributes
    Surroundings,  ///< Python's globals, PyTorch's switches
  };
  std::string text;  ///< as torch.compile spells it
  About about = About::Surroundings;
  std::string brokenBy;  ///< "x of another dtype, device or rank than f32[5,16]@cpu"
};

/// An input of the graph and its type, as text.
struct InputType {
  std::string name, type;
};

Guard explainGuard(std::string_view text, const std::vector<InputType>& inputs);
/// Those about arguments first; the order is otherwise kept.
std::vector<Guard> explainGuards(const std::vector<std::string>& texts, const std::vector<InputType>& inputs);

/// "arguments", "model", "surroundings": as JSON spells it.
const char* spelling(Guard::About);

/// Where and why a capture broke: "reason Explanation: … Hint: … (file.py:12: code)", taken apart.
struct BreakPlace {
  std::string reason;             ///< what torch.compile does not capture, in a few words
  std::string explanation, hint;  ///< its own; may be empty
  std::string file, code;
  int line = 0;  ///< 0 where the text names none
};
BreakPlace breakPlace(std::string_view text);

}  // namespace graft::workbench
