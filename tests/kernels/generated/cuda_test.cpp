// Generated kernels on a GPU. Random groups compute what LibTorch's operators compute there, twice the same bits.
// Without a GPU their code is compiled, where NVRTC is installed. GRAFT_RANDOM_GRAPHS and GRAFT_RANDOM_SEED as in
// tests/core/compile/lower/random_test.cpp.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/fusion/group_text.h"
#include "core/compile/loops/text.h"
#include "core/compile/lower/lower.h"
#include "core/compile/nvrtc/nvrtc.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/values.h"
#include "tests/core/compile/codegen/cases.h"
#include "tests/core/compile/lower/random_group.h"

using namespace graft;

namespace {

size_t fromEnvironment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Group {
  Graph graph;
  std::vector<test::Random> inputs;
};

void inferFromInputs(Graph& g) {
  std::vector<Type> types;
  for (const ValueId v : g.inputs()) types.push_back(g.value(v).type);
  REQUIRE_RESULT(inferAllTypes(g, types));
}

Group randomGroup(size_t seed) {
  test::RandomGroup generator(seed);
  Graph g = generator.make();
  inferFromInputs(g);
  REQUIRE_RESULT(test::completeTypes(g, test::randomInputs(generator.inputs(), seed)));
  return {std::move(g), generator.inputs()};
}

bool hasGpu() {
  static const bool has = [] {
    if (!loadOperatorLibrary()) return false;
    return at::hasCUDA();
  }();
  return has;
}

Result<TensorSet> runOnGpu(const Graph& g, const TensorSet& inputs) {
  const auto moved = convert(inputs, "cuda", {});
  if (!moved) return moved.error();
  auto program = Program::build(g, {.device = "cuda", .dtype = {}, .threads = 1, .fixedShapes = false});
  if (!program) return program.error();
  return program->run(*moved);
}

Result<TensorSet> runOnCpu(const Graph& g, const TensorSet& inputs) {
  auto program = Program::build(g, {.device = "cpu", .dtype = {}, .threads = 1, .fixedShapes = false});
  if (!program) return program.error();
  return program->run(inputs);
}

std::vector<at::Tensor> generated(const std::string& program, const std::vector<at::Tensor>& inputs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("graft::generated", "")
                             .typed<std::vector<at::Tensor>(at::TensorList, c10::string_view, at::IntArrayRef)>();
  return op.call(inputs, program, {});
}

std::vector<at::Tensor> generated(const Graph& g, const TensorSet& inputs) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& v : valuesOf(inputs)) tensors.push_back(v.toTensor().cuda());
  return generated(groupText(g), tensors);
}

/// fuse() leaves the arithmetic of sizes outside of groups.
bool computesSize(const Graph& g) {
  const auto order = g.order();
  return std::any_of(order.begin(), order.end(),
                     [&](NodeId n) { return lower::traitsOf(g, g.node(n)).kind == lower::Kind::Size; });
}

/// Where indices repeat, a GPU keeps any of the elements that are written to one place. On a CPU it is the last.
bool keepsAny(const Graph& g) {
  const auto order = g.order();
  return std::any_of(order.begin(), order.end(), [&](NodeId n) {
    const std::string& name = g.node(n).op->name;
    return name.find("index_copy") != name.npos || name.find("index_put") != name.npos ||
           name.find("scatter") != name.npos;
  });
}

/// What is wrong; empty: nothing.
std::string compareOnGpu(const Graph& g, const TensorSet& inputs) {
  Result<TensorSet> expected = badInput("");
  try {
    expected = keepsAny(g) ? runOnCpu(g, inputs) : runOnGpu(g, inputs);
  } catch (const c10::Error& e) {  // its CUDA group norm refuses some strides
    expected = badInput(e.what_without_backtrace());
  }
  if (!expected) return "LibTorch refuses it: " + expected.error().message;
  const std::vector<at::Tensor> first = generated(g, inputs), second = generated(g, inputs);
  std::vector<c10::IValue> there, here;
  for (const c10::IValue& v : valuesOf(*expected)) there.emplace_back(v.toTensor().cpu());
  for (size_t i = 0; i < first.size(); ++i) {
    here.emplace_back(first[i].cpu());
    const at::Tensor once = first[i].cpu().contiguous(), again = second[i].cpu().contiguous();
    if (once.sizes() != again.sizes() || std::memcmp(once.const_data_ptr(), again.const_data_ptr(), once.nbytes()) != 0)
      return "two runs differ in output " + std::to_string(i);
  }
  const auto wide = test::referenceOf(g, inputs);
  for (const Difference& d : compareElements(tensorSet(there), tensorSet(here), wide ? &*wide : nullptr))
    if (!d.passed)
      return "output " + d.name + " (" + d.type + "): " + d.why + ": expected " + d.expected + ", got " + d.actual;
  return "";
}

