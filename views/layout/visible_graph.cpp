#include "views/layout/visible_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "views/layout/dead_ends.h"

namespace graft {
namespace {

/// AOTAutograd names the gradients of the outputs so.
bool isGradientOfOutput(const Graph& graph, ValueId v) { return graph.value(v).name.starts_with("tangents_"); }

size_t combine(size_t seed, size_t value) { return (seed ^ value) * 0x9E3779B97F4A7C15ull + (seed >> 7); }

size_t textHash(std::string_view text) { return std::hash<std::string_view>{}(text); }

/// "layer" of "layer12": blocks repeat where the names differ in their numbers only.
std::string withoutDigits(std::string_view name) {
  std::string s;
  for (char c : name)
    if (c < '0' || c > '9') s += c;
  return s;
}

/// "attention"; "layer.0" where the last part is a number only; the type where there is no name.
std::string moduleTitle(const ModuleCall& module) {
  std::string_view last = module.lastName();
  if (last.empty()) return std::string(module.shortType());
  size_t dot = module.path.size() - last.size();
  if (dot < 2 || last.find_first_not_of("0123456789") != std::string_view::npos) return std::string(last);
  size_t before = module.path.rfind('.', dot - 2);
  return module.path.substr(before == std::string::npos ? 0 : before + 1);
}

class Builder {
 public:
  Builder(const Graph& graph, const ViewOptions& options)
      : graph_(graph), options_(options), order_(graph.order()), backward_(backwardModules(graph)) {
    if (options.first > 0 && options.first < order_.size()) order_.resize(options.first);
  }

  VisibleGraph build() {
    findScalars();
    if (options_.foldDeadEnds && !options_.showScalars) {
      folds_ = findDeadEnds(graph_, scalar_);
      for (const auto& [last, fold] : folds_.folds)
        if (options_.unfolded.contains(graph_.node(last).name))
          for (NodeId id : fold.nodes) folds_.of[id.index] = {};
    }
    summariseModules();
    findRepeats();
    view_.boxOfNode.assign(graph_.nodeBound(), -1);
    view_.boxOfModule.assign(graph_.moduleCalls().size(), -1);
    places_.assign(graph_.moduleCalls().size(), Place{});
    addInputs();
    for (NodeId id : order_)
      if (!scalar_[id.index]) placeNode(id);
    for (auto it = order_.rbegin(); it != order_.rend(); ++it)
      if (scalar_[it->index]) followUser(*it);
    for (NodeId id : order_)
      if (!scalar_[id.index] && !isDrawnElsewhere(id)) addEdgesInto(id);
    if (options_.first == 0) addOutputs();
    for (size_t i = 0; i < view_.boxes.size(); ++i) {
      int parent = view_.boxes[i].parent;
      (parent < 0 ? view_.roots : view_.boxes[parent].children).push_back(static_cast<int>(i));
    }
    describeModules();
    return std::move(view_);
  }

 private:
  struct Place {
    int box = -2;  ///< -2: not known yet, -1: the model
    bool collapsed = false;
  };
  struct Summary {
    std::vector<NodeId> nodes;  ///< of the whole subtree, in order
    size_t visible = 0, hash = 0;
    double weights = 0;
    ModuleCallId leader;  ///< the first of its run of identical siblings
    ModuleCallId hiddenTop;
    bool hiddenKnown = false;
  };

  void findScalars() {
    scalar_.assign(graph_.nodeBound(), false);
    if (options_.showScalars) return;
    auto isSize = [](const Type& t, auto& self) -> bool {
      if (t.kind == Type::Kind::List) return !t.elements.empty() && self(t.element(), self);
      return t.kind == Type::Kind::Int || t.kind == Type::Kind::Float || t.kind == Type::Kind::Bool ||
             t.kind == Type::Kind::Number || t.kind == Type::Kind::DType || t.kind == Type::Kind::Device;
    };
    for (NodeId id : order_) {
      const Node& node = graph_.node(id);
      bool scalar = !node.outputs.empty() && node.blocks.empty() && !node.op->sideEffects;
      const bool known = node.op->name == "aten.size.int" || node.op->name == "aten.sym_size.int";
      for (ValueId v : node.outputs) {
        const Value& value = graph_.value(v);
        scalar = scalar && (known || isSize(value.type, isSize)) && value.returnUses == 0 && !value.users.empty();
      }
      scalar_[id.index] = scalar;
    }
  }

