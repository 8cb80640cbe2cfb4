#include "core/formats/torchscript/convert.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <charconv>

#include "core/formats/calling.h"
#include "core/formats/graph_builder.h"
#include "core/formats/torchscript/writer.h"
#include "core/ir/calls/default_values.h"
#include "core/ir/normal_form.h"
#include "core/torch/normal/imported_graph.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

namespace jit = torch::jit;

constexpr size_t maxNodes = 1'000'000;
constexpr size_t maxCalls = 1'000'000;

std::string plainName(const jit::Value* v) {
  if (!v->hasDebugName()) return "input";
  std::string name = v->debugName();
  // "x.1": TorchScript's own numbering.
  if (const size_t dot = name.rfind('.');
      dot != name.npos && name.find_first_not_of("0123456789", dot + 1) == name.npos)
    name.resize(dot);
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "input");
  return name;
}

/// The innermost line of a trace's stack ("FILE(LINE): FUNCTION" each) that is not PyTorch's. Stops at the tracer: the
/// lines below it belong to the script that traced, not to the model.
std::optional<SourceLocation> usersTracedLine(std::string_view stack) {
  while (!stack.empty()) {
    const size_t end = std::min(stack.find('\n'), stack.size());
    const std::string_view frame = stack.substr(0, end);
    stack.remove_prefix(std::min(end + 1, stack.size()));
    const size_t open = frame.rfind("): "), number = frame.rfind('(', open);
    if (open == frame.npos || number == frame.npos) return std::nullopt;
    SourceLocation out;
    out.file = std::string(frame.substr(0, number));
    if (out.file.ends_with("/torch/jit/_trace.py")) return std::nullopt;
    if (isPyTorchsOwn(out.file)) continue;
    if (std::from_chars(frame.data() + number + 1, frame.data() + open, out.line).ec != std::errc())
      return std::nullopt;
    return out;
  }
  return std::nullopt;
}

SourceLocation locationOf(const jit::SourceRange& range) {
  // The loaded code points into the archive's code, which in turn remembers its line of the user's Python.
  SourceLocation out;
  const auto original = range.findSourceRangeThatGenerated();
  const auto place = (original ? *original : range).file_line_col();
  if (!place) return out;
  out.file = std::get<0>(*place);
  out.line = static_cast<int>(std::get<1>(*place));
  // A trace keeps the whole stack, innermost line first: the user's lines are above PyTorch's own.
  if (isPyTorchsOwn(out.file))
    if (auto user = usersTracedLine((original ? *original : range).source()->text_str().str())) return *user;
  return out;
}

}  // namespace

std::string demangle(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, dot);
    if (part != "__torch__" && !part.starts_with("___torch_mangle_"))
      out += (out.empty() ? "" : ".") + std::string(part);
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return out;
}

Status TorchScriptConverter::convert(const std::string& method) {
  try {
    const auto object = file_.module()._ivalue();
    torch::jit::Function* function = object->type()->findMethod(method);
    if (!function) return badInput(fmt::format("the model has no method {}", method));
    if (object->type()->name()) g_.name = demangle(object->type()->name()->qualifiedName());
    if (const size_t dot = g_.name.rfind('.'); dot != std::string::npos) g_.name.erase(0, dot + 1);
    auto* script = jit::tryToGraphFunction(*function);
    if (!script) return badInput(fmt::format("the model's method {} has no code", method));
    const std::shared_ptr<jit::Graph> graph = script->graph();
    block_ = g_.root();
    Bound self;
    self.kind = Bound::Kind::Object;
    self.object = object;
    std::vector<Bound> inputs{self};
    for (size_t i = 1; i < graph->inputs().size(); ++i) {
      const jit::Value* in = graph->inputs()[i];
      const ValueId made = g_.addInput(plainName(in), graftType(*in->type()));
      if (metadata_ && i <= metadata_->inputs.size())
        if (const auto type = parseType(metadata_->inputs[i - 1]); type && type->kind == g_.value(made).type.kind)
          g_.setType(made, *type);
      inputs.push_back(Bound::of(made));
      noteName(inputs.back(), in);
    }
    std::vector<Argument> returns;
    for (const Bound& b : call(*function, std::move(inputs))) returns.push_back(argument(b, nullptr));
    if (metadata_ && !metadata_->result.empty() && returns.size() == 1 && returns[0].isValue())
      names_.emplace_back(returns[0].valueId(), metadata_->result);
    if (metadata_) nameBlocks();
    setChangedLists();
    g_.setReturns(g_.root(), std::move(returns));
    takeCalling(function->getSchema());
    return done();
  } catch (const Refusal& r) {
    return badInput(r.why);
  } catch (const std::exception& e) {
    return badInput(fmt::format("its code cannot be read: {}", shortMessage(e)));
  }
}

