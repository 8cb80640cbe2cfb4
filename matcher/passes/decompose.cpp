// decompose(op): an operator becomes the simple steps of its definition, for rules to fuse them anew and for people to
// see them.
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "core/base/suggest.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

using Args = std::vector<Argument>;
using Steps = Result<Args>;  // the results, one for each output

// Half precision is computed in float32 and rounded once, at the end, as PyTorch's own kernels do.
bool isHalf(std::optional<DType> d) { return d == DType::Float16 || d == DType::BFloat16; }
Argument widened(NodeBuilder& b, const Graph& g, const Argument& a) {
  return isHalf(dtypeOf(g, a)) ? b.call("aten.to.dtype", {a, Argument(DType::Float32)}) : a;
}
Argument rounded(NodeBuilder& b, const Argument& a, std::optional<DType> to) {
  return isHalf(to) ? b.call("aten.to.dtype", {a, Argument(*to)}) : a;
}

Argument integer(int64_t i) { return Argument(i); }
Argument dims(int64_t i) { return Argument::list({Argument(i)}); }

Steps linear(NodeBuilder& b, const Graph&, const Node& n) {
  const Argument turned = b.call("aten.transpose.int", {n.args[1], integer(0), integer(1)});
  const Argument product = b.call("aten.matmul.default", {n.args[0], turned});
  return Args{n.args.size() > 2 && n.args[2].isValue() ? b.call("aten.add.Tensor", {product, n.args[2]}) : product};
}

Steps silu(NodeBuilder& b, const Graph& g, const Node& n) {
  const Argument x = widened(b, g, n.args[0]);
  return Args{rounded(b, b.call("aten.mul.Tensor", {x, b.call("aten.sigmoid.default", {x})}), dtypeOf(g, n.args[0]))};
}

// none: x/2 * (1 + erf(x / sqrt 2)); tanh: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
Steps gelu(NodeBuilder& b, const Graph& g, const Node& n) {
  const Argument x = widened(b, g, n.args[0]);
  const Argument* approximate = n.findArgument("approximate");
  const bool tanh = approximate && approximate->as<std::string>() && *approximate->as<std::string>() == "tanh";
  Argument inner;
  if (tanh) {
    const Argument square = b.call("aten.mul.Tensor", {x, x});
    const Argument cube = b.call("aten.mul.Tensor", {square, x});
    const Argument sum = b.call("aten.add.Tensor", {x, b.call("aten.mul.Tensor", {cube, Argument(0.044715)})});
    inner = b.call("aten.tanh.default", {b.call("aten.mul.Tensor", {sum, Argument(std::sqrt(2.0 / M_PI))})});
  } else {
    inner = b.call("aten.erf.default", {b.call("aten.mul.Tensor", {x, Argument(std::sqrt(0.5))})});
  }
  const Argument halfX = b.call("aten.mul.Tensor", {x, Argument(0.5)});
  const Argument out = b.call("aten.mul.Tensor", {halfX, b.call("aten.add.Tensor", {inner, Argument(1.0)})});
  return Args{rounded(b, out, dtypeOf(g, n.args[0]))};
}

// The largest element is subtracted first, so that the exponentials stay in range.
Steps softmax(NodeBuilder& b, const Graph& g, const Node& n) {
  Argument x = n.args[0];
  const Argument* dim = n.findArgument("dim");
  if (!dim || !dim->as<int64_t>()) return badInput("its dim is not a literal");
  std::optional<DType> out = dtypeOf(g, x);
  if (const Argument* dtype = n.findArgument("dtype"); dtype && dtype->as<DType>()) {
    out = *dtype->as<DType>();
    x = b.call("aten.to.dtype", {x, isHalf(out) ? Argument(DType::Float32) : *dtype});
  } else {
    x = widened(b, g, x);
  }
  const Argument along = dims(*dim->as<int64_t>());
  const Argument largest = b.call("aten.amax.default", {x, along, Argument(true)});
  const Argument e = b.call("aten.exp.default", {b.call("aten.sub.Tensor", {x, largest})});
  return Args{
      rounded(b, b.call("aten.div.Tensor", {e, b.call("aten.sum.dim_IntList", {e, along, Argument(true)})}), out)};
}

