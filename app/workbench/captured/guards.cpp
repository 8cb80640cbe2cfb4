#include "app/workbench/captured/guards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <regex>

namespace graft::workbench {
namespace {

// What each kind of guard asks of its subject. {0} is the subject as a person would name it, {1} the value that the
// guard's code compares with. Kinds are the names of the functions of torch._dynamo.guards that write the guards.
struct Kind {
  std::string_view name, brokenBy;
};
constexpr std::array kinds{
    Kind{"TYPE_MATCH", "{0} of another type than {1}"},
    Kind{"CLASS_MATCH", "{0} being another class"},
    Kind{"DUAL_LEVEL", "forward-mode gradients at another level"},
    Kind{"CONSTANT_MATCH", "{0} other than {1}"},
    Kind{"EQUALS_MATCH", "{0} other than {1}"},
    Kind{"ID_MATCH", "{0} being another object"},
    Kind{"SEQUENCE_LENGTH", "{0} of another length"},
    Kind{"TUPLE_ITERATOR_LEN", "{0} of another length"},
    Kind{"DICT_KEYS_MATCH", "{0} with other keys than {1}"},
    Kind{"DICT_CONST_KEYS", "{0} with other keys than {1}"},
    Kind{"DICT_CONTAINS", "{0} with one key more or less"},
    Kind{"DICT_VERSION", "{0} with changed entries"},
    Kind{"SET_CONTAINS", "{0} with one element more or less"},
    Kind{"HASATTR", "{0} with one attribute more or less"},
    Kind{"NOT_PRESENT_IN_GENERIC_DICT", "{0} with an attribute of its own that hides its class's"},
    Kind{"NOT_NONE_MATCH", "{0} being None"},
    Kind{"NONE_MATCH", "{0} not being None"},
    Kind{"BOOL_MATCH", "{0} other than {1}"},
    Kind{"NN_MODULE", "{0} replaced by another module"},
    Kind{"MODULE_MATCH", "{0} replaced by another Python module"},
    Kind{"FUNCTION_MATCH", "{0} replaced by another function"},
    Kind{"CLOSURE_MATCH", "{0} replaced by another function"},
    Kind{"BUILTIN_MATCH", "{0} replaced by another function"},
    Kind{"EMPTY_NN_MODULE_HOOKS_DICT", "a hook registered in {0}"},
    Kind{"GRAD_MODE", "torch.no_grad() or torch.enable_grad() around the call where it was otherwise"},
    Kind{"DETERMINISTIC_ALGORITHMS", "torch.use_deterministic_algorithms() switched"},
    Kind{"DEFAULT_DEVICE", "torch.set_default_device() or a device context around the call"},
    Kind{"GLOBAL_STATE", "another default dtype, autocast, number of threads or other global switch of PyTorch"},
    Kind{"TORCH_FUNCTION_STATE", "a torch function mode around the call"},
    Kind{"AUTOGRAD_SAVED_TENSORS_HOOKS", "hooks on saved tensors around the call"},
    Kind{"FSDP_TRAINING_STATE", "another state of FSDP"},
};

void replaceAll(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

/// L['x'] is x; what the source reaches through dictionaries of attributes, it reaches by their names.
std::string inWords(std::string_view source) {
  static const std::regex scope(R"([LG]\['([^']*)'\])"),
      global(R"(__import_[A-Za-z0-9_]*|__builtins_dict___[0-9]+\['([^']*)'\])"),
      entry(R"(\._(?:modules|parameters|buffers)\['([^']*)'\])"),
      attribute(R"(object\.__getattribute__\(([^,()]*), '([^']*)'\))");
  std::string out = std::regex_replace(std::string(source), scope, "$1");
  out = std::regex_replace(out, entry, ".$1");
  for (int round = 0; round < 4; ++round) out = std::regex_replace(out, attribute, "$1.$2");
  std::smatch found;
  while (std::regex_search(out, found, global)) {
    std::string by = found[1].str();
    if (by.empty()) {  // __import_torch_dot_nn is torch.nn
      by = found.str().substr(std::string_view("__import_").size());
      replaceAll(by, "_dot_", ".");
    }
    out = found.prefix().str() + by + found.suffix().str();
  }
  return out;
}

/// What the code compares the subject with: "3" of "L['scale'] == 3", the class of a check of types.
std::string compared(std::string_view code) {
  if (const size_t type = code.rfind("type=<class '"); type != std::string_view::npos) {
    const std::string_view rest = code.substr(type + 13);
    return std::string(rest.substr(0, rest.find('\'')));
  }
  if (const size_t equal = code.rfind(" == "); equal != std::string_view::npos)
    return std::string(code.substr(equal + 4));
  return "";
}

/// The graph's input that stands for an argument: torch.compile calls it l_x_ or L_x_ where it is not called x.
const InputType* inputOf(std::string_view subject, const std::vector<InputType>& inputs) {
  const auto plain = [](std::string_view name) {
    std::string out;
    for (const char c : name)
      if (std::isalnum(static_cast<unsigned char>(c)))
        out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
  };
  const std::string wanted = plain(subject);
  for (const InputType& i : inputs) {
    const std::string name = plain(i.name);
    if (name == wanted || name == "l" + wanted) return &i;
  }
  return nullptr;
}

/// Whether a size of "f32[s0,16]@cpu" may differ from call to call.
bool hasSymbols(std::string_view type) {
  const size_t open = type.find('['), close = type.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos) return false;
  const std::string_view sizes = type.substr(open, close - open);
  return std::any_of(sizes.begin(), sizes.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
}

Guard::About aboutWhat(std::string_view kind, std::string_view source) {
  if (kind == "SHAPE_ENV") return Guard::About::Arguments;
  const size_t local = source.find("L['");
  if (local == std::string_view::npos) return Guard::About::Surroundings;
  return source.substr(local).starts_with("L['self']") ? Guard::About::Model : Guard::About::Arguments;
}

}  // namespace

const char* spelling(Guard::About about) {
  switch (about) {
    case Guard::About::Arguments:
      return "arguments";
    case Guard::About::Model:
      return "model";
    case Guard::About::Surroundings:
      return "surroundings";
  }
  return "";
}

Guard explainGuard(std::string_view text, const std::vector<InputType>& inputs) {
  const size_t colon = text.find(": ");
  const std::string_view head = text.substr(0, colon);
  const std::string_view code = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 2);
  const size_t space = head.find(' ');
  const std::string_view kind = head.substr(0, space);
  const std::string_view source = space == std::string_view::npos ? std::string_view() : head.substr(space + 1);
  Guard out{std::string(text), aboutWhat(kind, source), ""};
  const std::string subject = inWords(source);
  if (kind == "TENSOR_MATCH") {
    const InputType* input = inputOf(subject, inputs);
    const bool anySize = input && hasSymbols(input->type);
    out.brokenBy =
        input
            ? fmt::format("{} of another dtype, device{} than {}, or that requires gradients where it did not", subject,
                          anySize ? " or rank" : " or size", input->type)
            : fmt::format("{} of another dtype, device or size, or that requires gradients where it did not", subject);
    return out;
  }
  if (kind == "SHAPE_ENV") {
    std::string asked = inWords(code);
    replaceAll(asked, ".size()", ".shape");
    out.brokenBy = asked.empty() ? "other sizes than those that it was captured with"
                                 : fmt::format("sizes for which this does not hold: {}", asked);
    return out;
  }
  const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.name == kind; });
  if (known != kinds.end()) {
    const std::string value = inWords(compared(code));
    out.brokenBy =
        fmt::format(fmt::runtime(known->brokenBy), subject.empty() ? "it" : subject, value.empty() ? "it was" : value);
    return out;
  }
  out.brokenBy = code.empty() ? fmt::format("a change of {}", subject.empty() ? std::string(kind) : subject)
                              : fmt::format("this no longer being so: {}", inWords(code));
  return out;
}

