#include "kernels/cuda/gemm/cublaslt.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/util/Exception.h>

#include <map>
#include <memory>
#include <mutex>

#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

constexpr size_t kMaxWorkspace = size_t{32} << 20;

template <auto destroy>
struct Deleter {
  template <class P>
  void operator()(P* p) const {
    destroy(p);
  }
};
template <class Opaque, auto destroy>
using Handle = std::unique_ptr<Opaque, Deleter<destroy>>;

void check(cublasStatus_t status) {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "graft: cuBLASLt: ", cublasLtGetStatusString(status));
}

Handle<cublasLtMatrixLayoutOpaque_t, cublasLtMatrixLayoutDestroy> layout(cudaDataType_t type, int64_t rows,
                                                                         int64_t columns, int64_t ld) {
  cublasLtMatrixLayout_t l = nullptr;
  check(cublasLtMatrixLayoutCreate(&l, type, rows, columns, ld));
  return Handle<cublasLtMatrixLayoutOpaque_t, cublasLtMatrixLayoutDestroy>(l);
}

// cuBLASLt is column-major: it computes out^T [n,m] = w [n,k] x^T [k,m], where w is the transpose of a [k,n] matrix.
struct Problem {
  Handle<cublasLtMatmulDescOpaque_t, cublasLtMatmulDescDestroy> operation;
  Handle<cublasLtMatrixLayoutOpaque_t, cublasLtMatrixLayoutDestroy> w, x, added, out;

  Problem(const GemmArgs& a, bool bias) {
    const cudaDataType_t type = a.dtype == Dtype::kFloat  ? CUDA_R_32F
                                : a.dtype == Dtype::kHalf ? CUDA_R_16F
                                                          : CUDA_R_16BF;
    const bool tf32 = a.dtype == Dtype::kFloat && usesTf32();
    cublasLtMatmulDesc_t d = nullptr;
    check(cublasLtMatmulDescCreate(&d, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    operation.reset(d);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    if (bias) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      check(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
      check(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a.bias, sizeof a.bias));
    }
    w = layout(type, a.k, a.n, a.ldw);
    x = layout(type, a.k, a.m, a.ldx);
    added = layout(type, a.n, a.m, ltAddsResidual(a, bias) ? a.ldr : a.ldo);
    out = layout(type, a.n, a.m, a.ldo);
  }
};

/// A handle of our own for each GPU: PyTorch's would allocate a workspace of 32 MiB for each thread and stream.
cublasLtHandle_t handle() {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;  // not destroyed: at exit the driver may be gone
  int device = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  const std::scoped_lock lock(mutex);
  cublasLtHandle_t& h = handles[device];
  if (!h) {
    const c10::cuda::CUDAStreamCaptureModeGuard mayAllocate(cudaStreamCaptureModeRelaxed);
    check(cublasLtCreate(&h));
  }
  return h;
}

uint32_t alignment(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  uint32_t a = 256;
  while (address % a) a /= 2;
  return a;
}

}  // namespace

std::vector<LtAlgorithm> ltAlgorithms(const GemmArgs& a, bool bias, int most) {
  Problem p(a, bias);
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made));
  const Handle<cublasLtMatmulPreferenceOpaque_t, cublasLtMatmulPreferenceDestroy> preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, what, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(a.w));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(a.x));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(ltAddsResidual(a, bias) ? a.residual : a.out));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(a.out));
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(handle(), p.operation.get(), p.w.get(), p.x.get(), p.added.get(),
                                                     p.out.get(), made, most, found.data(), &count);
  std::vector<LtAlgorithm> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
  for (int i = 0; i < count; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back({found[i].algo, found[i].workspaceSize});
  }
  return algorithms;
}

cublasStatus_t ltRun(const GemmArgs& a, bool bias, const LtAlgorithm& algorithm, void* workspace, cudaStream_t stream) {
  Problem p(a, bias);
  const bool adds = ltAddsResidual(a, bias);
  const float one = 1.f, share = adds ? 1.f : 0.f;
  return cublasLtMatmul(handle(), p.operation.get(), &one, a.w, p.w.get(), a.x, p.x.get(), &share,
                        adds ? a.residual : a.out, p.added.get(), a.out, p.out.get(), &algorithm.algorithm, workspace,
                        algorithm.workspace, stream);
}

}  // namespace graft::cuda
