// Modules: those that a pattern finds by name or type, and those of nn.Module classes, made in __init__ and called in
// forward. In a pattern they stand for modules of the model. A replacement keeps those that the pattern names; others
// are new, and their forward is pasted in.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>

#include "core/base/suggest.h"
#include "matcher/lang/body.h"
#include "matcher/lang/names.h"

namespace graft::lang {
namespace {

constexpr int maxModuleDepth = 20;

/// Whether modules keep a tensor under that name: weight, in_proj_bias, running_mean.
bool isWeightName(std::string_view name) {
  for (std::string_view part : {"weight", "bias", "running_"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

}  // namespace

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

// `self`, and what it is made of
// ---------------------------------------------------------------------------------------------------------------------

void Body::construct(const ClassSyntax& type) {
  self_ = std::make_shared<ModuleObject>(ModuleObject{&type, file_, {}, {}, {}});
  if (const FunctionSyntax* init = type.findFunction("__init__")) {
    for (size_t i = 1; i < init->parameters.size(); ++i) {
      const ParameterSyntax& p = init->parameters[i];
      if (p.defaultValue)
        define(p.name, evaluate(*p.defaultValue));
      else
        define(p.name, Term{Wildcard{}, p.span});  // sizes: a pattern matches whatever they are
    }
    initialise(type);
  }
  names_.clear();
}

void Body::initialise(const ClassSyntax& type) {
  const FunctionSyntax* init = type.findFunction("__init__");
  if (!init) return;
  const bool outer = std::exchange(building_, true);
  std::optional<Term> none;
  for (const StatementSyntax& s : init->body) {
    if (s.kind == StatementSyntax::Kind::Assign || s.kind == StatementSyntax::Kind::AugmentedAssign)
      statement(s, none);
    else if (s.kind == StatementSyntax::Kind::Expression && s.value->kind == Syntax::Kind::Call)
      initialiseBy(*s.value);
  }
  building_ = outer;
}

// self.register_buffer("mask", torch.ones(3)). What else is called there (super().__init__()) makes no module.
void Body::initialiseBy(const Syntax& call) {
  const std::string callee = dottedName(call.items[0]);
  const bool isBuffer = callee == "self.register_buffer";
  if (!isBuffer && callee != "self.register_parameter") {
    if (callee.find("init.") != std::string::npos && side_ == Side::Replacement)
      fail(call.span, "nothing is executed here: give the parameter its first value, nn.Parameter(torch.zeros(n))");
    return;
  }
  const std::string* name = call.items.size() > 1 ? call.items[1].literal.as<std::string>() : nullptr;
  const Syntax* value = call.items.size() > 2 ? &call.items[2] : nullptr;
  for (const KeywordSyntax& k : call.keywords) {
    if (k.name == "name") name = k.value.literal.as<std::string>();
    if (k.name == "tensor" || k.name == "param") value = &k.value;
  }
  if (!name || !value) fail(call.span, callee + "(\"name\", value) takes a name and a value");
  Syntax target;
  target.kind = Syntax::Kind::Attribute;
  target.name = *name;
  target.span = call.span;
  target.items.emplace_back();
  target.items[0].kind = Syntax::Kind::Name;
  target.items[0].name = "self";
  auto made = std::make_shared<ParameterInstance>();
  made->isBuffer = isBuffer;
  if (side_ == Side::Replacement) made->value = evaluate(*value);
  if (const auto* inner = made->value.as<std::shared_ptr<ParameterInstance>>()) made = *inner;
  assign(target, Term{std::move(made), call.span});
}

Term Body::member(const std::shared_ptr<ModuleObject>& object, const std::string& name, Span span) {
  if (const auto it = object->members.find(name); it != object->members.end()) {
    if (const auto* p = it->second.as<std::shared_ptr<ParameterInstance>>()) return readParameter(**p, span);
    return it->second;
  }
  if (const FunctionSyntax* f = object->type->findFunction(name)) return Term{Local{f, object->file, object}, span};
  if (name == "training") return Term{Argument(false), span};
  std::vector<std::string> known;
  for (const auto& [n, term] : object->members) known.push_back(n);
  const auto near = nearestName(name, known);
  fail(span, fmt::format("`self.{}` is not set in __init__{}", name,
                         near ? fmt::format("; did you mean `self.{}`?", *near) : ""));
}

// Parameters and buffers
// ---------------------------------------------------------------------------------------------------------------------

Term Body::newParameter(const Syntax& s, bool isBuffer) {
  auto made = std::make_shared<ParameterInstance>();
  made->isBuffer = isBuffer;
  if (side_ == Side::Replacement) {
    if (s.items.size() < 2) fail(s.span, "nn.Parameter(...) needs its value");
    made->value = evaluate(s.items[1]);
  }
  return Term{std::move(made), s.span};
}

Term Body::readParameter(ParameterInstance& p, Span span) {
  if (side_ == Side::Pattern || weights.contains(p.name)) return patternWeight(p.name, false, span);
  if (!p.read) {
    const ModuleCallId outer = std::exchange(call_, ModuleCallId());
    std::vector<Argument> values{argument(p.value, Type::tensor(), nullptr)};
    if (!p.takesOver.empty())
      values.push_back(expressionNode(attributeOf(p.takesOver, lastPart(p.name), Argument(), span), span));
    const Term made =
        patternNode("pattern.parameter", std::move(values),
                    {{"name", Argument(p.name)}, {"buffer", Argument(p.isBuffer)}}, span, lastPart(p.name));
    call_ = outer;
    p.read = *made.as<GraphValue>();
    named_.insert(p.read->id);
  }
  return Term{*p.read, span};
}

// A weight that the pattern finds at its place, under the name that its modules give it.
Term Body::patternWeight(const std::string& name, bool orNone, Span span) {
  auto it = weights.find(name);
  if (it == weights.end()) {
    if (side_ != Side::Pattern)
      fail(span, fmt::format("the pattern does not read `self.{}`, so nothing is known of it here", name));
    std::string wish = name;
    std::replace(wish.begin(), wish.end(), '.', '_');
    const ValueId id = graph.addInput(wish, Type::tensor());
    named_.insert(id);
    it = weights.emplace(name, PatternParameter{graph.value(id).name, PatternParameter::Kind::Weight, orNone}).first;
  }
  return Term{GraphValue{graph.findValue(it->second.name), PatternParameter::Kind::Weight, false}, span};
}

void Body::takeModulesOf(const Body& pattern) {
  modules = pattern.modules;
  weights = pattern.weights;
  for (const auto& [name, p] : weights) named_.insert(graph.addInput(p.name, Type::tensor()));
}

// Making modules
// ---------------------------------------------------------------------------------------------------------------------

Term Body::makeModule(const Syntax& s, const std::string& type, const Path& path) {
  auto module = std::make_shared<ModuleInstance>();
  module->type = type;
  module->span = s.span;
  module->definition = path.type;
  module->file = path.file;
  if (module->isContainer() && !path.type)
    addItems(s, *module);
  else if (side_ == Side::Replacement)
    arguments(s, 1, module->arguments, module->keywords);
  return Term{std::move(module), s.span};
}

Body::ModuleRef Body::moduleItem(const Syntax& s, const std::string& key) {
  const Term item = evaluate(s);
  const auto* m = item.as<ModuleRef>();
  if (!m) fail(s.span, fmt::format("`{}` is no module", key));
  return *m;
}

// nn.Sequential(a, b), nn.Sequential(OrderedDict([("fc", a)])), nn.ModuleList([a, b]), nn.ModuleDict({"fc": a}).
void Body::addItems(const Syntax& s, ModuleInstance& container) {
  std::vector<const Syntax*> given;
  for (size_t i = 1; i < s.items.size(); ++i) given.push_back(&s.items[i]);
  if (given.size() == 1 && given[0]->kind == Syntax::Kind::Call &&
      lastPart(dottedName(given[0]->items[0])) == "OrderedDict" && given[0]->items.size() == 2)
    given[0] = &given[0]->items[1];
  if (given.size() == 1 && given[0]->kind == Syntax::Kind::Dict) {
    const Syntax& dict = *given[0];
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const std::string* key = dict.items[i].literal.as<std::string>();
      if (!key) fail(dict.items[i].span, "the name of a module is a string");
      container.items.emplace_back(*key, moduleItem(dict.items[i + 1], *key));
    }
    return;
  }
  if (given.size() == 1 && (given[0]->kind == Syntax::Kind::List || given[0]->kind == Syntax::Kind::Tuple)) {
    const Syntax& list = *given[0];
    given.clear();
    for (const Syntax& i : list.items) given.push_back(&i);
  }
  for (const Syntax* item : given) {
    const bool isPair = item->kind == Syntax::Kind::Tuple && item->items.size() == 2 &&
                        item->items[0].literal.as<std::string>() != nullptr;
    const std::string key = isPair ? *item->items[0].literal.as<std::string>() : std::to_string(container.items.size());
    container.items.emplace_back(key, moduleItem(isPair ? item->items[1] : *item, key));
  }
}

void Body::nameModule(ModuleInstance& module, const std::string& name) {
  if (!module.name.empty()) return;
  module.name = name;
  for (auto& [key, item] : module.items) nameModule(*item, name + "." + key);
}

Term Body::subscriptModule(const Syntax& s, const ModuleInstance& module) {
  if (s.items.size() != 2 || !module.isContainer())
    fail(s.span, "only Sequential, ModuleList and ModuleDict have items");
  const Term index = evaluate(s.items[1]);
  const Argument* literal = index.literal();
  const std::string* key = literal ? literal->as<std::string>() : nullptr;
  if (const auto* i = literal ? literal->as<int64_t>() : nullptr) {
    const auto size = static_cast<int64_t>(module.items.size());
    if (*i < -size || *i >= size) fail(s.items[1].span, fmt::format("there is no item {} of {}", *i, size));
    return Term{module.items[static_cast<size_t>(*i < 0 ? *i + size : *i)].second, s.span};
  }
  for (const auto& [name, item] : module.items)
    if (key && *key == name) return Term{item, s.span};
  fail(s.items[1].span, "an item of modules is chosen by a number or a name that the rule knows");
}

// The classes of torch.nn that a replacement can make anew.
const FileContext& Body::library() {
  if (!library_) {
    static const SourceText text = SourceText::scan(moduleLibrary(), moduleLibraryName);
    static const FileSyntax syntax = parseFile(text);
    library_ = std::make_unique<FileContext>(FileContext{text, syntax, file_->operators});
  }
  return *library_;
}

const ClassSyntax& Body::definitionOf(const ModuleInstance& module, const FileContext*& file) {
  file = module.definition ? module.file : &library();
  if (module.definition) return *module.definition;
  const ClassSyntax* type = file->syntax.findClass(module.type);
  if (!type)
    fail(module.span,
         fmt::format(
             "a replacement cannot make a new nn.{}: name a module of the pattern to keep it, write an nn.Module "
             "of your own, or compute with torch functions on Weights",
             module.type));
  return *type;
}

ModuleObject& Body::objectOf(ModuleInstance& module, Span at) {
  if (module.object) return *module.object;
  guardSize(at);
  const FileContext* file = nullptr;
  const ClassSyntax* type = &definitionOf(module, file);
  module.object = std::make_shared<ModuleObject>(ModuleObject{type, file, module.name, module.takesOver, {}});
  if (const FunctionSyntax* init = type->findFunction("__init__")) {
    if (++depth_ > maxModuleDepth)
      fail(at, fmt::format("`{}` holds itself, or modules hold each other too deeply", module.type));
    Names inner = namesFor(Local{init, file, module.object}, module.arguments, module.keywords, at);
    if (const auto layers = inner.find("num_layers"); !module.definition && layers != inner.end())
      if (const Argument* n = layers->second.literal(); !n || n->number() > mostRecurrentLayers)
        fail(module.span,
             fmt::format("a replacement can make a new nn.{} of 1 to {} layers, a number that the rule says",
                         module.type, mostRecurrentLayers));
    std::swap(names_, inner);
    const auto outer = std::exchange(self_, module.object);
    inFile(*file, at, [&] {
      initialise(*type);
      return Term{};
    });
    self_ = outer;
    std::swap(names_, inner);
    --depth_;
  }
  return *module.object;
}

// self.linear.weight, self.layer_norm.eps: of the model's module, or of the new one.
Term Body::memberOf(const ModuleRef& module, const std::string& name, Span span) {
  for (const auto& [key, item] : module->items)
    if (key == name) return Term{item, span};
  const std::string full = module->name + "." + name;
  const bool isWeight = isWeightName(name), mayBeNone = name.find("bias") != std::string::npos;
  if (module->type.empty()) {  // a path that torch.fx printed
    if (isWeight) return patternWeight(full, mayBeNone, span);
    auto inner = std::make_shared<ModuleInstance>(*module);
    inner->name = full;
    return Term{std::move(inner), span};
  }
  const auto named = modules.find(module->name);
  if (weights.contains(full)) return patternWeight(full, mayBeNone, span);
  if (named != modules.end()) {
    if (side_ == Side::Pattern && isWeight)
      fail(span, fmt::format("the pattern calls `self.{}`, and the call brings its weights along", module->name));
    Expression e = attributeOf(named->second.node, name, std::nullopt, span);
    if (!isWeight) return Term{std::move(e), span};
    return Term{GraphValue{expressionNode(e, span).valueId(), std::nullopt, false}, span};
  }
  if (side_ == Side::Pattern) {
    if (building_) return Term{Wildcard{}, span};
    if (isWeight) return patternWeight(full, mayBeNone, span);
    fail(span, fmt::format("what `self.{}` is, is known once the pattern has called the module", full));
  }
  return member((objectOf(*module, span), module->object), name, span);
}

// What a module of the match has: m.eps, or getattr(m, "eps", otherwise).
Expression Body::attributeOf(const std::string& moduleNode, const std::string& name, std::optional<Argument> otherwise,
                             Span span) {
  Expression e;
  e.kind = otherwise ? Expression::Kind::Call : Expression::Kind::Attribute;
  e.name = otherwise ? "getattr" : name;
  e.operands.resize(otherwise ? 3 : 1);
  for (Expression& o : e.operands) o.source = text_->location(span);
  e.source = text_->location(span);
  e.operands[0].kind = Expression::Kind::Name;
  e.operands[0].name = moduleNode;
  if (otherwise) {
    e.operands[1].literal = Argument(name);
    e.operands[2].literal = *otherwise;
  }
  return e;
}

void Body::callAlone(const Syntax& module) {
  const ValueId x = addParameter("x", PatternParameter::Kind::Value);
  const Term input{GraphValue{x, PatternParameter::Kind::Value, false}, module.span};
  if (side_ == Side::Pattern) {
    const Term which = evaluate(module);
    std::string type;
    std::pair<std::string, Argument> key;
    if (const Argument* a = which.literal(); a && a->as<std::string>()) {
      const RE2 re(*a->as<std::string>(), RE2::Quiet);
      if (!re.ok()) fail(module.span, fmt::format("this is not a regular expression: {}", re.error()));
      key = {"path", *a};
    } else if (const auto* path = which.as<Path>()) {
      type = lastPart(path->name);
      key = {"type", Argument((path->name.starts_with("torch.nn.") ? "torch.nn." : "") + type)};
    } else {
      fail(module.span, "the first module is a type (nn.LayerNorm) or a path (\"encoder\\.norm\")");
    }
    const Term call = patternNode("pattern.call_module", {Argument(x)}, {std::move(key)}, module.span, "old");
    modules["old"] = {type, graph.node(graph.value(call.as<GraphValue>()->id).producer).name};
    return returns(call, module.span);
  }
  Term made = evaluate(module);
  if (const auto* path = made.as<Path>()) {
    Syntax call;  // nn.RMSNorm is nn.RMSNorm(), with what the other module says
    call.kind = Syntax::Kind::Call;
    call.span = call.focus = module.span;
    call.items = {module};
    made = path->type ? makeModule(call, path->type->name, *path) : callPath(call, path->name, module.span);
  }
  const auto* instance = made.as<ModuleRef>();
  if (!instance) fail(module.span, "the second module is nn.RMSNorm, or nn.RMSNorm(64), or an nn.Module of this file");
  ModuleInstance& fresh = **instance;
  const bool isPlain = !fresh.definition && (findModuleFunction(fresh.type) || fresh.type == "Identity");
  if (!isPlain) {
    fresh.takesOver = modules.at("old").node;
    const FileContext* file = nullptr;
    const FunctionSyntax* init = definitionOf(fresh, file).findFunction("__init__");
    for (size_t i = 1; init && i < init->parameters.size(); ++i) {
      const ParameterSyntax& p = init->parameters[i];
      const bool isGiven = i <= fresh.arguments.size() || std::any_of(fresh.keywords.begin(), fresh.keywords.end(),
                                                                      [&](const auto& k) { return k.first == p.name; });
      const Argument* otherwise =
          p.defaultValue && p.defaultValue->kind == Syntax::Kind::Constant ? &p.defaultValue->literal : nullptr;
      if (isGiven || (p.defaultValue && (!otherwise || otherwise->as<bool>()))) continue;
      fresh.keywords.emplace_back(
          p.name,
          Term{attributeOf(fresh.takesOver, p.name, otherwise ? std::optional(*otherwise) : std::nullopt, module.span),
               module.span});
    }
  }
  std::string name = fresh.type;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  nameModule(fresh, name);
  returns(callInstance(*instance, {input}, {}, module.span), module.span);
}

// Calling modules
// ---------------------------------------------------------------------------------------------------------------------

Term Body::callModule(const Syntax& s, const ModuleRef& module) {
  std::vector<Term> positional;
  std::vector<std::pair<std::string, Term>> keywords;
  arguments(s, 1, positional, keywords);
  return callInstance(module, std::move(positional), std::move(keywords), s.items[0].focus);
}

// self.layer.linear(x) in a function: the module of that path, as torch.fx prints its call.
Term Body::callByPath(const Syntax& s, const std::string& path) {
  auto module = std::make_shared<ModuleInstance>();
  module->name = path;
  module->span = s.span;
  return callModule(s, module);
}

Term Body::callInstance(const ModuleRef& module, std::vector<Term> positional,
                        std::vector<std::pair<std::string, Term>> keywords, Span focus) {
  guardSize(focus);  // a Sequential of Sequentials doubles with every line
  if (module->name.empty())
    fail(focus, "build the module in __init__ and call it in forward: self.name = nn." + module->type + "(...)");
  if (module->isContainer() && !module->items.empty()) {
    if (module->type != "Sequential")
      fail(focus, fmt::format("a {} is not called: call its items, self.{}[0](x)", module->type, module->name));
    for (const auto& [key, item] : module->items) {
      Term out = callInstance(item, std::move(positional), std::exchange(keywords, {}), focus);
      positional.assign(1, std::move(out));
    }
    return positional[0];
  }
  // It computes nothing, and leaves nothing in a graph.
  if (side_ == Side::Pattern && module->type == "Identity" && !module->definition && positional.size() == 1)
    return positional[0];
  const auto kept = modules.find(module->name);
  const bool isNew = side_ != Side::Pattern && kept == modules.end();
  if (!isNew && !keywords.empty())
    fail(keywords[0].second.span, "a module's inputs are given in the order of its call");
  if (isNew && module->type.empty())
    fail(focus, fmt::format("the pattern does not call `self.{}`, so nothing is known of it here", module->name));
  if (isNew && (module->type == "Identity" || module->type == "Dropout") && !module->definition && !positional.empty())
    return positional[0];
  if (isNew && !module->definition && findModuleFunction(module->type)) {
    if (positional.size() != 1) fail(focus, fmt::format("a new {} takes one input", module->type));
    return newActivation(*module, positional[0], focus);
  }
  if (isNew) {
    const ModuleObject& object = objectOf(*module, focus);
    const FunctionSyntax* forward = object.type->findFunction("forward");
    if (!forward) fail(focus, fmt::format("`{}` has no forward", object.type->name));
    const std::string type = object.file == library_.get() ? object.type->doc : object.type->name;
    const ModuleCallId outer = call_;
    call_ = graph.addModuleCall(outer, module->name, type);
    Term out = callFunction(Local{forward, object.file, module->object}, positional, keywords, focus);
    call_ = outer;
    return out;
  }
  if (side_ != Side::Pattern && kept->second.type != module->type)
    fail(module->span, fmt::format("`{}` is {} in the pattern and {} here: the same name keeps the module, so give the "
                                   "new one another name",
                                   module->name, kept->second.type, module->type));
  std::vector<Argument> args;
  for (const Term& t : positional) args.push_back(argument(t, Type::any(), nullptr));
  std::string wish = module->name;
  std::replace(wish.begin(), wish.end(), '.', '_');
  if (side_ != Side::Pattern)
    return patternNode("pattern.call_module", std::move(args), {{"keep", Argument(kept->second.node)}}, focus, wish);
  for (const auto& [name, p] : weights)
    if (name.starts_with(module->name + "."))
      fail(focus, fmt::format("the pattern reads `self.{}`, and this call brings it along: do one of both", name));
  std::pair<std::string, Argument> which{"path", Argument(RE2::QuoteMeta(module->name))};
  if (!module->type.empty())
    which = {"type", Argument((isTorchModule(module->type) ? "torch.nn." : "") + module->type)};
  Term call = patternNode("pattern.call_module", std::move(args), {std::move(which)}, focus, wish);
  const ValueId result = call.as<GraphValue>()->id;
  modules[module->name] = {module->type, graph.node(graph.value(result).producer).name};
  named_.insert(result);
  return call;
}

// A module that is one function, without weights of its own.
Term Body::newActivation(const ModuleInstance& module, Term input, Span span) {
  const ModuleFunction* f = findModuleFunction(module.type);
  std::vector<Term> positional{std::move(input)};
  std::vector<std::pair<std::string, Term>> keywords = module.keywords;
  const auto parameters = spelledParameters(f->parameters);
  if (module.arguments.size() > parameters.size())
    fail(module.span, fmt::format("nn.{} takes {} arguments", module.type, parameters.size()));
  for (size_t i = 0; i < module.arguments.size(); ++i)
    keywords.emplace_back(std::string(parameters[i].python), module.arguments[i]);
  const ModuleCallId outer = call_;
  call_ = graph.addModuleCall(
      outer, module.name,
      (module.type == "Flatten" ? "torch.nn.modules.flatten." : "torch.nn.modules.activation.") + module.type);
  Term made = callTerm(Term{Path{std::string(f->function)}, span}, std::move(positional), std::move(keywords), span);
  call_ = outer;
  return made;
}

// Several results
// ---------------------------------------------------------------------------------------------------------------------

bool Body::isModuleCall(const Term& t) const {
  const auto* v = t.as<GraphValue>();
  if (!v || !v->id || side_ == Side::Where) return false;
  const NodeId by = graph.value(v->id).producer;
  return by && graph.node(by).op->name == "pattern.call_module" && graph.node(by).outputs.front() == v->id;
}

Term Body::moduleOutput(const GraphValue& call, size_t index, Span span) {
  const NodeId node = graph.value(call.id).producer;
  if (index > 64) fail(span, "a module has no more than 64 results");
  while (graph.node(node).outputs.size() <= index) graph.addOutput(node, graph.node(node).name, Type::any());
  return Term{GraphValue{graph.node(node).outputs[index], std::nullopt, false}, span};
}

// y, (h, c) = self.lstm(x): the results in their order, however they are nested.
void Body::assignOutputs(const Syntax& target, const GraphValue& call, size_t& next) {
  for (const Syntax& t : target.items) {
    if (t.kind == Syntax::Kind::Tuple || t.kind == Syntax::Kind::List)
      assignOutputs(t, call, next);
    else
      assign(t, moduleOutput(call, next++, t.span));
  }
}

}  // namespace graft::lang