/// A matrix product of halves with a chain behind it: odd sizes, operands that lie in any order, several results.
Group randomProduct(size_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t n) { return static_cast<int64_t>(random() % n); };
  const auto size = [&] {
    return pick(2) ? std::array<int64_t, 5>{8, 16, 64, 136, 256}[static_cast<size_t>(pick(5))] : 1 + pick(200);
  };
  const DType half = pick(2) ? DType::Float16 : DType::BFloat16;
  const std::string type(dtypeShort(half));
  std::string inputs, text;
  std::vector<test::Random> drawn;
  const auto input = [&](std::vector<int64_t> sizes, DType dtype) {
    const std::string name = "x" + std::to_string(drawn.size());
    std::string list;
    for (const int64_t n : sizes) list += (list.empty() ? "" : ",") + std::to_string(n);
    inputs += "  input %" + name + " : " + std::string(dtypeShort(dtype)) + "[" + list + "]\n";
    drawn.push_back({dtype, std::move(sizes), -1, 1, false, pick(3) == 0});
    return "%" + name;
  };
  const int64_t m = size(), n = size(), k = pick(9) == 0 ? pick(3) : size(), batches = 1 + pick(3);
  const int64_t kind = pick(6);
  const bool isBatched = kind >= 2;
  std::vector<int64_t> result{m, n};
  if (kind == 0) text = "aten.mm.default(" + input({m, k}, half) + ", " + input({k, n}, half) + ")";
  if (kind == 1) {
    const std::string x = input({m, k}, half), w = input({k, n}, half);
    text = "aten.addmm.default(" + input({n}, half) + ", " + x + ", " + w + ", beta=0.5, alpha=2.0)";
  }
  if (kind == 2) text = "aten.bmm.default(" + input({batches, m, k}, half) + ", " + input({batches, k, n}, half) + ")";
  if (kind == 3) text = "aten.matmul.default(" + input({batches, m, k}, half) + ", " + input({k, n}, half) + ")";
  if (kind >= 4) {
    const std::string x = input({batches, m, k}, half), w = input({n, k}, half);
    text = "aten.linear.default(" + x + ", " + w + ", " + (kind == 4 ? input({n}, half) : "None") + ")";
  }
  if (isBatched) result.insert(result.begin(), batches);
  text = "  %p = " + text + "\n";
  std::string last = "%p";
  const int64_t length = 1 + pick(4);
  for (int64_t i = 0; i < length; ++i) {
    const std::string made = "%v" + std::to_string(i);
    std::vector<int64_t> row{n}, column = result;
    column.back() = 1;
    const std::array<std::string, 7> steps{"aten.gelu.default(" + last + ")",
                                           "aten.relu.default(" + last + ")",
                                           "aten.silu.default(" + last + ")",
                                           "aten.mul.Tensor(" + last + ", 0.5)",
                                           "",
                                           "",
                                           ""};
    std::string step = steps[static_cast<size_t>(pick(7))];
    if (step.empty()) {
      const int64_t what = pick(3);
      step = std::string(pick(2) ? "aten.add.Tensor(" : "aten.mul.Tensor(") + last + ", " +
             input(what == 0   ? row
                   : what == 1 ? column
                               : result,
                   half) +
             ")";
    }
    text += "  " + made + " = " + step + "\n";
    last = made;
  }
  std::string returns = last;
  if (pick(3) == 0) returns += ", %p";
  if (isBatched && pick(3) == 0) {
    text += "  %t = aten.transpose.int(" + last + ", 0, 1)\n  %c = aten.mul.Tensor(%t, 2.0)\n";
    returns += ", %c";
  }
  Graph g =
      test::graphOf("graph g {\n" + inputs + text + "  return " + returns + "\n}\n", test::semantics().operators());
  inferFromInputs(g);
  return {std::move(g), std::move(drawn)};
}

