#include "core/torch/libraries/python_operators.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/child.h"
#include "core/base/python.h"
#include "core/torch/values/values.h"
#include "kernels/capture/pytree.h"

namespace graft {
namespace {

using nlohmann::json;
using torch::jit::Stack;

constexpr const char* script =
#include "core/torch/libraries/python_script.inc"
    ;

/// How long an import or a call may take.
double secondsAllowed() {
  constexpr double usual = 120;
  const char* given = std::getenv("GRAFT_LIBRARY_SECONDS");
  const double seconds = given ? std::strtod(given, nullptr) : 0;
  return seconds > 0 ? seconds : usual;
}

// Values as the script reads and writes them
// --------------------------------------------------------------------------------------------------------------------

/// What goes to the process: the arguments, and their tensors' bytes.
struct Message {
  json tensors = json::array();
  std::vector<at::Tensor> data;  ///< on the CPU; of those in `tensors` that have bytes
  bool isMeta = false;

  json tensor(const at::Tensor& given) {
    TORCH_CHECK(given.layout() == c10::kStrided && !given.is_quantized(),
                "sparse and quantized tensors cannot be sent to a Python process");
    at::Tensor t = given.resolve_conj().resolve_neg();
    const std::string device = t.device().str();
    const bool meta = t.is_meta();
    isMeta = isMeta || meta;
    if (!meta) t = t.cpu();
    const auto dtype = graftDType(t.scalar_type());
    TORCH_CHECK(dtype.has_value(), "tensors of ", t.scalar_type(), " cannot be sent to a Python process");
    const size_t bytes = meta ? 0 : at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.element_size());
    tensors.push_back({{"dtype", std::string(dtypeName(*dtype))},
                       {"sizes", t.sizes().vec()},
                       {"strides", t.strides().vec()},
                       {"device", device},
                       {"bytes", bytes}});
    if (bytes > 0) data.push_back(t);
    return {{"tensor", tensors.size() - 1}};
  }

  json number(double d) {
    if (std::isfinite(d)) return d;
    return {{"float", std::isnan(d) ? "nan" : d > 0 ? "inf" : "-inf"}};
  }

  /// `type` says what an int stands for: a dtype, say.
  json value(const c10::IValue& v, const c10::Type& type) {
    if (v.isNone()) return nullptr;
    if (type.kind() == c10::TypeKind::OptionalType)
      return value(v, *type.expectRef<c10::OptionalType>().getElementType());
    if (v.isTensor()) return v.toTensor().defined() ? tensor(v.toTensor()) : json(nullptr);
    if (v.isBool()) return v.toBool();
    if (v.isInt()) {
      if (type.kind() == c10::TypeKind::ScalarTypeType) {
        const auto dtype = graftDType(static_cast<c10::ScalarType>(v.toInt()));
        TORCH_CHECK(dtype.has_value(), "this dtype cannot be sent to a Python process");
        return {{"dtype", std::string(dtypeName(*dtype))}};
      }
      if (type.kind() == c10::TypeKind::LayoutType) {
        TORCH_CHECK(v.toInt() == static_cast<int64_t>(c10::kStrided), "this layout cannot be sent to a Python process");
        return {{"layout", "strided"}};
      }
      if (type.kind() == c10::TypeKind::MemoryFormatType) {
        constexpr std::array names{"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
        TORCH_CHECK(v.toInt() >= 0 && v.toInt() < static_cast<int64_t>(names.size()),
                    "this memory format is not known");
        return {{"memoryFormat", names[static_cast<size_t>(v.toInt())]}};
      }
      return v.toInt();
    }
    if (v.isDouble()) return number(v.toDouble());
    if (v.isComplexDouble()) return {{"complex", {v.toComplexDouble().real(), v.toComplexDouble().imag()}}};
    if (v.isString()) return v.toStringRef();
    if (v.isDevice()) return {{"device", v.toDevice().str()}};
    if (v.isList()) {
      const c10::Type& element = type.kind() == c10::TypeKind::ListType
                                     ? *type.expectRef<c10::ListType>().getElementType()
                                     : *c10::AnyType::get();
      json items = json::array();
      for (const c10::IValue& item : v.toListRef()) items.push_back(value(item, element));
      return {{"list", std::move(items)}};
    }
    TORCH_CHECK(false, "an argument is ", v.tagKind(), ", which cannot be sent to a Python process");
  }
};

/// What comes back.
struct Reply {
  json header;
  std::vector<at::Tensor> tensors;

