#include "core/torch/rewrite_verification.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <functional>

#include "core/ir/subgraph.h"
#include "core/text/text.h"
#include "core/torch/run/patient_threads.h"
#include "core/torch/values/values.h"
#include "core/torch/verify/check_inputs.h"
#include "core/torch/verify/index_guard.h"
#include "core/torch/verify/program_set.h"
#include "core/torch/verify/scout.h"
#include "core/torch/verify/within.h"

namespace graft {
namespace {

using Verdict = RewriteVerification::Verdict;

constexpr size_t mostCaptured = size_t{1} << 30;  // bytes of inner values kept for one search
constexpr size_t mostKept = size_t{1} << 29;      // and of those that come along for later searches
const char* const ownValues = "the model's own values";

bool writesSomewhere(const Graph& g) {
  for (NodeId n : g.order())
    if (g.node(n).op->writes()) return true;
  return false;
}

bool holdsNaN(const TensorSet& set) {
  bool found = false;
  mapTensors(set, [&](const at::Tensor& t) {
    found = found || (c10::isFloatingType(t.scalar_type()) && t.isnan().any().item<bool>());
    return t;
  });
  return found;
}

/// "aten.conv2d.default(%,[1, 1],…) …": what a part calls, whatever the sizes and names of its values are.
std::string operatorsOf(const Graph& g) {
  std::string out;
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    out += n.op->name + "(";
    const auto add = [&](const Argument& a) {
      bool hasValue = false;
      a.forEachValue([&](ValueId) { hasValue = true; });
      out += hasValue ? "%," : toText(a, g) + ",";
    };
    for (const Argument& a : n.args) add(a);
    for (const auto& [key, a] : n.kwargs) add(a);
    out += ") ";
  }
  return out;
}

/// Both sides of a rewrite, ready to run, and the first in fp64 once that is asked for.
struct Sides {
  Graph graph;  ///< of the original side
  std::vector<std::string> inputNames, outputNames;
  std::string operators;  ///< that both call, with the literals they get
  std::optional<Program> before, after;
  std::optional<Reference> reference;  ///< made once it is asked for
  std::optional<IndexGuard> guard;     ///< likewise
  std::optional<TensorSet> expected;   ///< where it is known beforehand
  TensorSet actual;                    ///< of the latest inputs
};

class TorchRewriteCheck : public RewriteCheck {
 public:
  TorchRewriteCheck(TensorSet inputs, const Job& job, std::string failingInputs, bool sizesAreOpen,
                    double furtherSeconds)
      : inputs_(std::move(inputs)), job_(job), folder_(std::move(failingInputs)), furtherSeconds_(furtherSeconds) {
    options_.device = deviceOf(inputs_);
    options_.fixedShapes = false;
    whole_ = options_;
    whole_.missing = Missing::MadeUp;
    sizesAreDeclared_ = !sizesAreOpen;
    addOthers(otherIntegerInputs(inputs_), false);
    if (sizesAreOpen) addOthers(otherSizes(inputs_, sizesByValue(inputs_)), false);
  }

  void prepare(const Graph& graph, const std::vector<std::vector<NodeId>>& places) override {
    problem_.clear();
    checked_ = 0;
    places_ = places.size();
    std::unordered_set<ValueId> flowsIn;
    for (const std::vector<NodeId>& place : places) {
      const std::unordered_set<NodeId> inside(place.begin(), place.end());
      const auto use = [&](ValueId v) {
        const Value& value = graph.value(v);
        if (!graph.isWeight(v) && !(value.producer && inside.contains(value.producer)) &&
            !dependsOnWeightsAlone(graph, v))
          flowsIn.insert(v);
      };
      for (NodeId n : place) {
        for (const Argument& a : graph.node(n).args) a.forEachValue(use);
        for (const auto& [key, a] : graph.node(n).kwargs) a.forEachValue(use);
      }
    }
    addDeclaredSizes(graph, flowsIn);
    captureOthers(graph, flowsIn);
    std::unordered_set<ValueId> missing = flowsIn;
    std::erase_if(missing, [&](ValueId v) { return captured_.contains(v); });
    if (missing.empty()) return;
    // The first run keeps all values that fit: later searches ask for the same ones, or for what took their place.
    if (!run(graph, captured_.empty() ? nullptr : &missing)) return;
    std::erase_if(missing, [&](ValueId v) { return captured_.contains(v); });
    if (!missing.empty()) run(graph, &missing);
  }