std::string withPrefix(std::string kernels, const std::string& prefix) {
  for (size_t at = kernels.find(" kernel_"); at != std::string::npos; at = kernels.find(" kernel_", at + 1))
    kernels.insert(at + 1, prefix);
  return kernels;
}

}  // namespace

TEST_CASE("NVRTC compiles the code of programs and groups, for each generation of GPUs") {
  const Nvrtc* nvrtc = findNvrtc();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtcStatus());
    return;
  }
  std::string prelude, kernels;
  size_t count = 0;
  const auto add = [&](loops::Program program, const std::vector<int64_t>& sizes,
                       std::optional<codegen::ProductTile> tile = {}) {
    codegen::CudaOptions options;
    options.tile = tile;
    options.sizes = sizes;
    options.isOverlapped = true;
    const auto code = codegen::makeCudaCode(std::move(program), options);
    REQUIRE_RESULT(code);
    // That of products has all others.
    if (code->preludeBytes > prelude.size()) prelude = code->source.substr(0, code->preludeBytes);
    kernels += withPrefix(code->source.substr(code->preludeBytes), "p" + std::to_string(count++) + "_");
  };
  for (const test::ProgramCase& c : test::readCases(GRAFT_SOURCE_DIR "/tests/core/compile/codegen/programs.txt")) {
    auto program = loops::parseProgram(c.text);
    REQUIRE_RESULT(program);
    add(std::move(*program), c.sizes.empty() ? std::vector<int64_t>() : c.sizes.back());
  }
  for (size_t seed = 1; seed <= 12; ++seed) {
    auto program = lower::lower(randomGroup(seed).graph);
    REQUIRE_RESULT(program);
    add(std::move(*program), {});
  }
  for (const char* dtype : {"f32", "f64"}) {
    std::string text = fmt::format("graph g {{\n  input %x : {}[64]\n", dtype), results;
    for (const char* call :
         {"digamma.default(%x)", "lgamma.default(%x)", "polygamma.default(1, %x)", "erfinv.default(%x)",
          "special_erfcx.default(%x)", "special_ndtri.default(%x)", "special_log_ndtr.default(%x)", "i0.default(%x)",
          "special_i1e.default(%x)", "nextafter.default(%x, 1.0)"}) {
      const std::string name = fmt::format("%y{}", results.size());
      text += fmt::format("  {} = aten.{}\n", name, call);
      results += (results.empty() ? "" : ", ") + name;
    }
    Graph g = test::graphOf(text + "  return " + results + "\n}\n", test::semantics().operators());
    inferFromInputs(g);
    auto program = lower::lower(g);
    REQUIRE_RESULT(program);
    add(std::move(*program), {});
  }
  // Each tile, with operands of both orders and accesses of all widths.
  const std::vector<codegen::ProductTile> tiles = codegen::productTiles({1, 64, 64, 64}, {132, 227 * 1024, 80});
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int64_t k = std::array{64, 36, 50, 33}[i % 4];
    const std::string w = fmt::format(fmt::runtime(i % 3 == 0 ? "[{1}, {0}]" : "[{0}, {1}]"), k, 72);
    auto program =
        loops::parseProgram(fmt::format("loops 1\ninput x: {0}[3, 70, {1}]\ninput w: {0}{2}\ninput b: {0}[72]\noutput "
                                        "y: {0}[3, 70, 72]\nnest a < 3, i < 70, j < "
                                        "72\n  local s: f32[]\n  s[] = sum(k < {1}: f32(x[a, i, k]) * f32(w[{3}]))\n  "
                                        "y[a, i, j] = {0}(tanh(s[]) + f32(b[j]))\n",
                                        i % 2 ? "f16" : "bf16", k, w, i % 3 == 0 ? "j, k" : "k, j"));
    REQUIRE_RESULT(program);
    add(std::move(*program), {}, tiles[i % tiles.size()]);
  }
  for (const int capability : {80, 90}) {
    const auto binary = nvrtc->compile(prelude + kernels, capability, Nvrtc::Form::Binary);
    REQUIRE_RESULT(binary);
    CHECK(binary->substr(1, 3) == "ELF");
  }
  // What only one generation has is compiled for that alone.
  for (const codegen::ProductTile& tile : codegen::productTiles({1, 64, 64, 64}, {132, 227 * 1024, 90})) {
    if (!tile.isGrouped || tile.rows * tile.columns > 64 * 128) continue;  // larger ones take a second each
    auto program = loops::parseProgram(
        "loops 1\ninput x: bf16[90, 200]\ninput w: bf16[90, 136]\noutput y: f32[200, 136]\nnest i < 200, j < 136\n  "
        "y[i, j] = "
        "sum(k < 90: f32(x[k, i]) * f32(w[k, j])) + 1.0\n");
    REQUIRE_RESULT(program);
    codegen::CudaOptions options;
    options.tile = tile;
    const auto code = codegen::makeCudaCode(std::move(*program), options);
    REQUIRE_RESULT(code);
    REQUIRE_RESULT(nvrtc->compile(code->source, 90, Nvrtc::Form::Binary));
  }
  const auto ptx = nvrtc->compile(prelude + kernels, 80, Nvrtc::Form::Ptx);
  REQUIRE_RESULT(ptx);
  CHECK(ptx->find(".target sm_80") != std::string::npos);
  const auto refused = nvrtc->compile("this is no C++", 80, Nvrtc::Form::Ptx);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("error") != std::string::npos);
}

