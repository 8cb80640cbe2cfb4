// Modules: those that a pattern finds by name or type, and those of nn.Module classes, built in __init__ and called in
// forward.
#include <fmt/format.h>
#include <re2/re2.h>

#include "core/base/suggest.h"
#include "matcher/lang/body.h"
#include "matcher/lang/names.h"

namespace graft::lang {

Term Body::callPatternModule(const Syntax& s) {
  if (side_ != Side::Pattern)
    fail(s.focus, "a replacement keeps a module by naming it: write pattern and replacement as nn.Module classes");
  if (s.items.size() < 2) fail(s.focus, "call_module(name or type, inputs...)");
  const Term which = evaluate(s.items[1]);
  std::vector<std::pair<std::string, Argument>> kwargs;
  if (const Argument* a = which.literal(); a && a->as<std::string>()) {
    const std::string& expression = *a->as<std::string>();
    const RE2 re(expression, RE2::Quiet);
    if (!re.ok()) fail(s.items[1].span, fmt::format("this is not a regular expression: {}", re.error()));
    kwargs.emplace_back(expression.find('.') == std::string::npos ? "name" : "path", Argument(expression));
  } else if (const auto* path = which.as<Path>()) {
    const std::string type = lastPart(path->name);
    if (path->name.starts_with("torch.nn.") && !isTorchModule(type)) {
      std::vector<std::string> known;
      for (std::string_view m : torchModules()) known.emplace_back(m);
      const auto near = nearestName(type, known);
      fail(s.items[1].span, fmt::format("torch.nn has no module `{}`{}", type,
                                        near ? fmt::format("; did you mean `nn.{}`?", *near) : ""));
    }
    kwargs.emplace_back("type", Argument(path->name.starts_with("torch.nn.") ? "torch.nn." + type : type));
  } else {
    fail(s.items[1].span, "the first argument is a name expression (\"[qkv]_proj\") or a module type (nn.Linear)");
  }
  std::vector<Argument> args;
  for (size_t i = 2; i < s.items.size(); ++i) args.push_back(argument(evaluate(s.items[i]), Type::any(), nullptr));
  if (!s.keywords.empty()) fail(s.keywords[0].value.span, "a module's inputs are given in the order of its call");
  return patternNode("pattern.call_module", std::move(args), std::move(kwargs), s.focus);
}

void Body::construct(const ClassSyntax& type) {
  class_ = &type;
  const FunctionSyntax* init = type.findFunction("__init__");
  if (!init) return;
  for (size_t i = 1; i < init->parameters.size(); ++i) {
    const ParameterSyntax& p = init->parameters[i];
    if (p.defaultValue)
      define(p.name, evaluate(*p.defaultValue));
    else
      define(p.name, Term{Wildcard{}, p.span});  // sizes: a pattern matches whatever they are
  }
  for (const StatementSyntax& s : init->body) {
    if (s.kind != StatementSyntax::Kind::Assign) continue;  // super().__init__()
    Term value = evaluate(*s.value);
    for (const Syntax& target : s.targets) {
      if (const auto* m = value.as<std::shared_ptr<ModuleInstance>>(); m && target.kind == Syntax::Kind::Attribute) {
        auto named = std::make_shared<ModuleInstance>(**m);
        named->name = target.name;
        value = Term{std::move(named), value.span};
      }
      assign(target, value);
    }
  }
  names_.clear();
}

Term Body::callModule(const Syntax& s, const ModuleInstance& module) {
  if (module.name.empty())
    fail(s.focus, "build the module in __init__ and call it in forward: self.name = nn." + module.type + "(...)");
  std::vector<Term> positional;
  std::vector<std::pair<std::string, Term>> keywords;
  arguments(s, 1, positional, keywords);
  if (!keywords.empty()) fail(keywords[0].second.span, "a module's inputs are given in the order of its call");
  const Span focus = s.items[0].focus;
  std::vector<Argument> args;
  if (side_ == Side::Pattern) {
    for (const Term& t : positional) args.push_back(argument(t, Type::any(), nullptr));
    modules[module.name] = module.type;
    Term call = patternNode("pattern.call_module", std::move(args),
                            {{"type", Argument((isTorchModule(module.type) ? "torch.nn." : "") + module.type)}}, focus,
                            module.name);
    named_.insert(call.as<GraphValue>()->id);
    return call;
  }
  if (auto it = modules.find(module.name); it != modules.end()) {
    if (it->second != module.type)
      fail(
          module.span,
          fmt::format(
              "`{}` is {} in the pattern and {} here: the same name keeps the module, so give the new one another name",
              module.name, it->second, module.type));
    for (const Term& t : positional) args.push_back(argument(t, Type::any(), nullptr));
    return patternNode("pattern.call_module", std::move(args), {{"keep", Argument(module.name)}}, focus, module.name);
  }
  if (positional.size() != 1) fail(focus, fmt::format("a new {} takes one input", module.type));
  return newModule(module, positional[0], focus);
}

Term Body::newModule(const ModuleInstance& module, Term input, Span span) {
  if (module.type == "Identity") return input;
  const ModuleFunction* f = findModuleFunction(module.type);
  if (!f)
    fail(
        module.span,
        fmt::format(
            "a new nn.{} would need weights or a state of its own: name a module of the pattern to keep it, or compute "
            "with torch functions on Weights",
            module.type));
  std::vector<Term> positional{std::move(input)};
  std::vector<std::pair<std::string, Term>> keywords = module.keywords;
  const auto parameters = spelledParameters(f->parameters);
  if (module.arguments.size() > parameters.size())
    fail(module.span, fmt::format("nn.{} takes {} arguments", module.type, parameters.size()));
  for (size_t i = 0; i < module.arguments.size(); ++i)
    keywords.emplace_back(std::string(parameters[i].python), module.arguments[i]);
  Term made = callTerm(Term{Path{std::string(f->function)}, span}, std::move(positional), std::move(keywords), span);
  if (const auto* v = made.as<GraphValue>(); v && graph.value(v->id).producer)  // it is called by its name afterwards
    graph.setModule(
        graph.value(v->id).producer,
        graph.addModuleCall(
            {}, module.name,
            (module.type == "Flatten" ? "torch.nn.modules.flatten." : "torch.nn.modules.activation.") + module.type));
  return made;
}

}  // namespace graft::lang
