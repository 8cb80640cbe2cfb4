// Each line of the table against LibTorch: the operator exists, its schema says nothing else, and the facts hold where
// it runs on small random tensors.
#include "core/ir/operators/operator_facts.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/native/TypeProperties.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ir/operator.h"
#include "core/ir/operators/graft_operators.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

using Stack = torch::jit::Stack;

/// Arguments for operators that take more than tensors of one shape. f2x3 is a float tensor of that shape, i and b are
/// integers and truth values; {…} lists tensors, [1,2] integers, [T,F] truth values, N is None. What is left out has
/// its default. An empty text: the operator cannot be called with that, or LibTorch's dispatcher does not have it.
const std::map<std::string_view, std::string_view> samples{
    // On a GPU alone:
    {"aten._cudnn_attention_backward", ""},
    {"aten._efficient_attention_backward", ""},
    {"aten._flash_attention_backward", ""},
    {"aten._scaled_dot_product_cudnn_attention_backward", ""},
    {"aten._scaled_dot_product_efficient_attention_backward", ""},
    {"aten._scaled_dot_product_flash_attention_backward", ""},
    {"aten._scaled_dot_product_fused_attention_overrideable_backward", ""},
    {"aten._adaptive_avg_pool2d_backward", "f1x2x3x3 f1x2x6x6"},
    {"aten._log_softmax_backward_data", "f2x3 f2x3 1 6"},
    {"aten._softmax_backward_data", "f2x3 f2x3 1 6"},
    {"aten.avg_pool2d_backward", "f1x2x3x3 f1x2x6x6 [2,2] [2,2] [0,0] F T N"},
    {"aten.convolution_backward", "f1x3x5x5 f1x2x5x5 f3x2x3x3 N [1,1] [1,1] [1,1] F [0,0] 1 [T,T,F]"},
    {"aten.elu_backward", "f2x3 1 1 1 F f2x3"},
    {"aten.embedding_dense_backward", "f2x3x4 i2x3 5 -1 F"},
    {"aten.hardtanh_backward", "f2x3 f2x3 -1 1"},
    {"aten.leaky_relu_backward", "f2x3 f2x3 0.1 F"},
    {"aten.max_pool2d_with_indices_backward", "f1x2x3x3 f1x2x6x6 [2,2] [2,2] [0,0] [1,1] F i1x2x3x3"},
    {"aten.mse_loss_backward", "f f2x3 f2x3 1"},
    {"aten.native_batch_norm_backward", "f2x3x4 f2x3x4 f3 N N f3 f3 T 0.1 [T,T,F]"},
    {"aten.native_dropout_backward", "f2x3 b2x3 2.0"},
    {"aten.native_group_norm_backward", "f2x4x3 f2x4x3 f2x2 f2x2 f4 2 4 3 2 [T,T,F]"},
    {"aten.native_layer_norm_backward", "f2x3 f2x3 [3] f2x1 f2x1 f3 f3 [T,T,T]"},
    {"aten.nll_loss_backward", "f f2x3 i2 N 1 -100 f"},
    {"aten.select_backward", "f2 [2,3] 1 0"},
    {"aten.slice_backward", "f2x1 [2,3] 1 0 1 1"},
    {"aten.threshold_backward", "f2x3 f2x3 0"},
    {"aten._convolution", "f1x2x5x5 f3x2x3x3 f3 [1,1] [0,0] [1,1] F [0,0] 1 F F T T"},
    {"aten._convolution_mode", "f1x2x5x5 f3x2x3x3 f3 [1,1] 'valid' [1,1] 1"},
    {"aten._log_softmax", "f2x3 1 F"},
    {"aten._safe_softmax", "f2x3 1"},
    {"aten._softmax", "f2x3 1 F"},
    {"aten._unsafe_view", "f2x3 [3,2]"},
    {"aten._weight_norm", "f2x3 f2x1"},
    {"aten.adaptive_avg_pool1d", "f1x2x6 [3]"},
    {"aten.adaptive_avg_pool2d", "f1x2x6x6 [3,3]"},
    {"aten.adaptive_avg_pool3d", "f1x2x6x6x6 [3,3,3]"},
    {"aten.addbmm", "f2x4 f5x2x3 f5x3x4"},
    {"aten.addmm", "f2x4 f2x3 f3x4"},
    {"aten.addmv", "f2 f2x3 f3"},
    {"aten.align_as", ""},
    {"aten.align_tensors", ""},
    {"aten.arange", "5"},
    {"aten.as_strided", "f2x3 [3,2] [2,1]"},
    {"aten.avg_pool1d", "f1x2x6 [2]"},
    {"aten.avg_pool2d", "f1x2x6x6 [2,2]"},
    {"aten.avg_pool3d", "f1x2x6x6x6 [2,2,2]"},
    {"aten.baddbmm", "f5x2x4 f5x2x3 f5x3x4"},
    {"aten.batch_norm", "f2x3 f3 f3 f3 f3 F 0.1 0.001 F"},
    {"aten.binomial", "f2x3 f2x3"},
    {"aten.bmm", "f5x2x3 f5x3x4"},
    {"aten.broadcast_tensors", "{f2x3,f3}"},
    {"aten.broadcast_to", "f1x3 [2,3]"},
    {"aten.cartesian_prod", "{f3}"},
    {"aten.cat", "{f2x3,f2x3} 1"},
    {"aten.chunk", "f4x3 2"},
    {"aten.unsafe_split_with_sizes", "f4x3 [2,2]"},
    {"aten.constant_pad_nd", "f2x3 [0,0]"},
    {"aten.clamp", "f2x3 0.2 0.8"},
    {"aten.threshold", "f2x3 0.5 2.0"},
    {"aten.clamp.Tensor", "f2x3 f3 f3"},
    {"aten.conv1d", "f1x2x5 f3x2x3 f3"},
    {"aten.conv2d", "f1x2x5x5 f3x2x3x3 f3"},
    {"aten.conv3d", "f1x2x5x5x5 f3x2x3x3x3 f3"},
    {"aten.convolution", "f1x2x5x5 f3x2x3x3 f3 [1,1] [0,0] [1,1] F [0,0] 1"},
    {"aten.cummax", "f2x3 1"},
    {"aten.cummin", "f2x3 1"},
    {"aten.diagonal", "f3x3"},
    {"aten.dim", ""},
    {"aten.dot", "f3 f3"},
    {"aten.dropout", "f2x3 0.5 F"},
    {"aten.alpha_dropout", "f2x3 0.5 F"},
    {"aten.feature_alpha_dropout", "f2x3 0.5 F"},
    {"aten.feature_dropout", "f2x3 0.5 F"},
    {"aten.native_dropout", "f2x3 0.5 F"},
    {"aten.dsplit", "f2x2x4 2"},
    {"aten.einsum", "'ij,jk' {f2x3,f3x4}"},
    {"aten.embedding", "f5x4 i2x3"},
    {"aten.expand", "f1x3 [2,3]"},
    {"aten.expand_as", "f1x3 f2x3"},
    {"aten.eye", "3"},
    {"aten.flatten_dense_tensors", ""},
    {"aten.flip", "f2x3 [1]"},
    {"aten.full", "[2,3] 1.5"},
    {"aten.gather", "f4x4 1 i4x2"},
    {"aten.glu", "f2x4"},
    {"aten.group_norm", "f2x4x3 2 f4 f4"},
    {"aten.gru", ""},
    {"aten.hsplit", "f2x4 2"},
    {"aten.index", ""},
    {"aten.index_put", ""},
    {"aten.index_select", "f4x3 0 i2"},
    {"aten.instance_norm", "f2x3x4 f3 f3 f3 f3 F 0.1 0.001 F"},
    {"aten.layer_norm", "f2x3 [3] f3 f3"},
    {"aten.linear", "f2x3 f4x3 f4"},
    {"aten.linspace", "0.0 1.0 5"},
    {"aten.logspace", "0.0 1.0 5"},
    {"aten.lstm", ""},
    {"aten.masked_fill", "f2x3 b2x3 0.5"},
    {"aten.masked_fill.Tensor", "f2x3 b2x3 f"},
    {"aten.masked_select", "f2x3 b2x3"},
    {"aten.matmul", "f5x2x3 f3x4"},
    {"aten.max_pool1d", "f1x2x6 [2]"},
    {"aten.max_pool2d", "f1x2x6x6 [2,2]"},
    {"aten.max_pool2d_with_indices", "f1x2x6x6 [2,2]"},
    {"aten.max_pool3d", "f1x2x6x6x6 [2,2,2]"},
    {"aten.max_pool3d_with_indices", "f1x2x6x6x6 [2,2,2]"},
    {"aten.meshgrid", "{f2,f3}"},
    {"aten.mm", "f2x3 f3x4"},
    {"aten.moveaxis", "f2x3 0 1"},
    {"aten.movedim", "f2x3 0 1"},
    {"aten.multinomial", "f2x3 1"},
    {"aten.mv", "f2x3 f3"},
    {"aten.mvlgamma", "f2x3 1"},
    {"aten.narrow", "f2x3 1 0 2"},
    {"aten.native_batch_norm", "f2x3 f3 f3 f3 f3 F 0.1 0.001"},
    {"aten.native_group_norm", "f2x4x3 f4 f4 2 4 3 2 0.001"},
    {"aten.native_layer_norm", "f2x3 [3] f3 f3 0.001"},
    {"aten.new_empty", "f2x3 [4]"},
    {"aten.new_full", "f2x3 [4] 1.5"},
    {"aten.new_ones", "f2x3 [4]"},
    {"aten.new_zeros", "f2x3 [4]"},
    {"aten.norm", "f2x3"},
    {"aten.normal", "f2x3"},
    {"aten.numel", ""},
    {"aten.pad", "f2x3 [0,0]"},
    {"aten.permute", "f2x3 [1,0]"},
    {"aten.pixel_shuffle", "f1x4x2x2 2"},
    {"aten.polygamma", "1 f2x3"},
    {"aten.prelu", "f2x3 f3"},
    {"aten.randint", "4 [2,3]"},
    {"aten.randint_like", "f2x3 4"},
    {"aten.randperm", "4"},
    {"aten.rename_", ""},
    {"aten.repeat", "f2x3 [2,2]"},
    {"aten.reshape", "f2x3 [3,2]"},
    {"aten.resize_", "f2x3 [3,2]"},
    {"aten.resize_as_", "f2x3 f3x2"},
    {"aten.rms_norm", "f2x3 [3] f3"},
    {"aten.roll", "f2x3 [1] [1]"},
    {"aten.scalar_tensor", "1.5"},
    {"aten.scaled_dot_product_attention", "f1x2x3x4 f1x2x3x4 f1x2x3x4"},
    {"aten.scatter", "f4x4 1 i4x2 f4x2"},
    {"aten.scatter_add", "f4x4 1 i4x2 f4x2"},
    {"aten.select", "f2x3 1 0"},
    {"aten.set_", "f2x3 f3x2"},
    {"aten.slice", "f2x3 1 0 2 1"},
    {"aten.split", "f4x3 2"},
    {"aten.split_with_sizes", "f4x3 [1,3]"},
    {"aten.squeeze", "f2x1 1"},
    {"aten.squeeze_", "f2x1 1"},
    {"aten.stack", "{f2x3,f2x3} 1"},
    {"aten.storage_offset", ""},
    {"aten.as_strided_", "f2x3 [3,2] [2,1]"},
    {"aten.swapaxes_", "f2x3 0 1"},
    {"aten.swapdims_", "f2x3 0 1"},
    {"aten.sym_size", ""},
    {"aten.take_along_dim", "f4x4 i4x2 1"},
    {"aten.tensor_split", "f4x3 2"},
    {"aten.tile", "f2x3 [2,2]"},
    {"aten.to", "f2x3 float32"},
    {"aten.to_dense", "f2x3"},
    {"aten.topk", "f2x3 2 1"},
    {"aten.transpose", "f2x3 0 1"},
    {"aten.transpose_", "f2x3 0 1"},
    {"aten.unflatten", "f2x6 1 [2,3]"},
    {"aten.unfold", "f2x6 1 2 2"},
    {"aten.unsqueeze", "f2x3 1"},
    {"aten.unsqueeze_", "f2x3 1"},
    {"aten.view.default", "f2x3 [3,2]"},
    {"aten.view.dtype", "f2x3 int32"},
    {"aten.view_as", "f2x3 f3x2"},
    {"aten.reshape_as", "f2x3 f3x2"},
    {"aten.vsplit", "f4x2 2"},
    {"aten.where", "b2x3"},
    {"aten.where.self", "b2x3 f2x3 f3"},
};

