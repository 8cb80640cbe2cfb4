#include "matcher/lang/names.h"

#include <algorithm>
#include <array>

namespace graft::lang {
namespace {

constexpr std::array spellings{
    Spelling{"torch.nn.functional.dropout", "aten.dropout", "input p=0.5 training=True>train inplace=False>-"},
    Spelling{"torch.dropout", "aten.dropout", "input p train"},
    Spelling{"torch.nn.functional.alpha_dropout", "aten.alpha_dropout",
             "input p=0.5 training=False>train inplace=False>-"},
    Spelling{"torch.nn.functional.softmax", "aten.softmax", "input>self dim _stacklevel=3>- dtype=None"},
    Spelling{"torch.nn.functional.log_softmax", "aten.log_softmax", "input>self dim _stacklevel=3>- dtype=None"},
    Spelling{"torch.nn.functional.gelu", "aten.gelu", "input>self approximate='none'"},
    Spelling{"torch.nn.functional.layer_norm", "aten.layer_norm",
             "input normalized_shape weight=None bias=None eps=1e-05"},
    Spelling{"torch.nn.functional.rms_norm", "aten.rms_norm", "input normalized_shape weight=None eps=None"},
    Spelling{"torch.nn.functional.group_norm", "aten.group_norm", "input num_groups weight=None bias=None eps=1e-05"},
    Spelling{
        "torch.nn.functional.batch_norm", "aten.batch_norm",
        "input running_mean running_var weight=None bias=None training=False momentum=0.1 eps=1e-05 cudnn_enabled=_"},
    Spelling{
        "torch.nn.functional.embedding", "aten.embedding",
        "input>indices weight padding_idx=-1 max_norm=None>- norm_type=2.0>- scale_grad_by_freq=False sparse=False"},
    Spelling{"torch.nn.functional.relu", "aten.relu", "input>self inplace=False>-"},
    Spelling{"torch.nn.functional.relu6", "aten.relu6", "input>self inplace=False>-"},
    Spelling{"torch.nn.functional.silu", "aten.silu", "input>self inplace=False>-"},
    Spelling{"torch.nn.functional.mish", "aten.mish", "input>self inplace=False>-"},
    Spelling{"torch.nn.functional.hardswish", "aten.hardswish", "input>self inplace=False>-"},
    Spelling{"torch.nn.functional.hardsigmoid", "aten.hardsigmoid", "input>self inplace=False>-"},
    Spelling{"torch.nn.functional.elu", "aten.elu", "input>self alpha=1.0 inplace=False>-"},
    Spelling{"torch.nn.functional.leaky_relu", "aten.leaky_relu", "input>self negative_slope=0.01 inplace=False>-"},
    Spelling{"torch.nn.functional.hardtanh", "aten.hardtanh", "input>self min_val=-1.0 max_val=1.0 inplace=False>-"},
    Spelling{"torch.nn.functional.linear", "aten.linear", ""},
    Spelling{"torch.nn.functional.max_pool2d", "aten.max_pool2d",
             "input>self kernel_size stride=[] padding=0 dilation=1 ceil_mode=False return_indices=False>-"},
    Spelling{"torch.flatten", "aten.flatten", ""},
    Spelling{"torch.split", "aten.split", "tensor>self split_size_or_sections>split_size dim=0"},
    Spelling{"torch.rsqrt", "aten.rsqrt", ""},
    Spelling{"torch.true_divide", "aten.div", ""},
    Spelling{"operator.add", "aten.add", ""},
    Spelling{"operator.sub", "aten.sub", ""},
    Spelling{"operator.mul", "aten.mul", ""},
    Spelling{"operator.truediv", "aten.div", ""},
    Spelling{"operator.matmul", "aten.matmul", ""},
    Spelling{"operator.neg", "aten.neg", ""},
    Spelling{"operator.pow", "aten.pow", ""},
    Spelling{".split", "aten.split", "self split_size dim=0"},
    Spelling{".float", "aten.to", "self dtype=torch.float32"},
    Spelling{".half", "aten.to", "self dtype=torch.float16"},
    Spelling{".bfloat16", "aten.to", "self dtype=torch.bfloat16"},
    Spelling{".double", "aten.to", "self dtype=torch.float64"},
    Spelling{".long", "aten.to", "self dtype=torch.int64"},
    Spelling{".int", "aten.to", "self dtype=torch.int32"},
    Spelling{".bool", "aten.to", "self dtype=torch.bool"},
    Spelling{".true_divide", "aten.div", ""},
    Spelling{".where", "aten.where", "self condition other"},
    Spelling{".norm", "aten.linalg_vector_norm", "self p=2>ord dim=None keepdim=False dtype=None"},
    Spelling{"torch.norm", "aten.linalg_vector_norm", "input>self p=2>ord dim=None keepdim=False dtype=None"},
    Spelling{"torch.functional.einsum", "aten.einsum", ""},
    Spelling{"torch.nn.functional.logsigmoid", "aten.log_sigmoid", ""},
    Spelling{"torch.nn.functional.unfold", "aten.im2col", "input>self kernel_size dilation=1 padding=0 stride=1"},
    Spelling{"torch.nn.functional.fold", "aten.col2im",
             "input>self output_size kernel_size dilation=1 padding=0 stride=1"},
};

constexpr std::array hostFunctions{"sqrt",  "len",   "min",   "max",  "abs",  "int",        "float", "bool",
                                   "round", "floor", "ceil",  "log",  "exp",  "isinstance", "users", "any",
                                   "all",   "sum",   "tuple", "list", "prod", "pow",        "finfo", "iinfo"};
constexpr std::array hostMethods{"size",   "dim",          "ndimension",        "numel",   "nelement",
                                 "stride", "element_size", "is_floating_point", "is_cuda", "get_device"};
constexpr std::array hostAttributes{"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad"};

constexpr std::array moduleFunctions{
    ModuleFunction{"ReLU", "torch.nn.functional.relu", "inplace"},
    ModuleFunction{"ReLU6", "torch.nn.functional.relu6", "inplace"},
    ModuleFunction{"GELU", "torch.nn.functional.gelu", "approximate"},
    ModuleFunction{"SiLU", "torch.nn.functional.silu", "inplace"},
    ModuleFunction{"Mish", "torch.nn.functional.mish", "inplace"},
    ModuleFunction{"ELU", "torch.nn.functional.elu", "alpha inplace"},
    ModuleFunction{"LeakyReLU", "torch.nn.functional.leaky_relu", "negative_slope inplace"},
    ModuleFunction{"Hardtanh", "torch.nn.functional.hardtanh", "min_val max_val inplace"},
    ModuleFunction{"Hardswish", "torch.nn.functional.hardswish", "inplace"},
    ModuleFunction{"Hardsigmoid", "torch.nn.functional.hardsigmoid", "inplace"},
    ModuleFunction{"Tanh", "torch.tanh", ""},
    ModuleFunction{"Sigmoid", "torch.sigmoid", ""},
    ModuleFunction{"Softmax", "torch.nn.functional.softmax", "dim"},
    ModuleFunction{"LogSoftmax", "torch.nn.functional.log_softmax", "dim"},
    ModuleFunction{"Flatten", "torch.flatten", "start_dim end_dim"},
};

constexpr std::array<std::string_view, 140> modules{
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CELU",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "CrossMapLRN2d",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "ELU",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GELU",
    "GLU",
    "GRU",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "NLLLoss2d",
    "PReLU",
    "PairwiseDistance",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNN",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "SELU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SyncBatchNorm",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::span<const Spelling> allSpellings() { return spellings; }

const Spelling* findSpelling(std::string_view python) {
  for (const Spelling& s : spellings)
    if (s.python == python) return &s;
  return nullptr;
}

std::string packetOf(std::string_view python) {
  if (python.starts_with(".")) return "aten" + std::string(python);
  for (std::string_view prefix :
       {"torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.fft.", "torch.Tensor.", "torch.functional.",
        "torch._C._nn.", "torch._C._linalg.", "torch._C._special.", "torch._C._fft."}) {
    if (!python.starts_with(prefix)) continue;
    const std::string_view name = python.substr(prefix.size());
    if (prefix == "torch.special." || prefix == "torch.linalg." || prefix == "torch.fft.")
      return "aten." + std::string(prefix.substr(6, prefix.size() - 7)) + "_" + std::string(name);
    return "aten." + std::string(name);
  }
  if (python.starts_with("torch.") && python.find('.', 6) == std::string_view::npos)
    return "aten." + std::string(python.substr(6));
  if (python.starts_with("graft.kernels.")) return "graft." + std::string(python.substr(14));
  return {};
}

bool isHostFunction(std::string_view name) { return contains(hostFunctions, name); }
bool isHostMethod(std::string_view name) { return contains(hostMethods, name); }
bool isHostAttribute(std::string_view name) { return contains(hostAttributes, name); }
std::vector<std::string> hostMembers() {
  std::vector<std::string> out(hostAttributes.begin(), hostAttributes.end());
  out.insert(out.end(), hostMethods.begin(), hostMethods.end());
  out.push_back("name");
  return out;
}

const ModuleFunction* findModuleFunction(std::string_view type) {
  for (const ModuleFunction& m : moduleFunctions)
    if (m.type == type) return &m;
  return nullptr;
}

bool isTorchModule(std::string_view shortName) { return contains(modules, shortName); }
std::span<const std::string_view> torchModules() { return modules; }

std::string lastPart(std::string_view dotted) { return std::string(dotted.substr(dotted.rfind('.') + 1)); }

std::vector<SpelledParameter> spelledParameters(std::string_view text) {
  std::vector<SpelledParameter> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    SpelledParameter p;
    const size_t arrow = word.find('>');
    if (arrow != std::string_view::npos) p.schema = word.substr(arrow + 1);
    word = word.substr(0, arrow);
    const size_t equals = word.find('=');
    p.python = word.substr(0, equals);
    if (equals != std::string_view::npos) p.fallback = word.substr(equals + 1);
    if (p.schema.empty()) p.schema = p.python;
    out.push_back(p);
  }
  return out;
}

}  // namespace graft::lang
