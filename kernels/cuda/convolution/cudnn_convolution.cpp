#include "kernels/cuda/convolution/cudnn_convolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#ifdef GRAFT_CUDNN_FRONTEND
#include <dlfcn.h>

#include <unordered_map>

#include <cudnn_frontend.h>

// The frontend calls cuDNN through it.
void* cudnn_frontend::cudnn_dlhandle = nullptr;
#endif

namespace graft::cuda {

std::string ConvProblem::key() const {
  std::string out = fmt::format("conv-d{}", static_cast<int>(dtype));
  const auto append = [&](char what, const std::vector<int64_t>& numbers) {
    out += fmt::format("-{}{}", what, fmt::join(numbers, ","));
  };
  append('x', x), append('@', xStrides), append('w', weight), append('@', weightStrides), append('@', yStrides);
  append('r', residualStrides), append('s', stride), append('p', padding), append('e', dilation);
  return out + fmt::format("-b{}-a{}:{}:{}", static_cast<int>(hasBias), static_cast<int>(activation), alpha, beta);
}

#ifdef GRAFT_CUDNN_FRONTEND

namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Attributes>;

bool loadCudnn() {
  static const bool isLoaded = [] {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return fe::cudnn_dlhandle != nullptr;
  }();
  return isLoaded;
}

enum Uid : int64_t { kX = 1, kWeight, kBias, kResidual, kY };

class Graph final : public CudnnConvolution {
 public:
  /// Whether cuDNN has a plan.
  bool define(const ConvProblem& p, cudnnHandle_t handle) {
    const fe::DataType_t type = p.dtype == Dtype::kHalf ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
    graph_.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const TensorPointer x = tensor("x", kX, p.x, p.xStrides), w = tensor("w", kWeight, p.weight, p.weightStrides);
    TensorPointer y = graph_.conv_fprop(x, w,
                                        fe::graph::Conv_fprop_attributes()
                                            .set_pre_padding(p.padding)
                                            .set_post_padding(p.padding)
                                            .set_stride(p.stride)
                                            .set_dilation(p.dilation));
    if (p.hasBias) y = pointwise(fe::PointwiseMode_t::ADD, y, biasOf(p));
    if (!p.residualStrides.empty())
      y = pointwise(fe::PointwiseMode_t::ADD, y, tensor("residual", kResidual, p.y, p.residualStrides));
    y = activated(y, p);
    y->set_output(true).set_data_type(type).set_dim(p.y).set_stride(p.yStrides).set_uid(kY);
    return graph_.validate().is_good() && graph_.build_operation_graph(handle).is_good() &&
           graph_.create_execution_plans({fe::HeurMode_t::A}).is_good() && plans() > 0;
  }

  int plans() const override { return static_cast<int>(graph_.get_execution_plan_count()); }
  bool build(int plan) override { return graph_.build_plan_at_index(plan).is_good(); }
  size_t workspaceBytes(int plan) const override {
    return static_cast<size_t>(std::max<int64_t>(0, graph_.get_workspace_size_plan_at_index(plan)));
  }
  bool run(int plan, const ConvTensors& t, void* workspace, void* handle) override {
    std::unordered_map<int64_t, void*> pack{{kX, const_cast<void*>(t.x)}, {kWeight, const_cast<void*>(t.weight)}};
    if (t.bias) pack.emplace(kBias, const_cast<void*>(t.bias));
    if (t.residual) pack.emplace(kResidual, const_cast<void*>(t.residual));
    pack.emplace(kY, t.y);
    return graph_.execute_plan_at_index(static_cast<cudnnHandle_t>(handle), pack, workspace, plan).is_good();
  }

 private:
  TensorPointer tensor(const char* name, Uid uid, const std::vector<int64_t>& sizes,
                       const std::vector<int64_t>& strides) {
    return graph_.tensor(Attributes().set_name(name).set_uid(uid).set_dim(sizes).set_stride(strides));
  }
  TensorPointer biasOf(const ConvProblem& p) {
    const int64_t channels = p.y[1];
    return tensor("bias", kBias, {1, channels, 1, 1}, {channels, 1, channels, channels});
  }
  TensorPointer number(float value) { return graph_.tensor(Attributes(value)); }
  TensorPointer pointwise(fe::PointwiseMode_t mode, const TensorPointer& a, const TensorPointer& b) {
    return graph_.pointwise(a, b, fe::graph::Pointwise_attributes().set_mode(mode));
  }
  TensorPointer pointwise(const TensorPointer& a, const fe::graph::Pointwise_attributes& attributes) {
    return graph_.pointwise(a, attributes);
  }
  TensorPointer clamped(const TensorPointer& a, double low, double high) {
    return pointwise(a, fe::graph::Pointwise_attributes()
                            .set_mode(fe::PointwiseMode_t::RELU_FWD)
                            .set_relu_lower_clip(static_cast<float>(low))
                            .set_relu_upper_clip(static_cast<float>(high)));
  }
  TensorPointer activated(const TensorPointer& y, const ConvProblem& p) {
    using Mode = fe::PointwiseMode_t;
    const auto plain = [&](Mode mode) { return pointwise(y, fe::graph::Pointwise_attributes().set_mode(mode)); };
    const auto hardSigmoid = [&] {
      return pointwise(Mode::MUL, clamped(pointwise(Mode::ADD, y, number(3)), 0, 6), number(1.0f / 6));
    };
    switch (p.activation) {
      case ConvActivation::kNone:
        return y;
      case ConvActivation::kRelu:
        return plain(Mode::RELU_FWD);
      case ConvActivation::kGelu:
        return plain(Mode::GELU_FWD);
      case ConvActivation::kGeluTanh:
        return plain(Mode::GELU_APPROX_TANH_FWD);
      case ConvActivation::kSilu:
        return pointwise(y, fe::graph::Pointwise_attributes().set_mode(Mode::SWISH_FWD).set_swish_beta(1));
      case ConvActivation::kSigmoid:
        return plain(Mode::SIGMOID_FWD);
      case ConvActivation::kTanh:
        return plain(Mode::TANH_FWD);
      case ConvActivation::kHardSigmoid:
        return hardSigmoid();
      case ConvActivation::kHardSwish:
        return pointwise(Mode::MUL, y, hardSigmoid());
      case ConvActivation::kHardTanh:
        return clamped(y, p.alpha, p.beta);
      case ConvActivation::kLeakyRelu:
        return pointwise(y, fe::graph::Pointwise_attributes()
                                .set_mode(Mode::RELU_FWD)
                                .set_relu_lower_clip_slope(static_cast<float>(p.alpha)));
    }
    return y;
  }

  fe::graph::Graph graph_;
};

}  // namespace

std::unique_ptr<CudnnConvolution> CudnnConvolution::make(const ConvProblem& p, void* handle) {
  if (p.dtype == Dtype::kFloat || !loadCudnn()) return nullptr;
  try {
    auto made = std::make_unique<Graph>();
    if (made->define(p, static_cast<cudnnHandle_t>(handle))) return made;
  } catch (const std::exception&) {
    // The frontend throws where this cuDNN lacks a function: then there is no such kernel.
  }
  return nullptr;
}

size_t cudnnVersion() {
  if (!loadCudnn()) return 0;
  const auto version = reinterpret_cast<size_t (*)()>(dlsym(fe::cudnn_dlhandle, "cudnnGetVersion"));
  return version ? version() : 0;
}

#else

std::unique_ptr<CudnnConvolution> CudnnConvolution::make(const ConvProblem&, void*) { return nullptr; }
size_t cudnnVersion() { return 0; }

#endif

}  // namespace graft::cuda