/// What the method's declaration says of calls: the defaults of arguments, and the names of a named tuple's fields.
void TorchScriptConverter::takeCalling(const c10::FunctionSchema& schema) {
  CallingConvention calling;
  const std::vector<Argument> given(g_.inputs().begin(), g_.inputs().end());
  calling.arguments = positional(given);
  for (size_t i = 0; i < given.size() && i + 1 < schema.arguments().size(); ++i) {
    const c10::Argument& a = schema.arguments()[i + 1];
    calling.names.push_back(a.name());
    if (auto value = a.default_value() ? toArgument(*a.default_value(), a.type().get()) : std::nullopt)
      setDefault(calling.arguments.children[0].children[i], std::move(*value));
  }
  if (calling.names.size() != given.size()) return;
  const auto result = schema.returns().size() == 1 ? schema.returns()[0].type()->cast<c10::TupleType>() : nullptr;
  if (result && result->schema() && result->name()) {
    const std::string name = "__torch__." + demangle(result->name()->qualifiedName());
    std::vector<std::string> fields;
    for (const c10::Argument& a : result->schema()->arguments()) fields.push_back(a.name());
    if (auto tree = containersOf(g_);
        tree && tree->type == "builtins.tuple" && tree->children.size() == fields.size()) {
      calling.result = std::move(*tree);
      calling.result.type = namedTupleType;
      calling.result.context = "\"" + name + "\"";
      calling.namedTuples.emplace_back(name, std::move(fields));
    }
  }
  if (hasDefaults(calling.arguments) || !calling.result.isLeaf()) setCalling(g_, std::move(calling));
}

std::vector<Bound> TorchScriptConverter::call(jit::Function& function, std::vector<Bound> inputs) {
  auto* script = jit::tryToGraphFunction(function);
  if (!script) throw Refusal{fmt::format("its function {} has no code", function.name())};
  if (++depth_ > maxCallDepth) throw Refusal{fmt::format("its calls are nested more than {} deep", maxCallDepth)};
  if (++calls_ > maxCalls) throw Refusal{fmt::format("it makes more than {} calls", maxCalls)};
  const std::shared_ptr<jit::Graph> graph = script->graph();
  if (graph->inputs().size() != inputs.size())
    throw Refusal{fmt::format("{} is called with {} arguments", function.name(), inputs.size())};
  Env env;
  for (size_t i = 0; i < inputs.size(); ++i) env[graph->inputs()[i]] = std::move(inputs[i]);
  run(graph->block(), env);
  std::vector<Bound> out;
  for (const jit::Value* v : graph->outputs()) out.push_back(unused(v, env));
  if (const StraightLineProgram* straight = file_.straightLine();
      straight && straight->method() == &function && !raised_) {
    // The walk went through the method's stub, which returns the attributes that the real body reads.
    std::vector<Bound> values;
    for (size_t i = 1; i < graph->inputs().size(); ++i) values.push_back(unused(graph->inputs()[i], env));
    const std::vector<Bound>& returned = out.at(0).container->items;  // self, the marker, then these
    values.insert(values.end(), returned.begin() + 2, returned.end());
    out = followStraightLine(*straight, std::move(values));
  }
  --depth_;
  return out;
}