at::Tensor tensorOf(char kind, std::string_view shape, at::ScalarType floating) {
  std::vector<int64_t> sizes;
  for (size_t at = 0; at < shape.size();) {
    const size_t end = std::min(shape.find('x', at), shape.size());
    sizes.push_back(std::stoll(std::string(shape.substr(at, end - at))));
    at = end + 1;
  }
  if (kind == 'i') return at::randint(0, 3, sizes, at::kLong);
  if (kind == 'b') return at::randint(0, 2, sizes, at::kBool);
  if (at::isIntegralType(floating, true)) return at::randint(1, 4, sizes, at::kLong).to(floating);
  return (at::rand(sizes) * 0.8 + 0.1).to(floating);
}

c10::IValue valueOf(std::string_view word, const c10::Type& type, at::ScalarType floating) {
  if (type.kind() == c10::TypeKind::OptionalType)
    return word == "N" ? c10::IValue() : valueOf(word, *type.expectRef<c10::OptionalType>().getElementType(), floating);
  if (word == "N") return {};
  if (word == "T" || word == "F") return word == "T";
  if (word == "float32") return static_cast<int64_t>(at::kFloat);
  if (word == "int32") return static_cast<int64_t>(at::kInt);
  if (word.front() == '\'') return std::string(word.substr(1, word.size() - 2));
  if (word.front() == '[' || word.front() == '{') {
    c10::List<int64_t> numbers;
    c10::List<bool> truths;
    c10::List<at::Tensor> tensors;
    std::string_view rest = word.substr(1, word.size() - 2);
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
      if (item == "T" || item == "F")
        truths.push_back(item == "T");
      else if (word.front() == '[')
        numbers.push_back(std::stoll(std::string(item)));
      else
        tensors.push_back(tensorOf(item.front(), item.substr(1), floating));
    }
    if (!truths.empty()) return truths;
    return word.front() == '[' ? c10::IValue(numbers) : c10::IValue(tensors);
  }
  if (std::isalpha(static_cast<unsigned char>(word.front()))) return tensorOf(word.front(), word.substr(1), floating);
  const std::string text(word);
  if (type.kind() == c10::TypeKind::FloatType || text.find('.') != text.npos) return std::stod(text);
  return static_cast<int64_t>(std::stoll(text));
}

