// How an operator with a derivative of its own enters autograd's graph.
//
// An operator's trained version (gradients.h) runs operators below autograd, says what is kept for the backward pass,
// and how the gradients of the inputs follow. Below autograd a tracer (AOTAutograd) sees these operators, in the
// forward and in the backward pass, so both can be cut, rewritten and captured.
//
//   Derivative rule{.name = "swiglu"};
//   rule.forward = [](const Tensors& in, Tensors&) { return Tensors{swiglu.call(in[0], in[1])}; };
//   rule.backward = [](const Tensors& in, const Tensors&, const Tensors& g, const Wanted&) { ... };
//   return differentiated({gate, up}, std::move(rule))[0];
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>
#include <vector>

namespace graft::ops {

using Tensors = std::vector<at::Tensor>;
using Wanted = std::vector<bool>;

struct Derivative {
  const char* name;
  // The results, computed below autograd. What it appends to `kept` (which may be results) is saved for the backward
  // pass. Inputs may be undefined where the operator has optional ones.
  std::function<Tensors(const Tensors& inputs, Tensors& kept)> forward = {};
  // The gradient of each input that is wanted, from those of the results, which are undefined where none arrived. When
  // gradients are being recorded (a derivative of the derivative), it must use differentiable operators.
  std::function<Tensors(const Tensors& inputs, const Tensors& kept, const Tensors& gradients, const Wanted& wanted)>
      backward = {};
  // Inputs that the backward pass does not read. They are not saved, and undefined there.
  std::vector<size_t> unread = {};
};

// The results, with the derivative in autograd's graph.
Tensors differentiated(const Tensors& inputs, Derivative rule);

// The gradients of `inputs` through `function`, which consists of differentiable operators, as functions of the inputs
// and of `gradients`. For derivatives of a derivative.
Tensors partials(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs,
                 const Tensors& gradients);

// An optional input as a tensor that may be undefined, and back.
inline at::Tensor orNone(const std::optional<at::Tensor>& tensor) { return tensor ? *tensor : at::Tensor(); }
inline std::optional<at::Tensor> orNothing(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// An operator of this library as a function.
template <class Signature>
c10::TypedOperatorHandle<Signature> operatorNamed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

}  // namespace graft::ops
