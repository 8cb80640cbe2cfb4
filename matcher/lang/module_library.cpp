// The modules of torch.nn with weights of their own that a replacement can make anew, in the rule language itself:
// their weights have the shapes and the first values that PyTorch gives them.
#include <fmt/format.h>

#include "matcher/lang/names.h"

namespace graft::lang {
namespace {

constexpr std::string_view moduleClasses = R"(
import math
import torch
import torch.nn.functional as F
from torch import nn


class Linear(nn.Module):
    """torch.nn.modules.linear.Linear"""
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        self.in_features = in_features
        self.out_features = out_features
        self.weight = nn.Parameter((torch.rand([out_features, in_features]) * 2 - 1) / math.sqrt(in_features))
        self.bias = nn.Parameter((torch.rand([out_features]) * 2 - 1) / math.sqrt(in_features)) if bias else None

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)


class Conv1d(nn.Module):
    """torch.nn.modules.conv.Conv1d"""
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        length = times(kernel_size, 1)[0]
        fan = in_channels // groups * length
        self.weight = nn.Parameter((torch.rand([out_channels, in_channels // groups, length]) * 2 - 1) / math.sqrt(fan))
        self.bias = nn.Parameter((torch.rand([out_channels]) * 2 - 1) / math.sqrt(fan)) if bias else None

    def forward(self, input):
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(nn.Module):
    """torch.nn.modules.conv.Conv2d"""
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        height, width = times(kernel_size, 2)
        fan = in_channels // groups * height * width
        self.weight = nn.Parameter(
            (torch.rand([out_channels, in_channels // groups, height, width]) * 2 - 1) / math.sqrt(fan))
        self.bias = nn.Parameter((torch.rand([out_channels]) * 2 - 1) / math.sqrt(fan)) if bias else None

    def forward(self, input):
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Embedding(nn.Module):
    """torch.nn.modules.sparse.Embedding"""
    def __init__(self, num_embeddings, embedding_dim):
        self.weight = nn.Parameter(torch.randn([num_embeddings, embedding_dim]))

    def forward(self, input):
        return F.embedding(input, self.weight)


class LayerNorm(nn.Module):
    """torch.nn.modules.normalization.LayerNorm"""
    def __init__(self, normalized_shape, eps=1e-05, elementwise_affine=True, bias=True):
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(normalized_shape)) if elementwise_affine else None
        self.bias = (nn.Parameter(torch.zeros(normalized_shape)) if bias else None) if elementwise_affine else None

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """torch.nn.modules.normalization.RMSNorm"""
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True):
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(normalized_shape)) if elementwise_affine else None

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(nn.Module):
    """torch.nn.modules.normalization.GroupNorm"""
    def __init__(self, num_groups, num_channels, eps=1e-05, affine=True):
        self.num_groups = num_groups
        self.eps = eps
        self.weight = nn.Parameter(torch.ones([num_channels])) if affine else None
        self.bias = nn.Parameter(torch.zeros([num_channels])) if affine else None

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class PReLU(nn.Module):
    """torch.nn.modules.activation.PReLU"""
    def __init__(self, num_parameters=1, init=0.25):
        self.weight = nn.Parameter(torch.ones([num_parameters]) * init)

    def forward(self, input):
        return F.prelu(input, self.weight)
)";

/// Of "1d" and "2d", which differ in their names alone.
constexpr std::string_view batchNorm = R"(

class BatchNorm{0}(nn.Module):
    """torch.nn.modules.batchnorm.BatchNorm{0}"""
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=True):
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones([num_features])) if affine else None
        self.bias = nn.Parameter(torch.zeros([num_features])) if affine else None
        self.register_buffer("running_mean", torch.zeros([num_features]))
        self.register_buffer("running_var", torch.ones([num_features]))

    def forward(self, input):
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, self.momentum, self.eps)
)";

/// Of LSTM, GRU and RNN. The weights of each layer and direction are members of their own, as in PyTorch; members of
/// layers that a module does not have are never made.
constexpr std::string_view recurrentHead = R"(

class {name}(nn.Module):
    """torch.nn.modules.rnn.{name}"""
    def __init__(self, input_size, hidden_size, num_layers=1, {more}bias=True, batch_first=False, dropout=0.0, bidirectional=False):
        self.hidden_size = hidden_size
        self.num_layers = num_layers{keep}
        self.has_biases = bias
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
)";
constexpr std::string_view recurrentWeights = R"(
        self.weight_ih_l{at} = nn.Parameter((torch.rand([{gates} * hidden_size, {inputs}]) * 2 - 1) / math.sqrt(hidden_size)) if {present} else None
        self.weight_hh_l{at} = nn.Parameter((torch.rand([{gates} * hidden_size, hidden_size]) * 2 - 1) / math.sqrt(hidden_size)) if {present} else None
        self.bias_ih_l{at} = nn.Parameter((torch.rand([{gates} * hidden_size]) * 2 - 1) / math.sqrt(hidden_size)) if {present} and bias else None
        self.bias_hh_l{at} = nn.Parameter((torch.rand([{gates} * hidden_size]) * 2 - 1) / math.sqrt(hidden_size)) if {present} and bias else None
)";
constexpr std::string_view recurrentForward = R"(
    def forward(self, input, hx=None):
        batch = input.shape[0] if self.batch_first else input.shape[1]
        zeros = torch.zeros([self.num_layers * self.directions, batch, self.hidden_size], dtype=input.dtype, device=input.device) if hx is None else None
)";