std::vector<Bound> TorchScriptConverter::followStraightLine(const StraightLineProgram& straight,
                                                            std::vector<Bound> values) {
  values.resize(straight.valueCount());
  std::vector<Bound> out;
  for (const StraightLineProgram::Step& step : straight.steps()) {
    const jit::Graph& graph = *straight.kind(step).graph;
    const auto uses = straight.uses(step);
    Env env;
    for (size_t i = 0; i < uses.size(); ++i) env[graph.inputs()[i]] = values[uses[i]];
    step_ = &step;
    run(graph.block(), env);
    step_ = nullptr;
    Bound& result = unused(graph.outputs()[0], env);
    if (raised_) return {result};
    if (step.resultCount == 0) {
      out = {std::move(result)};
    } else if (step.resultCount == 1) {
      values[step.result] = std::move(result);
    } else {
      for (uint32_t i = 0; i < step.resultCount; ++i) values[step.result + i] = result.container->items.at(i);
    }
  }
  return out;
}

// The module call that a method of another module stands for. In a file that Graft wrote, one call may consist of
// several methods, and the method's name says which call it belongs to.
ModuleCallId TorchScriptConverter::enter(const Bound& self, const std::string& method) {
  const auto which = metadata_ ? callOfMethod(method) : std::nullopt;
  const std::string key = which ? fmt::format("{}\n{}", self.path, which->first) : std::string();
  if (which && which->second > 0)
    if (const auto known = entered_.find(key); known != entered_.end()) return known->second;
  const auto& className = self.object->type()->name();
  const ModuleCallId made =
      g_.addModuleCall(module_, self.path, className ? demangle(className->qualifiedName()) : std::string());
  if (which) entered_[key] = made;
  return made;
}

void TorchScriptConverter::callMethod(const jit::Node* n, Env& env) {
  const Bound self = bound(n->input(0), env);
  const std::string& name = n->s(jit::attr::name);
  if (self.kind != Bound::Kind::Object && self.kind != Bound::Kind::Instance)
    throw Refusal{fmt::format("it calls {} of an object that is chosen while running", name)};
  if (self.kind == Bound::Kind::Instance) {
    jit::Function* method = self.instance->type->findMethod(name);
    if (!method) throw Refusal{fmt::format("its class {} has no method {}", self.instance->type->repr_str(), name)};
    std::vector<Bound> inputs;
    for (const jit::Value* in : n->inputs()) inputs.push_back(unused(in, env));
    std::vector<Bound> results = call(*method, std::move(inputs));
    for (size_t i = 0; i < results.size(); ++i) env[n->output(i)] = std::move(results[i]);
    return;
  }
  // The model asks whether a CUDA graph stands in for it, or for a piece of it (kernels/runner/runner.cpp). "No" leads
  // to the branch that computes.
  if (const auto& of = self.object->type()->name();
      of && of->qualifiedName() == runnerClass && (name == "captures" || name == "captures_piece")) {
    env[n->output()] = Bound::of(Argument(false));
    return;
  }
  jit::Function* method = self.object->type()->findMethod(name);
  if (!method) throw Refusal{fmt::format("its class {} has no method {}", self.object->type()->repr_str(), name)};
  std::vector<Bound> inputs;
  for (const jit::Value* in : n->inputs()) inputs.push_back(unused(in, env));

  const ModuleCallId outer = module_;
  const std::string outerPath = modulePath_;
  // A method that calls another method of its own object enters no further module.
  if (self.object->type()->is_module() && self.path != modulePath_) {
    const ModuleCallId made = enter(self, name);
    for (size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i].kind == Bound::Kind::Argument)
        inputs[i].argument.forEachValue([&](ValueId v) { g_.mutableModuleCall(made).inputs.push_back(v); });
    module_ = made;
    modulePath_ = self.path;
  }
  std::vector<Bound> results = call(*method, std::move(inputs));
  module_ = outer;
  modulePath_ = outerPath;
  for (size_t i = 0; i < results.size(); ++i) env[n->output(i)] = std::move(results[i]);
}

