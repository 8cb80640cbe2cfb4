// Captures over a fake of CUDA graphs, whose "replay" does nothing and which fails on request, with tensors on the CPU:
// which captures are kept, which are freed, which errors are rethrown, and that every use of the pool ends.
#include "kernels/capture/captures.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/library.h>

#include <cstdio>

#include "tests/support/catch.h"

using namespace graft;
using Values = Captures::Values;

namespace {

struct {
  int pools = 0, graphs = 0, captures = 0, emptied = 0, usesBegun = 0, usesEnded = 0;
  int tries = 0;  ///< runs that are captured and discarded, before the one that is kept
  bool capturing = false, instantiates = true, replays = true;
} fake;

void* capture(void*, int (*body)(void*), void* argument, char* error, size_t size) {
  for (int i = 0; i < 2; ++i)
    if (!body(argument)) return std::snprintf(error, size, "does not run"), nullptr;
  fake.capturing = true;
  for (int i = 0; i < fake.tries; ++i) body(argument);
  const bool ran = body(argument) != 0 && fake.instantiates;
  fake.capturing = false;
  if (!ran) return std::snprintf(error, size, "cannot be captured"), nullptr;
  ++fake.captures, ++fake.graphs;
  return &fake;
}

const GraftCudaGraphs table = [] {
  GraftCudaGraphs t{};
  t.version = graftCudaGraphsVersion;
  t.makePool = [](int) -> void* { return ++fake.pools, &fake; };
  t.freePool = [](void*) { --fake.pools; };
  t.capture = capture;
  t.beginUse = [](void*, char*, size_t) { return ++fake.usesBegun, true; };
  t.endUse = [](void*, char*, size_t) { return ++fake.usesEnded, true; };
  t.addCopies = [](void*, size_t, void* const*, const size_t*, size_t, void* const*, const size_t*, char*, size_t) {
    return true;
  };
  t.replay = [](void*, const void* const*, void* const*, char* error, size_t size) {
    if (!fake.replays) std::snprintf(error, size, "the GPU fails");
    return fake.replays;
  };
  t.freeGraph = [](void*) { --fake.graphs; };
  t.isCapturing = [] { return fake.capturing; };
  t.emptyCache = [] { ++fake.emptied; };
  return t;
}();

struct Fresh {
  Fresh() { fake = {}; }
  Captures captures{table, 0, 4, false};
  Values twice(const CaptureKey& key) {
    return captures.run({at::ones({2})}, key, [](const Values& in) { return Values{in[0].toTensor() * 2}; });
  }
};

void throwOutOfMemory() { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2 GiB."); }

/// The message that a run of `body` throws; "" where it throws nothing.
template <class F>
std::string thrownBy(Captures& captures, const F& body, bool* outOfMemory = nullptr) {
  try {
    captures.run({at::ones({2})}, {9}, body);
  } catch (const std::exception& e) {
    if (outOfMemory) *outOfMemory = isOutOfMemory(e);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a shape is captured once, and its outputs belong to the caller") {
  Fresh f;
  const at::Tensor first = f.twice({1})[0].toTensor(), second = f.twice({1})[0].toTensor();
  CHECK(at::equal(first, at::full({2}, 2.0)));
  CHECK(first.data_ptr() != second.data_ptr());
  f.twice({2});
  CHECK(fake.captures == 2);
  CHECK(fake.pools == 1);
  CHECK(fake.usesBegun == 3);
  CHECK(fake.usesEnded == 3);
  f.captures.clear();
  CHECK(fake.graphs == 0);
  CHECK(fake.pools == 0);
}

TEST_CASE("out of memory during a capture: all captures are freed and the cache is emptied") {
  Fresh f;
  f.twice({1});
  f.twice({2});
  bool outOfMemory = false;
  thrownBy(
      f.captures,
      [](const Values& in) {
        if (fake.capturing) throwOutOfMemory();
        return in;
      },
      &outOfMemory);
  CHECK(outOfMemory);
  CHECK(f.captures.size() == 0);
  CHECK(fake.graphs == 0);
  CHECK(fake.pools == 0);
  CHECK(fake.emptied == 1);
  CHECK(f.twice({1}).size() == 1);
  CHECK(fake.pools == 1);
}

TEST_CASE("out of memory before the capture: the same, and the body's exception is rethrown") {
  Fresh f;
  f.twice({1});
  CHECK_THROWS_AS(f.captures.run({at::ones({2})}, {9}, [](const Values& in) { return throwOutOfMemory(), in; }),
                  c10::OutOfMemoryError);
  CHECK(fake.graphs == 0);
  CHECK(fake.emptied == 1);
}

TEST_CASE("a model that cannot be captured: other captures stay, a pool without captures does not") {
  Fresh f;
  const auto refuses = [](const Values& in) {
    if (fake.capturing) throw std::runtime_error("it waits");
    return in;
  };
  bool outOfMemory = true;
  CHECK(thrownBy(f.captures, refuses, &outOfMemory) == "cannot be captured (it waits)");
  CHECK_FALSE(outOfMemory);
  CHECK(fake.pools == 0);
  f.twice({1});
  thrownBy(f.captures, refuses);
  CHECK(f.captures.has({1}));
  CHECK(fake.emptied == 0);
}

TEST_CASE("an error of a discarded try does not count if the run after it succeeds") {
  Fresh f;
  fake.tries = 1;
  const auto thrown = [&](bool* outOfMemory) {
    int runs = 0;
    const auto once = [&](const Values& in) {
      if (++runs == 3) throwOutOfMemory();
      return in;
    };
    return thrownBy(f.captures, once, outOfMemory);
  };
  bool outOfMemory = false;
  CHECK(thrown(&outOfMemory) == "");
  CHECK(f.captures.size() == 1);
  f.captures.clear();
  fake.instantiates = false;
  CHECK(thrown(&outOfMemory) == "cannot be captured");
  CHECK_FALSE(outOfMemory);
}

TEST_CASE("a use of the pool ends even if the replay fails") {
  Fresh f;
  f.twice({1});
  fake.replays = false;
  CHECK_THROWS_AS(f.twice({1}), CaptureError);
  CHECK(fake.usesBegun == 2);
  CHECK(fake.usesEnded == 2);
  CHECK(f.captures.size() == 1);
}

TEST_CASE("releaseMemory returns the keys of the captures that it freed") {
  Fresh f;
  f.twice({1});
  f.twice({2});
  CHECK(f.captures.releaseMemory() == std::vector<CaptureKey>{{1}, {2}});
  CHECK(f.captures.releaseMemory().empty());
  CHECK(fake.pools == 0);
  CHECK(fake.emptied == 2);
}

TEST_CASE("out of memory is recognised through TorchScript's interpreter and in messages of CUDA's libraries") {
  static const auto library = torch::RegisterOperators().op("graft_test::run_out(Tensor x) -> Tensor",
                                                            [](const at::Tensor& x) { return throwOutOfMemory(), x; });
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR("graph(%x : Tensor):\n  %y : Tensor = graft_test::run_out(%x)\n  return (%y)\n", graph.get());
  torch::jit::GraphFunction function("f", graph, nullptr);
  try {
    function(std::vector<c10::IValue>{at::ones({2})});
    FAIL("nothing was thrown");
  } catch (const std::exception& e) {
    CHECK(isOutOfMemory(e));
  }
  CHECK(isOutOfMemory(std::runtime_error("CUDA error: out of memory")));
  CHECK(
      isOutOfMemory(std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")));
  CHECK_FALSE(isOutOfMemory(std::runtime_error("CUDA error: an illegal memory access was encountered")));
}