Steps layerNorm(NodeBuilder& b, const Graph& g, const Node& n) {
  const Argument *shape = n.findArgument("normalized_shape"), *eps = n.findArgument("eps");
  if (!shape || !shape->items() || !eps) return badInput("its normalized_shape is not a list");
  Args last;
  for (size_t i = shape->items()->size(); i > 0; --i) last.push_back(integer(-static_cast<int64_t>(i)));
  const Argument along = Argument::list(last);
  const Argument x = widened(b, g, n.args[0]);
  const Argument mean = b.call("aten.mean.dim", {x, along, Argument(true)});
  const Argument centred = b.call("aten.sub.Tensor", {x, mean});
  const Argument variance =
      b.call("aten.mean.dim", {b.call("aten.mul.Tensor", {centred, centred}), along, Argument(true)});
  const Argument scale = b.call("aten.rsqrt.default", {b.call("aten.add.Tensor", {variance, *eps})});
  Argument out = b.call("aten.mul.Tensor", {centred, scale});
  if (const Argument* w = n.findArgument("weight"); w && w->isValue()) out = b.call("aten.mul.Tensor", {out, *w});
  if (const Argument* c = n.findArgument("bias"); c && c->isValue()) out = b.call("aten.add.Tensor", {out, *c});
  return Args{rounded(b, out, dtypeOf(g, n.args[0]))};
}

Steps batchNorm(NodeBuilder& b, const Graph& g, const Node& n) {
  const auto arg = [&](std::string_view name) { return n.findArgument(name) ? *n.findArgument(name) : Argument(); };
  const Argument mean = arg("running_mean"), var = arg("running_var"), training = arg("training");
  if (!mean.isValue() || !var.isValue() || (training.as<bool>() && *training.as<bool>()))
    return badInput("it is in training mode; call model.eval() before exporting");
  const auto rank = g.value(n.args[0].valueId()).type.tensorInfo.rank();
  if (!rank || *rank < 2) return badInput("the rank of its input is not known; import the model with example inputs");
  // One number for each channel, along dimension 1.
  Args shape(static_cast<size_t>(*rank), integer(1));
  shape[1] = integer(-1);
  const Argument laid = Argument::list(shape);
  const auto channel = [&](const Argument& a) { return b.call("aten.reshape.default", {a, laid}); };
  const Argument deviation =
      b.call("aten.rsqrt.default", {b.call("aten.add.Tensor", {widened(b, g, var), arg("eps")})});
  Argument out = b.call("aten.sub.Tensor", {widened(b, g, n.args[0]), channel(mean)});
  out = b.call("aten.mul.Tensor", {out, channel(deviation)});
  if (arg("weight").isValue()) out = b.call("aten.mul.Tensor", {out, channel(arg("weight"))});
  if (arg("bias").isValue()) out = b.call("aten.add.Tensor", {out, channel(arg("bias"))});
  return Args{rounded(b, out, dtypeOf(g, n.args[0]))};
}

// As torch.compile captures training: besides the output the batch's mean and 1 / deviation, which the backward pass
// wants, and the running statistics as they are afterwards.
Steps batchNormInTraining(NodeBuilder& b, const Graph& g, const Node& n) {
  const auto arg = [&](std::string_view name) { return n.findArgument(name) ? *n.findArgument(name) : Argument(); };
  const bool* training = arg("training").as<bool>() ? n.findArgument("training")->as<bool>() : nullptr;
  const auto momentum = arg("momentum").number();
  const TensorInfo& info = g.value(n.args[0].valueId()).type.tensorInfo;
  if (!training || !*training || !momentum || !arg("running_mean").isValue() || !arg("running_var").isValue())
    return badInput("it is not in training mode");
  if (!info.shape || info.shape->size() < 2) return badInput("the rank of its input is not known");
  Args over, laidOut(info.shape->size(), integer(1));
  int64_t count = 1;
  for (size_t d = 0; d < info.shape->size(); ++d) {
    if (d == 1) continue;
    over.push_back(integer(static_cast<int64_t>(d)));
    if (!(*info.shape)[d].isStatic()) return badInput("how many elements a channel has is not known");
    count *= (*info.shape)[d].size;
  }
  if (count < 2) return badInput("a channel of one element has no variance");
  laidOut[1] = integer(-1);
  const Argument x = widened(b, g, n.args[0]), along = Argument::list(over), laid = Argument::list(laidOut);
  const auto channel = [&](const Argument& a) { return b.call("aten.reshape.default", {a, laid}); };
  const auto times = [&](const Argument& a, double f) { return b.call("aten.mul.Tensor", {a, Argument(f)}); };
  const Argument mean = b.call("aten.mean.dim", {x, along, Argument(false)});
  const Argument centred = b.call("aten.sub.Tensor", {x, channel(mean)});
  const Argument variance =
      b.call("aten.mean.dim", {b.call("aten.mul.Tensor", {centred, centred}), along, Argument(false)});
  const Argument scale = b.call("aten.rsqrt.default", {b.call("aten.add.Tensor", {variance, arg("eps")})});
  Argument out = b.call("aten.mul.Tensor", {centred, channel(scale)});
  if (arg("weight").isValue()) out = b.call("aten.mul.Tensor", {out, channel(arg("weight"))});
  if (arg("bias").isValue()) out = b.call("aten.add.Tensor", {out, channel(arg("bias"))});
  const auto moved = [&](const char* running, const Argument& batch) {
    return b.call("aten.add.Tensor", {times(arg(running), 1 - *momentum), times(batch, *momentum)});
  };
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  const Argument newMean = moved("running_mean", mean), newVar = moved("running_var", times(variance, unbiased));
  return Args{rounded(b, out, info.dtype), mean, scale, newMean, newVar};
}