  void summariseModules() {
    summaries_.resize(graph_.moduleCalls().size());
    position_.assign(graph_.nodeBound(), 0);
    for (size_t i = 0; i < order_.size(); ++i) position_[order_[i].index] = static_cast<uint32_t>(i);
    for (NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (!node.module) continue;
      size_t hash = combine(textHash(node.op->name), textHash(graph_.moduleCall(node.module).type));
      double weights = 0;
      auto add = [&](const Argument& a) {
        hash = combine(hash, a.data.index());
        if (const auto* n = a.as<int64_t>()) hash = combine(hash, static_cast<size_t>(*n));
        if (const auto* d = a.as<double>()) hash = combine(hash, std::hash<double>{}(*d));
        a.forEachValue([&](ValueId v) {
          const Value& value = graph_.value(v);
          if (value.kind == Value::Kind::Weight) {
            hash = combine(hash, textHash(toString(value.type)));
            double n = 1;
            if (value.type.tensorInfo.shape)
              for (const Dim& d : *value.type.tensorInfo.shape) n *= std::max<double>(1, static_cast<double>(d.size));
            weights += n;
          } else if (value.producer && graph_.node(value.producer).module == node.module) {
            hash = combine(hash, position_[id.index] - position_[value.producer.index]);
          }
        });
      };
      for (const Argument& a : node.args) add(a);
      for (const auto& [name, a] : node.kwargs) add(a);
      for (ModuleCallId m = node.module; m; m = graph_.moduleCall(m).parent) {
        Summary& s = summaries_[m.index];
        s.nodes.push_back(id);
        s.visible += !scalar_[id.index] && !isInsideFold(id);
        s.hash = combine(s.hash, hash);
        s.weights += weights;
      }
    }
  }

  void findRepeats() {
    if (!options_.foldRepeats) return;
    std::unordered_map<uint32_t, std::vector<ModuleCallId>> children;
    for (const ModuleCall& call : graph_.moduleCalls())
      if (summaries_[call.id.index].visible > 1) children[call.parent.index].push_back(call.id);
    for (auto& [parent, calls] : children) {
      std::sort(calls.begin(), calls.end(), [&](ModuleCallId a, ModuleCallId b) {
        return position_[summaries_[a.index].nodes.front().index] < position_[summaries_[b.index].nodes.front().index];
      });
      for (size_t i = 0; i < calls.size();) {
        size_t end = i + 1;
        while (end < calls.size() && identical(calls[i], calls[end])) ++end;
        if (end - i > 1 && !options_.unfolded.contains(graph_.moduleCall(calls[i]).path))
          for (size_t k = i; k < end; ++k) {
            summaries_[calls[k].index].leader = calls[i];
            ++runs_[calls[i].index];
          }
        i = end;
      }
    }
  }

  bool identical(ModuleCallId a, ModuleCallId b) const {
    const Summary &x = summaries_[a.index], &y = summaries_[b.index];
    return x.hash == y.hash && x.nodes.size() == y.nodes.size() &&
           graph_.moduleCall(a).type == graph_.moduleCall(b).type &&
           withoutDigits(graph_.moduleCall(a).lastName()) == withoutDigits(graph_.moduleCall(b).lastName());
  }

  /// The outermost module around `call` that is shown by the first of its run; none where there is none.
  ModuleCallId hiddenRepeat(ModuleCallId call) {
    if (!call) return {};
    Summary& s = summaries_[call.index];
    if (!s.hiddenKnown) {
      s.hiddenKnown = true;
      ModuleCallId above = hiddenRepeat(graph_.moduleCall(call).parent);
      s.hiddenTop = above ? above : s.leader && s.leader != call ? call : ModuleCallId{};
    }
    return s.hiddenTop;
  }

  /// In a repeat that its first stands for. Within a closed module, all repeats are what the module is.
  bool isDrawnElsewhere(NodeId id) {
    ModuleCallId hidden = hiddenRepeat(graph_.node(id).module);
    if (!hidden) return false;
    const int at = view_.boxOfNode[id.index];
    if (at < 0 || view_.boxes[at].open) return true;
    while ((hidden = graph_.moduleCall(hidden).parent))
      if (hidden == view_.boxes[at].module) return false;
    return true;
  }

