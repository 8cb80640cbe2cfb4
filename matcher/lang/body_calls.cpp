// Calls: functions of torch, methods, alternatives, and functions of the file, whose bodies are pasted in.
#include <fmt/format.h>
#include <re2/re2.h>

#include <limits>

#include "core/base/suggest.h"
#include "matcher/lang/body.h"
#include "matcher/lang/composed.h"
#include "matcher/lang/names.h"

namespace graft::lang {
namespace {

/// Spans belong to one file: a term that is handed to a function of another file gets a span there.
void moveTo(Term& t, Span span) {
  t.span = span;
  if (auto* s = std::get_if<Sequence>(&t.data))
    for (Term& i : s->items) moveTo(i, span);
  if (auto* m = std::get_if<Method>(&t.data)) {
    m->object = std::make_shared<Term>(*m->object);
    moveTo(*m->object, span);
  }
}

/// Whether a calculation gives a list: of sizes, or written out.
bool isList(const Expression& e) {
  using Kind = Expression::Kind;
  if (e.kind == Kind::Subscript) return e.operands[1].kind == Kind::Slice;
  if (e.kind == Kind::Binary) return isList(e.operands[0]) || isList(e.operands[1]);
  if (e.kind == Kind::Attribute) return e.name == "shape";
  if (e.kind == Kind::Call)
    return e.name == "tuple" || e.name == "list" || (e.name == "size" && e.operands.size() == 1);
  return e.kind == Kind::List || e.kind == Kind::Tuple;
}

/// "cpu", or the device of a value.
bool isDevice(const Term& t) {
  if (const Argument* a = t.literal()) return a->as<DeviceName>() || a->as<std::string>();
  const auto* e = t.as<Expression>();
  return e && e->kind == Expression::Kind::Attribute && e->name == "device";
}

Argument literalFromText(std::string_view text) {
  if (text == "None") return {};
  if (text == "True" || text == "False") return Argument(text == "True");
  if (text == "[]") return Argument::list({});
  if (text.starts_with("'")) return Argument(std::string(text.substr(1, text.size() - 2)));
  if (text.starts_with("torch.")) return Argument(*parseDType(text.substr(6)));
  if (text.find_first_of(".e") != std::string_view::npos) return Argument(std::stod(std::string(text)));
  return Argument(static_cast<int64_t>(std::stoll(std::string(text))));
}

}  // namespace

/// Whether a `*` among the arguments stands for numbers whose count is known only at the match.
bool Body::starsAList(const Syntax& s, size_t first) {
  for (size_t i = first; i < s.items.size(); ++i) {
    if (s.items[i].kind != Syntax::Kind::Starred) continue;
    if (evaluate(s.items[i].items[0]).as<Expression>()) return true;
  }
  return false;
}

void Body::arguments(const Syntax& s, size_t first, std::vector<Term>& positional,
                     std::vector<std::pair<std::string, Term>>& keywords) {
  if (s.items.size() > first + 1 && starsAList(s, first)) {
    // x.view(*x.shape[:-1], 2, 2): the numbers are known at the match, and together they are the list that is meant.
    Syntax all = s;
    all.kind = Syntax::Kind::Tuple;
    all.keywords.clear();
    all.items.erase(all.items.begin(), all.items.begin() + static_cast<ptrdiff_t>(first));
    positional.push_back(evaluateSequence(all));
    first = s.items.size();
  }
  for (size_t i = first; i < s.items.size(); ++i) {
    if (s.items[i].kind != Syntax::Kind::Starred) {
      positional.push_back(evaluate(s.items[i]));
      continue;
    }
    const Term t = evaluate(s.items[i].items[0]);
    if (const auto* seq = t.as<Sequence>()) {
      positional.insert(positional.end(), seq->items.begin(), seq->items.end());
    } else if (i + 1 == s.items.size()) {
      positional.push_back(t);  // x.view(*shape) is x.view(shape)
    } else {
      fail(s.items[i].span, "how many values this `*` stands for is known only at the match");
    }
  }
  for (const auto& [name, value] : s.keywords) keywords.emplace_back(name, evaluate(value));
}

Term Body::evaluateCall(const Syntax& s) {
  guardSize(s.span);
  const Syntax& callee = s.items[0];
  const std::string dotted = dottedName(callee);
  if (dotted == "call_module" || dotted.ends_with(".call_module")) return callPatternModule(s);
  if (dotted == "call_function" || dotted.ends_with(".call_function")) return callPatternFunction(s);
  if (dotted == "any_of" || dotted.ends_with(".any_of")) return anyOf(s);
  if (dotted == "optional" || dotted.ends_with(".optional")) return optional(s);
  const bool isOurs = file_->text.file() == moduleLibraryName || (composed_ && file_ == &composed_->file());
  if (isOurs && (dotted == "by_rank" || dotted == "times")) return dotted == "by_rank" ? byRank(s) : times(s);
  if (dotted == "runtime" || dotted.ends_with(".runtime")) return runtime(s);
  if (dotted == "getattr") return callAttribute(s);
  // What torch.fx prints of a module's forward: `linear = self.layer.linear(x)`.
  if (dotted.starts_with("self.") && !self_ && !names_.contains("self") && !isHostMethod(callee.name))
    return callByPath(s, dotted.substr(5));
  const Term target = evaluate(callee);
  if (side_ == Side::Where && callee.kind == Syntax::Kind::Attribute && target.as<Expression>())
    fail(callee.focus,
         fmt::format("`{}` computes with tensors or is not known; `where` can ask shape, size(), dim(), numel(), "
                     "dtype, device and users(x)",
                     callee.name));
  if (const auto* local = target.as<Local>()) return callLocal(s, *local);
  if (const auto* module = target.as<ModuleRef>()) return callModule(s, *module);
  if (const auto* method = target.as<Method>()) return callMethod(s, *method);
  if (const auto* path = target.as<Path>())
    return path->type ? makeModule(s, path->type->name, *path) : callPath(s, path->name, callee.span);
  fail(callee.span, "this is a value, not a function");
}

// A function of another file is read with that file's names, and its mistakes are reported there.
Term Body::inFile(const FileContext& file, Span calledAt, const std::function<Term()>& evaluate) {
  if (&file == file_) return evaluate();
  const FileContext* before = file_;
  file_ = &file;
  text_ = &file.text;
  try {
    Term out = evaluate();
    file_ = before;
    text_ = &before->text;
    moveTo(out, calledAt);
    return out;
  } catch (Failure& f) {
    const Position at = before->text.position(calledAt.begin);
    if (composed_ && &file == &composed_->file()) {  // nobody knows that file: the mistake is the caller's
      f.error.position = at;
      throw;
    }
    f.error.message += fmt::format(" (used at {}:{}:{})", at.file, at.line, at.column);
    throw;
  }
}

// getattr(self.layers, "0") as torch.fx prints it, and getattr(module, "eps", 1e-5).
Term Body::callAttribute(const Syntax& s) {
  const std::string* name = s.items.size() >= 3 ? s.items[2].literal.as<std::string>() : nullptr;
  if (!name || s.items.size() > 4) fail(s.focus, "getattr(module, \"name\") takes a module and a name");
  const std::string dotted = dottedName(s.items[1]);
  const bool isPath = (dotted == "self" || dotted.starts_with("self.")) && !self_ && !names_.contains("self");
  if (isPath) {
    auto module = std::make_shared<ModuleInstance>();
    module->name = (dotted == "self" ? "" : dotted.substr(5) + ".") + *name;
    module->span = s.span;
    return Term{std::move(module), s.span};
  }
  const Term object = evaluate(s.items[1]);
  if (const auto* module = object.as<ModuleRef>()) return memberOf(*module, *name, s.span);
  Syntax attribute = s.items[1];
  attribute.kind = Syntax::Kind::Attribute;
  attribute.name = *name;
  attribute.items = {s.items[1]};
  attribute.keywords.clear();
  return evaluate(attribute);
}

Term Body::callLocal(const Syntax& s, const Local& local) {
  std::vector<Term> positional;
  std::vector<std::pair<std::string, Term>> keywords;
  arguments(s, 1, positional, keywords);
  return callFunction(local, positional, keywords, s.focus);
}

// What the function's parameters are called with.
Body::Names Body::namesFor(const Local& local, const std::vector<Term>& positional,
                           const std::vector<std::pair<std::string, Term>>& keywords, Span focus) {
  const FunctionSyntax& function = *local.function;
  const bool isMethod = local.self != nullptr;
  Names inner;
  size_t next = 0;
  for (size_t i = isMethod ? 1 : 0; i < function.parameters.size(); ++i) {
    const ParameterSyntax& p = function.parameters[i];
    std::optional<Term> given;
    if (next < positional.size()) given = positional[next++];
    for (const auto& [name, value] : keywords) {
      if (name != p.name) continue;
      if (given) fail(value.span, fmt::format("`{}` is given twice", name));
      given = value;
    }
    if (!given && p.defaultValue) {
      Names outside;
      std::swap(names_, outside);
      given = inFile(*local.file, focus, [&] { return evaluate(*p.defaultValue); });
      std::swap(names_, outside);
    }
    if (!given) fail(focus, fmt::format("`{}` needs its argument `{}`", function.name, p.name));
    inner[p.name] = *given;
    if (const auto* v = given->as<GraphValue>()) named_.insert(v->id);  // it keeps the caller's name
  }
  if (next < positional.size())
    fail(positional[next].span, fmt::format("`{}` takes {} arguments", function.name, next));
  for (const auto& [name, value] : keywords)
    if (!inner.contains(name))
      fail(text_->keywordSpan(name, value.span), fmt::format("`{}` has no argument `{}`", function.name, name));
  if (local.file != file_)
    for (const ParameterSyntax& p : function.parameters)
      if (const auto it = inner.find(p.name); it != inner.end()) moveTo(it->second, p.span);
  return inner;
}

Term Body::callFunction(const Local& local, const std::vector<Term>& positional,
                        const std::vector<std::pair<std::string, Term>>& keywords, Span focus) {
  const FunctionSyntax& function = *local.function;
  Names inner = namesFor(local, positional, keywords, focus);
  std::swap(names_, inner);
  const auto outer = std::exchange(self_, local.self);
  Term result = inFile(*local.file, focus, [&] { return run(function); });
  self_ = outer;
  std::swap(names_, inner);
  return result;
}

Term Body::callMethod(const Syntax& s, const Method& method) {
  const Term& object = *method.object;
  std::vector<Term> positional;
  std::vector<std::pair<std::string, Term>> keywords;
  const Span focus = s.items[0].focus;
  if (isHostMethod(method.name) || !object.isTensorLike()) {
    const auto self = tryHost(object, true);
    if (self && (isHostMethod(method.name) || side_ == Side::Where)) {
      arguments(s, 1, positional, keywords);
      Expression e;
      e.kind = Expression::Kind::Call;
      e.name = method.name;
      e.isMethod = true;
      e.source = text_->location(focus);
      e.operands.push_back(*self);
      for (auto& [name, value] : keywords) positional.push_back(value);
      for (const Term& t : positional) {
        const auto operand = tryHost(t);
        if (!operand) fail(t.span, "this must be known at the match");
        e.operands.push_back(*operand);
      }
      return Term{std::move(e), s.span};
    }
  }
  if (side_ == Side::Where)
    fail(focus, fmt::format("`{}` computes with tensors; `where` can ask shape, size(), dim(), numel(), dtype, device",
                            method.name));
  positional.push_back(object);
  arguments(s, 1, positional, keywords);
  const std::string spelled = "." + method.name;
  if (const FunctionSyntax* f = composedFunction(spelled)) return callComposed(*f, positional, keywords, focus);
  const Spelling* spelling = findSpelling(spelled);
  std::string packet = spelling ? std::string(spelling->packet) : packetOf(spelled);
  return callOperator(Call{std::move(packet), spelled, std::move(positional), std::move(keywords), focus}, spelled);
}

Term Body::callPath(const Syntax& s, const std::string& path, Span focus) {
  std::vector<Term> positional;
  std::vector<std::pair<std::string, Term>> keywords;
  if (path == "torch.nn.Parameter" || path == "torch.nn.parameter.Parameter") return newParameter(s, false);
  if (path == "torch.nn.Buffer" || path == "torch.nn.parameter.Buffer") return newParameter(s, true);
  if (path.starts_with("torch.nn.") && !path.starts_with("torch.nn.functional.") &&
      !path.starts_with("torch.nn.init.")) {
    const std::string type = lastPart(path);
    if (!isTorchModule(type)) {
      std::vector<std::string> known;
      for (std::string_view m : torchModules()) known.emplace_back(m);
      const auto near = nearestName(type, known);
      fail(focus, fmt::format("torch.nn has no module `{}`{}", type,
                              near ? fmt::format("; did you mean `nn.{}`?", *near) : ""));
    }
    return makeModule(s, type, {});
  }
  if (side_ == Side::Pattern && path.find('.') == std::string::npos &&
      std::isupper(static_cast<unsigned char>(path[0])))
    return makeModule(s, path, {});  // self.attention = BertSelfAttention(config)
  arguments(s, 1, positional, keywords);
  return callTerm(Term{Path{path}, focus}, std::move(positional), std::move(keywords), focus);
}

Term Body::callTerm(const Term& callee, std::vector<Term> positional,
                    std::vector<std::pair<std::string, Term>> keywords, Span span) {
  const auto* path = callee.as<Path>();
  if (!path) fail(span, "this is not a function");
  const std::string& name = path->name;
  const std::string base = lastPart(name);
  // Arithmetic on what is known at the match: math.sqrt(q.size(-1)), torch.sqrt(d_k), len(x.shape), float("-inf").
  const bool mathModule = name.starts_with("math.");
  if (isHostFunction(base) && (mathModule || name == base || name.starts_with("torch."))) {
    if (name == "float" && positional.size() == 1 && positional[0].literal() &&
        positional[0].literal()->as<std::string>()) {
      const std::string& text = *positional[0].literal()->as<std::string>();
      const double inf = std::numeric_limits<double>::infinity();
      if (text == "inf" || text == "-inf") return Term{Argument(text[0] == '-' ? -inf : inf), span};
      if (text == "nan") return Term{Argument(std::numeric_limits<double>::quiet_NaN()), span};
      fail(positional[0].span, "float(...) of a string takes \"inf\", \"-inf\" or \"nan\"");
    }
    Expression e;
    e.kind = Expression::Kind::Call;
    e.name = base;
    e.source = text_->location(span);
    if ((name == "abs" || name == "pow" || name == "round") && side_ != Side::Where &&
        std::any_of(positional.begin(), positional.end(), [](const Term& t) { return t.isTensorLike(); }))
      return callOperator(Call{"aten." + name, name, std::move(positional), std::move(keywords), span},
                          "torch." + name);
    bool host = !positional.empty() && keywords.empty();
    const bool aboutValues = name == base && (base == "len" || base == "users" || base == "isinstance");
    for (const Term& t : positional) {
      const auto operand = tryHost(t, aboutValues || side_ == Side::Where);
      host = host && operand;
      if (operand) e.operands.push_back(*operand);
    }
    if (host) return Term{std::move(e), span};
    if ((name == "abs" || name == "round") && positional.size() == 1 && positional[0].isTensorLike())
      return operation("aten." + name, name, std::move(positional), span);
    if (mathModule || name == base)
      fail(span, fmt::format("`{}` takes numbers that are known at the match, not tensors", name));
  }
  if (name == "torch.device") {  // device(type='cuda', index=0)
    std::string device;
    for (const Term& t : positional)
      if (const Argument* a = t.literal(); a && a->as<std::string>()) device = *a->as<std::string>();
    for (const auto& [key, t] : keywords) {
      const Argument* a = t.literal();
      if (key == "type" && a && a->as<std::string>()) device = *a->as<std::string>() + device;
      if (key == "index" && a && a->as<int64_t>()) device += fmt::format(":{}", *a->as<int64_t>());
    }
    if (device.empty()) fail(span, "a device is written torch.device(\"cpu\")");
    return Term{Argument(DeviceName{std::move(device)}), span};
  }
  if ((name == "torch.finfo" || name == "torch.iinfo") && positional.size() == 1) return positional[0];  // then .min
  if (mathModule)
    fail(span, fmt::format("`{}` is not a function of math that rules know: sqrt, floor, ceil, log, exp, pow", name));
  if (name.starts_with("torch.ops.")) {
    const std::string op = name.substr(10);
    const bool exact = std::count(op.begin(), op.end(), '.') == 2;
    return callOperator(Call{op, name, std::move(positional), std::move(keywords), span, exact}, name);
  }
  if (const FunctionSyntax* f = composedFunction(name)) return callComposed(*f, positional, keywords, span);
  if (name.starts_with("torch.Tensor."))
    return callOperator(Call{"aten." + base, name, std::move(positional), std::move(keywords), span}, "." + base);
  const Spelling* spelling = findSpelling(name);
  std::string packet = spelling ? std::string(spelling->packet) : packetOf(name);
  if (packet.empty()) {
    const ImportedName* from = nullptr;
    for (const ImportedName& i : text_->importedNames())
      if (i.module + "." + i.name == name) from = &i;
    if (from && from->module.find('.') != std::string::npos)
      fail(span,
           fmt::format("`{}` is imported from `{}`, which is not read: write a function of that name in this file, "
                       "which may call torch and kernels, or import one from a rule file",
                       from->name, from->module));
    if (from)
      fail(span, fmt::format("`{0}` is imported from `{1}`, and there is no {1}.py beside this file or among the "
                             "shipped rules",
                             from->name, from->module));
    fail(span, fmt::format("`{}` is not a function that a rule can use: torch, torch.nn.functional, kernels and "
                           "functions of this file are",
                           name));
  }
  return callOperator(Call{std::move(packet), name, std::move(positional), std::move(keywords), span}, name);
}

Term Body::callOperator(Call call, const std::string& spellingName) {
  if (side_ == Side::Where)
    fail(call.span, "`where` looks at shapes, dtypes and constants; it cannot compute with tensors");
  if (spellingName.starts_with("torch.nn.functional.")) call.spelled = "F." + lastPart(spellingName);
  if (spellingName.starts_with("graft.kernels.")) call.spelled = "kernels." + lastPart(spellingName);
  const Spelling* spelling = findSpelling(spellingName);
  if (spelling && !spelling->parameters.empty()) {
    const auto parameters = spelledParameters(spelling->parameters);
    std::vector<std::pair<std::string, Term>> mapped;
    size_t next = 0;
    for (const SpelledParameter& p : parameters) {
      std::optional<Term> given;
      if (next < call.positional.size()) given = call.positional[next++];
      for (auto it = call.keywords.begin(); it != call.keywords.end(); ++it) {
        if (it->first != p.python && it->first != p.schema) continue;
        if (given) fail(it->second.span, fmt::format("`{}` is given twice", it->first));
        given = it->second;
        call.keywords.erase(it);
        break;
      }
      if (p.schema == "-") {
        const Argument* literal = given ? given->literal() : nullptr;
        if (!given || (literal && *literal == literalFromText(*p.fallback))) continue;
        if (p.python == "inplace" && literal && *literal == Argument(true)) {
          call.packet += "_";
          continue;
        }
        if (p.python == "return_indices" && literal && *literal == Argument(true)) {
          call.packet += "_with_indices";
          continue;
        }
        if (p.python == "_stacklevel" || given->as<Wildcard>()) continue;
        fail(given->span, fmt::format("`{}` of `{}` has no meaning in a graph: leave it out", p.python, call.spelled));
      }
      // "_": a parameter without influence on numbers (cudnn_enabled): any value in a pattern, True in a replacement.
      if (!given && p.fallback && *p.fallback == "_")
        given = side_ == Side::Pattern ? Term{Wildcard{}, call.span} : Term{Argument(true), call.span};
      if (!given && p.fallback) given = Term{literalFromText(*p.fallback), call.span};
      if (!given) fail(call.span, fmt::format("`{}` needs its argument `{}`", call.spelled, p.python));
      mapped.emplace_back(std::string(p.schema), *given);
    }
    if (next < call.positional.size())
      fail(call.positional[next].span, fmt::format("`{}` takes {} arguments", call.spelled, parameters.size()));
    if (!call.keywords.empty()) {
      std::vector<std::string> names;
      for (const SpelledParameter& p : parameters) names.emplace_back(p.python);
      const auto& [name, value] = call.keywords.front();
      const auto near = nearestName(name, names);
      fail(text_->keywordSpan(name, value.span), fmt::format("`{}` has no argument `{}`{}", call.spelled, name,
                                                             near ? fmt::format("; did you mean `{}`?", *near) : ""));
    }
    call.positional.clear();
    call.keywords = std::move(mapped);
  }
  // A loss takes its reduction as a number.
  for (auto& [name, value] : call.keywords) {
    const auto* how = name == "reduction" && value.literal() ? value.literal()->as<std::string>() : nullptr;
    const int64_t number = !how ? -1 : *how == "none" ? 0 : *how == "mean" ? 1 : *how == "sum" ? 2 : -1;
    if (number >= 0) value.data = Argument(number);
  }
  // split with a list of sizes is another operator than split into equal parts.
  if (call.packet == "aten.split") {
    for (auto& [name, value] : call.keywords) {
      const bool list = value.as<Sequence>() || (value.as<GraphValue>() &&
                                                 value.as<GraphValue>()->parameter == PatternParameter::Kind::IntList);
      if (name != "split_size" || !list) continue;
      call.packet = "aten.split_with_sizes";
      name = "split_sizes";
    }
  }
  const Span span = call.span;
  // x.to(dtype=...) and x.to(dtype): one spelling.
  if (call.packet == "aten.to") {
    if (call.positional.size() == 2 && isDevice(call.positional[1])) {
      call.keywords.emplace_back("device", call.positional[1]);
      call.positional.pop_back();
      call.packet = "aten.to.dtype_layout";
      call.exactOverload = true;
      return emit(bindCall(call, file_->operators, *text_), span);
    }
    const bool device =
        std::any_of(call.keywords.begin(), call.keywords.end(), [](const auto& k) { return k.first == "device"; });
    Call dtype = call;
    const bool toDtype =
        !device && ((call.positional.size() == 2 &&
                     (call.positional[1].as<Expression>() ||
                      (call.positional[1].literal() && call.positional[1].literal()->as<DType>()))) ||
                    (call.positional.size() < 2 && std::any_of(call.keywords.begin(), call.keywords.end(),
                                                               [](const auto& k) { return k.first == "dtype"; })));
    if (toDtype && file_->operators.find("aten.to.dtype")) {
      dtype.packet = "aten.to.dtype";
      dtype.exactOverload = true;
      return emit(bindCall(dtype, file_->operators, *text_), span);
    }
  }
  return emit(bindCall(call, file_->operators, *text_), span);
}

Body::Body(const FileContext& file, Side side) : file_(&file), text_(&file.text), side_(side) {}
Body::~Body() = default;

const FunctionSyntax* Body::composedFunction(std::string_view python) {
  if (side_ == Side::Where) return nullptr;
  if (!composed_) composed_ = std::make_shared<Composed>(file_->operators);
  return composed_->find(python);
}

Term Body::callComposed(const FunctionSyntax& f, const std::vector<Term>& positional,
                        const std::vector<std::pair<std::string, Term>>& keywords, Span focus) {
  return callFunction(Local{&f, &composed_->file()}, positional, keywords, focus);
}

Term Body::byRank(const Syntax& s) {
  std::vector<Argument> args;
  for (size_t i = 2; i < s.items.size(); ++i) args.push_back(argument(evaluate(s.items[i]), Type::tensor(), nullptr));
  if (side_ == Side::Pattern) return patternNode("pattern.any_of", std::move(args), {}, s.focus);
  // Which of them is made is known where the replacement is put in.
  return patternNode("pattern.by_rank", std::move(args),
                     {{"of", argument(evaluate(s.items[1]), Type::tensor(), nullptr)}}, s.focus);
}

Term Body::times(const Syntax& s) {
  Term value = evaluate(s.items[1]);
  const Term count = evaluate(s.items[2]);
  const Argument* literal = value.literal();
  const bool number = value.as<GraphValue>() || value.as<Expression>() || (literal && literal->number());
  if (const auto* e = value.as<Expression>(); !number || (e && isList(*e))) return value;
  Sequence list;
  list.items.assign(static_cast<size_t>(*count.literal()->as<int64_t>()), value);
  return Term{std::move(list), s.span};
}

// runtime(x) in a replacement: nothing that is calculated from x is calculated beforehand.
Term Body::runtime(const Syntax& s) {
  if (side_ != Side::Replacement) fail(s.focus, "runtime(...) belongs in a replacement: a pattern matches either way");
  if (s.items.size() != 2 || !s.keywords.empty()) fail(s.focus, "runtime(x) takes one value");
  const Term value = evaluate(s.items[1]);
  return patternNode("pattern.runtime", {argument(value, Type::tensor(), nullptr)}, {}, s.focus);
}

Term Body::anyOf(const Syntax& s) {
  if (side_ != Side::Pattern) fail(s.focus, "any_of(...) belongs in a pattern: a replacement has no alternatives");
  if (s.items.size() < 3) fail(s.focus, "any_of(...) needs at least two alternatives");
  std::vector<Argument> args;
  for (size_t i = 1; i < s.items.size(); ++i) {
    const Term t = evaluate(s.items[i]);
    const auto* v = t.as<GraphValue>();
    if (!v || v->isConstant()) fail(s.items[i].span, "an alternative is an operation or a value of the graph");
    args.emplace_back(v->id);
  }
  return patternNode("pattern.any_of", std::move(args), {}, s.focus);
}

Term Body::optional(const Syntax& s) {
  if (side_ != Side::Pattern) fail(s.focus, "optional(...) belongs in a pattern: a replacement has no alternatives");
  if (s.items.size() < 3) fail(s.focus, "optional(function, x) matches function(x) or x alone");
  const Term function = evaluate(s.items[1]);
  const Term x = evaluate(s.items[2]);
  const auto* bare = x.as<GraphValue>();
  if (!bare || bare->isConstant()) fail(s.items[2].span, "what remains must be a value of the graph");
  Term applied = function;
  if (!function.isTensorLike()) {  // else it is written as optional(F.dropout(x, ...), x)
    Syntax call = s;
    call.items.erase(call.items.begin() + 1);
    call.items[0] = s.items[1];
    // Both alternatives are about the same x, which is evaluated once: under a name that nobody can write.
    static const std::string once = "x of optional";
    call.items[1].kind = Syntax::Kind::Name;
    call.items[1].name = once;
    const Names outer = names_;
    define(once, x);
    if (function.as<Local>()) {
      applied = callLocal(call, *function.as<Local>());
    } else if (const auto* module = function.as<ModuleRef>()) {  // optional(self.dropout, x)
      applied = callModule(call, *module);
    } else {
      std::vector<Term> positional;
      std::vector<std::pair<std::string, Term>> keywords;
      arguments(call, 1, positional, keywords);
      applied = callTerm(function, std::move(positional), std::move(keywords), s.items[1].span);
    }
    names_ = outer;
  }
  const auto* v = applied.as<GraphValue>();
  if (!v) fail(s.items[1].span, "optional(...) takes an operation with one result");
  return patternNode("pattern.any_of", {Argument(v->id), Argument(bare->id)}, {}, s.focus);
}

Term Body::callPatternFunction(const Syntax& s) {
  if (side_ != Side::Pattern) fail(s.focus, "call_function belongs in a pattern; a replacement names the operator");
  if (s.items.size() < 2 || s.items[1].kind != Syntax::Kind::Constant || !s.items[1].literal.as<std::string>())
    fail(s.focus, "call_function(name expression, inputs...): \"aten\\\\.(relu|gelu)\"");
  const std::string& expression = *s.items[1].literal.as<std::string>();
  const RE2 re(expression, RE2::Quiet);
  if (!re.ok()) fail(s.items[1].span, fmt::format("this is not a regular expression: {}", re.error()));
  std::vector<Argument> args;
  for (size_t i = 2; i < s.items.size(); ++i) args.push_back(argument(evaluate(s.items[i]), Type::any(), nullptr));
  std::vector<std::pair<std::string, Argument>> kwargs{{"name", Argument(expression)}};
  for (const auto& [name, value] : s.keywords) {
    if (name == "name") fail(value.span, "`name` is the first argument already");
    kwargs.emplace_back(name, argument(evaluate(value), Type::any(), nullptr));
  }
  return patternNode("pattern.call_function", std::move(args), std::move(kwargs), s.focus);
}

}  // namespace graft::lang