/// Arguments for the overload: the sample's, else tensors of one shape (the second one broadcasts) and small numbers.
std::optional<Stack> argumentsFor(const OperatorFacts& row, const c10::FunctionSchema& schema,
                                  at::ScalarType floating) {
  Stack stack;
  const auto sample = samples.find(row.name);
  std::string_view rest = sample == samples.end() ? std::string_view() : sample->second;
  size_t tensors = 0;
  for (const c10::Argument& a : schema.arguments()) {
    const c10::Type& type = *a.type();
    if (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      const bool wantsTensor = type.kind() == c10::TypeKind::TensorType;
      const bool isTensor =
          std::string_view("fib").find(word.front()) != std::string_view::npos && word != "int32" && word != "float32";
      if (wantsTensor != isTensor && type.kind() != c10::TypeKind::OptionalType) return std::nullopt;
      if ((word.front() == '[') != (a.type()->kind() == c10::TypeKind::ListType) && word.front() != '{' &&
          type.kind() != c10::TypeKind::OptionalType)
        return std::nullopt;
      stack.push_back(valueOf(word, type, floating));
    } else if (a.default_value()) {
      stack.push_back(*a.default_value());
    } else if (sample != samples.end() && !(type.kind() == c10::TypeKind::OptionalType)) {
      return std::nullopt;  // an overload that the sample is not for
    } else if (type.kind() == c10::TypeKind::TensorType) {
      const bool broadcasts = row.shape == ShapeRule::Broadcast && tensors++ > 0;
      stack.push_back(tensorOf('f', broadcasts ? "3" : "2x3", floating));
    } else if (type.kind() == c10::TypeKind::NumberType) {
      stack.push_back(at::isIntegralType(floating, true) ? c10::IValue(int64_t{2}) : c10::IValue(0.5));
    } else if (type.kind() == c10::TypeKind::FloatType) {
      stack.push_back(0.5);
    } else if (type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::SymIntType) {
      stack.push_back(int64_t{1});
    } else if (type.kind() == c10::TypeKind::BoolType) {
      stack.push_back(false);
    } else if (type.kind() == c10::TypeKind::OptionalType) {
      stack.emplace_back();
    } else if (type.kind() == c10::TypeKind::ListType) {
      const auto element = type.expectRef<c10::ListType>().getElementType()->kind();
      if (element == c10::TypeKind::TensorType)
        stack.emplace_back(std::vector<at::Tensor>{tensorOf('f', "2x3", floating), tensorOf('f', "2x3", floating)});
      else if (element == c10::TypeKind::IntType || element == c10::TypeKind::SymIntType)
        stack.emplace_back(std::vector<int64_t>{row.family == OperatorFamily::Factory ? 2 : 1});
      else
        return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  return rest.empty() ? std::optional(std::move(stack)) : std::nullopt;
}

/// Overloads that the line speaks of, as LibTorch's dispatcher has them; those that write into an `out` or name
/// dimensions are left aside.
std::vector<c10::OperatorHandle> overloadsOf(const OperatorFacts& row) {
  std::vector<c10::OperatorHandle> out;
  const std::string_view dotted = row.name;
  const size_t first = dotted.find('.'), second = dotted.find('.', first + 1);
  const std::string name =
      std::string(dotted.substr(0, first)) + "::" + std::string(dotted.substr(first + 1, second - first - 1));
  static const auto all = [] {
    std::map<std::string, std::vector<c10::OperatorName>> found;
    for (const c10::OperatorName& n : c10::Dispatcher::singleton().getAllOpNames()) found[n.name].push_back(n);
    return found;
  }();
  const auto it = all.find(name);
  if (it == all.end()) return out;
  for (const c10::OperatorName& n : it->second) {
    const std::string overload = n.overload_name.empty() ? "default" : n.overload_name;
    if (second != dotted.npos && dotted.substr(second + 1) != overload) continue;
    const std::string full = std::string(dotted.substr(0, second)) + "." + overload;
    if (second == dotted.npos && &factsOf(full) != &row) continue;  // it has a line of its own
    const auto handle = c10::Dispatcher::singleton().findSchema(n);
    if (!handle) continue;
    const auto& arguments = handle->schema().arguments();
    const bool aside = std::any_of(arguments.begin(), arguments.end(), [&](const c10::Argument& a) {
      return (a.alias_info() && a.alias_info()->isWrite() && !dotted.ends_with('_')) || a.name() == "names" ||
             a.real_type()->str().find("Dimname") == 0;
    });
    if (!aside && overload.find("generator") == overload.npos) out.push_back(*handle);
  }
  return out;
}

std::optional<Stack> called(const c10::OperatorHandle& op, Stack stack) {
  try {
    const at::NoGradGuard noGradients;
    op.callBoxed(stack);
    return stack;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

at::Tensor firstTensor(const Stack& stack) {
  for (const c10::IValue& v : stack) {
    if (v.isTensor()) return v.toTensor();
    if (v.isTensorList() && !v.toTensorList().empty()) return v.toTensorList().get(0);
  }
  return {};
}

bool sharesMemory(const at::Tensor& a, const at::Tensor& b) { return a.storage().is_alias_of(b.storage()); }

Stack copied(const Stack& from) {
  Stack out;
  for (const c10::IValue& v : from) out.push_back(v.isTensor() ? c10::IValue(v.toTensor().clone()) : v);
  return out;
}

std::vector<int64_t> sizesOf(const at::Tensor& t) { return t.sizes().vec(); }

std::optional<int64_t> indexOf(const c10::FunctionSchema& schema, const char* parameter) {
  const auto found = schema.argumentIndexWithName(parameter);
  return found ? std::optional<int64_t>(*found) : std::nullopt;
}

void checkShape(const OperatorFacts& row, const c10::FunctionSchema& schema, const Stack& arguments,
                const at::Tensor& out) {
  const at::Tensor x = firstTensor({arguments.front()});
  switch (row.shape) {
    case ShapeRule::AsFirst:
      CHECK(sizesOf(out) == sizesOf(x));
      break;
    case ShapeRule::Broadcast: {
      std::vector<int64_t> sizes;
      for (const c10::IValue& v : arguments)
        if (v.isTensor() && v.toTensor().defined()) sizes = at::infer_size(sizes, v.toTensor().sizes());
      CHECK(sizesOf(out) == sizes);
      break;
    }
    case ShapeRule::Listed:
      CHECK(sizesOf(out) == arguments[1].toIntVector());
      break;
    case ShapeRule::Permuted:
      for (int64_t i = 0; i < out.dim(); ++i)
        CHECK(out.size(i) == x.size(arguments[1].toIntVector()[static_cast<size_t>(i)]));
      break;
    case ShapeRule::SameRank:
      CHECK(out.dim() == x.dim());
      break;
    case ShapeRule::OneMore:
      CHECK(out.dim() == x.dim() + 1);
      break;
    case ShapeRule::OneLess:
      CHECK(out.dim() == x.dim() - 1);
      break;
    case ShapeRule::Product: {
      const at::Tensor y = arguments[1].toTensor();
      CHECK(out.dim() == std::max(x.dim(), y.dim()));
      CHECK(out.size(-2) == x.size(-2));
      CHECK(out.size(-1) == y.size(-1));
      break;
    }
    case ShapeRule::Lookup:
      CHECK(out.dim() == arguments[1].toTensor().dim() + 1);
      break;
    case ShapeRule::Reduced: {
      const auto dim = indexOf(schema, "dim"), keep = indexOf(schema, "keepdim");
      const bool given = dim && !arguments[static_cast<size_t>(*dim)].isNone() &&
                         !(arguments[static_cast<size_t>(*dim)].isIntList() &&
                           arguments[static_cast<size_t>(*dim)].toIntVector().empty());
      const bool keeps = keep && arguments[static_cast<size_t>(*keep)].toBool();
      const std::vector<int64_t> wanted = given ? (keeps ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{2})
                                                : (keeps ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{});
      CHECK(sizesOf(out) == wanted);
      break;
    }
    case ShapeRule::Unknown:
      break;
  }
}

void checkDType(const OperatorFacts& row, const c10::FunctionSchema& schema, const Stack& arguments,
                const at::Tensor& out) {
  const at::Tensor x = firstTensor(arguments);
  const auto dtype = out.scalar_type();
  switch (row.dtype) {
    case DTypeRule::First:
    case DTypeRule::Common:
    case DTypeRule::Joined:
      CHECK(dtype == x.scalar_type());
      break;
    case DTypeRule::KeepsFloating:
      if (at::isFloatingType(x.scalar_type())) CHECK(dtype == x.scalar_type());
      break;
    case DTypeRule::Promotes:
    case DTypeRule::PromotesToFloat: {
      at::native::ResultTypeState state{};
      const auto addNumber = [&](const at::Scalar& n) {
        state = at::native::update_result_type_state(at::native::wrapped_scalar_tensor(n), state);
      };
      for (size_t i = 0; i < arguments.size(); ++i) {
        const c10::IValue& v = arguments[i];
        if (v.isTensor() && v.toTensor().defined()) state = at::native::update_result_type_state(v.toTensor(), state);
        // What only a keyword names (alpha, beta) scales an operand.
        if ((v.isInt() || v.isDouble()) && !schema.arguments()[i].kwarg_only()) addNumber(v.toScalar());
      }
      if (row.name == "aten.square") addNumber(2);
      const auto promoted = at::native::result_type(state);
      const bool floats = row.dtype == DTypeRule::PromotesToFloat && at::isIntegralType(promoted, true);
      CHECK(dtype == (floats ? at::kFloat : promoted));
      break;
    }
    case DTypeRule::Bool:
      CHECK(dtype == (row.family == OperatorFamily::Reduction && x.scalar_type() == at::kByte ? at::kByte : at::kBool));
      break;
    case DTypeRule::Int64:
      CHECK(dtype == at::kLong);
      break;
    case DTypeRule::DefaultFloat:
      CHECK(dtype == at::kFloat);
      break;
    case DTypeRule::Unknown:
      break;
  }
}

/// Another element at [1, 2] of one operand: nothing else of the result may change than what stands there.
void checkPointwise(const c10::OperatorHandle& op, const Stack& arguments, const at::Tensor& out) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined() || arguments[i].toTensor().dim() == 0) continue;
    Stack changed = copied(arguments);
    const at::Tensor x = changed[i].toTensor();
    at::Tensor corner = x.dim() == 2 ? x[1][2] : x[2];
    if (x.scalar_type() == at::kBool)
      corner.logical_not_();
    else
      corner.add_(at::isIntegralType(x.scalar_type(), true) ? at::Scalar(1) : at::Scalar(0.05));
    const auto again = called(op, changed);
    CHECK(again.has_value());
    if (!again) continue;
    at::Tensor same = at::eq(firstTensor(*again), out).logical_or(out.isnan());
    (x.dim() == 2 ? same[1][2] : same.select(1, 2)).fill_(true);
    CHECK(same.all().item<bool>());
  }
}

void checkMemory(const OperatorFacts& row, const c10::OperatorHandle& op, const Stack& arguments,
                 const Stack& results) {
  const at::Tensor x = firstTensor(arguments), out = firstTensor(results);
  if (!x.defined() || !out.defined()) return;
  if (row.has(OperatorFact::View)) CHECK(sharesMemory(out, x));
  // A sample is contiguous and has the dtype that is asked for: what may be a view is one.
  if (row.has(OperatorFact::MayView) && out.scalar_type() == x.scalar_type()) CHECK(sharesMemory(out, x));
  constexpr OperatorFact shares =
      OperatorFact::View | OperatorFact::MayView | OperatorFact::MayReturnArgument | OperatorFact::Identity;
  if (!row.has(shares) && !row.name.ends_with('_')) CHECK_FALSE(sharesMemory(out, x));
  if (row.has(OperatorFact::Identity)) CHECK(at::equal(out, x));
  if (row.has(OperatorFact::KeepsLayout)) CHECK(out.is_contiguous());
  if (row.has(OperatorFact::RowMajor)) {
    Stack turned;
    for (const c10::IValue& v : arguments)
      turned.push_back(v.isTensor() && v.toTensor().dim() > 1
                           ? c10::IValue(v.toTensor().transpose(0, 1).contiguous().transpose(0, 1))
                           : v);
    const auto again = called(op, turned);
    CHECK((again && firstTensor(*again).is_contiguous()));
  }
  if (row.has(OperatorFact::MovesOnly) && x.numel() > 0)
    CHECK(at::eq(out.reshape({-1, 1}), x.reshape({1, -1})).any(1).all().item<bool>());
}

void checkSchema(const OperatorFacts& row, const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  CHECK(row.has(OperatorFact::Random) == op.hasTag(at::Tag::nondeterministic_seeded));
  bool writes = false, aliases = false;
  for (const c10::Argument& a : schema.arguments()) writes = writes || (a.alias_info() && a.alias_info()->isWrite());
  for (const c10::Argument& r : schema.returns()) aliases = aliases || r.alias_info() != nullptr;
  CHECK(writes == row.name.ends_with('_'));
  const bool views = row.has(OperatorFact::View | OperatorFact::MayView);
  // PyTorch calls it unsafe because its schema does not tell.
  if (!writes && row.name != "aten._unsafe_view") CHECK(aliases == views);
  if (row.has(OperatorFact::MayReturnArgument)) CHECK_FALSE(aliases);
  if (row.has(OperatorFact::ReshapesInPlace | OperatorFact::NoFunctionalForm)) CHECK(writes);
  if (row.has(OperatorFact::MetadataOnly)) CHECK(schema.returns()[0].type()->kind() != c10::TypeKind::TensorType);
  if (row.has(OperatorFact::Splits)) CHECK(schema.returns()[0].type()->kind() == c10::TypeKind::ListType);
}

/// The operator that writes what this one computes into its first argument.
void checkTwin(const OperatorFacts& row, const c10::OperatorHandle& op, const Stack& arguments, const at::Tensor& out) {
  if (!arguments.front().isTensor()) return;
  const c10::OperatorName name = op.operator_name();
  const auto twin = c10::Dispatcher::singleton().findSchema({name.name + "_", name.overload_name});
  if (!row.has(OperatorFact::InPlaceTwin)) {
    // One that computes another dtype is none: the argument keeps its own.
    if (row.has(OperatorFact::Pointwise) && twin && out.scalar_type() == firstTensor(arguments).scalar_type())
      FAIL_CHECK("it has a twin that computes in place");
    return;
  }
  if (!twin || firstTensor(arguments).sizes() != out.sizes() ||
      firstTensor(arguments).scalar_type() != out.scalar_type())
    return;
  Stack own = copied(arguments);
  const at::Tensor target = firstTensor(own);
  CHECK((called(*twin, own) && at::allclose(target, out, 0, 0, true)));
}

}  // namespace

