// fuse(): groups of operators that no rule covers become calls of graft::generated, one kernel each.
//
//   fuse()                                         # everything that a kernel can be generated for
//   fuse(only=["encoder.layer", "aten.gelu"])      # these module paths, operators or nodes alone
//   fuse(apart=["decoder"], max_nodes=16)
//   fuse(gpu=True)                                 # for a GPU, also where the graph's types name another device
//   fuse(same_layout=True)                         # results lie in memory as the operators' do, also on a GPU
//   fuse(plan="fusion.json")                       # as that file wants it (core/compile/fusion/steering.h)
#include "core/compile/fusion/fusion.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/compile/fusion/group_text.h"
#include "core/compile/fusion/product_split.h"
#include "core/text/node_names.h"
#include "matcher/passes/pass.h"
#include "matcher/rewrite/view_relaxation.h"

namespace graft {
namespace {

constexpr const char* usage =
    "fuse takes only=[…], apart=[…] (module paths, operators, nodes), max_nodes=N, gpu=True, same_layout=True and "
    "plan=\"fusion.json\"";

constexpr std::string_view sameLayout = "same_layout";

Result<std::vector<std::string>> names(const Argument& a) {
  std::vector<std::string> out;
  if (const auto* one = a.as<std::string>()) return std::vector{*one};
  const std::vector<Argument>* items = a.items();
  if (!items) return badInput(usage);
  for (const Argument& item : *items) {
    const auto* text = item.as<std::string>();
    if (!text) return badInput(usage);
    out.push_back(*text);
  }
  return out;
}

Result<FusionOptions> optionsOf(const Step& step) {
  FusionOptions options;
  for (const auto& [key, value] : step.kwargs) {
    if (key == "max_nodes") {
      const auto* n = value.as<int64_t>();
      if (!n || *n < 2) return badInput("fuse(max_nodes=…) takes a whole number from 2 on");
      options.maxNodes = static_cast<size_t>(*n);
    } else if (key == "only" || key == "apart") {
      auto list = names(value);
      if (!list) return list.error();
      (key == "only" ? options.only : options.apart) = std::move(*list);
    } else if (key == "gpu" || key == sameLayout) {
      if (!value.as<bool>()) return badInput(usage);
    } else if (key == "plan") {
      const auto* plan = value.as<std::string>();
      if (!plan) return badInput(usage);
      auto steering = steeringOf(*plan);
      if (!steering) return steering.error();
      options.steering = std::move(*steering);
    }
  }
  return options;
}

/// Puts one group in place.
class GroupEdit {
 public:
  /// `views`: where results may lie with channels last, what turns views below them into reshapes; else null.
  GroupEdit(GraphEditor& editor, FusionGroup group, ViewRelaxation* views)
      : editor_(editor), g_(editor.graph()), group_(std::move(group)), views_(views), isAnyLayout_(findAnyLayout()) {
    for (const NodeId n : group_.nodes)
      if (!last_ || g_.isBefore(last_, n)) last_ = n;
  }

  using Replaced = std::unordered_map<ValueId, ValueId>;
  /// Adds what took the place of its outputs to `replaced`. Where a kernel as a person has chosen it is wrong,
  /// it is taken back, and the generated one takes its place.
  Status apply(Replaced& replaced) {
    const size_t before = editor_.rolledBack().size();
    if (const Status s = applyOnce(replaced); !s) return s;
    if (editor_.rolledBack().size() == before || group_.choice.isEmpty()) return done();
    group_.choice = {};
    return applyOnce(replaced);
  }

 private:
  Status applyOnce(Replaced& replaced) {
    editor_.begin(last_);
    std::vector<std::pair<ValueId, ValueId>> outputs;
    if (const Status s = insert(outputs); !s) {
      editor_.cancel();
      return s;
    }
    const std::string blamed = group_.choice.isEmpty() ? ""
                                                       : (group_.choice.isEdited() ? "the hand-edited kernel ("
                                                                                   : "with the chosen schedule (") +
                                                             group_.choiceEntry + "): ";
    if (!passesCheck(editor_, "fuse", last_, group_.nodes, outputs, blamed)) return done();
    moveReaders();
    for (const auto& [old, now] : outputs) {
      editor_.replaceValue(old, now);
      replaced.emplace(old, now);
      if (isAnyLayout_) views_->below(old, now);
    }
    for (auto n = order_.rbegin(); n != order_.rend(); ++n)
      if (isUnused(*n)) editor_.erase(*n);
    editor_.commit();
    return done();
  }

  /// The call, and one item of its list for each output, before the last node of the group.
  Status insert(std::vector<std::pair<ValueId, ValueId>>& outputs) {
    order_ = group_.nodes;
    std::sort(order_.begin(), order_.end(), [&](NodeId a, NodeId b) { return g_.isBefore(a, b); });
    std::vector<Argument> tensors, sizes;
    for (const ValueId v : group_.inputs) {
      (g_.value(v).type.isTensor() ? tensors : sizes).emplace_back(v);
      editor_.record().inputs.emplace_back(g_.value(v).name, g_.value(v).name);
    }
    NodeBuilder b(editor_, last_);
    const Argument list =
        b.call(kGeneratedOperator, {Argument::list(std::move(tensors)),
                                    Argument(groupText(groupGraph(g_, group_), group_.choice, isAnyLayout_)),
                                    Argument::list(std::move(sizes))});
    for (size_t i = 0; i < group_.outputs.size() && !b.error(); ++i) {
      const Argument item = b.call("prim.getitem", {list, Argument(static_cast<int64_t>(i))});
      if (b.error()) break;
      editor_.setType(item.valueId(), g_.value(group_.outputs[i]).type);
      outputs.emplace_back(group_.outputs[i], item.valueId());
    }
    return b.error() ? Status(*b.error()) : done();
  }