  c10::IValue value(const json& v, const c10::Type& type) const {
    if (v.is_null()) {
      return type.kind() == c10::TypeKind::TensorType ? c10::IValue(at::Tensor()) : c10::IValue();
    }
    if (type.kind() == c10::TypeKind::OptionalType)
      return value(v, *type.expectRef<c10::OptionalType>().getElementType());
    if (v.is_boolean()) return v.get<bool>();
    if (v.is_number_integer())
      return type.kind() == c10::TypeKind::FloatType ? c10::IValue(v.get<double>()) : c10::IValue(v.get<int64_t>());
    if (v.is_number()) return v.get<double>();
    if (v.is_string()) return v.get<std::string>();
    if (v.contains("tensor")) return tensors.at(v["tensor"].get<size_t>());
    if (v.contains("float")) return std::strtod(v["float"].get<std::string>().c_str(), nullptr);
    if (v.contains("complex"))
      return c10::complex<double>(v["complex"].at(0).get<double>(), v["complex"].at(1).get<double>());
    TORCH_CHECK(v.contains("list") && type.kind() == c10::TypeKind::ListType, "an output is not of its schema's type");
    const auto element = type.expectRef<c10::ListType>().getElementType();
    c10::impl::GenericList out(element);
    for (const json& item : v["list"]) out.push_back(value(item, *element));
    return out;
  }
};

// The process
// --------------------------------------------------------------------------------------------------------------------

/// One module's process. Any thread may call; the calls wait for each other.
class PythonModule {
 public:
  PythonModule(std::string path, Child child) : path_(std::move(path)), child_(std::move(child)) {}

  Result<json> operators(const Job& job) {
    auto line = child_->readLine(job, "importing " + path_);
    if (!line) return line.error();
    json said = json::parse(*line, nullptr, false);
    if (!said.is_object()) return badInput("its process says: " + *line);
    if (said.contains("error")) return badInput(said["error"].get<std::string>());
    return said["operators"];
  }

  void call(const c10::OperatorHandle& op, Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    const size_t count = schema.arguments().size();
    Message message;
    json args = json::array(), written = json::array();
    std::vector<at::Tensor> targets;
    for (size_t i = 0; i < count; ++i) {
      const c10::Argument& parameter = schema.arguments()[i];
      const c10::IValue& v = (*stack)[stack->size() - count + i];
      const size_t before = message.tensors.size();
      args.push_back(message.value(v, *parameter.real_type()));
      if (!parameter.alias_info() || !parameter.alias_info()->isWrite()) continue;
      for (size_t k = before; k < message.tensors.size(); ++k) written.push_back(k);
      if (v.isTensor()) targets.push_back(v.toTensor());
      if (v.isTensorList())
        for (const at::Tensor& t : v.toTensorVector()) targets.push_back(t);
    }
    const json request{{"op", op.operator_name().name},
                       {"overload", op.operator_name().overload_name},
                       {"args", std::move(args)},
                       {"tensors", message.tensors},
                       {"written", std::move(written)}};
    const Reply reply = ask(op, request, message);
    if (!message.isMeta) {
      const json& now = reply.header["written"];
      for (size_t i = 0; i < std::min(targets.size(), now.size()); ++i)
        targets[i].copy_(reply.tensors.at(now[i].get<size_t>()));
    }
    // Results go where the arguments are.
    std::optional<c10::Device> device;
    for (const c10::IValue& v : torch::jit::last(*stack, count))
      if (!device && v.isTensor() && v.toTensor().defined() && !v.toTensor().is_cpu()) device = v.toTensor().device();
    std::vector<c10::IValue> outputs;
    const json& given = reply.header["outputs"];
    TORCH_CHECK(given.size() == schema.returns().size(), op.operator_name(), " returns ", given.size(),
                " values instead of ", schema.returns().size());
    for (size_t i = 0; i < given.size(); ++i) {
      if (const c10::IValue* argument = writtenArgument(schema, i, torch::jit::last(*stack, count))) {
        outputs.push_back(*argument);
        continue;
      }
      c10::IValue v = reply.value(given[i], *schema.returns()[i].real_type());
      if (device && !device->is_meta()) v = mapTensors(v, [&](const at::Tensor& t) { return t.to(*device); });
      outputs.push_back(std::move(v));
    }
    torch::jit::drop(*stack, count);
    for (c10::IValue& v : outputs) stack->push_back(std::move(v));
  }

 private:
  /// The argument that the operator returns again after it has written to it; null where the result is new.
  static const c10::IValue* writtenArgument(const c10::FunctionSchema& schema, size_t result,
                                            c10::ArrayRef<c10::IValue> arguments) {
    const c10::AliasInfo* alias = schema.returns()[result].alias_info();
    if (!alias || !alias->isWrite()) return nullptr;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (const c10::AliasInfo* of = schema.arguments()[i].alias_info(); of && of->beforeSets() == alias->beforeSets())
        return &arguments[i];
    return nullptr;
  }

