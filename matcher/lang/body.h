// Body: a function of a rule becomes a graph. Torch calls become operators in normal form, arithmetic on shapes and
// constants becomes expressions, module calls and alternatives become `pattern.*` nodes (see matcher/rule/pattern.h).
//
//   Body body(file, operators, Side::Pattern);
//   body.addParameter("x", PatternParameter::Kind::Value, span);
//   body.returns(body.run(function));
//   use(body.graph, body.expressions);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "matcher/lang/bind.h"
#include "matcher/lang/term.h"

namespace graft::lang {

struct FileContext;
class Composed;

/// What a name of a file is defined as: a function, a module or a constant. It lives as long as its file.
struct Definition {
  const FileContext* file = nullptr;  ///< where it is defined
  const FunctionSyntax* function = nullptr;
  const ClassSyntax* type = nullptr;  ///< an nn.Module
  const Syntax* value = nullptr;      ///< SCALE = 8.0
  explicit operator bool() const { return file != nullptr; }
  bool operator==(const Definition&) const = default;
};

/// What all bodies of one file share.
struct FileContext {
  const SourceText& text;
  const FileSyntax& syntax;
  const OperatorSet& operators;
  /// What this file imports from other files, by the name that it has here.
  std::map<std::string, Definition, std::less<>> imported = {};
  /// The names that rules of other files have here.
  std::set<std::string, std::less<>> importedRules = {};

  /// Its own functions, classes and constants, then those imported.
  Definition find(std::string_view name) const;
};

enum class Side { Pattern, Replacement, Where };

class Body {
 public:
  using Names = std::map<std::string, Term, std::less<>>;

  Body(const FileContext& file, Side side);
  ~Body();

  Graph graph;
  std::vector<Expression> expressions;
  std::vector<std::pair<ValueId, size_t>> unpacked;  ///< lists that are unpacked, and into how many
  /// Modules that the pattern names and calls, by their name below `self`: a replacement that names one keeps it.
  struct NamedModule {
    std::string type;
    std::string node;  ///< the name of its call in the pattern
  };
  std::map<std::string, NamedModule, std::less<>> modules;
  /// What the pattern reads of its modules, by its name below `self` ("linear.weight", "scale"): parameters of the rule
  /// that its function does not list.
  std::map<std::string, PatternParameter, std::less<>> weights;

  ValueId addParameter(const std::string& name, PatternParameter::Kind kind);
  /// Of a replacement: what the pattern knows of its modules is known here too.
  void takeModulesOf(const Body& pattern);
  void define(const std::string& name, Term term) { names_[name] = std::move(term); }
  /// Runs __init__ and makes `self` of the class known.
  void construct(const ClassSyntax& type);
  /// The function's value; its parameters must be defined. The class is needed for methods.
  Term run(const FunctionSyntax& function);
  /// The whole body of swap_module: of a pattern one call of the module, by type or path, of a replacement one call of
  /// the new module.
  void callAlone(const Syntax& module);
  /// Of a replacement: its results, tied to the gradients that `backward`, a function of `file`, computes for
  /// `parameters`. What it takes first are the gradients of the results.
  Term withGradients(const Term& result, const Names& parameters, const std::string& rule,
                     const FunctionSyntax& backward, const FileContext& file);
  /// Makes it the graph's results and drops what nothing uses.
  void returns(const Term& result, Span at);
  /// For `where`: the result as an expression.
  Expression host(const Term& term);
  const Names& names() const { return names_; }

 private:
  struct Frame;
  Term evaluate(const Syntax& s);
  Term evaluateName(const Syntax& s);
  void checkMember(const Term& object, const Syntax&);
  Term evaluateAttribute(const Syntax& s);
  Term evaluatePath(const std::string& path, Span span);
  Term evaluateCall(const Syntax& s);
  Term evaluateUnary(const Syntax& s);
  Term evaluateBinary(const Syntax& s);
  Term evaluateSubscript(const Syntax& s);
  Term evaluateSequence(const Syntax& s);
  Term evaluateIfElse(const Syntax& s);
  Term subscriptTensor(const Syntax& s, Term tensor);
  Term element(const Term& list, int64_t index, Span span);

