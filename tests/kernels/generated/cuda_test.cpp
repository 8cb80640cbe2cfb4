// Generated kernels on a GPU. Random groups compute what LibTorch's operators compute there, twice the same bits.
// Without a GPU their code is compiled, where NVRTC is installed. GRAFT_RANDOM_GRAPHS and GRAFT_RANDOM_SEED as in
// tests/core/compile/lower/random_test.cpp.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
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

Group randomGroup(size_t seed) {
  test::RandomGroup generator(seed);
  Graph g = generator.make();
  std::vector<Type> types;
  for (const ValueId v : g.inputs()) types.push_back(g.value(v).type);
  REQUIRE_RESULT(inferAllTypes(g, types));
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

std::vector<at::Tensor> generated(const Graph& g, const TensorSet& inputs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("graft::generated", "")
                             .typed<std::vector<at::Tensor>(at::TensorList, c10::string_view, at::IntArrayRef)>();
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& v : valuesOf(inputs)) tensors.push_back(v.toTensor().cuda());
  return op.call(tensors, groupText(g), {});
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
  const auto expected = keepsAny(g) ? runOnCpu(g, inputs) : runOnGpu(g, inputs);
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
  const auto add = [&](loops::Program program, const std::vector<int64_t>& sizes) {
    codegen::CudaOptions options;
    options.sizes = sizes;
    options.isOverlapped = true;
    const auto code = codegen::makeCudaCode(std::move(program), options);
    REQUIRE_RESULT(code);
    prelude = code->source.substr(0, code->preludeBytes);
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
  for (const int capability : {80, 90}) {
    const auto binary = nvrtc->compile(prelude + kernels, capability, Nvrtc::Form::Binary);
    REQUIRE_RESULT(binary);
    CHECK(binary->substr(1, 3) == "ELF");
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
    INFO("GRAFT_RANDOM_SEED=" << seed << " GRAFT_RANDOM_GRAPHS=1\n" << toText(group.graph) << wrong);
    CHECK(wrong.empty());
  }
}
