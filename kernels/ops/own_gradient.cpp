// graft::tangent and graft::own_gradient: how a rule's own `backward` stands in a graph that will be differentiated.
// Both only mark: whoever differentiates the graph (resources/python/graft_fx/own_gradients.py) takes out what they tie
// together. A graph that runs with them gives the results as they are.
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <vector>

namespace graft::ops {
namespace {

at::Tensor tangent(const at::Tensor& result) { return result.clone(); }

std::vector<at::Tensor> ownGradient(at::TensorList results, const c10::List<std::optional<at::Tensor>>& /*inputs*/,
                                    at::TensorList /*gradients*/, c10::string_view /*rule*/,
                                    const std::vector<std::string>& /*names*/) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : results) out.push_back(t.clone());
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("tangent(Tensor result) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.impl("tangent", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &tangent));
  m.def("own_gradient(Tensor[] results, Tensor?[] inputs, Tensor[] gradients, str rule, str[] names) -> Tensor[]",
        {at::Tag::pt2_compliant_tag});
  m.impl("own_gradient", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &ownGradient));
}

}  // namespace graft::ops