  Term callPath(const Syntax& s, const std::string& path, Span focus);
  Term callMethod(const Syntax& s, const Method& method);
  Term callLocal(const Syntax& s, const Local& local);
  Names namesFor(const Local& local, const std::vector<Term>& positional,
                 const std::vector<std::pair<std::string, Term>>& keywords, Span focus);
  Term callFunction(const Local& local, const std::vector<Term>& positional,
                    const std::vector<std::pair<std::string, Term>>& keywords, Span focus);
  const FunctionSyntax* composedFunction(std::string_view python);
  Term callComposed(const FunctionSyntax&, const std::vector<Term>& positional,
                    const std::vector<std::pair<std::string, Term>>& keywords, Span focus);
  Term byRank(const Syntax& s);
  Term times(const Syntax& s);
  Term inFile(const FileContext& file, Span calledAt, const std::function<Term()>& evaluate);
  Term callAttribute(const Syntax& s);
  Term callPatternModule(const Syntax& s);
  Term callPatternFunction(const Syntax& s);
  Term anyOf(const Syntax& s);
  Term runtime(const Syntax& s);
  Term optional(const Syntax& s);
  Term callOperator(Call call, const std::string& spelling);
  Term callTerm(const Term& callee, std::vector<Term> positional, std::vector<std::pair<std::string, Term>> keywords,
                Span span);
  bool starsAList(const Syntax& s, size_t first);

  // Modules
  using ModuleRef = std::shared_ptr<ModuleInstance>;
  Term makeModule(const Syntax& s, const std::string& type, const Path& path);
  ModuleRef moduleItem(const Syntax& s, const std::string& key);
  void addItems(const Syntax& s, ModuleInstance& container);
  void nameModule(ModuleInstance& module, const std::string& name);
  Term subscriptModule(const Syntax& s, const ModuleInstance& module);
  Term callModule(const Syntax& s, const ModuleRef& module);
  Term callInstance(const ModuleRef& module, std::vector<Term> positional,
                    std::vector<std::pair<std::string, Term>> keywords, Span focus);
  Term callByPath(const Syntax& s, const std::string& path);
  Term newActivation(const ModuleInstance& module, Term input, Span span);
  void initialise(const ClassSyntax& type);
  void initialiseBy(const Syntax& call);
  ModuleObject& objectOf(ModuleInstance& module, Span at);
  const ClassSyntax& definitionOf(const ModuleInstance& module, const FileContext*& file);
  Expression attributeOf(const std::string& moduleNode, const std::string& name, std::optional<Argument> otherwise,
                         Span span);
  Term memberOf(const ModuleRef& module, const std::string& name, Span span);
  Term member(const std::shared_ptr<ModuleObject>& object, const std::string& name, Span span);
  Term newParameter(const Syntax& s, bool isBuffer);
  Term readParameter(ParameterInstance& p, Span span);
  Term patternWeight(const std::string& name, bool orNone, Span span);
  const FileContext& library();
  bool isModuleCall(const Term& t) const;
  Term moduleOutput(const GraphValue& call, size_t index, Span span);
  void assignOutputs(const Syntax& target, const GraphValue& call, size_t& next);

  void arguments(const Syntax& s, size_t first, std::vector<Term>& positional,
                 std::vector<std::pair<std::string, Term>>& keywords);

  Term operation(const std::string& packet, const std::string& spelled, std::vector<Term> terms, Span span);
  Term emit(BoundCall bound, Span span);
  void spellNormally(BoundCall& bound) const;
  void readWritten(const Node& write);
  Term unlessRedundant(const Node& cast, Span span);
  Term patternNode(const char* kind, std::vector<Argument> args, std::vector<std::pair<std::string, Argument>> kwargs,
                   Span span, std::string_view name = {});
  Argument argument(const Term& t, const Type& type, const Operator* op);
  Argument expressionNode(const Expression& e, Span span);
  std::optional<Expression> tryHost(const Term& t, bool tensors = false);
  void statement(const StatementSyntax& s, std::optional<Term>& result);
  void assign(const Syntax& target, Term value);
  void guardSize(Span span);
  [[noreturn]] void fail(Span at, std::string message) const { text_->fail(at.begin, std::move(message)); }

  std::shared_ptr<const Composed> composed_;  // once a function of it was asked for
  const FileContext* file_;  // whose function is being read: an imported one means the names of its own file
  const SourceText* text_;
  Side side_;
  Names names_;
  std::shared_ptr<ModuleObject> self_;
  bool building_ = false;  // in an __init__: a pattern matches whatever sizes it is given
  ModuleCallId call_;      // the call of a new module whose forward is being read
  std::unique_ptr<FileContext> library_;
  std::set<ValueId> named_, mayGo_;
  int depth_ = 0;
  size_t calls_ = 0;
};

}  // namespace graft::lang
