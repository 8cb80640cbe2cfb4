// Launches every CUDA kernel once or twice on small, awkward sizes, without LibTorch: the program to run under
// compute-sanitizer. It does not check results; operators_test.py does.
//
//   cmake --build build --target gpu_launch_all
//   compute-sanitizer --tool memcheck build/bin/tests/gpu_launch_all     // and racecheck, initcheck, synccheck
//
// Exits 77 ("skipped: no GPU") without a GPU, and 1 when a launch fails.
#include <cuda_fp16.h>

#include <cstdio>
#include <vector>

#include "kernels/cuda/gradients/gradient_launchers.h"
#include "kernels/cuda/launchers.h"

using namespace graft::cuda;

namespace {

int failures = 0;

void expect(const char* what, cudaError_t status) {
  if (status == cudaErrorNotSupported) return;
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  ++failures;
}

// The backward kernels, and the norms that keep their statistics. x, w and y hold 2^21 halves, v 2^14.
void launchGradients(const void* x, const void* w, const void* v, void* y) {
  float* numbers = nullptr;
  cudaMalloc(&numbers, 1 << 22);
  cudaMemset(numbers, 0, 1 << 22);
  float *statistics = numbers, *partials = numbers + 4096;
  void* out[3] = {y, static_cast<char*>(y) + (1 << 16), static_cast<char*>(y) + (1 << 17)};
  for (const Dtype dtype : {Dtype::kHalf, Dtype::kBfloat16, Dtype::kFloat}) {
    for (int n : {33, 100, 256, 768, 1024, 2048, 4096, 8192}) {
      const int64_t rows = n > 1024 ? 5 : 61;
      NormTrainingArgs t;
      t.norm.x = x, t.norm.residual = w, t.norm.inputBias = v, t.norm.weight = v, t.norm.bias = v, t.norm.out = y;
      t.norm.rows = rows, t.norm.n = t.norm.ldx = t.norm.ldr = n, t.norm.eps = 1e-5f, t.norm.dtype = dtype;
      t.mean = statistics, t.rstd = statistics + 1024;
      expect("norm that keeps statistics", launchNormTraining(t, nullptr));
      t.norm.sum = static_cast<char*>(y) + (1 << 20), t.norm.rms = true, t.mean = nullptr;
      expect("rms norm that keeps statistics", launchNormTraining(t, nullptr));
      NormBackwardArgs b;
      b.grad = w, b.x = x, b.residual = w, b.inputBias = v, b.weight = v, b.mean = statistics,
      b.rstd = statistics + 1024;
      b.dsum = y, b.partials = partials, b.parts = 7, b.inputBiasSums = true, b.dtype = dtype;
      b.rows = rows, b.n = b.ldg = b.ldx = b.ldr = b.lds = n;
      expect("norm backward", launchNormBackward(b, nullptr));
      SumPartsArgs p;
      p.partials = partials, p.sums = 3, p.parts = 7, p.n = n, p.dtype = dtype;
      for (int i = 0; i < 3; ++i) p.out[i] = out[i];
      expect("sums of parts", launchSumParts(p, nullptr));
      b.gradSum = x, b.mean = nullptr, b.residual = b.inputBias = nullptr, b.inputBiasSums = false;
      expect("rms norm backward", launchNormBackward(b, nullptr));
      b.partials = nullptr;
      expect("rms norm backward without sums", launchNormBackward(b, nullptr));
      SoftmaxBackwardArgs s;
      s.grad = x, s.y = w, s.out = y, s.rows = rows, s.n = s.ldg = s.ldy = n, s.dtype = dtype;
      expect("softmax backward", launchSoftmaxBackward(s, nullptr));
    }
    for (int n : {9, 264, 1000}) {
      for (const Activation activation :
           {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
        ActivationBackwardArgs a;
        a.grad = x, a.z = w, a.dz = y, a.partials = partials, a.parts = 5, a.activation = activation, a.dtype = dtype;
        a.rows = 77, a.n = a.ldg = a.ldz = n;
        expect("activation backward", launchActivationBackward(a, nullptr));
      }
      SwigluBackwardArgs g;
      g.grad = x, g.gate = w, g.up = x, g.dgate = y, g.dup = static_cast<char*>(y) + (1 << 20), g.dtype = dtype;
      g.rows = 9, g.n = g.ldd = g.ldg = g.ldu = n;
      expect("swiglu backward", launchSwigluBackward(g, nullptr));
    }
    for (int dim : {6, 64}) {
      RotaryArgs r;
      r.x = x, r.cos = w, r.sin = w, r.out = y, r.dtype = dtype;
      const int64_t size[4] = {2, 3, 9, dim}, strides[4] = {int64_t{27} * dim, int64_t{9} * dim, dim, 1};
      for (int d = 0; d < 4; ++d)
        r.size[d] = size[d], r.xs[d] = r.os[d] = strides[d], r.cs[d] = r.ss[d] = d > 1 ? strides[d] : 0;
      expect("rotary backward", launchRotaryBackward(r, nullptr));
    }
  }
}

// Device memory with `count` pseudo-random half values in [-1, 1).
void* halves(size_t count) {
  std::vector<__half> host(count);
  unsigned state = 12345;
  for (auto& h : host)
    h = __float2half(static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1.f);
  void* data = nullptr;
  cudaMalloc(&data, count * 2);
  cudaMemcpy(data, host.data(), count * 2, cudaMemcpyHostToDevice);
  return data;
}

}  // namespace

// The draws of dropouts into `y`, and masks of sizes around a block's.
void launchDropouts(void* y) {
  RandomStatesArgs s;
  s.out = static_cast<int64_t*>(y), s.seed = 7, s.offset = 12;
  for (s.count = 0; s.count < kMaxRandomStates; ++s.count) s.blocksBefore[s.count] = 5 * s.count;
  expect("random states", launchRandomStates(s, nullptr));
  for (const int64_t count : {1, 255, 256, 257, 100000}) {
    DropoutMaskArgs m;
    m.state = s.out + 2 * 3, m.out = static_cast<bool*>(y) + 4096;
    m.count = count, m.vector = 8, m.threads = 512, m.kept = 0.9F;
    expect("dropout mask", launchDropoutMask(m, nullptr));
  }
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no GPU");
    return 77;
  }
  void* x = halves(1 << 21);
  void* w = halves(1 << 21);
  void* v = halves(1 << 14);
  void* y = halves(1 << 21);
  void* bools = nullptr;
  cudaMalloc(&bools, 1 << 14);
  cudaMemset(bools, 1, 1 << 14);

