#include "tests/core/compile/lower/torch_compare.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/DefaultDtype.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <span>
#include <string_view>

#include "core/compile/loops/interpret.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/torch/executor.h"
#include "core/torch/graph_in_dtype.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "core/torch/values/values.h"
#if GRAFT_TEST_MACHINE_CODE
#include "tests/support/compiled_program.h"
#endif

namespace graft::test {

const Semantics& semantics() {
  // Some of Graft's own operators are lowered too.
  [[maybe_unused]] static const bool isLoaded = static_cast<bool>(loadOperatorLibrary());
  static const std::unique_ptr<Semantics> torch = makeTorchSemantics();
  return *torch;
}

namespace {

at::Tensor randomTensor(const Random& r, std::mt19937_64& engine) {
  const bool isFloating = isFloatingPoint(r.dtype);
  const double low = r.least.value_or(isFloating ? -3 : r.dtype == DType::UInt8 ? 0 : -4);
  const double high = r.greatest.value_or(isFloating ? 3 : r.dtype == DType::UInt8 ? 9 : 4);
  std::vector<int64_t> stored = r.sizes;
  const bool isImage = r.image && stored.size() > 3;
  if (isImage)
    std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());
  else if (r.strided && stored.size() > 1)
    std::swap(stored.front(), stored.back());
  const at::Tensor wide = at::empty(stored, at::kDouble);
  auto* data = wide.data_ptr<double>();
  std::uniform_real_distribution<double> real(low, high);
  std::uniform_int_distribution<int64_t> whole(static_cast<int64_t>(low), static_cast<int64_t>(high));
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double specials[] = {
      std::numeric_limits<double>::quiet_NaN(), inf, -inf, 0, -0.0, 0.5, -1.5, 2.5, 1e-6, 3e4};
  for (int64_t i = 0; i < wide.numel(); ++i) {
    data[i] = r.dtype == DType::Bool ? static_cast<double>(engine() & 1)
              : isFloating           ? real(engine)
                                     : static_cast<double>(whole(engine));
    if (r.special && isFloating && engine() % 4 == 0) data[i] = specials[engine() % std::size(specials)];
  }
  at::Tensor t = wide.to(torchDType(r.dtype));
  if (isImage)
    t = t.movedim(-1, 1);
  else if (r.strided && stored.size() > 1)
    t = t.transpose(0, static_cast<int64_t>(stored.size()) - 1);
  return t;
}

/// PyTorch's default dtype, for as long as this lives.
class DefaultDType {
 public:
  explicit DefaultDType(at::ScalarType d) : before_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(d));
  }
  ~DefaultDType() { c10::set_default_dtype(before_); }
  DefaultDType(const DefaultDType&) = delete;
  DefaultDType& operator=(const DefaultDType&) = delete;

 private:
  caffe2::TypeMeta before_;
};

loops::Memory memoryOf(const at::Tensor& t) { return {t.data_ptr(), t.strides().vec()}; }

Result<Program> programOf(const Graph& g) {
  return Program::build(g, {.device = "cpu", .dtype = {}, .threads = 1, .fixedShapes = false});
}
Result<TensorSet> runInTorch(const Graph& g, const TensorSet& inputs) {
  auto program = programOf(g);
  if (!program) return program.error();
  return program->run(inputs);
}

/// A group, and its inputs, in f64.
struct InDoubles {
  Graph graph;
  TensorSet inputs;
  Program program;
};
std::optional<InDoubles> inDoubles(const Graph& g, const TensorSet& inputs) {
  auto wide = inDType(g, DType::Float64);
  if (!wide) return std::nullopt;
  auto wideInputs = convert(inputs, "cpu", DType::Float64);
  // What is made of whole numbers has PyTorch's default dtype.
  const DefaultDType doubles(at::kDouble);
  auto program = programOf(wide->graph);
  if (!wideInputs || !program) return std::nullopt;
  return InDoubles{std::move(wide->graph), std::move(*wideInputs), std::move(*program)};
}

#if GRAFT_TEST_MACHINE_CODE
/// At the best level that this machine has.
Status runMachineCode(const loops::Program& program, std::span<const int64_t> sizes,
                      std::span<const loops::Memory> memory) {
  loops::Program p = program;
  codegen::CpuOptions options{.level = levels().back(), .layouts = {}, .sizes = {sizes.begin(), sizes.end()}};
  std::vector<void*> buffers;
  for (const loops::Memory& m : memory) {
    options.layouts.push_back(codegen::constantLayout(p, m.strides));
    buffers.push_back(m.data);
  }
  try {
    const CompiledProgram code(std::move(p), options);
    if (code.run(buffers, options.sizes, 7)) return internalError("a check failed");
  } catch (const std::exception& e) {
    return internalError(e.what());
  }
  return done();
}
#endif