std::string TorchScriptConverter::nameInFile(const jit::Value* v) const {
  const std::string name = plainName(v);
  const auto renamed = metadata_->names.find(name);
  return renamed == metadata_->names.end() ? name : renamed->second;
}

void TorchScriptConverter::noteName(const Bound& b, const jit::Value* v) {
  if (!metadata_ || b.kind != Bound::Kind::Argument || b.scalarTensor || !b.argument.isValue() || !v->hasDebugName())
    return;
  if (!g_.isWeight(b.argument.valueId())) names_.emplace_back(b.argument.valueId(), nameInFile(v));
}

void TorchScriptConverter::step(const jit::Node* n, Env& env) {
  if (isOfCountingLoop(n)) return;
  convertNode(n, env);
  if (!metadata_) return;
  for (const jit::Value* v : n->outputs())
    if (const auto it = env.find(v); it != env.end()) noteName(it->second, v);
}

void TorchScriptConverter::convertNode(const jit::Node* n, Env& env) {
  if (file_.straightLine() && n == file_.straightLine()->marker()) {
    env[n->output()] = Bound();
    return;
  }
  if (g_.nodeCount() > maxNodes) throw Refusal{fmt::format("it has more than {} nodes", maxNodes)};
  switch (n->kind()) {
    case jit::prim::Constant: {
      if (n->output()->type()->kind() == c10::TypeKind::FunctionType) {
        Bound f;
        f.kind = Bound::Kind::Function;
        f.function = n->output()->type()->expectRef<c10::FunctionType>().function();
        env[n->output()] = std::move(f);
      } else {
        const auto value = jit::toIValue(n->output());
        if (!value) throw Refusal{"it holds a constant without a value"};
        env[n->output()] = fromIValue(*value, "constant", true, true);
      }
      return;
    }
    case jit::prim::CallMethod:
      if (instances(n, env)) return;
      return callMethod(n, env);
    case jit::prim::CallFunction: {
      const Bound f = bound(n->input(0), env);
      if (f.kind != Bound::Kind::Function) throw Refusal{"it calls a function that is chosen while running"};
      std::vector<Bound> inputs;
      for (size_t i = 1; i < n->inputs().size(); ++i) inputs.push_back(unused(n->input(i), env));
      std::vector<Bound> results = call(*f.function, std::move(inputs));
      for (size_t i = 0; i < results.size(); ++i) env[n->output(i)] = std::move(results[i]);
      return;
    }
    // What torch.jit.fork starts is done where it is started: a thread of its own may begin there, too.
    case jit::prim::fork: {
      const std::shared_ptr<jit::Graph>& started = n->g(jit::attr::Subgraph);
      Env inside;
      for (size_t i = 0; i < n->inputs().size(); ++i) inside[started->inputs()[i]] = unused(n->input(i), env);
      run(started->block(), inside);
      if (started->outputs().size() != 1) throw Refusal{"it forks a function with several results"};
      env[n->output()] = unused(started->outputs()[0], inside);
      return;
    }
    case jit::aten::wait: {
      Bound result = unused(n->input(), env);
      env[n->output()] = std::move(result);
      return;
    }
    case jit::prim::If:
      return branch(n, env);
    case jit::prim::Loop:
      return loop(n, env);
    case jit::prim::RaiseException:
      generic(n, env);
      raised_ = true;
      return;
    default:
      break;
  }
  if (instances(n, env) || attributes(n, env) || enumerations(n, env) || containers(n, env) ||
      scalarArithmetic(n, env) || identities(n, env) || foldScalars(n, env))
    return;
  generic(n, env);
}