std::string recurrent(std::string_view name, int gates) {
  const bool isRnn = name == "RNN";
  std::string out = fmt::format(fmt::runtime(recurrentHead), fmt::arg("name", name),
                                fmt::arg("more", isRnn ? "nonlinearity='tanh', " : ""),
                                fmt::arg("keep", isRnn ? "\n        self.nonlinearity = nonlinearity" : ""));
  std::string weights;
  for (int layer = 0; layer < mostRecurrentLayers; ++layer) {
    for (const bool reverse : {false, true}) {
      const std::string at = fmt::format("{}{}", layer, reverse ? "_reverse" : "");
      out += fmt::format(
          fmt::runtime(recurrentWeights.substr(1)), fmt::arg("at", at), fmt::arg("gates", gates),
          fmt::arg("inputs", layer == 0 ? "input_size" : "self.directions * hidden_size"),
          fmt::arg("present", fmt::format("num_layers > {}{}", layer, reverse ? " and bidirectional" : "")));
      const std::string two = fmt::format("self.weight_ih_l{0}, self.weight_hh_l{0}", at);
      const std::string condition =
          fmt::format("self.num_layers > {}{}", layer, reverse ? " and self.bidirectional" : "");
      weights += fmt::format(
          "        weights = weights + (([{0}, self.bias_ih_l{1}, self.bias_hh_l{1}] if self.has_biases else [{0}]) if "
          "{2} "
          "else [])\n",
          two, at, condition);
    }
  }
  out += recurrentForward;
  out += "        weights = []\n" + weights;
  constexpr std::string_view more =
      "weights, self.has_biases, self.num_layers, 0.0, False, self.bidirectional, self.batch_first)";
  if (name == "LSTM")
    return out + fmt::format(
                     "        output, h, c = torch.ops.aten.lstm.input(input, [zeros, zeros] if hx is None else "
                     "[hx[0], hx[1]], {}\n        return output, (h, c)\n",
                     more);
  const std::string call = fmt::format("(input, zeros if hx is None else hx, {}", more);
  if (isRnn)
    return out + fmt::format(
                     "        return torch.ops.aten.rnn_tanh.input{0} if self.nonlinearity == 'tanh' else "
                     "torch.ops.aten.rnn_relu.input{0}\n",
                     call);
  return out + fmt::format("        return torch.ops.aten.gru.input{}\n", call);
}

}  // namespace

std::string_view moduleLibrary() {
  static const std::string text = std::string(moduleClasses) + fmt::format(batchNorm, "1d") +
                                  fmt::format(batchNorm, "2d") + recurrent("LSTM", 4) + recurrent("GRU", 3) +
                                  recurrent("RNN", 1);
  return text;
}

}  // namespace graft::lang