  launchDropouts(y);
  const int shapes[][3] = {{100, 200, 264}, {16, 64, 1032}, {300, 392, 520}};
  for (const auto& s : shapes) {
    GemmArgs a;
    a.x = x, a.w = w, a.bias = v, a.residual = x, a.out = y;
    a.m = s[0], a.n = s[1], a.k = s[2], a.ldx = a.ldw = s[2], a.ldr = a.ldo = s[1];
    a.activation = Activation::kGelu;
    a.constantWeights = true;
    // Without an activation results are written from registers, with one in a loop over shared memory.
    for (int i = 0; i < tileVariantCount(); ++i) {
      for (const bool residual : {true, false}) {
        for (const Activation activation : {Activation::kNone, Activation::kGelu}) {
          a.residual = residual ? x : nullptr, a.activation = activation;
          expect("tile", launchGemmTile(a, i, nullptr));
        }
      }
    }
    a.residual = x, a.activation = Activation::kGelu;
    for (int rows : {1, 2}) {
      expect("persistent", launchGemmPersistent(a, rows, nullptr));
      a.residual = nullptr;
      expect("persistent, no residual", launchGemmPersistent(a, rows, nullptr));
      a.activation = Activation::kNone, a.residual = x;
      expect("persistent, no activation", launchGemmPersistent(a, rows, nullptr));
      a.activation = Activation::kGelu;
    }
    expect("epilogue", launchEpilogue(a, x, s[1], nullptr));
  }
  const int few[][3] = {{1, 64, 768}, {16, 200, 768}, {31, 72, 384}, {9, 40, 3072}, {32, 24, 1024}, {5, 16, 2048}};
  for (const auto& s : few) {
    GemmArgs a;
    a.x = x, a.w = w, a.bias = v, a.residual = x, a.out = y;
    a.m = s[0], a.n = s[1], a.k = s[2], a.ldx = a.ldw = s[2], a.ldr = a.ldo = s[1];
    a.activation = Activation::kGelu;
    NormArgs norm;
    norm.x = x, norm.weight = v, norm.bias = v, norm.out = static_cast<__half*>(y) + (1 << 20);
    norm.rows = s[0], norm.n = norm.ldx = s[2], norm.eps = 1e-5f;
    for (int i = 0; i < rowsVariantCount(); ++i) {
      for (const bool ahead : {true, false}) {
        a.constantWeights = ahead;
        expect("rows", launchGemmRows(a, nullptr, i, nullptr));
        expect("norm and rows", launchGemmRows(a, &norm, i, nullptr));
      }
    }
  }
  for (int heads : {4, 8, 12, 16}) {
    for (int keys : {5, 16, 31}) {
      for (const bool masked : {false, true}) {
        AttentionArgs a;
        a.batch = 2, a.heads = a.kvHeads = heads, a.queries = 11, a.keys = keys, a.dim = a.dimV = keys == 5 ? 32 : 64;
        a.q = x, a.k = w, a.v = w, a.scale = 0.1f, a.causal = masked;
        const int64_t row = int64_t{heads} * a.dim;
        for (auto* strides : {a.qs, a.ks, a.vs}) strides[0] = 40 * row, strides[1] = a.dim, strides[2] = row;
        if (masked) a.mask.data = v, a.mask.kind = MaskKind::kHalf, a.mask.stride[3] = 1;
        GemmArgs p;
        p.w = w, p.bias = v, p.residual = x, p.out = y, p.m = 22, p.n = 200, p.k = p.ldw = row, p.ldr = p.ldo = 200;
        p.constantWeights = keys != 31;
        expect("attention and product", launchAttentionRows(a, p, nullptr));
      }
    }
  }
  for (int n : {768, 100, 33, 4096, 1024}) {
    NormArgs a;
    a.x = x, a.residual = w, a.inputBias = v, a.weight = v, a.bias = v, a.out = y;
    a.rows = 5, a.n = a.ldx = a.ldr = n, a.eps = 1e-5f;
    expect("norm", launchNorm(a, nullptr));
    a.rows = 1030;
    if (n <= 1024) expect("norm, many rows", launchNorm(a, nullptr));
    for (const Dtype dtype : {Dtype::kBfloat16, Dtype::kFloat}) {
      a.rows = 5, a.dtype = dtype;
      expect("norm, other types", launchNorm(a, nullptr));
    }
  }
  std::vector<int64_t> ids{0, 3, 7, 1, 2, 4, 5, 6, 7, 0, 1, 2, 3, 4};
  void* positions = nullptr;
  cudaMalloc(&positions, ids.size() * 8);
  cudaMemcpy(positions, ids.data(), ids.size() * 8, cudaMemcpyHostToDevice);
  for (const Dtype dtype : {Dtype::kHalf, Dtype::kBfloat16, Dtype::kFloat}) {
    for (int n : {768, 100, 33, 2500}) {
      EmbeddingArgs a;
      a.tables = 2, a.outer = 2, a.inner = 7, a.n = n, a.eps = 1e-5f, a.dtype = dtype;
      for (int t = 0; t < 2; ++t) {
        a.ids[t] = static_cast<const int64_t*>(positions), a.table[t] = t ? w : x, a.tableRows[t] = 8;
        a.idStride[t][0] = t ? 0 : 7, a.idStride[t][1] = 1;
      }
      a.weight = a.bias = v, a.out = y;
      expect("embedding norm", launchEmbeddingNorm(a, nullptr));
    }
    RotaryArgs r;
    r.x = x, r.cos = w, r.sin = v, r.out = y, r.dtype = dtype;
    const int64_t size[4] = {2, 3, 9, 64}, strides[4] = {3 * 9 * 64, 9 * 64, 64, 1};
    for (int d = 0; d < 4; ++d)
      r.size[d] = size[d], r.xs[d] = r.os[d] = strides[d], r.cs[d] = r.ss[d] = d > 1 ? strides[d] : 0;
    for (const bool interleaved : {false, true}) {
      r.interleaved = interleaved;
      expect("rotary", launchRotary(r, nullptr));
    }
  }
  CopyArgs copies;
  for (const int64_t bytes : {int64_t{1}, int64_t{4096}, int64_t{100003}}) {
    copies.to[copies.count] = static_cast<char*>(y) + copies.count * (1 << 18), copies.from[copies.count] = x;
    copies.bytes[copies.count++] = bytes;
  }
  const cudaKernelNodeParams copy = copyNode(copies);
  void* argument[] = {&copies};
  expect("copies", cudaLaunchKernel(copy.func, copy.gridDim, copy.blockDim, argument, copy.sharedMemBytes, nullptr));
  const int attentions[][4] = {{1, 16, 16, 64},  {1, 65, 130, 64}, {40, 130, 70, 64},  {8, 100, 200, 64},
                               {1, 40, 50, 96},  {2, 9, 31, 24},   {2, 150, 300, 128}, {1, 300, 700, 64},
                               {1, 40, 90, 192}, {40, 33, 40, 256}};
  for (int number = 0; number < 3 * 6 * 10; ++number) {
    const auto& s = attentions[number % 10];
    const int mask = number / 10 % 6;
    AttentionArgs a;
    a.dtype = static_cast<Dtype>((number / 60 + 1) % 3);
    if (a.dtype != Dtype::kHalf && s[1] > 100) continue;
    a.batch = s[0], a.heads = 2, a.kvHeads = mask == 4 ? 1 : 2;
    a.queries = s[1], a.keys = s[2], a.dim = a.dimV = s[3];
    a.q = x, a.k = w, a.v = w, a.out = y, a.scale = 0.1f, a.causal = mask == 2;
    const int64_t q[3] = {int64_t{2} * s[1] * s[3], s[3], int64_t{2} * s[3]},
                  k[3] = {int64_t{2} * s[2] * s[3], s[3], int64_t{2} * s[3]};
    for (int d = 0; d < 3; ++d) a.qs[d] = a.os[d] = q[d], a.ks[d] = a.vs[d] = k[d];
    if (q[0] * s[0] > 1 << 20 || k[0] * s[0] > 1 << 20) continue;
    // Masks: none, by key, by query and key (twice), by key as bool, by key as fp32.
    const MaskKind own[] = {MaskKind::kFloat, MaskKind::kHalf, MaskKind::kBfloat16};
    if (mask) a.mask.data = v, a.mask.kind = own[static_cast<int>(a.dtype)], a.mask.stride[3] = 1;
    if (mask == 2) a.mask.stride[2] = 1;
    if (mask == 3) a.mask.data = x, a.mask.stride[2] = (s[2] + 7) / 8 * 8;
    if (mask == 4) a.mask.data = bools, a.mask.kind = MaskKind::kBool;
    if (mask == 5) a.mask.kind = MaskKind::kFloat;
    expect("attention", launchAttention(a, nullptr));
    expect("attention, plain", launchAttentionPlain(a, nullptr));
    for (int variant = 0; variant < attentionHopperVariants(); ++variant)
      expect("attention, wgmma", launchAttentionHopper(a, variant, nullptr));
    if (!mask) continue;
    MaskRowsArgs rows;
    rows.mask = a.mask, rows.dtype = a.dtype, rows.out = y;
    rows.batch = s[0], rows.queries = s[1], rows.keys = s[2], rows.heads = 1;
    rows.rowStride = (s[2] + 7) / 8 * 8;
    expect("mask rows", launchMaskRows(rows, nullptr));
  }
  launchGradients(x, w, v, y);
  SoftmaxArgs softmax;
  softmax.x = x, softmax.out = y, softmax.size[2] = 7;
  softmax.xs[3] = 1;
  for (int64_t n : {1, 77, 128, 264, 500, 516, 1000, 3000}) {
    softmax.size[3] = softmax.xs[2] = n;
    expect("softmax", launchSoftmax(softmax, nullptr));
  }
  SwigluArgs swiglu;
  swiglu.gate = x, swiglu.up = w, swiglu.out = y, swiglu.rows = 9, swiglu.n = swiglu.ldg = swiglu.ldu = 77;
  expect("swiglu", launchSwiglu(swiglu, nullptr));
  ConvEpilogueArgs conv;
  conv.y = y, conv.bias = v, conv.other = x, conv.count = 1000, conv.channels = 10;
  expect("conv epilogue", launchConvEpilogue(conv, nullptr));
  std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