// Where the schema wants a dtype, a layout or a memory format, an int stands for it.
Argument TorchScriptConverter::schemaLiteral(Argument a, const Type& parameter) {
  const Type& type = parameter.kind == Type::Kind::Optional ? parameter.element() : parameter;
  const auto* i = a.as<int64_t>();
  const auto as = [&](const c10::TypePtr& declared) {
    auto named = toArgument(c10::IValue(*i), declared.get());
    return named ? std::move(*named) : std::move(a);
  };
  if (i && type.kind == Type::Kind::DType) return as(c10::ScalarTypeType::get());
  if (i && type.kind == Type::Kind::Layout) return as(c10::LayoutType::get());
  if (i && type.kind == Type::Kind::MemoryFormat) return as(c10::MemoryFormatType::get());
  if (i && type.kind == Type::Kind::Float) return Argument(static_cast<double>(*i));
  if (const auto* s = a.as<std::string>(); s && type.kind == Type::Kind::Device) return Argument(DeviceName{*s});
  return a;
}

// Tracing writes x * 0.5 with a constant tensor without dimensions, and the file does not say that it was a number.
// TorchScript's executor takes such a constant for a number in these operators, so that it decides no dtype.
static bool takesNumbers(std::string_view op) {
  return op == "aten.add.Tensor" || op == "aten.sub.Tensor" || op == "aten.mul.Tensor" || op == "aten.div.Tensor";
}

static bool isListOrDict(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ListType || type.kind() == c10::TypeKind::DictType;
}

std::vector<Argument> TorchScriptConverter::arguments(const jit::Node* n, Env& env, const Operator& op) {
  // A number that TorchScript wrapped may stay a number beside a real tensor.
  bool besideTensor = false;
  if (op.is(OperatorFact::NumberOperand) && !op.writes())
    for (size_t i = 0; i < std::min<size_t>(2, n->inputs().size()); ++i)
      besideTensor |= !bound(n->input(i), env).scalarTensor && n->input(i)->type()->kind() == c10::TypeKind::TensorType;
  // A list that goes into another one stays the same list there.
  const bool intoList = !op.parameters.empty() && op.parameters[0].written && isListOrDict(*n->input(0)->type());
  std::vector<Argument> args;
  for (size_t i = 0; i < n->inputs().size(); ++i) {
    Bound b = bound(n->input(i), env);
    const bool declared = i < op.parameters.size();
    if (b.scalarTensor &&
        (besideTensor ||
         (declared && !op.parameters[i].type.isTensor() && op.parameters[i].type.kind != Type::Kind::Any &&
          op.parameters[i].type.kind != Type::Kind::List && op.parameters[i].type.kind != Type::Kind::Optional)))
      b.scalarTensor = false;
    if (b.kind == Bound::Kind::Container && ((declared && op.parameters[i].written) || (i > 0 && intoList))) {
      materialise(*b.container, *n->input(i)->type(), n);
      b.container->changed = true;
    }
    Argument a = argument(b, n);
    args.push_back(declared ? schemaLiteral(std::move(a), op.parameters[i].type) : std::move(a));
  }
  if (takesNumbers(op.name) && !numberOfConstant(g_, args[0]))
    if (auto number = numberOfConstant(g_, args[1])) args[1] = std::move(*number);
  return args;
}

// repeat_interleave(x, NumToTensor(n)) as repeat_interleave(x, n): a number that TorchScript wrapped lies on the CPU,
// and operators that do not go element by element take no tensor from there beside those of a GPU.
OperatorRef TorchScriptConverter::overloadForNumbers(const jit::Node* n, Env& env, OperatorRef op) {
  std::vector<bool> isNumber(n->inputs().size(), false);
  for (size_t i = 0; i < isNumber.size(); ++i)
    isNumber[i] =
        i < op->parameters.size() && op->parameters[i].type.isTensor() && bound(n->input(i), env).scalarTensor;
  if (std::ranges::count(isNumber, true) == 0) return op;
  for (const OperatorRef& other : operators_.overloads(op->packetName())) {
    if (other->parameters.size() != op->parameters.size()) continue;
    bool fits = true;
    for (size_t i = 0; i < other->parameters.size(); ++i) {
      const auto &mine = op->parameters[i], &theirs = other->parameters[i];
      const bool takesNumber = i < isNumber.size() && isNumber[i] && theirs.type.kind == Type::Kind::Int;
      fits = fits && mine.name == theirs.name && (takesNumber || (mine.type == theirs.type && !isNumber[i]));
    }
    if (fits) return other;
  }
  return op;
}