TEST_CASE("LibTorch knows every operator of the table") {
  for (const OperatorFacts& row : allOperatorFacts()) {
    if (row.name.starts_with("graft.") || row.has(OperatorFact::Structural)) continue;
    INFO(row.name);
    std::string name(row.name);
    const size_t dot = name.find('.'), overload = name.find('.', dot + 1);
    const std::string packet = name.substr(0, dot) + "::" + name.substr(dot + 1, overload - dot - 1);
    bool found = false;
    for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(packet))) {
      const std::string own = op->schema().overload_name().empty() ? "default" : op->schema().overload_name();
      found = found || overload == name.npos || name.substr(overload + 1) == own;
    }
    CHECK(found);
  }
}

TEST_CASE("what the table says holds where LibTorch runs the operator") {
  at::manual_seed(7);
  for (const OperatorFacts& row : allOperatorFacts()) {
    if (!row.name.starts_with("aten.") || row.family == OperatorFamily::Control ||
        row.has(OperatorFact::IntegerArithmetic))
      continue;
    INFO(row.name);
    const auto sample = samples.find(row.name);
    if (sample != samples.end() && sample->second.empty()) continue;
    const auto overloads = overloadsOf(row);
    CHECK_FALSE(overloads.empty());
    size_t ran = 0;
    for (const c10::OperatorHandle& op : overloads) {
      const c10::FunctionSchema& schema = op.schema();
      INFO(schema);
      checkSchema(row, op);
      for (const at::ScalarType floating : {at::kFloat, at::kDouble, at::kLong}) {
        INFO(floating);
        const auto arguments = argumentsFor(row, schema, floating);
        if (!arguments || arguments->empty()) continue;
        Stack given = copied(*arguments);
        const auto results = called(op, given);
        if (!results) continue;  // not for this dtype
        ++ran;
        const at::Tensor out = firstTensor(*results);
        if (!out.defined()) continue;
        if (row.name.ends_with('_')) {
          if (row.has(OperatorFact::ReshapesInPlace))
            CHECK(sizesOf(out) != sizesOf(firstTensor(*arguments)));
          else
            CHECK(sizesOf(out) == sizesOf(firstTensor(*arguments)));
          continue;
        }
        checkShape(row, schema, given, out);
        checkDType(row, schema, given, out);
        checkMemory(row, op, given, *results);
        if (row.has(OperatorFact::Pointwise)) checkPointwise(op, given, out);
        if (row.has(OperatorFact::Pointwise | OperatorFact::InPlaceTwin)) checkTwin(row, op, given, out);
        if (row.has(OperatorFact::Dropout)) CHECK(at::equal(out, firstTensor(given)));
        if (row.has(OperatorFact::NoMetaKernel))
          CHECK((row.shape == ShapeRule::AsFirst &&
                 (row.dtype == DTypeRule::First || (row.dtype == DTypeRule::Promotes && given.size() == 1))));
        if (row.has(OperatorFact::Commutative) && given.size() > 1 && given[0].isTensor() && given[1].isTensor()) {
          Stack swapped = given;
          std::swap(swapped[0], swapped[1]);
          const auto other = called(op, swapped);
          CHECK((other && at::equal(firstTensor(*other), out)));
        }
      }
    }
    CHECK(ran > 0);
  }
}

