// graft::generated_parts(inputs, results, program): a group of ATen operators (generated.cpp) for many sets of tensors,
// in place. `inputs` has those of the first set, then those of the second, and so on, and `results` likewise. What the
// group computes for a set is written into its results, which may be some of its inputs. On a GPU an elementwise group
// runs for all sets in one launch, where a set's tensors are dense and have the same sizes and strides, but for inputs
// that the program declares as numbers. It has no derivative, and stands in no model: graft_fx calls it for an
// optimizer's step.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/generated/group.h"
#include "kernels/library/kept_memory.h"

namespace graft::ops {
namespace {

void runParts(at::TensorList inputs, at::TensorList results, std::string_view program) {
  const KeptMemory kept;
  Group::of(program)->runParts(inputs, results);
  for (const at::Tensor& t : results)
    if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
}

void runPartsWithoutGradient(at::TensorList inputs, at::TensorList results, std::string_view program) {
  const auto requiresGradient = [](const at::Tensor& t) { return t.requires_grad(); };
  TORCH_CHECK(!at::GradMode::is_enabled() || (std::none_of(inputs.begin(), inputs.end(), requiresGradient) &&
                                              std::none_of(results.begin(), results.end(), requiresGradient)),
              "graft::generated_parts: it writes in place and has no derivative; call it under torch.no_grad()");
  static const auto below = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("graft::generated_parts", "")
                                .typed<void(at::TensorList, at::TensorList, std::string_view)>();
  const at::AutoDispatchBelowADInplaceOrView guard;
  below.call(inputs, results, program);
}

void runNoParts(at::TensorList, at::TensorList, std::string_view) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("generated_parts(Tensor[] inputs, Tensor(a!)[] results, str program) -> ()", {at::Tag::pt2_compliant_tag});
  m.impl("generated_parts", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &runParts));
  m.impl("generated_parts", torch::dispatch(c10::DispatchKey::Autograd, &runPartsWithoutGradient));
  m.impl("generated_parts", torch::dispatch(c10::DispatchKey::Meta, &runNoParts));
}

}  // namespace graft::ops
