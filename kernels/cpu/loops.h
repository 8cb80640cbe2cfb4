// The hot loops of the CPU operators, over raw memory. One source, loops_impl.h, is compiled for AVX-512, for AVX2 and
// for any machine; loops() returns the table for this machine. No loop allocates, throws or starts threads: operators
// split the rows among threads and call a loop on each part.
//
//   loops().swiglu(Scalar::F32, gate, up, out, begin, end);
#pragma once

#include <cstdint>

namespace graft::ops {

// How tensors are stored. All arithmetic is in fp32; 16-bit values are converted on load and store.
enum class Scalar { F32, BF16, F16 };

// HardTanh clamps to [alpha, beta]; LeakyRelu's slope below zero is alpha. The others take no parameters.
enum class Activation { None, Relu, Gelu, GeluTanh, Silu, Sigmoid, Tanh, HardSwish, HardSigmoid, HardTanh, LeakyRelu };

struct NormArgs {
  Scalar scalar = Scalar::F32;
  const void* x = nullptr;           // [rows, columns], contiguous, like residual, sum and out
  const void* residual = nullptr;    // or null
  const float* inputBias = nullptr;  // [columns] or null
  const float* weight = nullptr;     // [columns] or null
  const float* bias = nullptr;       // [columns] or null
  void* sum = nullptr;               // x + residual, or null (RMS norm only)
  void* out = nullptr;
  float* scratch = nullptr;  // [columns], this thread's own
  int64_t columns = 0;
  float eps = 0;
};

struct EmbeddingArgs {
  static constexpr int kMaxTables = 8;
  Scalar scalar = Scalar::F32;
  int tables = 0;
  const void* table[kMaxTables] = {};   // [entries, columns], contiguous
  const int64_t* ids[kMaxTables] = {};  // [rows], checked by the caller
  NormArgs norm;                        // x and residual unused
};

struct SoftmaxArgs {
  Scalar scalar = Scalar::F32;
  const void* x = nullptr;  // [rows, columns], contiguous, like out
  void* out = nullptr;
  float* scratch = nullptr;  // [columns]
  int64_t columns = 0;
  float scale = 1;
};

struct RotaryArgs {
  Scalar scalar = Scalar::F32;
  const void* x = nullptr;  // [headSize], contiguous, like cos, sin and out
  const float* cos = nullptr;
  const float* sin = nullptr;
  void* out = nullptr;
  int64_t headSize = 0;
};

// Strides are in elements: batch, head, position; the head size is contiguous.
struct AttentionArgs {
  Scalar scalar = Scalar::F32;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;  // [batch, queries, heads, valueSize], contiguous
  int64_t qStrides[3] = {}, kStrides[3] = {}, vStrides[3] = {};
  const float* mask = nullptr;    // added; keys contiguous
  const uint8_t* keep = nullptr;  // instead of mask: 0 masks out
  int64_t maskStrides[3] = {};    // batch, head, query
  int64_t heads = 0, kvHeads = 0, queries = 0, keys = 0, headSize = 0, valueSize = 0;
  int64_t blocks = 0, block = 0;  // each head's queries are split into `blocks` items of `block` queries
  float scale = 1;
  bool causal = false;
};

struct LinearArgs {
  Scalar scalar = Scalar::F32;  // of residual and out
  Activation activation = Activation::None;
  const float* x = nullptr;        // [rows, depth], contiguous
  const float* packed = nullptr;   // the weight, by packWeight
  const float* bias = nullptr;     // [outputs] or null
  const void* residual = nullptr;  // [rows, outputs], contiguous, or null
  void* out = nullptr;             // [rows, outputs], contiguous
  int64_t rows = 0, depth = 0, outputs = 0;
};

struct DepthwiseArgs {
  const float* x = nullptr;       // [batch, height, width, channels], contiguous
  const float* packed = nullptr;  // the weight, [kernel[0], kernel[1], channels]
  const float* bias = nullptr;    // [channels] or null
  float* out = nullptr;           // [batch, outHeight, outWidth, channels], contiguous
  int64_t channels = 0, height = 0, width = 0, outHeight = 0, outWidth = 0;
  int64_t kernel[2] = {}, stride[2] = {}, padding[2] = {}, dilation[2] = {};  // of rows, of columns
};

struct ActivationArgs {
  Scalar scalar = Scalar::F32;  // of residual and out
  Activation activation = Activation::None;
  float alpha = 0, beta = 0;
  const float* x = nullptr;
  const void* residual = nullptr;  // or null
  void* out = nullptr;             // may be x
};

struct Loops {
  const char* name;
  // layer_norm(x + input_bias + residual) * weight + bias over rows [begin, end).
  void (*layerNorm)(const NormArgs&, int64_t begin, int64_t end);
  void (*rmsNorm)(const NormArgs&, int64_t begin, int64_t end);
  void (*embeddingLayerNorm)(const EmbeddingArgs&, int64_t begin, int64_t end);
  // One row: softmax(x * scale + mask). `mask` (fp32) or `keep` (bool) or neither.
  void (*softmaxRow)(const SoftmaxArgs&, int64_t row, const float* mask, const uint8_t* keep);
  // out = x * cos + rotate_half(x) * sin, one row.
  void (*rotaryRow)(const RotaryArgs&);
  // silu(gate) * up over elements [begin, end).
  void (*swiglu)(Scalar, const void* gate, const void* up, void* out, int64_t begin, int64_t end);
  // out = activation(x + bias) + residual over rows [begin, end). x is fp32; residual and out are stored as `scalar`.
  void (*epilogue)(Scalar, Activation, const float* x, const float* bias, const void* residual, void* out,
                   int64_t columns, int64_t begin, int64_t end);
  // out = activation(x + residual) over elements [begin, end).
  void (*addActivate)(const ActivationArgs&, int64_t begin, int64_t end);
  // How many floats of memory attention() needs, and attention for items [begin, end) of batch * heads * blocks.
  int64_t (*attentionScratch)(const AttentionArgs&);
  void (*attention)(const AttentionArgs&, int64_t begin, int64_t end, float* memory);
  // activation(x weight^T + bias) + residual for few rows: outputs in panels [begin, end) of weightPanel outputs each.
  // The weight is packed beforehand into packedWeightSize(outputs, depth) floats.
  int64_t weightPanel;
  int64_t (*packedWeightSize)(int64_t outputs, int64_t depth);
  void (*packWeight)(const float* weight, int64_t outputs, int64_t depth, float* packed);
  void (*linear)(const LinearArgs&, int64_t begin, int64_t end);
  // conv(x, weight) + bias, a kernel for each channel: rows [begin, end) of batch * outHeight. Whether there is a loop
  // for these sizes.
  bool (*takesDepthwise)(const DepthwiseArgs&);
  void (*depthwise)(const DepthwiseArgs&, int64_t begin, int64_t end);
};

const Loops& loops();

}  // namespace graft::ops