  Place placeOf(ModuleCallId call, NodeId owner) {
    if (owner && graph_.node(owner).module == call) {
      int box = view_.boxOfNode[owner.index];
      return {box, box >= 0 && !view_.boxes[box].open};
    }
    if (!call) return {-1, false};
    Place& known = places_[call.index];
    if (known.box != -2) return known;
    const ModuleCall& module = graph_.moduleCall(call);
    Place place = placeOf(module.parent, owner);
    if (!place.collapsed && summaries_[call.index].visible > 1) {
      Box box;
      box.kind = BoxKind::Module;
      box.parent = place.box;
      box.module = call;
      box.key = module.path;
      box.title = moduleTitle(module);
      box.isBackward = !backward_.empty() && backward_[call.index];
      box.isInBackward = box.isBackward || (place.box >= 0 && view_.boxes[place.box].isInBackward);
      if (box.isBackward) box.title += backwardMark;
      box.name = std::string(module.shortType());
      box.nodeCount = summaries_[call.index].nodes.size();
      auto run = runs_.find(call.index);
      if (run != runs_.end()) box.repeat = run->second;
      box.open = isOpen(module.path, levelOf(place.box));
      place = {static_cast<int>(view_.boxes.size()), !box.open};
      view_.boxes.push_back(std::move(box));
    }
    view_.boxOfModule[call.index] = place.box;
    return places_[call.index] = place;
  }

  int levelOf(int box) const {
    int level = 0;
    for (; box >= 0; box = view_.boxes[box].parent) ++level;
    return level;
  }

  bool isOpen(const std::string& key, int level) const {
    if (options_.opened.contains(key)) return true;
    if (options_.closed.contains(key)) return false;
    return options_.depth < 0 || level < options_.depth;
  }

  void placeNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (ModuleCallId hidden = hiddenRepeat(node.module)) {
      const Summary& own = summaries_[hidden.index];
      auto at = std::lower_bound(own.nodes.begin(), own.nodes.end(), id,
                                 [&](NodeId a, NodeId b) { return position_[a.index] < position_[b.index]; });
      const Summary& leader = summaries_[own.leader.index];
      view_.boxOfNode[id.index] = view_.boxOfNode[leader.nodes[at - own.nodes.begin()].index];
      for (ModuleCallId m = node.module; m; m = graph_.moduleCall(m).parent) {
        if (view_.boxOfModule[m.index] < 0) view_.boxOfModule[m.index] = view_.boxOfModule[own.leader.index];
        if (m == hidden) break;
      }
      return;
    }
    Place place = placeOf(node.module, graph_.block(node.parent).owner);
    if (place.collapsed) {
      view_.boxOfNode[id.index] = place.box;
      return;
    }
    if (const NodeId last = foldOf(id)) return placeInFold(id, last, place.box);
    NodeText text = describeNode(graph_, node);
    Box box;
    box.kind = text.kind;
    box.parent = place.box;
    box.title = std::move(text.title);
    box.detail = std::move(text.detail);
    box.chips = std::move(text.chips);
    box.node = id;
    box.name = box.key = node.name;
    nameByModule(box, node.module);
    if (!node.blocks.empty()) {
      box.kind = BoxKind::Control;
      box.nodeCount = 0;
      for (BlockId b : node.blocks) box.nodeCount += graph_.block(b).size;
      box.open = box.nodeCount > 0 && isOpen("%" + node.name, levelOf(place.box));
    }
    view_.boxOfNode[id.index] = static_cast<int>(view_.boxes.size());
    view_.boxes.push_back(std::move(box));
  }

  /// The node that stands for the dead end that this one is a part of; none where it is drawn by itself.
  NodeId foldOf(NodeId id) const { return id.index < folds_.of.size() ? folds_.of[id.index] : NodeId{}; }
  bool isInsideFold(NodeId id) const {
    const NodeId last = foldOf(id);
    return last && last != id;
  }

  void placeInFold(NodeId id, NodeId last, int parent) {
    const auto [known, isFirst] = foldBoxes_.try_emplace(last.index, static_cast<int>(view_.boxes.size()));
    view_.boxOfNode[id.index] = known->second;
    if (!isFirst) return;
    const DeadEnds::Fold& fold = folds_.folds.at(last);
    const bool isConstant = fold.kind == Fold::Constant;
    Box box;
    box.kind = BoxKind::Shape;
    box.fold = fold.kind;
    box.parent = parent;
    box.node = last;
    box.key = graph_.node(last).name;
    box.title = isConstant ? "constant" : "unused";
    box.name = box.key;
    box.repeat = box.nodeCount = fold.nodes.size();
    nameByModule(box, graph_.node(last).module);
    std::string before;
    for (NodeId part : fold.nodes) {
      const std::string name(graph_.node(part).op->baseName());
      if (name == before) continue;
      if (box.detail.size() + name.size() > 40) {
        box.detail += ", …";
        break;
      }
      box.detail += (box.detail.empty() ? "" : ", ") + name;
      before = name;
    }
    view_.boxes.push_back(std::move(box));
  }

