// What running a graph costs besides the operators: our executor against TorchScript's, on one thread, with tensors of
// four numbers, so that the operators themselves take next to nothing. Times are per run of 1 operator and of 100.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/values/values.h"
#include "tests/support/operators.h"

namespace {

std::string chain(const char* node, int64_t operators) {
  std::string text = "graph chain {\n input %x : f32[4]\n input %y : f32[4]\n";
  for (int64_t i = 0; i < operators; ++i) {
    const std::string from = i ? "%v" + std::to_string(i - 1) : "%x";
    text += " %v" + std::to_string(i) + " = " + node + "(" + from +
            (std::string_view(node).ends_with("Tensor") ? ", %y)\n" : ")\n");
  }
  return text + " return %v" + std::to_string(operators - 1) + "\n}";
}

void ours(benchmark::State& state, const char* node) {
  at::set_num_threads(1);
  auto graph = graft::parseText(chain(node, state.range(0)), graft::testOperators());
  auto program = graft::Program::build(*graph);
  if (!program) {
    state.SkipWithError(program.error().message.c_str());
    return;
  }
  const graft::TensorSet inputs = graft::tensorSet({at::ones({4}), at::ones({4})});
  for (auto _ : state) {
    auto out = program->run(inputs);
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void torchScript(benchmark::State& state, c10::Symbol kind, bool binary) {
  at::set_num_threads(1);
  const at::Tensor a = at::ones({4}), b = at::ones({4});  // ordinary tensors, as the other side has
  c10::InferenceMode inference;
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::Value* v = graph->addInput("x");
  torch::jit::Value* y = graph->addInput("y");
  for (int64_t i = 0; i < state.range(0); ++i) v = binary ? graph->insert(kind, {v, y}) : graph->insert(kind, {v});
  graph->registerOutput(v);
  torch::jit::GraphExecutor executor(graph, "chain");
  for (int i = 0; i < 5; ++i) {  // profiling runs
    torch::jit::Stack stack{a, b};
    executor.run(stack);
  }
  for (auto _ : state) {
    torch::jit::Stack stack{a, b};
    executor.run(stack);
    benchmark::DoNotOptimize(stack);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

}  // namespace

BENCHMARK_CAPTURE(ours, relu, "aten.relu.default")->Arg(1)->Arg(100);
BENCHMARK_CAPTURE(torchScript, relu, c10::aten::relu, false)->Arg(1)->Arg(100);
BENCHMARK_CAPTURE(ours, add, "aten.add.Tensor")->Arg(1)->Arg(100);
BENCHMARK_CAPTURE(torchScript, add, c10::aten::add, true)->Arg(1)->Arg(100);