struct Runner {
  std::string_view name;
  Status (*run)(const loops::Program&, std::span<const int64_t> sizes, std::span<const loops::Memory>);
};
/// The interpreter, and machine code where GRAFT_TEST_COMPILED is set.
std::vector<Runner> runners() {
  std::vector<Runner> all{{"the interpreter", loops::interpret}};
#if GRAFT_TEST_MACHINE_CODE
  if (std::getenv("GRAFT_TEST_COMPILED")) all.push_back({"machine code", runMachineCode});
#endif
  return all;
}

/// What a program gives, in memory like that of `expected`.
Result<TensorSet> runBy(const Runner& runner, const loops::Program& program, std::span<const int64_t> sizes,
                        const TensorSet& inputs, const TensorSet& expected) {
  std::vector<loops::Memory> memory;
  for (const c10::IValue& v : valuesOf(inputs))
    if (v.isTensor()) memory.push_back(memoryOf(v.toTensor()));
  std::vector<c10::IValue> outputs;
  for (const c10::IValue& v : valuesOf(expected)) {
    const at::Tensor& like = v.toTensor();
    // Filled with what no kernel writes by chance.
    const at::Tensor out = at::full(like.sizes(), 77, like.options().memory_format(c10::nullopt));
    memory.push_back(memoryOf(out));
    outputs.emplace_back(out);
  }
  if (const Status s = runner.run(program, sizes, memory); !s) return s.error();
  return tensorSet(std::move(outputs));
}

std::vector<std::vector<int64_t>> stridesOf(const TensorSet& inputs, const TensorSet& outputs) {
  std::vector<std::vector<int64_t>> strides;
  for (const c10::IValue& v : valuesOf(inputs))
    if (v.isTensor()) strides.push_back(v.toTensor().strides().vec());
  for (const c10::IValue& v : valuesOf(outputs)) strides.push_back(v.toTensor().strides().vec());
  return strides;
}

}  // namespace

Result<std::vector<LoweredRun>> runLowered(const Graph& g, const TensorSet& inputs) {
  LoweredRun torch{"LibTorch", {}};
  if (auto out = runInTorch(g, inputs))
    torch.outputs = std::move(*out);
  else
    return out.error();
  const auto lowered = lower::lower(g, stridesOf(inputs, torch.outputs), {});
  if (!lowered) return lowered.error();
  std::vector<LoweredRun> runs;
  for (const Runner& runner : runners()) {
    auto out = runBy(runner, *lowered, {}, inputs, torch.outputs);
    if (!out) return out.error();
    runs.push_back({std::string(runner.name), std::move(*out)});
  }
  runs.push_back(std::move(torch));
  return runs;
}

TensorSet randomInputs(const std::vector<Random>& specs, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<c10::IValue> values;
  for (const Random& r : specs) values.emplace_back(randomTensor(r, engine));
  return tensorSet(std::move(values));
}

std::optional<TensorSet> referenceOf(const Graph& g, const TensorSet& inputs) {
  const auto wide = inDoubles(g, inputs);
  if (!wide) return std::nullopt;
  const DefaultDType doubles(at::kDouble);
  auto out = wide->program.run(wide->inputs);
  if (!out) return std::nullopt;
  return std::move(*out);
}