  /// A module of one operator: its name says more than the operator's.
  void nameByModule(Box& box, ModuleCallId m) {
    for (; m && summaries_[m.index].visible == 1; m = graph_.moduleCall(m).parent) {
      box.module = m;
      box.name = std::string(graph_.moduleCall(m).lastName());
      view_.boxOfModule[m.index] = static_cast<int>(view_.boxes.size());
    }
  }

  void followUser(NodeId id) {
    for (ValueId v : graph_.node(id).outputs)
      for (NodeId user : graph_.value(v).users)
        if (int box = view_.boxOfNode[user.index]; box >= 0) {
          view_.boxOfNode[id.index] = box;
          return;
        }
  }

  /// So many inputs of one kind of name, or outputs, are one box: a training graph has each weight as an input.
  static constexpr size_t manyEnds = 24;

  void addInputs() {
    std::unordered_map<std::string, std::vector<ValueId>> alike;
    for (ValueId input : graph_.inputs()) alike[withoutDigits(graph_.value(input).name)].push_back(input);
    std::unordered_set<std::string> bundled;
    for (ValueId input : graph_.inputs()) {
      const std::string stem = withoutDigits(graph_.value(input).name);
      const std::vector<ValueId>& all = alike.at(stem);
      const std::string key = "inputs " + stem;
      if (all.size() <= manyEnds || !options_.foldRepeats || options_.unfolded.contains(key)) {
        addInput(input);
        continue;
      }
      const int box = static_cast<int>(view_.boxes.size());
      if (!bundled.insert(stem).second) continue;
      view_.boxes.push_back(
          {.kind = BoxKind::Input,
           .title = stem + "…",
           .name = "inputs",
           .detail = fmt::format("{} to {}", graph_.value(all.front()).name, graph_.value(all.back()).name),
           .value = input,
           .key = key,
           .repeat = all.size()});
      for (ValueId one : all) {
        inputs_[one.index] = box;
        view_.bundled.emplace_back(one, box);
      }
    }
  }

  void addInput(ValueId input) {
    const Value& value = graph_.value(input);
    inputs_[input.index] = static_cast<int>(view_.boxes.size());
    view_.boxes.push_back({.kind = BoxKind::Input,
                           .title = value.name,
                           .name = "input",
                           .detail = typeLabel(value.type),
                           .value = input,
                           .key = "input " + value.name,
                           .isBackward = isGradientOfOutput(graph_, input)});
  }

  void addOutputs() {
    std::vector<ValueId> values;
    for (const Argument& a : graph_.returns()) a.forEachValue([&](ValueId v) { values.push_back(v); });
    const std::string key = "outputs others";
    const bool isBundled = values.size() > manyEnds && options_.foldRepeats && !options_.unfolded.contains(key);
    for (size_t i = 0; i < (isBundled ? 1 : values.size()); ++i) {
      std::string title = values.size() > 1 ? fmt::format("output {}", i) : "output";
      view_.boxes.push_back({.kind = BoxKind::Output,
                             .title = title,
                             .detail = typeLabel(graph_.value(values[i]).type),
                             .value = values[i],
                             .key = fmt::format("output {}", i)});
      addEdge(values[i], static_cast<int>(view_.boxes.size()) - 1);
    }
    if (!isBundled) return;
    view_.boxes.push_back({.kind = BoxKind::Output,
                           .title = "outputs",
                           .detail = fmt::format("output 1 to {}", values.size() - 1),
                           .value = values[1],
                           .key = key,
                           .repeat = values.size() - 1});
    // One edge from each box is enough.
    const int bundle = static_cast<int>(view_.boxes.size()) - 1;
    std::unordered_set<int> sources;
    for (size_t i = 1; i < values.size(); ++i)
      if (sources.insert(sourceBox(values[i])).second) addEdge(values[i], bundle);
  }

  int sourceBox(ValueId v) const {
    const Value& value = graph_.value(v);
    if (value.kind == Value::Kind::Weight) return -1;
    if (value.kind == Value::Kind::Output)
      return scalar_[value.producer.index] ? -1 : view_.boxOfNode[value.producer.index];
    auto input = inputs_.find(v.index);
    if (input != inputs_.end()) return input->second;
    NodeId owner = graph_.block(value.block).owner;
    return owner ? view_.boxOfNode[owner.index] : -1;
  }

  bool holds(int container, int box) const {
    for (; box >= 0; box = view_.boxes[box].parent)
      if (box == container) return true;
    return false;
  }