TEST_CASE("overlapped kernels load nothing before they have waited") {
  const Nvrtc* nvrtc = findNvrtc();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtcStatus());
    return;
  }
  for (const test::ProgramCase& c : test::readCases(GRAFT_SOURCE_DIR "/tests/core/compile/cuda/programs.txt")) {
    auto program = loops::parseProgram(c.text);
    REQUIRE_RESULT(program);
    codegen::CudaOptions options;
    options.sizes = c.sizes.empty() ? std::vector<int64_t>() : c.sizes.back();
    options.isOverlapped = true;
    const auto code = codegen::makeCudaCode(std::move(*program), options);
    REQUIRE_RESULT(code);
    const auto ptx = nvrtc->compile(code->source, 90, Nvrtc::Form::Ptx);
    REQUIRE_RESULT(ptx);
    INFO(c.name << "\n" << *ptx);
    // What a kernel reads by the cache for constants, the machine may fetch ahead of the wait.
    CHECK(ptx->find("ld.global.nc") == std::string::npos);
    size_t at = ptx->find(".entry");
    REQUIRE(at != std::string::npos);
    while (at != std::string::npos) {
      const size_t next = ptx->find(".entry", at + 1);
      const size_t wait = ptx->find("griddepcontrol.wait", at), load = ptx->find("ld.global", at);
      REQUIRE(wait < next);
      CHECK((load >= next || wait < load));
      at = next;
    }
  }
}

TEST_CASE("random groups compute on a GPU what LibTorch computes there") {
  if (!hasGpu()) {
    WARN("not run: there is no GPU");
    return;
  }
  const size_t count = fromEnvironment("GRAFT_RANDOM_GRAPHS", 100), first = fromEnvironment("GRAFT_RANDOM_SEED", 1);
  for (size_t seed = first; seed < first + count; ++seed) {
    const Group group = randomGroup(seed);
    if (computesSize(group.graph)) continue;
    const TensorSet inputs = test::randomInputs(group.inputs, seed);
    std::string wrong;
    try {
      wrong = compareOnGpu(group.graph, inputs);
    } catch (const c10::Error& e) {
      wrong = e.what_without_backtrace();
    }
    // Its type inference takes more than its kernels do.
    if (wrong.starts_with("LibTorch refuses it")) continue;
    // What may draw random numbers is in no group that fusion makes.
    if (wrong.find("a generated group may not call") != std::string::npos) continue;
    // Left to ATen, whose scan shares a row among threads.
    if (wrong.find("few long rows would be scanned") != std::string::npos) continue;
    INFO("GRAFT_RANDOM_SEED=" << seed << " GRAFT_RANDOM_GRAPHS=1\n" << toText(group.graph) << wrong);
    CHECK(wrong.empty());
  }
}

TEST_CASE("matrix products with what is behind them compute on a GPU what LibTorch computes there") {
  if (!hasGpu()) {
    WARN("not run: there is no GPU");
    return;
  }
  const size_t count = fromEnvironment("GRAFT_RANDOM_GRAPHS", 60), first = fromEnvironment("GRAFT_RANDOM_SEED", 1);
  for (size_t seed = first; seed < first + count; ++seed) {
    const Group group = randomProduct(seed);
    const TensorSet inputs = test::randomInputs(group.inputs, seed);
    // Each tile in turn, then whatever is the fastest.
    const std::string choice = std::to_string(seed % 20);
    if (seed % 20 == 19)
      unsetenv("GRAFT_PRODUCT");
    else
      setenv("GRAFT_PRODUCT", choice.c_str(), 1);
    const std::string wrong = compareOnGpu(group.graph, inputs);
    unsetenv("GRAFT_PRODUCT");
    INFO("GRAFT_RANDOM_SEED=" << seed << " GRAFT_RANDOM_GRAPHS=1\n" << toText(group.graph) << wrong);
    CHECK(wrong.empty());
  }
}