std::vector<Guard> explainGuards(const std::vector<std::string>& texts, const std::vector<InputType>& inputs) {
  std::vector<Guard> out;
  for (const std::string& text : texts) out.push_back(explainGuard(text, inputs));
  std::stable_sort(out.begin(), out.end(), [](const Guard& a, const Guard& b) { return a.about < b.about; });
  return out;
}

BreakPlace breakPlace(std::string_view text) {
  BreakPlace out;
  std::string reason(text);
  static const std::regex place(R"(^(.*) \(([^()]*[^ ()]):([0-9]+): (.*)\)$)");
  std::smatch found;
  if (const std::string whole = reason; std::regex_match(whole, found, place)) {
    reason = found[1].str();
    out.file = found[2].str();
    const std::string line = found[3].str();
    std::from_chars(line.data(), line.data() + line.size(), out.line);
    out.code = found[4].str();
  }
  const auto split = [&](std::string_view mark, std::string& rest) {
    const size_t at = reason.find(mark);
    if (at == std::string::npos) return;
    rest = reason.substr(at + mark.size());
    reason.resize(at);
  };
  split(" Hint: ", out.hint);
  split(" Explanation: ", out.explanation);
  replaceAll(out.hint, " Hint: ", "\n");
  // What torch.compile calls by the name of its own function.
  out.reason = reason.starts_with("generic_jump TensorVariable") ? "the branch depends on the values of a tensor"
               : reason.starts_with("generic_jump")              ? "the branch depends on what is not captured"
               : reason.starts_with("step_unsupported")          ? "torch.compile does not support what the line does"
                                                                 : reason;
  return out;
}

}  // namespace graft::workbench