  void addEdge(ValueId v, int to) {
    int from = sourceBox(v);
    if (from < 0 || to < 0 || from == to || holds(from, to) || holds(to, from)) return;
    // A bundle sends one edge to each box, whatever number of its inputs flow there.
    const bool isBundle = view_.boxes[from].kind == BoxKind::Input && view_.boxes[from].repeat > 1;
    const uint32_t what = isBundle ? view_.boxes[from].value.index : v.index;
    if (!seen_.insert(uint64_t(what) << 32 | uint32_t(to)).second) return;
    view_.edges.push_back({from, to, v, typeLabel(graph_.value(v).type)});
  }

  void addEdgesInto(NodeId id) {
    const Node& node = graph_.node(id);
    int to = view_.boxOfNode[id.index];
    const bool isFolded = bool(foldOf(id)) && folds_.isConstant[id.index];
    auto add = [&](ValueId v) {
      const NodeId maker = graph_.value(v).producer;
      if (isFolded && !(maker && folds_.isConstant[maker.index])) return;  // only its size counts
      addEdge(v, to);
    };
    for (const Argument& a : node.args) a.forEachValue(add);
    for (const auto& [name, a] : node.kwargs) a.forEachValue(add);
  }

  void describeModules() {
    for (Box& box : view_.boxes) {
      if (box.kind != BoxKind::Module) continue;
      double weights = summaries_[box.module.index].weights;
      box.detail = fmt::format("{} operators", box.nodeCount);
      if (weights > 0) box.detail += " · " + shortCount(weights) + " weights";
      const auto words = options_.words.find(box.key);
      if (words == options_.words.end()) continue;
      box.title = words->second.title;
      box.name = words->second.name;
      box.detail = words->second.detail;
    }
  }

  const Graph& graph_;
  const ViewOptions& options_;
  std::vector<NodeId> order_;
  std::vector<char> backward_;
  std::vector<char> scalar_;
  DeadEnds folds_;
  std::unordered_map<uint32_t, int> foldBoxes_;  ///< by the node that stands for the fold
  std::vector<uint32_t> position_;               ///< by node: its place in order_
  std::vector<Summary> summaries_;               ///< by module call
  std::unordered_map<uint32_t, size_t> runs_;
  std::vector<Place> places_;
  std::unordered_map<uint32_t, int> inputs_;
  std::unordered_set<uint64_t> seen_;
  VisibleGraph view_;
};

}  // namespace

int VisibleGraph::commonContainer(int a, int b) const {
  auto depth = [&](int box) { return box < 0 ? 0 : depthOf(box) + 1; };
  int da = depth(a), db = depth(b);
  for (; da > db; --da) a = boxes[a].parent;
  for (; db > da; --db) b = boxes[b].parent;
  while (a != b) a = boxes[a].parent, b = boxes[b].parent;
  return a;
}

int VisibleGraph::depthOf(int box) const {
  int n = 0;
  for (int up = boxes[box].parent; up >= 0; up = boxes[up].parent) ++n;
  return n;
}

std::string moduleKey(const Graph& graph, ModuleCallId module, const std::vector<char>& backwardModules) {
  std::string key = graph.moduleCall(module).path;
  for (; module && !backwardModules.empty(); module = graph.moduleCall(module).parent)
    if (backwardModules[module.index]) return key + std::string(backwardMark);
  return key;
}

ModuleCallId moduleOfKey(const Graph& graph, std::string_view key) {
  const bool isBackward = key.ends_with(backwardMark);
  if (isBackward) key.remove_suffix(backwardMark.size());
  ModuleCallId found;
  for (const ModuleCall& call : graph.moduleCalls()) {
    if (call.path != key) continue;
    found = call.id;
    if (!isBackward) break;  // else the last one
  }
  return found;
}

std::vector<char> backwardModules(const Graph& graph) {
  const auto inputs = graph.inputs();
  if (std::none_of(inputs.begin(), inputs.end(), [&](ValueId v) { return isGradientOfOutput(graph, v); })) return {};
  const auto calls = graph.moduleCalls();
  std::vector<char> isBackward(calls.size(), 0), isOutermost(calls.size(), 0);
  std::unordered_set<std::string_view> paths;
  for (const ModuleCall& call : calls) {
    const bool isInside = call.parent && isBackward[call.parent.index];
    const bool isCalledAgain = !paths.insert(call.path).second;
    isBackward[call.id.index] = isInside || isCalledAgain;
    isOutermost[call.id.index] = isCalledAgain && !isInside;
  }
  return isOutermost;
}

VisibleGraph makeVisibleGraph(const Graph& graph, const ViewOptions& options) {
  return Builder(graph, options).build();
}

}  // namespace graft