// Beside places where rounding may matter: halves of whole numbers, and what the samples give as limits.
TEST_CASE("functions of one tensor jump where the table says so, and nowhere else") {
  const std::set<std::string_view> atInfinity{"aten.isfinite", "aten.isinf",    "aten.isnan",
                                              "aten.isneginf", "aten.isposinf", "aten.nan_to_num"};
  constexpr double nearby = 1e-7, jump = 1e-3;
  const at::Tensor middle = at::arange(-60, 61, at::kDouble) / 20;
  for (const OperatorFacts& row : allOperatorFacts()) {
    if (!row.name.starts_with("aten.") || !row.has(OperatorFact::Pointwise) || row.shape != ShapeRule::AsFirst ||
        row.has(OperatorFact::Random) || atInfinity.contains(row.name))
      continue;
    if (const auto sample = samples.find(row.name); sample != samples.end() && sample->second.empty()) continue;
    INFO(row.name);
    bool jumps = false, ran = false;
    for (const c10::OperatorHandle& op : overloadsOf(row)) {
      const auto arguments = argumentsFor(row, op.schema(), at::kDouble);
      if (!arguments || arguments->empty() || !arguments->front().isTensor()) continue;
      if (std::any_of(arguments->begin() + 1, arguments->end(), [](const c10::IValue& v) { return v.isTensor(); }))
        continue;
      const auto at = [&](double off) {
        Stack given = *arguments;
        given[0] = middle + off;
        const auto results = called(op, given);
        return results ? firstTensor(*results) : at::Tensor();
      };
      const at::Tensor here = at(0), below = at(-nearby), above = at(nearby);
      if (!here.defined() || here.is_complex()) continue;
      ran = true;
      for (const at::Tensor& beside : {below, above}) {
        const at::Tensor value = here.to(at::kDouble);
        const at::Tensor off = beside.to(at::kDouble).sub(value).abs().div(value.abs().add(1));
        jumps = jumps || off.masked_select(off.isfinite()).gt(jump).any().item<bool>();
      }
    }
    if (ran) CHECK(row.has(OperatorFact::Jumps) == jumps);
  }
  CHECK(factsOf("aten.div.Tensor_mode").has(OperatorFact::Jumps));
  CHECK_FALSE(factsOf("aten.div.Tensor").has(OperatorFact::Jumps));
  CHECK(factsOf("aten.lt.Scalar").has(OperatorFact::Jumps));
}

