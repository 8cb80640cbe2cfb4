// The operator library as a C++ program uses it: loaded by dlopen, called through LibTorch's dispatcher, from several
// threads.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <dlfcn.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/ir/operators/graft_operators.h"
#include "tests/support/catch.h"

namespace {

void* library() {
  static void* handle = dlopen(GRAFT_OPS_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
  if (!handle) FAIL(dlerror());
  return handle;
}

template <class Function>
Function* symbol(const char* name) {
  void* found = dlsym(library(), name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

at::Tensor graftLinear(const at::Tensor& x, const at::Tensor& weight) {
  library();
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                               const std::optional<at::Tensor>&);
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("graft::linear", "").typed<Signature>();
  return handle.call(x, weight, {}, "none", {});
}

int64_t packedBytes() { return symbol<int64_t()>("graft_ops_packed_bytes")(); }
void forgetWeights() { symbol<void()>("graft_ops_forget_weights")(); }

}  // namespace

TEST_CASE("the library loads by itself and describes its operators") {
  const nlohmann::json list = nlohmann::json::parse(symbol<const char*()>("graft_ops_describe")());
  REQUIRE(list.size() == graft::graftOperators().size());
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& entry = list[i];
    const graft::GraftOperator& described = graft::graftOperators()[i];
    const std::string name = entry["name"];
    INFO(name);
    CHECK(name == described.name);
    CHECK(entry["schema"] == described.schema);
    CHECK(entry["facts"] == described.facts);
    const auto schema = c10::Dispatcher::singleton().findSchema({"graft::" + name, ""});
    REQUIRE(schema.has_value());
    CHECK(schema->hasKernelForDispatchKey(c10::DispatchKey::CPU));
    CHECK(schema->hasKernelForDispatchKey(c10::DispatchKey::Meta));
    CHECK_FALSE(entry["doc"].get<std::string>().empty());
  }
}

TEST_CASE("without CUDA operators the status says why") {
  const std::string status = symbol<const char*()>("graft_ops_cuda_status")();
  const auto schema = c10::Dispatcher::singleton().findSchema({"graft::linear", ""});
  REQUIRE(schema.has_value());
  CHECK(status.empty() == schema->hasKernelForDispatchKey(c10::DispatchKey::CUDA));
}

TEST_CASE("a freed weight frees its packed copies") {
  const at::NoGradGuard noGradients;
  forgetWeights();
  const int64_t before = packedBytes();
  {
    const at::Tensor weight = at::randn({64, 32});
    graftLinear(at::randn({4, 32}), weight);
    graftLinear(at::randn({300, 32}), weight);
    CHECK(packedBytes() == before + 2 * 64 * 32 * 4);  // one copy for few rows, one for many
  }
  const at::Tensor other = at::randn({8, 8});
  graftLinear(at::randn({4, 8}), other);
  CHECK(packedBytes() == before + 8 * 8 * 4);
}

TEST_CASE("threads share weights and pack their own at the same time") {
  const at::Tensor shared = at::randn({96, 64});
  const at::Tensor x = at::randn({5, 64});
  const at::Tensor expected = at::linear(x, shared);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const at::NoGradGuard noGradients;
      for (int i = 0; i < 50; ++i) {
        const at::Tensor own = at::randn({40, 64});
        if (!at::allclose(graftLinear(x, shared), expected, 1e-5, 1e-5)) ++wrong;
        if (!at::allclose(graftLinear(x, own), at::linear(x, own), 1e-5, 1e-5)) ++wrong;
        if (i % 10 == t) forgetWeights();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("packing a weight again gives the same result") {
  const at::NoGradGuard noGradients;
  const at::Tensor weight = at::randn({48, 32}), x = at::randn({3, 32});
  const at::Tensor first = graftLinear(x, weight);
  forgetWeights();
  CHECK(at::equal(first, graftLinear(x, weight)));
}