  RewriteVerification check(const RewriteCandidate& c) override {
    const QuietPyTorch quiet;
    ++checked_;
    rule_ = c.rule;
    job_.report("verifying " + std::string(c.rule), checked_, std::max(checked_, places_));
    outputsValid_ = false;
    tolerance_ = {};
    RewriteVerification verification = verifyCandidate(c);
    if (c.changesNumbers && verification.verdict == Verdict::Failed && c.tolerance.isGiven()) {
      tolerance_ = c.tolerance;
      verification = verifyCandidate(c);
      verification.tolerance = toString(tolerance_);
      if (verification.verdict == Verdict::Verified) verification.verdict = Verdict::Measured;
    } else if (c.changesNumbers && verification.verdict == Verdict::Failed) {
      verification.verdict = Verdict::Measured;
    }
    // A later place of this search may read what this one makes: the same quantity.
    for (const auto& [old, now] : c.outputs)
      if (const auto it = captured_.find(old); it != captured_.end() && verification.verdict != Verdict::Failed) {
        captured_.insert_or_assign(now, it->second);
        for (Other& other : others_)
          if (const auto its = other.captured.find(old); its != other.captured.end())
            other.captured.insert_or_assign(now, its->second);
      }
    return verification;
  }

  RewriteVerification checkWhole(const Graph& before, const Graph& after, bool changesNumbers) override {
    const QuietPyTorch quiet;
    RewriteVerification verification;
    Sides sides;
    sides.graph = before;
    rule_ = "pass";
    if (!outputsValid_) run(before, nullptr);
    if (outputsValid_) sides.expected = outputs_;
    outputsValid_ = false;
    for (const Argument& a : before.returns())
      sides.outputNames.push_back(a.isValue() ? before.value(a.valueId()).name : "");
    for (ValueId v : before.inputs()) sides.inputNames.push_back(before.value(v).name);
    if (Status s = build(sides, after, whole_); !s) return unverified(s.error().message);
    const LeftOut &left = sides.before->leftOut(), &leftAfter = sides.after->leftOut();
    if (!leaveOutTheSame(left, leftAfter))
      return unverified("it changes what follows from " + leftOutText(left.any() ? left : leftAfter));
    sides.outputNames.insert(sides.outputNames.end(), left.reads.begin(), left.reads.end());
    if (tryInputs(sides, inputs_, "the given inputs", false, verification)) {
      verification.verdict = Verdict::Verified;
      outputs_ = std::move(sides.actual);
      outputsValid_ = true;  // the next pass starts from here
    }
    if (changesNumbers && verification.verdict == Verdict::Failed) verification.verdict = Verdict::Measured;
    return verification;
  }

 private:
  /// The given inputs with other sizes or integers, and what the model makes of them.
  struct Other {
    std::string what;
    TensorSet inputs;
    bool fewRows = false, instead = false;  ///< as of InputSet
    bool declared = false;  ///< the model's file says that they may come: a replacement that refuses them fails
    std::unordered_map<ValueId, TensorSet> captured = {};
    bool refused = false;  ///< the model does not run on them: they say nothing
  };

  void addOthers(const std::vector<InputSet>& sets, bool declared) {
    for (const InputSet& set : sets) {
      try {
        others_.push_back({set.what, set.make(), set.fewRows, set.instead, declared});
      } catch (const std::exception&) {
        others_.push_back({.what = set.what, .refused = true});
      }
    }
  }

  /// Values whose sizes are declared are given other ones where they flow into a match. Where such a size is calculated
  /// (2*s0), or is a number of its own, only the model knows which others go together.
  void addDeclaredSizes(const Graph& graph, const std::unordered_set<ValueId>& flowsIn) {
    if (!sizesAreDeclared_ || declaredAdded_) return;
    const auto isCalculated = [&](ValueId v) {
      const Type& type = graph.value(v).type;
      return (type.isTensor() || type.kind == Type::Kind::Int) && sizesOfValues(graph, {v}).empty();
    };
    if (std::none_of(flowsIn.begin(), flowsIn.end(), isCalculated)) return;
    declaredAdded_ = true;
    addOthers(otherSizes(inputs_, sizesOfInputs(graph, inputs_), graph.symbols()), true);
  }