  Reply ask(const c10::OperatorHandle& op, const json& request, const Message& message) {
    const std::lock_guard lock(mutex_);
    const auto gone = [&](const Error& e) {
      dead_ = e.message;
      child_.reset();
      TORCH_CHECK(false, "the Python process of ", path_, " does not run ", op.operator_name(), ": ", e.message);
    };
    if (!child_) gone(badInput(dead_));
    Reply out;
    if (Status s = child_->write(request.dump()); !s) gone(s.error());
    for (const at::Tensor& t : message.data)
      if (Status s = child_->writeBytes({static_cast<const char*>(t.const_data_ptr()),
                                         at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.element_size())});
          !s)
        gone(s.error());
    auto line = child_->readLine({}, "");
    if (!line) gone(line.error());
    out.header = json::parse(*line, nullptr, false);
    if (!out.header.is_object()) gone(badInput("it answers: " + *line));
    if (out.header.contains("error")) {
      const std::string why = out.header["error"].get<std::string>();
      // Types that cannot be known before the operator runs are no failure.
      TORCH_CHECK_NOT_IMPLEMENTED(!message.isMeta, op.operator_name(), " on meta tensors: ", why);
      TORCH_CHECK(false, path_, ": ", why);
    }
    for (const json& t : out.header["tensors"]) {
      const auto dtype = parseDType(t["dtype"].get<std::string>());
      if (!dtype) gone(badInput("it sends a tensor of dtype " + t["dtype"].get<std::string>()));
      const auto sizes = t["sizes"].get<std::vector<int64_t>>(), strides = t["strides"].get<std::vector<int64_t>>();
      const bool meta = t["device"] == "meta";
      at::Tensor made = at::empty_strided(sizes, strides,
                                          at::TensorOptions(torchDType(*dtype)).device(meta ? c10::kMeta : c10::kCPU));
      const size_t bytes = t["bytes"].get<size_t>();
      if (bytes != (meta ? 0 : at::detail::computeStorageNbytes(sizes, strides, made.element_size())))
        gone(badInput("it sends a tensor of another size than it says"));
      if (bytes > 0) {
        auto data = child_->readBytes(bytes, {});
        if (!data) gone(data.error());
        std::memcpy(made.mutable_data_ptr(), data->data(), bytes);
      }
      out.tensors.push_back(std::move(made));
    }
    return out;
  }

  std::string path_;
  std::mutex mutex_;
  std::optional<Child> child_;
  std::string dead_;  ///< why there is no process any more
};

struct Kernel : c10::OperatorKernel {
  explicit Kernel(std::shared_ptr<PythonModule> m) : module(std::move(m)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) { module->call(op, stack); }
  std::shared_ptr<PythonModule> module;
};

bool givesViews(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& r) { return r.alias_info() && !r.alias_info()->isWrite(); });
}

}  // namespace

Result<std::vector<std::string>> registerPythonOperators(const std::string& path, const Job& job) {
  auto python = findPython("", "", "the Python module " + path, job);
  if (!python) return python.error();
  auto child = Child::start({*python, "-c", script, path});
  if (!child) return child.error();
  child->setLimit(secondsAllowed());
  const auto module = std::make_shared<PythonModule>(path, std::move(*child));
  auto operators = module->operators(job);
  if (!operators) {
    Error e = operators.error();
    if (e.kind == ErrorKind::BadInput) e.message = fmt::format("{} cannot be imported: {}", path, e.message);
    return e;
  }
  // As long as the program runs, as for any library.
  static auto* const registered = new std::vector<torch::Library>();
  std::vector<std::string> out;
  std::string views;
  try {
    for (const json& said : *operators) {
      c10::FunctionSchema schema = torch::schema(said["schema"].get<std::string>().c_str());
      const c10::OperatorName name = schema.operator_name();
      if (c10::Dispatcher::singleton().findSchema(name)) continue;  // of a library that is loaded here, too
      if (givesViews(schema)) {
        views = name.name;
        continue;
      }
      const size_t colons = name.name.find("::");
      torch::Library& library = registered->emplace_back(torch::Library::FRAGMENT, name.name.substr(0, colons),
                                                         std::nullopt, __FILE__, __LINE__);
      using Tags = std::vector<at::Tag>;
      const Tags tags = said.value("random", false) ? Tags{at::Tag::nondeterministic_seeded} : Tags();
      library.def(std::move(schema), tags);
      const std::string local =
          name.name.substr(colons + 2) + (name.overload_name.empty() ? "" : "." + name.overload_name);
      for (const c10::DispatchKey key : {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::Meta})
        library.impl(local.c_str(),
                     torch::dispatch(key, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(module))));
      out.push_back(graftName(name));
    }
  } catch (const std::exception& e) {
    return badInput(fmt::format("the operators of {} cannot be registered: {}", path, shortMessage(e)));
  }
  if (out.empty() && (operators->empty() || !views.empty()))
    return badInput(
        views.empty() ? fmt::format("{} defines no operator: torch.library.custom_op and torch.library.define do", path)
                      : fmt::format("{}: {} gives a view of its argument, which an operator of another process cannot",
                                    path, views));
  return out;
}

}  // namespace graft
