// The canonical readable form of a graph: prints and parses back to the same graph (weights' data apart). Used by
// `graft text`, by tests, case files and diffs.
//
//   graph MiniLM {
//     symbol s0 [2, inf]
//     module m0 "embeddings" transformers.BertEmbeddings
//     module m1 "embeddings.LayerNorm" torch.nn.LayerNorm(normalized_shape=[384]) in m0
//     weight %w "embeddings.LayerNorm.weight" : f32[384]
//     input %x : f32[2,9,384]
//     %y = aten.layer_norm.default(%x, [384], weight=%w, bias=None, eps=1e-12, cudnn_enable=False) : f32[2,9,384] @m1
//     "bert.py":12 return %y
//   }
// Where callers do not give the inputs one after the other, `arguments ["x"] tree("builtins.tuple", "null", …%x…)` and
// `result tree(…*…)` say how they do (CallingConvention), and `namedtuple "TYPE" ["field"]` what a type in them holds.
// Blocks of control flow are nested in braces after their node: `%z = prim.If(%c) : tensor { return %a } { return %b
// }`. Equal graphs print equal text: it depends on order and names, not on ids.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

struct TextOptions {
  bool sources = true;  ///< print source files and lines
  bool modules = true;  ///< print module calls and who owns what
};

std::string toText(const Graph&, const TextOptions& = {});
std::string toText(const Argument&, const Graph&);
/// The lines that say how the graph is called; empty where it takes its inputs one after the other.
std::string callingText(const Graph&);
/// "[2, 128]", "[2, inf]": the sizes that a symbol may have.
std::string rangeText(const Symbol&);
/// One node's line without indentation and line end.
std::string nodeText(const Graph&, NodeId, const TextOptions& = {});

/// Operators come from `operators`; unknown ones become stand-ins without a schema. Errors carry line and column.
Result<Graph> parseText(std::string_view text, const OperatorSet& operators, std::string_view file = "");

}  // namespace graft