  /// A file that was traced says nothing of sizes: some are fixed in it as numbers, others are free. The model itself
  /// knows, so it is run: what it refuses cannot come to any match, what it accepts can.
  void captureOthers(const Graph& graph, const std::unordered_set<ValueId>& flowsIn) {
    const auto missing = [&](const Other& other) {
      std::unordered_set<ValueId> out = flowsIn;
      std::erase_if(out, [&](ValueId v) { return other.captured.contains(v); });
      return out;
    };
    const auto isWanted = [&](const Other& other) { return !other.refused && !missing(other).empty(); };
    if (std::none_of(others_.begin(), others_.end(), isWanted)) return;
    const auto begin = std::chrono::steady_clock::now();
    const auto used = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
    auto program = Program::build(graph, whole_);
    IndexGuard guard(graph, options_.device);
    for (size_t i = 0; i < others_.size(); ++i) {
      Other& other = others_[i];
      other.refused = other.refused || (other.instead && !others_[i - 1].refused);
      const std::unordered_set<ValueId> wanted = missing(other);
      if (other.refused || wanted.empty() || !program || seconds_ + used() > furtherSeconds_ / 2) continue;
      if (!sendAhead(*program, other.inputs, job_)) {
        other.refused = true;
        other.captured.clear();
        continue;
      }
      const bool first = other.captured.empty();
      if (first && guard.refuses(other.inputs, job_)) {
        other.refused = true;
        continue;
      }
      at::manual_seed(verificationSeed);
      const QuietPyTorch quiet;
      auto out = program->collect(copyOf(other.inputs), first ? nullptr : &wanted, mostKept / others_.size(),
                                  writesSomewhere(graph), other.captured, job_);
      other.refused = !out;
      if (!out) other.captured.clear();
    }
    seconds_ += used();
  }

  /// The model as it is, its values kept.
  bool run(const Graph& graph, const std::unordered_set<ValueId>* wanted) {
    auto program = Program::build(graph, whole_);
    if (!program) {
      problem_ = program.error().message;
      return false;
    }
    if (program->leftOut().any()) missing_ = leftOutText(program->leftOut());
    at::manual_seed(verificationSeed);
    auto out = program->collect(copyOf(inputs_), wanted, wanted ? mostCaptured : mostKept, writesSomewhere(graph),
                                captured_, job_);
    if (!out && !program->leftOut().madeUp.empty() && out.error().kind != ErrorKind::Cancelled) {
      whole_.missing = Missing::LeftOut;  // it does not run on what is made up
      captured_.clear();
      return run(graph, wanted);
    }
    if (!out) {
      problem_ = out.error().message;
      return false;
    }
    outputs_ = std::move(*out);
    outputsValid_ = true;
    return true;
  }

  static RewriteVerification unverified(std::string why) {
    RewriteVerification out;
    out.verdict = Verdict::Unverified;
    out.why = std::move(why);
    return out;
  }

  Status build(Sides& sides, const Graph& after, const RunOptions& options) const {
    auto a = Program::build(sides.graph, options);
    if (!a) return a.error();
    auto b = Program::build(after, options);
    if (!b) return b.error();
    sides.before = std::move(*a);
    sides.after = std::move(*b);
    return done();
  }

  /// What the original makes of the inputs in double precision.
  std::optional<TensorSet> exactly(Sides& sides, const TensorSet& inputs) const {
    if (!sides.reference)
      sides.reference.emplace(sides.graph, options_.device,
                              sides.before->leftOut().any() ? whole_.missing : Missing::Refused);
    return sides.reference->run(
        inputs, [&](const Program& program, const TensorSet& wide) { return runProbe(program, wide, job_); });
  }

