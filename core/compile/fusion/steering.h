// Steering: what people want otherwise than planFusion() would have it. A file beside the model, fusion.json, holds it.
//
//   {
//     "fusion": 1,
//     "merge": [["encoder.layer.0.gelu", "mul_3"]],
//     "apart": [["softmax", "mul_4"]],
//     "move": [{"node": "add_2", "to": "mul_3"}],
//     "automatic": true,
//     "kernels": [
//       {"nodes": ["add", "tanh"], "schedule": {"lanes": "i1", "registers": 2, "threads": 1}},
//       {"nodes": ["relu", "mul"], "loopsFile": "relu_mul.loops"},
//       {"nodes": ["exp", "div"], "sourceFile": "exp_div.cpp"}
//     ]
//   }
//
//   Result<Steering> steering = readSteering("fusion.json");
//   FusionPlan plan = planFusion(graph, {.steering = *steering});
//   for (const SteeringProblem& p : plan.unapplied) print(p.entry, p.why);
//
// Names are those of nodes; where no node has the name, it is a module's path or an operator, and stands for all of its
// nodes. What does not apply to a graph is no error: the plan says so, entry by entry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/compile/fusion/kernel_choice.h"

namespace graft {

constexpr int kSteeringVersion = 1;

struct Steering {
  struct Move {
    std::string node, to;
    bool operator==(const Move&) const = default;
  };
  /// What is chosen for the kernel of exactly these nodes, views aside.
  struct Kernel {
    std::vector<std::string> nodes;
    KernelChoice choice;
    /// Where readSteering() takes `choice.loops` and `choice.source` from, relative to the steering's own file; "": the
    /// texts stand in it.
    std::string loopsFile, sourceFile;
    bool operator==(const Kernel&) const = default;
  };
  /// Whether groups grow by what saves time, too. False: they are what `merge` lists, and nothing else.
  bool automatic = true;
  std::vector<std::vector<std::string>> merge;  ///< each: names whose nodes become one kernel; one node has its own
  /// Each: no kernel holds nodes of two of these names. One name alone: its nodes stay out of all kernels.
  std::vector<std::vector<std::string>> apart;
  std::vector<Move> move;  ///< a node leaves its kernel for the one that holds another node
  std::vector<Kernel> kernels;

  bool isEmpty() const { return *this == Steering(); }
  bool operator==(const Steering&) const = default;
};

/// An entry that does not apply to a graph, or not fully.
struct SteeringProblem {
  std::string entry;  ///< "merge[0]"
  std::string why;
};

/// BadInput where the text is no JSON (with line and column), or says something that no steering has (with the place in
/// the JSON). `file` is its name in messages. Reads no other file: kernels that name one have no text.
Result<Steering> parseSteering(std::string_view text, const std::string& file);
/// With the texts of the kernels' files. BadInput where one cannot be read.
Result<Steering> readSteering(const std::string& path);
/// Of a file; or of a plan that is the text itself, which begins with a brace; then kernels name files from the working
/// folder.
Result<Steering> steeringOf(const std::string& plan);
/// Adds what `more` wants, behind what there is; its `automatic` counts. What it chooses for a kernel takes the place
/// of what was chosen for the same nodes.
void addEntries(Steering&, const Steering& more);
/// Takes one entry away: "merge[0]". BadInput where there is none.
Status removeEntry(Steering&, std::string_view entry);
/// As a file: what parseSteering reads back as it was.
std::string printSteering(const Steering&);

}  // namespace graft
