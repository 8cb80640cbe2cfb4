// graft::generated
#include "kernels/generated/group.h"
#include "kernels/library/kept_memory.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "generated", "generated(Tensor[] inputs, str program, int[] sizes=[]) -> Tensor[]",
    "A group of ATen operators that was fused: `program` is the group as text (graft code --as groups prints it). Its "
    "kernel is made at the first call for these dtypes, sizes and strides, and kept on disk. Where none can be made, "
    "the group runs as the ATen operators that the text names.",
    "dense tensors, all on the CPU or all on one GPU; others run as ATen operators", "layout_of_operands"};

std::vector<at::Tensor> composite(at::TensorList inputs, std::string_view program, at::IntArrayRef sizes) {
  return Group::of(program)->runAten(inputs, sizes);
}

std::vector<at::Tensor> run(at::TensorList inputs, std::string_view program, at::IntArrayRef sizes) {
  const KeptMemory kept;
  return Group::of(program)->run(inputs, sizes);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  defineOperator<info, composite>(m, run, composite);
  // The driver and NVRTC are opened at run time, so this library has both.
  m.impl(info.name, torch::dispatch(c10::DispatchKey::CUDA, run));
}

}  // namespace graft::ops