struct Decomposition {
  std::string_view op, module;  // "silu" and nn.SiLU mean the same
  Steps (*run)(NodeBuilder&, const Graph&, const Node&);
};
constexpr std::string_view capturedBatchNorm = "_native_batch_norm_legit_functional";
constexpr std::array<Decomposition, 8> decompositions{{
    {"linear", "Linear", linear},
    {"silu", "SiLU", silu},
    {"gelu", "GELU", gelu},
    {"softmax", "Softmax", softmax},
    {"layer_norm", "LayerNorm", layerNorm},
    {"batch_norm", "BatchNorm2d", batchNorm},
    {"batch_norm", "BatchNorm1d", batchNorm},
    {"batch_norm", "BatchNorm3d", batchNorm},
}};

/// What a step takes apart: one kind of operator, or whatever can be taken apart in some modules, or both.
struct Wanted {
  const Decomposition* only = nullptr;
  std::unique_ptr<RE2> path;  ///< of a module call that holds the node
};

Result<Wanted> wantedBy(const Step& step, const Graph& g) {
  Wanted out;
  std::vector<std::string> known;
  for (size_t i = 0; i < step.args.size(); ++i) {
    const std::string name = nameArgument(step, i);
    const Decomposition* found = nullptr;
    for (const Decomposition& d : decompositions) {
      if (d.op == name || d.module == name) found = &d;
      known.emplace_back(d.op);
    }
    const std::string* path = step.args[i].as<std::string>();
    if (found && !out.only) {
      out.only = found;
    } else if (path && !out.path) {
      out.path = std::make_unique<RE2>(*path, RE2::Quiet);
      if (!out.path->ok()) return badInput("\"" + *path + "\" is not a regular expression: " + out.path->error());
      const auto fits = [&](const ModuleCall& m) { return RE2::FullMatch(m.path, *out.path); };
      const auto calls = g.moduleCalls();
      if (!std::any_of(calls.begin(), calls.end(), fits)) {
        std::vector<std::string> paths;
        for (const ModuleCall& m : calls) paths.push_back(m.path);
        if (i == 0) paths.insert(paths.end(), known.begin(), known.end());
        const auto nearest = nearestName(*path, paths);
        return badInput("no module that is called has the path \"" + *path + "\"" +
                        (nearest ? "; did you mean \"" + *nearest + "\"?" : ""));
      }
    } else {
      const auto nearest = nearestName(name, known);
      return badInput("decompose knows linear, silu, gelu, softmax, layer_norm and batch_norm, not `" + name + "`" +
                      (nearest ? "; did you mean " + *nearest + "?" : ""));
    }
  }
  if (!out.only && !out.path) return badInput("decompose takes an operator, nn.Linear, or the path of a module");
  return out;
}

bool isAbout(const Decomposition& d, const Node& n) {
  return n.op->baseName() == d.op || (d.op == "batch_norm" && n.op->baseName() == capturedBatchNorm);
}

Status decompose(GraphEditor& editor, const Step& step) {
  const Graph& g = editor.graph();
  const auto wanted = wantedBy(step, g);
  if (!wanted) return wanted.error();
  const GraphIndex index(g);
  for (NodeId id : index.order) {
    const Node n = g.node(id);
    const auto at = std::find_if(decompositions.begin(), decompositions.end(), [&](const Decomposition& d) {
      return (!wanted->only || wanted->only->op == d.op) && isAbout(d, n);
    });
    if (at == decompositions.end()) continue;
    const Decomposition* how = &*at;
    bool isInside = !wanted->path;
    for (ModuleCallId m = n.module; m && !isInside; m = g.moduleCall(m).parent)
      isInside = RE2::FullMatch(g.moduleCall(m).path, *wanted->path);
    if (!isInside) continue;
    const bool captured = how->op == "batch_norm" && n.op->baseName() == capturedBatchNorm;
    if (!n.args[0].isValue() || !n.op->pure()) continue;
    editor.begin(id);
    NodeBuilder b(editor, id);
    auto result = captured ? batchNormInTraining(b, g, n) : how->run(b, g, n);
    if (!result || b.error()) {
      const Error e = result ? *b.error() : result.error();
      editor.cancel();
      return badInput("`" + n.name + "` (" + std::string(n.op->packetName()) + ") cannot be decomposed: " + e.message);
    }
    for (size_t o = 0; o < result->size(); ++o) editor.replaceValue(n.outputs[o], (*result)[o].valueId());
    editor.erase(id);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(decompose, "nn.Linear", "linear, silu, gelu, softmax, layer_norm or batch_norm into steps, or by path",
           decompose)

}  // namespace graft
