"""Graft's operators as replacements call them. resources/package/write_stubs.py makes this file from their schemas."""

from typing import Any, Sequence


def add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float = ..., *, input_bias: Any = ...) -> Any:
    """layer_norm(x + input_bias + residual) * weight + bias over the last dimension, in one pass over memory and in
    fp32 throughout. input_bias is the bias of the linear layer that made x. x and the residual broadcast. The
    output is contiguous."""

def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = ...) -> Any:
    """sum = x + residual; normed = sum / sqrt(mean(sum^2) + eps) * weight over the last dimension, in fp32
    throughout. x and the residual broadcast. Both are returned, contiguous, for the residual stream goes on from
    sum. Without a residual, sum is a copy of x."""

def attention(q: Any, k: Any, v: Any, mask: Any = ..., *, scale: float | None = ..., causal: bool = ...) -> Any:
    """softmax(q k^T * scale + mask) v. q is [batch, heads, length, head size]; k and v may have fewer heads
    (grouped-query) and another length; or all three are [batch, length, head size]. A batch of 1 serves every
    sample of the others. The mask broadcasts to [batch, heads, length, keys] and is added, or, where bool, false
    masks out. causal lets query i see keys 0 to i. The scale defaults to 1/sqrt(head size). A query that sees no
    key gives zeros. The output's memory is [batch, length, heads, head size], so that transpose(1,
    2).reshape(...) is free."""

def attention_norm_linear(q: Any, k: Any, v: Any, mask: Any, weight: Any, bias: Any, residual: Any, norm_weight: Any, norm_bias: Any, next_weight: Any, next_bias: Any, eps: float = ..., *, scale: float | None = ..., causal: bool = ..., activation: str = ...) -> Any:
    """linear_norm_linear of attention(q, k, v, mask) with its heads side by side, [batch, length, heads * head
    size]. For up to 16 queries and 32 keys on Hopper attention and the first product are one kernel."""

def batched_linear(x: Any, weight: Any) -> Any:
    """x times each matrix of weight [batch, in, out]: [batch, rows, out], as the experts of a mixture have it. x is
    [rows, in], the same for all, or [batch, rows, in]; a batch of 1 serves all. Accumulation happens in fp32
    before the one rounding to the output's type. The output is contiguous."""

def conv_activation(x: Any, weight: Any, bias: Any, residual: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, activation: str = ..., alpha: float = ..., beta: float = ...) -> Any:
    """conv_bias_add_relu with any activation: activation(conv(x, weight, bias) + residual) with activation none,
    relu, gelu (exact, by erf), gelu_tanh, silu, sigmoid, tanh, hardswish, hardsigmoid, hardtanh (clamps to
    [alpha, beta]) or leaky_relu (slope alpha). The residual has the output's shape or broadcasts to it. The
    output is channels-last where x or weight is, otherwise contiguous."""

def conv_bias_add_relu(x: Any, weight: Any, bias: Any, residual: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, relu: bool = ...) -> Any:
    """relu(conv(x, weight, bias) + residual) in 1 to 3 spatial dimensions: a ResNet block's last convolution with
    its shortcut. The residual has the output's shape or broadcasts to it. The output is channels-last where x or
    weight is, otherwise contiguous."""

def embedding_layer_norm(ids: Any, tables: Any, weight: Any, bias: Any, eps: float = ...) -> Any:
    """layer_norm(tables[0][ids[0]] + tables[1][ids[1]] + ...) * weight + bias: the embedding block of BERT (words,
    positions, token types) in one pass. The ids broadcast against each other; the output is [ids' shape...,
    features], contiguous."""

def generated(inputs: Any, program: str, sizes: Sequence[int] = ...) -> Any:
    """A group of ATen operators that was fused: `program` is the group as text (graft code --as groups prints it).
    Its kernel is made at the first call for these dtypes, sizes and strides, and kept on disk. Where none can be
    made, the group runs as the ATen operators that the text names."""

def linear(x: Any, weight: Any, bias: Any = ..., *, activation: str = ..., residual: Any = ...) -> Any:
    """activation(x weight^T + bias) + residual with activation none, relu, gelu (exact, by erf), gelu_tanh or silu.
    Accumulation, activation and addition happen in fp32 before the one rounding to the output's type. The product
    and the residual broadcast. The output is contiguous."""

def linear_add_layer_norm(x: Any, weight: Any, bias: Any, residual: Any, norm_weight: Any, norm_bias: Any, eps: float = ...) -> Any:
    """layer_norm(x weight^T + bias + residual) * norm_weight + norm_bias over the last dimension: the end of a
    transformer's block. Either the product adds bias and residual while it is written or the norm does while it
    reads, whichever is faster for the sizes at hand; what passes between them is rounded once to the type. The
    product and the residual broadcast. The output is contiguous."""

def linear_norm_linear(x: Any, weight: Any, bias: Any, residual: Any, norm_weight: Any, norm_bias: Any, next_weight: Any, next_bias: Any, eps: float = ..., *, activation: str = ...) -> Any:
    """normed = layer_norm(x weight^T + bias + residual) * norm_weight + norm_bias over the last dimension, and out =
    activation(normed next_weight^T + next_bias): from one block of a transformer into the next. For at most 32
    rows on Hopper the norm is part of the second product, whose weights are scaled by norm_weight and rounded
    once in its place; otherwise it is linear_add_layer_norm and linear. The sum before the norm is rounded once
    to the type. Both outputs are contiguous."""

def masked_softmax(x: Any, mask: Any = ..., *, scale: float = ..., dim: int = ...) -> Any:
    """softmax(x * scale + mask) over one dimension, in fp32 throughout. A floating-point mask is added, a bool mask
    sets elements that are false to -Inf; either broadcasts to x. A row with nothing left gives NaN, as softmax
    does. The output is contiguous."""

def qkv_projection(x: Any, weight: Any, bias: Any = ..., *, heads: int, kv_heads: int) -> Any:
    """The three projections of attention as one product: weight is q's, k's and v's weights on top of each other,
    [(heads + 2 * kv_heads) * head size, features]. q is [batch, heads, length, head size], k and v have kv_heads
    heads. All three lie interleaved in one block of memory, as [batch, length, heads + 2 * kv_heads, head size];
    they do not overlap, and graft::attention reads them in place."""

def rotary_embedding(q: Any, k: Any, cos: Any, sin: Any) -> Any:
    """q * cos + rotate_half(q) * sin, and the same for k: rotary position embedding in the half-split form that
    Llama uses (the first half of a head turns with the second). q and k are [batch, heads, length, head size],
    cos and sin [length, head size] or [batch or 1, length, head size] or with a 1 for the heads. Outputs keep the
    order of q's and k's strides, as empty_like does."""

def swiglu(gate: Any, up: Any) -> Any:
    """silu(gate) * up, elementwise: the gated half of a Llama feed-forward block. gate and up broadcast. The output
    is contiguous."""
