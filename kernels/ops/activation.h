// Activations by the names that operators' schemas use, and as ATen operators for composites.
//
//   const Activation which = activationOf("gelu_tanh");
//   return activated(at::linear(x, weight, bias), which);
#pragma once

#include <ATen/ops/clamp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include <string_view>

#include "kernels/cpu/loops.h"

namespace graft::ops {

// The name must have passed its operator's check.
inline Activation activationOf(std::string_view name) {
  if (name == "relu") return Activation::Relu;
  if (name == "gelu") return Activation::Gelu;
  if (name == "gelu_tanh") return Activation::GeluTanh;
  if (name == "silu") return Activation::Silu;
  if (name == "sigmoid") return Activation::Sigmoid;
  if (name == "tanh") return Activation::Tanh;
  if (name == "hardswish") return Activation::HardSwish;
  if (name == "hardsigmoid") return Activation::HardSigmoid;
  if (name == "hardtanh") return Activation::HardTanh;
  if (name == "leaky_relu") return Activation::LeakyRelu;
  return Activation::None;
}

inline at::Tensor activated(const at::Tensor& x, Activation activation, double alpha = 0, double beta = 0) {
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::Relu:
      return at::relu(x);
    case Activation::Gelu:
      return at::gelu(x);
    case Activation::GeluTanh:
      return at::gelu(x, "tanh");
    case Activation::Silu:
      return at::silu(x);
    case Activation::Sigmoid:
      return at::sigmoid(x);
    case Activation::Tanh:
      return at::tanh(x);
    case Activation::HardSwish:
      return at::hardswish(x);
    case Activation::HardSigmoid:
      return at::hardsigmoid(x);
    case Activation::HardTanh:
      return at::clamp(x, alpha, beta);
    case Activation::LeakyRelu:
      return at::leaky_relu(x, alpha);
  }
  return x;
}

}  // namespace graft::ops