void TorchScriptConverter::generic(const jit::Node* n, Env& env) {
  if (!n->blocks().empty())
    throw Refusal{fmt::format("it uses {}, which Graft does not know", n->kind().toQualString())};
  OperatorRef op;
  const c10::FunctionSchema* schema = file_.isUnknown(n->kind()) ? nullptr : n->maybeSchema();
  std::string name = n->kind().toQualString();
  if (const size_t colons = name.find("::"); colons != name.npos) name.replace(colons, 2, ".");
  if (schema && schema->arguments().size() == n->inputs().size()) {
    const std::string full = graftName(schema->operator_name());
    op = operators_.find(canonicalOperator(full));
    if (!op || op->parameters.size() != n->inputs().size()) op = operators_.find(full);
    if (!op) op = operatorOf(*schema);
    op = overloadForNumbers(n, env, op);
  } else if (file_.isUnknown(n->kind())) {
    op = unknownOperator(name + ".default");
  } else {
    const auto structural = operators_.overloads(name);
    op = structural.size() == 1 && structural[0]->variadic ? structural[0] : unknownOperator(name);
  }
  std::vector<Argument> args = arguments(n, env, *op);
  std::vector<std::pair<std::string, Argument>> kwargs;
  if (file_.isUnknown(n->kind())) takeKeywords(n, args, kwargs);
  const NodeId node = g_.append(block_, op, std::move(args));
  if (!kwargs.empty()) g_.setKeywordArguments(node, std::move(kwargs));
  mark(node, n);
  for (size_t i = 0; i < n->outputs().size(); ++i) {
    const Type type = graftType(*n->output(i)->type());
    ValueId v;
    if (i < g_.node(node).outputs.size()) {
      v = g_.node(node).outputs[i];
      if (g_.value(v).type.kind == Type::Kind::Any || type.kind != Type::Kind::Any) g_.setType(v, type);
    } else {
      v = g_.addOutput(node, op->baseName(), type);
    }
    env[n->output(i)] = Bound::of(v);
  }
}

// For an operator that this machine does not have. Its last input names the keywords of the call; the keyword arguments
// stand before it.
void TorchScriptConverter::takeKeywords(const jit::Node* n, std::vector<Argument>& args,
                                        std::vector<std::pair<std::string, Argument>>& kwargs) {
  if (args.empty() || args.size() != n->inputs().size()) return;
  const auto last = jit::toIValue(n->inputs().back());
  const auto names = last ? file_.keywords(*last) : std::nullopt;
  if (!names || names->size() >= args.size()) return;
  const size_t first = args.size() - 1 - names->size();
  for (size_t k = 0; k < names->size(); ++k) kwargs.emplace_back((*names)[k], std::move(args[first + k]));
  args.resize(first);
}

SourceLocation TorchScriptConverter::placeOf(const jit::Node* n) const {
  return locationOf(step_ ? file_.straightLine()->placeOf(*step_, n->sourceRange()) : n->sourceRange());
}

void TorchScriptConverter::mark(NodeId node, const jit::Node* source) {
  if (module_) g_.setModule(node, module_);
  if (!source) return;
  SourceLocation where = placeOf(source);
  if (!where.file.empty() && where.line > 0) g_.setSource(node, g_.addSource(std::move(where)));
}

NodeId TorchScriptConverter::append(const std::string& name, std::vector<Argument> args, const jit::Node* source) {
  const OperatorRef op = operators_.find(name);
  if (!op) return appendUnknown(name, std::move(args), source);
  const NodeId node = g_.append(block_, op, std::move(args));
  mark(node, source);
  return node;
}

NodeId TorchScriptConverter::appendUnknown(std::string name, std::vector<Argument> args, const jit::Node* source) {
  const NodeId node = g_.append(block_, unknownOperator(std::move(name)), std::move(args));
  mark(node, source);
  return node;
}

}  // namespace graft