namespace {

/// At most, relative to the number.
double roundingOf(DType d) {
  switch (d) {
    case DType::BFloat16:
      return 0x1p-8;
    case DType::Float16:
      return 0x1p-11;
    case DType::Float32:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}

/// What f64 gives where each result on the way is off by up to one rounding of its own dtype: how far an order of
/// computing may take the outputs of an ill-conditioned group. Random signs, as in the CESTAC method (J. Vignes, "A
/// stochastic arithmetic for reliable scientific computation", 1993). `rounding`: of values, by name.
std::vector<at::Tensor> perturbedOutputs(const InDoubles& wide, const std::map<std::string, double>& rounding,
                                         uint64_t seed) {
  std::vector<c10::IValue> own;
  for (const c10::IValue& v : valuesOf(wide.inputs)) own.push_back(v.isTensor() ? v.toTensor().clone() : v);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto perturb = [&](ValueId v, const TensorSet& seen) {
    const auto it = rounding.find(wide.graph.value(v).name);
    if (it == rounding.end()) return;
    for (const c10::IValue& value : valuesOf(seen)) {
      if (!value.isTensor()) continue;
      at::Tensor t = value.toTensor();
      // What overlaps itself cannot be written in place.
      if (!t.is_floating_point() || !t.is_non_overlapping_and_dense()) continue;
      t.mul_(at::rand(t.sizes(), generator, t.options()).mul_(2).sub_(1).mul_(it->second).add_(1));
    }
  };
  const auto out = wide.program.observe(tensorSet(std::move(own)), perturb);
  std::vector<at::Tensor> tensors;
  if (out)
    for (const c10::IValue& v : valuesOf(*out)) tensors.push_back(v.toTensor());
  return tensors;
}

/// Whether an output is no further from f64 than roundings on the way can take it, times a few.
bool isWithinRoundings(const Graph& g, const TensorSet& inputs, size_t output, const at::Tensor& got,
                       const TensorSet& reference) {
  const at::Tensor exact = valuesOf(reference)[output].toTensor();
  if (!got.is_floating_point() || got.sizes() != exact.sizes()) return false;
  std::map<std::string, double> rounding;  // the graph in f64 has all values
  for (const NodeId n : g.order())
    for (const ValueId v : g.node(n).outputs)
      if (const Type& t = g.value(v).type; t.isTensor() && t.tensorInfo.dtype && isFloatingPoint(*t.tensorInfo.dtype))
        rounding[g.value(v).name] = roundingOf(*t.tensorInfo.dtype);
  const auto wide = inDoubles(g, inputs);
  if (!wide) return false;
  const DefaultDType doubles(at::kDouble);
  at::Tensor spread = at::zeros_like(exact);
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    const std::vector<at::Tensor> perturbed = perturbedOutputs(*wide, rounding, seed);
    if (output >= perturbed.size()) return false;
    spread = at::maximum(spread, (perturbed[output] - exact).abs());
  }
  const at::Tensor off = (got.to(at::kDouble) - exact).abs();
  return (off <= 8 * spread).logical_or(at::isclose(got.to(at::kDouble), exact, 1e-5, 1e-8, true)).all().item<bool>();
}

}  // namespace

Status completeTypes(Graph& g, const TensorSet& inputs) {
  for (const NodeId n : g.order())
    for (const ValueId v : g.node(n).outputs)
      if (const Type& t = g.value(v).type; t.isTensor() && (!t.tensorInfo.dtype || !t.tensorInfo.shape))
        return recordTypes(g, inputs, true);
  return done();
}

namespace {

/// Of what runs on one machine. Programs in `seen` are known.
std::string compareFor(const lower::Machine& machine, const Graph& g, const TensorSet& inputs,
                       const std::map<std::string, int64_t>& sizes, const TensorSet& expected,
                       std::set<std::string>& seen) {
  const auto lowered = lower::lower(g, stridesOf(inputs, expected), machine);
  if (!lowered) return "it is not lowered: " + lowered.error().message;
  const std::string text = loops::printProgram(*lowered);
  if (!seen.insert(text).second) return {};
  if (const Status s = loops::verify(*lowered); !s) return "the program is refused: " + s.error().message + "\n" + text;
  const auto parsed = loops::parseProgram(text);
  if (!parsed) return "the program is not read back: " + parsed.error().format() + "\n" + text;
  if (loops::printProgram(*parsed) != text) return "the program reads back as another one\n" + text;
  for (const NodeId n : g.order())
    if (const auto t = lower::traitsOf(g, g.node(n)); t.kind == lower::Kind::None)
      return "a node that is lowered says that it is not: " + t.whyNot;

  std::vector<int64_t> values;
  for (const loops::Size& s : lowered->sizes) {
    const auto it = sizes.find(s.name);
    if (it == sizes.end()) return "nobody says what " + s.name + " is";
    values.push_back(it->second);
  }
  const auto wide = referenceOf(g, inputs);
  for (const Runner& runner : runners()) {
    const auto outputs = runBy(runner, *lowered, values, inputs, expected);
    if (!outputs) return fmt::format("{} stops: {}\n{}", runner.name, outputs.error().message, text);
    const std::vector<Difference> differences = compareElements(expected, *outputs, wide ? &*wide : nullptr);
    for (size_t i = 0; i < differences.size(); ++i)
      if (const Difference& d = differences[i];
          !d.passed && !(wide && isWithinRoundings(g, inputs, i, valuesOf(*outputs)[i].toTensor(), *wide)))
        return fmt::format("{}: output {} ({}): {} at {}: expected {}, got {} (max abs {})\n{}", runner.name, d.name,
                           d.type, d.why, d.element, d.expected, d.actual, d.maxAbs, text);
  }
  return {};
}

}  // namespace

std::string compareWithTorch(const Graph& g, const TensorSet& inputs, const std::map<std::string, int64_t>& sizes) {
  const auto expected = runInTorch(g, inputs);
  if (!expected) return "LibTorch refuses it: " + expected.error().message;
  std::set<std::string> seen;
  for (const lower::Machine& machine : {lower::Machine(), kCpuOfSmall, lower::kGpuWithClusters, kGpuOfSmall})
    if (std::string wrong = compareFor(machine, g, inputs, sizes, *expected, seen); !wrong.empty()) return wrong;
  return {};
}

}  // namespace graft::test