TEST_CASE("what the table says of dtypes holds for each dtype, and beside each other one") {
  const std::vector<at::ScalarType> dtypes{at::kBool, at::kByte, at::kChar,     at::kShort, at::kInt,
                                           at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
  at::manual_seed(7);
  for (const OperatorFacts& row : allOperatorFacts()) {
    if (!row.name.starts_with("aten.") || row.family == OperatorFamily::Control || row.name.ends_with('_') ||
        row.has(OperatorFact::IntegerArithmetic))
      continue;
    INFO(row.name);
    if (const auto sample = samples.find(row.name); sample != samples.end() && sample->second.empty()) continue;
    for (const c10::OperatorHandle& op : overloadsOf(row)) {
      INFO(op.schema());
      const auto arguments = argumentsFor(row, op.schema(), at::kFloat);
      if (!arguments || arguments->empty()) continue;
      // The floating operands of the sample: the first in one dtype, the others in another one.
      for (const at::ScalarType first : dtypes)
        for (const at::ScalarType other : dtypes) {
          Stack given = copied(*arguments);
          bool isFirst = true, hasOthers = false;
          for (c10::IValue& v : given) {
            if (!v.isTensor() || !v.toTensor().defined() || v.toTensor().scalar_type() != at::kFloat) continue;
            v = v.toTensor().to(isFirst ? first : other);
            hasOthers = hasOthers || !isFirst;
            isFirst = false;
          }
          if (isFirst || (!hasOthers && other != first)) continue;
          INFO(first << ", " << other);
          const auto results = called(op, copied(given));
          if (!results || !firstTensor(*results).defined()) continue;  // not for these
          checkDType(row, op.schema(), given, firstTensor(*results));
        }
    }
  }
}

TEST_CASE("reductions keep a dimension of one where they are asked to") {
  for (const OperatorFacts& row : allOperatorFacts()) {
    if (row.family != OperatorFamily::Reduction || row.name.find('.') != row.name.rfind('.')) continue;
    for (const c10::OperatorHandle& op : overloadsOf(row)) {
      const auto dim = indexOf(op.schema(), "dim"), keep = indexOf(op.schema(), "keepdim");
      auto arguments = argumentsFor(row, op.schema(), at::kFloat);
      if (!dim || !keep || !arguments) continue;
      INFO(op.schema());
      c10::IValue& which = (*arguments)[static_cast<size_t>(*dim)];
      for (const bool keeps : {true, false}) {
        (*arguments)[static_cast<size_t>(*keep)] = keeps;
        for (const bool list : {true, false}) {
          which = list ? c10::IValue(std::vector<int64_t>{1}) : c10::IValue(int64_t{1});
          if (const auto results = called(op, copied(*arguments)))
            checkShape(row, op.schema(), *arguments, firstTensor(*results));
        }
      }
    }
  }
}

TEST_CASE("an operator carries its line; overloads without tensors have none but their own") {
  const auto facts = [](const char* schema) { return (*parseSchema(schema))->facts; };
  CHECK(facts("aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor") == &factsOf("aten.add.Tensor"));
  CHECK(facts("aten::multiply.Tensor(Tensor self, Tensor other) -> Tensor") == &factsOf("aten.mul"));
  CHECK(facts("aten::add.str(str a, str b) -> str") == &noOperatorFacts);
  CHECK(facts("aten::add.int(int a, int b) -> int")->has(OperatorFact::IntegerArithmetic));
  CHECK_FALSE(facts("aten::add.int(int a, int b) -> int")->has(OperatorFact::Pointwise));
  CHECK(facts("aten::max.dim(Tensor self, int dim) -> (Tensor, Tensor)")->family == OperatorFamily::Reduction);
  CHECK(facts("aten::max.other(Tensor self, Tensor other) -> Tensor")->has(OperatorFact::Pointwise));
  CHECK(facts("aten::nobody_knows(Tensor self) -> Tensor") == &noOperatorFacts);
}

TEST_CASE("graft:: operators say their facts themselves") {
  REQUIRE(graftOperators().size() > 10);
  for (const GraftOperator& op : graftOperators()) {
    INFO(op.name);
    const auto parsed = parseSchema("graft::" + std::string(op.schema));
    REQUIRE(parsed);
    CHECK((*parsed)->name == "graft." + std::string(op.name) + ".default");
    CHECK((*parsed)->is(OperatorFact::OwnLayout) == (op.facts.find("layout_of_operands") == op.facts.npos));
    CHECK_FALSE(op.doc.empty());
    CHECK((*parsed)->is(OperatorFact::Pointwise) == (op.facts.find("pointwise") != op.facts.npos));
    CHECK((*parsed)->is(OperatorFact::RowMajor) == (op.facts.find("row_major") != op.facts.npos));
  }
  CHECK(factsOf("graft.conv_bias_add_relu").family == OperatorFamily::Convolution);
  // A group's results may lie as the operators' that it was made of.
  CHECK_FALSE(factsOf("graft.generated").has(OperatorFact::OwnLayout | OperatorFact::RowMajor));
}
