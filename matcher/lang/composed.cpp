#include "matcher/lang/composed.h"

namespace graft::lang {
namespace {

constexpr char content[] =
#include "composed.inc"
    ;

const SourceText& sourceText() {
  static const SourceText text = SourceText::scan(content, "composed.py");
  return text;
}

const FileSyntax& fileSyntax() {
  static const FileSyntax syntax = parseFile(sourceText());
  return syntax;
}

}  // namespace

Composed::Composed(const OperatorSet& operators) : file_{sourceText(), fileSyntax(), operators} {}

const FunctionSyntax* Composed::find(std::string_view python) const {
  constexpr std::string_view functional = "torch.nn.functional.";
  std::string name;
  if (python.starts_with('_') || python.empty()) return nullptr;
  if (python.starts_with(functional))
    name = python.substr(functional.size());
  else if (python.starts_with("torch.Tensor."))
    name = "Tensor_" + std::string(python.substr(13));
  else if (python.starts_with("torch.functional."))
    name = "torch_" + std::string(python.substr(17));
  else if (python.starts_with("torch."))
    name = "torch_" + std::string(python.substr(6));
  else if (python.starts_with('.'))
    name = "Tensor_" + std::string(python.substr(1));
  return name.empty() || name.starts_with('_') ? nullptr : file_.syntax.findFunction(name);
}

std::vector<std::string> Composed::signatures() {
  std::vector<std::string> out;
  for (const FunctionSyntax& f : fileSyntax().functions) {
    if (f.name.starts_with('_') || f.name.starts_with("Tensor_")) continue;
    const bool torchs = f.name.starts_with("torch_");
    std::string parameters;
    for (const ParameterSyntax& p : f.parameters)
      if (!p.name.starts_with('_') && p.name != "size_average" && p.name != "reduce")
        parameters += (parameters.empty() ? "" : ", ") + p.name;
    out.push_back((torchs ? "torch." + f.name.substr(6) : "F." + f.name) + "(" + parameters + ")");
  }
  return out;
}

}  // namespace graft::lang
