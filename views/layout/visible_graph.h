// The visible graph: what a drawing shows of a Graph. Operators and collapsed modules are boxes, open modules are
// containers that hold boxes, weights and constants are chips of their users, calculations on sizes are left out, and a
// run of identical sibling blocks (encoder.layer.0 … layer.11) is one block with a ×N badge. A plain value: layouts and
// canvases index into it.
//
//   VisibleGraph v = makeVisibleGraph(graph, {.depth = 1});
//   for (const Box& box : v.boxes) …
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "views/layout/node_text.h"

namespace graft {

/// What a module says, in place of its name, its type and how many operators it holds.
struct ModuleWords {
  std::string title, name, detail;
  bool operator==(const ModuleWords&) const = default;
};

/// Which way a drawing runs.
enum class Flow : uint8_t { Down, Right };

struct ViewOptions {
  int depth = 1;  ///< modules nested this deep are collapsed; 0: every module; -1: none
  /// Paths of modules (control flow: "%" and the node's name) opened or collapsed against `depth`.
  std::set<std::string, std::less<>> opened{}, closed{};
  bool foldRepeats = true;  ///< identical blocks as one, and inputs or outputs where there are very many
  std::set<std::string, std::less<>>
      unfolded{};  ///< repeats to show in full, by the path of their first block; bundles of inputs by their key
  bool showScalars = false;  ///< draw calculations on sizes, too
  bool foldDeadEnds = true;  ///< what depends on weights alone, and what nothing uses, as one box each
  bool columns = true;       ///< what is much longer than wide goes on in another column, or row
  Flow flow = Flow::Down;
  bool widthByBytes = false;                                ///< edges are as wide as what they carry is large
  std::map<std::string, ModuleWords, std::less<>> words{};  ///< by path
  size_t first = 0;                                         ///< only that many operators, in order; 0: all
};

/// Operators that no way from an input to an output leads through, drawn as one box.
enum class Fold : uint8_t { None, Constant, Unused };

struct Box {
  BoxKind kind = BoxKind::Arithmetic;
  int parent = -1;    ///< the container it lies in; -1: the model
  bool open = false;  ///< a container: its children lie inside
  std::vector<int> children{};
  std::string title{};   ///< operator, or the last part of the module's path
  std::string name{};    ///< drawn dimmed: the node's name, or the module's type
  std::string detail{};  ///< the second line; of a module, when it is closed
  std::vector<std::string> chips{};
  NodeId node{};          ///< operators and control flow
  ModuleCallId module{};  ///< modules; operators that stand for a module of one operator
  ValueId value;          ///< inputs and outputs
  std::string key{};      ///< names the box across snapshots: the node's name, the module's path, "input x", "output 0"
  size_t repeat = 1;      ///< that many identical blocks, inputs, outputs or operators of a dead end are shown as this
  Fold fold = Fold::None;
  size_t nodeCount = 1;  ///< operators it stands for
  /// Of a training step's joint graph: an outermost module of the backward pass, or the gradient of an output.
  bool isBackward = false;
  bool isInBackward = false;  ///< a module that is one, or lies in one
};

struct VisibleEdge {
  int from = 0, to = 0;
  ValueId value;
  std::string label;  ///< shape and dtype; the same for all edges of a value
};

struct VisibleGraph {
  std::vector<Box> boxes;  ///< a container comes before its children
  std::vector<int> roots;  ///< boxes directly in the model, in order
  std::vector<VisibleEdge> edges;
  std::vector<int> boxOfNode;                    ///< by NodeId: the box that shows it or holds it; -1 where none does
  std::vector<int> boxOfModule;                  ///< by ModuleCallId
  std::vector<std::pair<ValueId, int>> bundled;  ///< inputs that one box stands for, each with that box
  /// The innermost container that holds both; -1: the model.
  int commonContainer(int a, int b) const;
  /// How many containers it lies in.
  int depthOf(int box) const;
};

VisibleGraph makeVisibleGraph(const Graph&, const ViewOptions& = {});

/// By ModuleCallId: of the joint graph of a training step, the outermost modules of the backward pass. Each has the
/// path of one of the forward pass. Empty where the graph is none.
std::vector<char> backwardModules(const Graph&);

/// Behind titles and keys of modules.
inline constexpr std::string_view backwardMark = ", backward";
/// Names a module where both passes of a training step call it: its path, of the backward pass with ", backward".
std::string moduleKey(const Graph&, ModuleCallId, const std::vector<char>& backwardModules);
/// The module that such a key names; none where there is none.
ModuleCallId moduleOfKey(const Graph&, std::string_view key);

}  // namespace graft