  RewriteVerification verifyCandidate(const RewriteCandidate& c) {
    const Graph& g = c.graph;
    std::vector<ValueId> olds, news;
    for (const auto& [old, now] : c.outputs) {
      olds.push_back(old);
      news.push_back(now);
    }
    RewriteVerification verification;
    if (olds.empty()) {  // what flows out stays as it is
      verification.verdict = Verdict::Verified;
      return verification;
    }
    if (!problem_.empty()) return unverified("the model does not run as it is: " + problem_);
    // Both sides with the same inputs: the original's, then what only the replacement reads.
    auto before = extractSubgraph(g, c.before, olds);
    if (!before) return unverified(before.error().message);
    auto after = extractSubgraph(g, c.after, news, c.before, before->inputs);
    if (!after) return unverified(after.error().message);
    if (after->inputs.size() != before->inputs.size()) before = extractSubgraph(g, c.before, olds, {}, after->inputs);
    if (!before || before->inputs != after->inputs) return unverified("its two sides read different values");
    Sides sides;
    const std::string structure =
        toText(before->graph) + toText(after->graph) + (tolerance_.isGiven() ? toString(tolerance_) : "");
    sides.operators = operatorsOf(before->graph) + " / " + operatorsOf(after->graph);
    sides.graph = std::move(before->graph);
    for (ValueId v : olds) sides.outputNames.push_back(g.value(v).name);
    std::string missing;
    std::vector<c10::IValue> values;
    for (ValueId v : after->inputs) {
      sides.inputNames.push_back(g.value(v).name);
      const auto it = captured_.find(v);
      if (it != captured_.end())
        values.push_back(valuesOf(it->second).at(0));
      else if (missing.empty())
        missing = g.value(v).name;
    }
    if (!missing.empty())
      return unverified(
          missing_.empty()
              ? fmt::format("`{}`, which flows in, was not computed, or is too large to be kept", missing)
              : fmt::format("`{}`, which flows in, was not computed: it follows from {}", missing, missing_));
    if (Status s = build(sides, after->graph, options_); !s) return unverified(s.error().message);
    const TensorSet own = tensorSet(std::move(values));
    if (!tryInputs(sides, own, ownValues, true, verification)) return verification;
    const auto sized = otherSizes(own, sizesOfValues(g, after->inputs), g.symbols());
    const std::vector<bool> numbers = plainIntegers(sides.graph, after->graph, own);
    verifyFurther(sides, own, sized, numbers, structure, verification, [&] {
      std::vector<FromModel> sets;
      for (const Other& other : others_) {
        std::vector<c10::IValue> flowIn;
        for (ValueId v : after->inputs)
          if (const auto it = other.captured.find(v); !other.refused && it != other.captured.end())
            flowIn.push_back(valuesOf(it->second).at(0));
        if (flowIn.size() == after->inputs.size()) sets.push_back({&other, tensorSet(std::move(flowIn))});
      }
      return sets;
    });
    return verification;
  }

  /// What flows into a place while the model runs on other inputs.
  struct FromModel {
    const Other* other;
    TensorSet values;
  };