TEST_CASE("products and convolutions of no elements compute on a GPU what LibTorch computes there") {
  for (const char* text : {R"(graph g {
  input %x : f16[0,64]
  input %w : f16[32,64]
  %p = aten.linear.default(%x, %w, None)
  %v = aten.gelu.default(%p)
  return %v
}
)",
                           R"(graph g {
  input %x : f16[0,8,6,6]
  input %w : f16[8,1,3,3]
  input %s : f16[8]
  %c = aten.conv2d.default(%x, %w, None, [1, 1], [1, 1], [1, 1], 8)
  %p = aten.permute.default(%c, [0, 2, 3, 1])
  %v = aten.layer_norm.default(%p, [8], %s, None)
  return %v
}
)"}) {
    Graph g = test::graphOf(text, test::semantics().operators());
    inferFromInputs(g);
    std::vector<test::Random> inputs;
    for (const ValueId v : g.inputs()) {
      test::Random& drawn = inputs.emplace_back(test::Random{DType::Float16, {}, -1, 1});
      for (const Dim& d : *g.value(v).type.tensorInfo.shape) drawn.sizes.push_back(d.size);
    }
    if (!hasGpu()) {
      WARN("not run: there is no GPU");
      continue;
    }
    const std::string wrong = compareOnGpu(g, test::randomInputs(inputs, 1));
    INFO(text << wrong);
    CHECK(wrong.empty());
  }
}

TEST_CASE("images lie with channels last on a GPU where the program allows it and most that are read lie so") {
  Graph g = test::graphOf(R"(graph g {
  input %x : f16[2,48,12,10]
  input %y : f16[2,16,12,10]
  input %s : f16[1,48,1,1]
  %m = aten.mul.Tensor(%x, %s)
  %n = aten.group_norm.default(%m, 3)
  %c = aten.cat.default([%n, %y], 1)
  return %c
}
)",
                          test::semantics().operators());
  inferFromInputs(g);
  if (!hasGpu()) {
    WARN("not run: there is no GPU");
    return;
  }
  const auto half = at::TensorOptions(at::kHalf).device(at::kCUDA);
  const auto last = at::MemoryFormat::ChannelsLast;
  const at::Tensor x = at::randn({2, 48, 12, 10}, half), y = at::randn({2, 16, 12, 10}, half);
  const at::Tensor s = at::randn({1, 48, 1, 1}, half);
  const auto run = [&](const at::Tensor& a, const at::Tensor& b, bool isAnyLayout) {
    return generated(groupText(g, {}, isAnyLayout), {a, b, s}).at(0);
  };
  const at::Tensor expected = at::cat({at::group_norm((x * s).to(at::kDouble), 3), y.to(at::kDouble)}, 1);
  const auto isRight = [&](const at::Tensor& result) {
    return (result.to(at::kDouble) - expected).abs().max().item<double>() < 1e-2;
  };
  const at::Tensor turned = run(x.contiguous(last), y, true);
  CHECK(turned.is_contiguous(last));
  CHECK(isRight(turned));
  const at::Tensor asOperators = run(x.contiguous(last), y, false);
  CHECK(asOperators.is_contiguous());
  CHECK(isRight(asOperators));
  // A tensor whose last dimension holds the channels is no image.
  Graph tokens = test::graphOf(R"(graph g {
  input %x : f16[2,48,12,10]
  %p = aten.permute.default(%x, [0, 2, 3, 1])
  %e = aten.exp.default(%p)
  %n = aten.layer_norm.default(%e, [48])
  return %n
}
)",
                               test::semantics().operators());
  inferFromInputs(tokens);
  CHECK(generated(groupText(tokens, {}, true), {x.contiguous(last)}).at(0).is_contiguous());
  CHECK(generated(groupText(tokens, {}, true), {x}).at(0).stride(3) == 1);
  const at::Tensor ofRows = run(x, y.contiguous(last), true);
  CHECK(ofRows.is_contiguous());
  CHECK(isRight(ofRows));
}
