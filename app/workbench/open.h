// Open: a model file as a graph, in the dtype asked for, and what it is run on.
//
//   Result<Model> model = workbench::open({"minilm.pt"}, semantics, job);
//   Result<workbench::Inputs> inputs = workbench::inputsFor(model->graph, {.file = "sentences.pt", .device = "cuda"});
//   workbench::recordTypes(*model, inputs->tensors, semantics.operators());  // shapes and dtypes, as one run saw them
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/model.h"
#include "core/torch/executor.h"
#include "core/torch/tensors.h"

namespace graft::workbench {

struct OpenRequest {
  std::string path;
  std::string method = "forward";  ///< which method of a TorchScript module, or which graph of an FX file
  /// The floating-point dtype that weights, inputs and what the operators say of dtypes are brought to; none: the
  /// file's own.
  std::optional<DType> dtype = {};
};
Result<Model> open(const OpenRequest&, const Semantics&, const Job& = {});

/// What a model is run on. Without a file and specifications, random tensors of the types of its inputs.
struct InputRequest {
  std::string file;                ///< what torch.save wrote
  std::vector<std::string> specs;  ///< "f16[1,128]:randn", one for each input
  uint64_t seed = 0;
  std::string device = "cpu";
  std::optional<DType> dtype = {};  ///< floating-point tensors are cast to it
  bool isGiven() const { return !file.empty() || !specs.empty(); }
};
struct Inputs {
  TensorSet tensors;
  /// Where none were given and the model takes some: what was made up, "f32[2,4]" of each.
  std::vector<std::string> random;
};
Result<Inputs> inputsFor(const Graph&, const InputRequest&);

/// For a model that open() brought to a 16-bit dtype and that gives NaN or infinities in it on the inputs: what its
/// range cannot hold stays in float32 after all, and the note returned says which nodes. Nothing where the outputs are
/// finite, or where that does not help.
std::optional<std::string> keepWithinRange(Model&, const OpenRequest&, const TensorSet& inputs, const Semantics&,
                                           const Job& = {});

/// What becomes of sizes that the file declares to differ from call to call.
enum class DeclaredSizes { Stay, FixedByInputs };
/// Runs the model once on the inputs and writes the types seen into its graph: formats that carry no types leave
/// conditions on dtypes and shapes open otherwise. What scripted code asks of its values' ranks and dtypes is answered
/// then, and a note of the model says so. An error where the model does not take the inputs or this machine lacks an
/// operator.
Status recordTypes(Model&, const TensorSet& inputs, const OperatorSet&, DeclaredSizes = DeclaredSizes::Stay);

}  // namespace graft::workbench