  /// Random and edge values, once for each structure.
  void verifyFurther(Sides& sides, const TensorSet& own, const std::vector<InputSet>& sized,
                     const std::vector<bool>& numbers, const std::string& structure, RewriteVerification& verification,
                     const std::function<std::vector<FromModel>()>& valuesFromModel) {
    if (const auto known = further_.find(structure); known != further_.end()) {
      const size_t sets = verification.inputSets;
      verification = known->second;
      verification.inputSets += sets;
      return;
    }
    RewriteVerification found;
    found.verdict = Verdict::Verified;
    const auto begin = std::chrono::steady_clock::now();
    const auto isLate = [&] {
      const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin;
      if (seconds_ + used.count() <= furtherSeconds_) return false;
      found.why = "tried on fewer inputs: time is up";
      return true;
    };
    /// Whether to go on.
    const auto tried = [&](const InputSet& set, TensorSet* kept = nullptr) {
      if (isLate()) return false;
      TensorSet values;
      try {
        values = set.make();
      } catch (const std::exception&) {
        return true;  // a dtype that cannot hold such values
      }
      if (set.onlyTold) {
        RewriteVerification aside;
        if (!tryInputs(sides, values, set.what, true, aside, set.whereDefined)) found.why = aside.why;
        found.inputSets += aside.inputSets;
        return true;
      }
      const size_t before = found.inputSets;
      if (!tryInputs(sides, values, set.what, true, found, set.whereDefined, set.mayBeSensitive)) return false;
      if (kept && found.inputSets > before) *kept = std::move(values);
      return true;
    };
    const std::vector<InputSet> ofOwn = furtherPartInputs(own);
    bool goesOn = tried(ofOwn.front());
    TensorSet inFewRows;
    bool wasTaken = false;
    for (const InputSet& set : sized) {
      if (!goesOn) break;
      if (set.instead && wasTaken) continue;
      TensorSet taken;
      goesOn = tried(set, &taken);
      wasTaken = taken.size() > 0;
      if (set.fewRows && wasTaken) inFewRows = std::move(taken);
    }
    // A replacement may stand for the traced sizes alone, and then refuses others; it may not compute something else.
    if (found.verdict == Verdict::Verified)
      for (auto& [other, values] : valuesFromModel()) {
        RewriteVerification aside;
        if (tryInputs(sides, values, other->what, true, aside)) {
          found.inputSets += aside.inputSets;
          if (other->fewRows && aside.inputSets > 0) inFewRows = std::move(values);
        } else if (aside.verdict == Verdict::Failed && (other->declared || !aside.output.empty())) {
          aside.inputSets += found.inputSets;
          found = std::move(aside);
          goesOn = false;
          break;
        } else if (found.why.empty()) {
          found.why = aside.why;
        }
      }
    // Edge values need not come in as many rows as the given inputs have where both sides take fewer.
    if (!tolerance_.isGiven()) {  // and say nothing of what is off on purpose
      const bool isLess = inFewRows.size() > 0 && 2 * elementsOf(inFewRows) <= elementsOf(own);
      std::vector<InputSet> edges = isLess ? furtherPartInputs(inFewRows) : ofOwn;
      edges.erase(edges.begin());
      for (const InputSet& set : edges) goesOn = goesOn && tried(set);
    }
    for (const InputSet& set : otherNumbersFor(own, numbers)) goesOn = goesOn && tried(set);
    const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin;
    seconds_ += used.count();
    further_.emplace(structure, found);
    found.inputSets += verification.inputSets;
    verification = std::move(found);
  }

  /// False where it is decided: failed, or nothing can be said. Inputs that the original refuses say nothing.
  bool tryInputs(Sides& sides, const TensorSet& inputs, const std::string& what, bool part,
                 RewriteVerification& verification, bool whereDefined = false, bool mayBeSensitive = false) {
    if (part && what != ownValues) {
      if (!sides.guard) sides.guard.emplace(sides.graph, options_.device);
      if (sides.guard->refuses(inputs, job_)) return true;
    }
    const auto runs = survives(sides, inputs) ? runSeeded : runProbe;
    auto expected = sides.expected ? Result<TensorSet>(*sides.expected) : runs(*sides.before, inputs, job_);
    if (!expected) {
      if (what != ownValues && part) return true;
      verification = unverified("the original does not run on " + what + ": " + expected.error().message);
      return false;
    }
    if (whereDefined && holdsNaN(*expected)) return true;
    ++verification.inputSets;
    verification.inputs = what;
    auto actual = runs(*sides.after, inputs, job_);
    if (!actual) {
      if (actual.error().kind == ErrorKind::Cancelled) {
        verification = unverified("stopped");
        return false;
      }
      verification.verdict = Verdict::Failed;
      verification.why =
          fmt::format("on {}, the original runs and the replacement does not: {}", what, actual.error().message);
      describeInputs(sides, inputs, verification);
      return false;
    }
    sides.actual = *actual;
    std::vector<Difference> differences;
    if (part && tolerance_.isGiven()) {
      WithinTolerance within = compareWithin(*expected, *actual, tolerance_);
      differences = std::move(within.differences);
      verification.relativeRmse = std::max(verification.relativeRmse, within.relativeRmse);
    } else {
      differences = part ? compareElements(*expected, *actual) : compareTensors(*expected, *actual);
    }
    const auto differs = [&] {
      for (const Difference& d : differences)
        if (!d.passed) return true;
      return false;
    };
    if (differs() && !(part && tolerance_.isGiven()))
      if (const auto exact = exactly(sides, inputs)) {
        differences = part ? compareElements(*expected, *actual, &*exact) : compareTensors(*expected, *actual, &*exact);
        if (mayBeSensitive && differs()) {
          constexpr uint64_t neighbours = 8;
          std::vector<TensorSet> sets{*expected};
          for (uint64_t n = 1; n <= neighbours; ++n)
            if (auto near = runs(*sides.before, nearlyEqual(inputs, n), job_)) sets.push_back(std::move(*near));
          if (isAmong(sets, *actual))
            for (Difference& d : differences) d.passed = true;
        }
      }
    for (const Difference& d : differences) verification.maxAbs = std::max(verification.maxAbs, d.maxAbs);
    for (const Difference& d : differences) {
      if (d.passed) continue;
      verification.verdict = Verdict::Failed;
      const size_t output = static_cast<size_t>(std::strtoul(d.name.c_str(), nullptr, 10));
      verification.output = output < sides.outputNames.size() ? sides.outputNames[output] : d.name;
      verification.element = d.element;
      verification.expected = d.expected;
      verification.actual = d.actual;
      verification.why = fmt::format("on {}, `{}` ({}) differs: {}", what, verification.output, d.type, d.why);
      describeInputs(sides, inputs, verification);
      return false;
    }
    return true;
  }

