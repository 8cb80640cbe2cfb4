#include "kernels/ops/gradients/derivative.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

namespace graft::ops {
namespace {

using torch::autograd::SavedVariable;

class DerivativeNode : public torch::autograd::Node {
 public:
  explicit DerivativeNode(Derivative rule) : rule_(std::move(rule)) {}

  std::string name() const override { return std::string("graft::") + rule_.name + "Backward"; }

  // The results, whose gradients come here.
  Tensors run(const Tensors& inputs) {
    Tensors kept, results;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      results = rule_.forward(inputs, kept);
    }
    torch::autograd::set_history(results, getptr());
    save(inputs, kept, results);
    return results;
  }

 private:
  void save(const Tensors& inputs, const Tensors& kept, const Tensors& results) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool unread = std::find(rule_.unread.begin(), rule_.unread.end(), i) != rule_.unread.end();
      inputs_.emplace_back(unread ? at::Tensor() : inputs[i], false);
    }
    for (const at::Tensor& tensor : kept) {
      const bool isResult = std::any_of(results.begin(), results.end(), [&](const at::Tensor& r) {
        return r.defined() && tensor.defined() && r.is_same(tensor);
      });
      kept_.emplace_back(tensor, isResult);
    }
  }

 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    Tensors inputs, kept;
    Wanted wanted;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      TORCH_CHECK(!released_, "graft::", rule_.name,
                  ": its saved tensors were freed; call backward with retain_graph=True to go through the graph again");
      for (const SavedVariable& saved : inputs_) inputs.push_back(saved.unpack());
      for (const SavedVariable& saved : kept_) kept.push_back(saved.unpack(getptr()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) wanted.push_back(task_should_compute_output(i));
    const bool anyGradient =
        std::any_of(gradients.begin(), gradients.end(), [](const at::Tensor& g) { return g.defined(); });
    if (!anyGradient) return Tensors(inputs.size());
    Tensors found = rule_.backward(inputs, kept, gradients, wanted);
    for (size_t i = 0; i < found.size(); ++i) {
      if (!wanted[i]) found[i] = at::Tensor();
    }
    return found;
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& saved : inputs_) saved.reset_data();
    for (SavedVariable& saved : kept_) saved.reset_data();
    released_ = true;
  }

 private:
  Derivative rule_;
  std::vector<SavedVariable> inputs_, kept_;
  bool released_ = false;
};

}  // namespace

Tensors differentiated(const Tensors& inputs, Derivative rule) {
  const std::shared_ptr<DerivativeNode> node(new DerivativeNode(std::move(rule)), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  return node->run(inputs);
}

Tensors partials(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs,
                 const Tensors& gradients) {
  // Aliases, so that the gradient of one input does not include what reaches it through another.
  Tensors apart, sought, ends, tangents;
  for (const at::Tensor& input : inputs) {
    const bool sees = input.defined() && input.requires_grad();
    apart.push_back(sees ? at::alias(input) : input);
    if (sees) sought.push_back(apart.back());
  }
  const Tensors results = function(apart);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!gradients[i].defined() || !results[i].requires_grad()) continue;
    ends.push_back(results[i]);
    tangents.push_back(gradients[i]);
  }
  Tensors found(inputs.size());
  if (ends.empty() || sought.empty()) return found;
  const Tensors all = torch::autograd::grad(ends, sought, tangents, true, true, true);
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) found[i] = all[next++];
  }
  return found;
}

}  // namespace graft::ops