  /// Nodes that read what the group makes and stand before its last node go behind it, in their order: views of the
  /// group that others read too, for one.
  void moveReaders() {
    std::unordered_set<ValueId> late(group_.outputs.begin(), group_.outputs.end());
    NodeId behind = last_;
    for (NodeId n = order_.front(), next; n && n != last_; n = next) {
      next = g_.node(n).next;
      if (!reads(n, late)) continue;
      for (const ValueId v : g_.node(n).outputs) late.insert(v);
      editor_.moveAfter(n, behind);
      behind = n;
    }
  }

  bool reads(NodeId id, const std::unordered_set<ValueId>& values) const {
    const auto holds = [&](const Argument& a) {
      bool any = false;
      a.forEachValue([&](ValueId v) { any = any || values.contains(v); });
      return any;
    };
    const Node& n = g_.node(id);
    if (std::any_of(n.args.begin(), n.args.end(), holds)) return true;
    for (const BlockId b : n.blocks) {
      if (std::any_of(g_.block(b).returns.begin(), g_.block(b).returns.end(), holds)) return true;
      for (const NodeId inner : g_.order(b))
        if (reads(inner, values)) return true;
    }
    return false;
  }

  /// Not where the group permutes: what it makes may be no image then.
  bool findAnyLayout() const {
    if (!views_) return false;
    static const std::set<std::string_view> permutations{"permute",  "transpose", "movedim", "moveaxis", "swapaxes",
                                                         "swapdims", "t",         "mT",      "adjoint"};
    const auto isImage = [&](ValueId v) { return mayBeImage(g_.value(v).type); };
    return std::ranges::any_of(group_.inputs, isImage) && std::ranges::any_of(group_.outputs, isImage) &&
           std::ranges::none_of(group_.outputs, [&](ValueId v) { return views_->isLayoutFixed(v); }) &&
           std::ranges::none_of(group_.nodes,
                                [&](NodeId n) { return permutations.contains(g_.node(n).op->baseName()); });
  }

  bool isUnused(NodeId n) const {
    const std::vector<ValueId>& outputs = g_.node(n).outputs;
    return std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) { return g_.isUnused(v); });
  }

  GraphEditor& editor_;
  const Graph& g_;
  FusionGroup group_;
  ViewRelaxation* views_;
  bool isAnyLayout_;
  std::vector<NodeId> order_;
  NodeId last_;
};

/// Whether tensors of the graph are images: some convolution reads them.
bool hasConvolutions(const Graph& g) {
  return std::ranges::any_of(g.order(), [&](NodeId n) {
    const std::string& name = g.node(n).op->name;
    return isConvolution(name) || name.starts_with("graft.conv_");
  });
}

Status fuse(GraphEditor& editor, const Step& step) {
  auto options = optionsOf(step);
  if (!options) return options.error();
  const bool onGpu = isForGpu(editor.graph(), step);
  if (onGpu) planForGpu(*options);
  for (const auto& [key, list] : {std::pair{"only", &options->only}, std::pair{"apart", &options->apart}})
    for (const std::string& nothing : namesOfNothing(editor.graph(), *list))
      editor.noteRefused(std::string(key) + ": no node, operator or module of the model is called " + nothing);
  FusionPlan plan = planFusion(editor.graph(), *options);
  for (const SteeringProblem& p : plan.unapplied) editor.noteRefused("the plan's " + p.entry + ": " + p.why);
  if (editor.check()) {
    std::vector<std::vector<NodeId>> places;
    for (const FusionGroup& group : plan.groups) places.push_back(group.nodes);
    if (!places.empty()) editor.check()->prepare(editor.graph(), places);
  }
  GroupEdit::Replaced replaced;
  ViewRelaxation views(editor);
  const bool mayTurn = onGpu && !switchOf(step, sameLayout).value_or(false) && hasConvolutions(editor.graph());
  for (FusionGroup& group : plan.groups) {
    // What it reads of groups that are in place already.
    for (ValueId& input : group.inputs)
      if (const auto now = replaced.find(input); now != replaced.end()) input = now->second;
    if (const Status s = GroupEdit(editor, group, mayTurn ? &views : nullptr).apply(replaced); !s)
      editor.noteRefused(group.name + ": " + s.error().message);
  }
  return done();
}

}  // namespace

GRAFT_PASS(fuse, "only=[…], apart=[…], max_nodes=64, gpu=True, same_layout=True, plan=\"fusion.json\"",
           "operators that no rule covers become generated kernels, group by group", fuse, true)

}  // namespace graft