  /// Whether neither side ends the process on these inputs. One child finds out for both: a copy of a process with a
  /// model's values takes tens of milliseconds. Other sizes than 0 and 1 do not matter for that, so the second of two
  /// layers that only differ in their widths is not sent ahead.
  bool survives(const Sides& sides, const TensorSet& inputs) {
    if (!isSentAhead(*sides.before, inputs)) return true;
    std::string key = sides.operators;
    for (const c10::IValue& v : valuesOf(inputs)) {
      key += v.isTensor() ? " " : " " + describe(v);
      if (v.isTensor())
        for (const int64_t n : v.toTensor().sizes()) key += n < 2 ? std::to_string(n) : "n";
    }
    if (survived_.contains(key)) return true;
    const Status both = sendAhead([&] {
      (void)runSeeded(*sides.before, inputs, job_);
      (void)runSeeded(*sides.after, inputs, job_);
    });
    if (both) survived_.insert(std::move(key));
    return bool(both);
  }

  void describeInputs(const Sides& sides, const TensorSet& inputs, RewriteVerification& verification) const {
    if (!folder_.empty()) {
      std::string name = rule_ + "-" + (verification.output.empty() ? "all" : verification.output) + ".pt";
      std::replace_if(
          name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
      const std::string path = folder_ + "/" + name;
      std::error_code failed;  // saving says why
      std::filesystem::create_directories(folder_, failed);
      const Status saved = saveTensors(inputs, path);
      verification.why +=
          saved ? "; these inputs are in " + path : "; the inputs were not kept: " + saved.error().message;
    }
    const auto shapes = inputs.describe();
    verification.inputShapes.clear();
    for (size_t i = 0; i < shapes.size(); ++i)
      verification.inputShapes.push_back((i < sides.inputNames.size() ? sides.inputNames[i] + " " : "") + shapes[i]);
  }

  const PatientThreads patient_;
  const TensorSet inputs_;
  const Job job_;
  const std::string folder_;                         // where failing inputs go
  std::string rule_;                                 // that is being checked
  RewriteTolerance tolerance_;                       // of that rule, once the usual one is exceeded
  RunOptions options_;                               // of a rewrite's two sides
  RunOptions whole_;                                 // of the model, which may call operators that are missing
  std::string missing_;                              // these, in words; "": none
  std::unordered_map<ValueId, TensorSet> captured_;  // by value of the graph, which keeps its ids from step to step
  std::vector<Other> others_;                        // of which the model itself must say what flows in
  bool sizesAreDeclared_ = false, declaredAdded_ = false;
  std::string problem_;  // why nothing was captured
  TensorSet outputs_;    // of the graph as it is, where outputsValid_
  bool outputsValid_ = false;
  std::unordered_map<std::string, RewriteVerification> further_;
  std::unordered_set<std::string> survived_;  // what survives() knows
  double furtherSeconds_;                     // for further inputs, all places together
  double seconds_ = 0;
  size_t checked_ = 0, places_ = 0;  // of the search that prepare() was told of
};

}  // namespace

std::unique_ptr<RewriteCheck> makeRewriteCheck(TensorSet inputs, const Job& job, std::string failingInputs,
                                               bool sizesAreOpen, double furtherSeconds) {
  return std::make_unique<TorchRewriteCheck>(std::move(inputs), job, std::move(failingInputs), sizesAreOpen,
                                             furtherSeconds);
}

}  // namespace graft
