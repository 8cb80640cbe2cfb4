// Captures over a stand-in for CUDA graphs: its "replay" does nothing, tensors lie on the CPU, and it fails when it is
// told to. What is kept, given back and thrown on, and that every use of the captures is ended.
#include "kernels/capture/captures.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/library.h>

#include <cstdio>

#include "kernels/capture/warm_up.h"
#include "tests/support/catch.h"

using namespace graft;
using Values = Captures::Values;

namespace {

struct {
  int pools = 0, graphs = 0, captures = 0, emptied = 0, entered = 0, left = 0;
  int tries = 0;  ///< runs that are captured and thrown away, before the one that stays
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
  t.enter = [](void*, char*, size_t) { return ++fake.entered, true; };
  t.leave = [](void*, char*, size_t) { return ++fake.left, true; };
  t.addCopies = [](void*, size_t, void* const*, const size_t*, size_t, void* const*, const size_t*, char*, size_t) {
    return true;
  };
  t.replay = [](void*, const void* const*, void* const*, char* error, size_t size) {
    if (!fake.replays) std::snprintf(error, size, "the GPU fails");
    return fake.replays;
  };
  t.freeGraph = [](void*) { --fake.graphs; };
  t.capturing = [] { return fake.capturing; };
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

void runOut() { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2 GiB."); }

/// What is thrown by a run whose body is `body`; "" where nothing is.
template <class F>
std::string thrownBy(Captures& captures, const F& body, bool* full = nullptr) {
  try {
    captures.run({at::ones({2})}, {9}, body);
  } catch (const std::exception& e) {
    if (full) *full = outOfMemory(e);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a shape is captured once, and its outputs are the caller's own") {
  Fresh f;
  const at::Tensor first = f.twice({1})[0].toTensor(), second = f.twice({1})[0].toTensor();
  CHECK(at::equal(first, at::full({2}, 2.0)));
  CHECK(first.data_ptr() != second.data_ptr());
  f.twice({2});
  CHECK(fake.captures == 2);
  CHECK(fake.pools == 1);
  CHECK(fake.entered == 3);
  CHECK(fake.left == 3);
  f.captures.clear();
  CHECK(fake.graphs == 0);
  CHECK(fake.pools == 0);
}

TEST_CASE("memory that runs out while capturing gives all captures and the cache back") {
  Fresh f;
  f.twice({1});
  f.twice({2});
  bool full = false;
  thrownBy(
      f.captures,
      [](const Values& in) {
        if (fake.capturing) runOut();
        return in;
      },
      &full);
  CHECK(full);
  CHECK(f.captures.size() == 0);
  CHECK(fake.graphs == 0);
  CHECK(fake.pools == 0);
  CHECK(fake.emptied == 1);
  CHECK(f.twice({1}).size() == 1);
  CHECK(fake.pools == 1);
}

TEST_CASE("memory that runs out before the capture does so too, and as the body threw it") {
  Fresh f;
  f.twice({1});
  CHECK_THROWS_AS(f.captures.run({at::ones({2})}, {9}, [](const Values& in) { return runOut(), in; }),
                  c10::OutOfMemoryError);
  CHECK(fake.graphs == 0);
  CHECK(fake.emptied == 1);
}

TEST_CASE("what cannot be captured leaves the others, and no pool without them") {
  Fresh f;
  const auto refuses = [](const Values& in) {
    if (fake.capturing) throw std::runtime_error("it waits");
    return in;
  };
  bool full = true;
  CHECK(thrownBy(f.captures, refuses, &full) == "cannot be captured (it waits)");
  CHECK_FALSE(full);
  CHECK(fake.pools == 0);
  f.twice({1});
  thrownBy(f.captures, refuses);
  CHECK(f.captures.has({1}));
  CHECK(fake.emptied == 0);
}

TEST_CASE("what a try has thrown is neither told nor believed when the run after it does not") {
  Fresh f;
  fake.tries = 1;
  const auto thrown = [&](bool* full) {
    int runs = 0;
    const auto once = [&](const Values& in) {
      if (++runs == 3) runOut();
      return in;
    };
    return thrownBy(f.captures, once, full);
  };
  bool full = false;
  CHECK(thrown(&full) == "");
  CHECK(f.captures.size() == 1);
  f.captures.clear();
  fake.instantiates = false;
  CHECK(thrown(&full) == "cannot be captured");
  CHECK_FALSE(full);
}

TEST_CASE("a use that fails is ended too, so that the next stream waits for what it has launched") {
  Fresh f;
  f.twice({1});
  fake.replays = false;
  CHECK_THROWS_AS(f.twice({1}), CaptureError);
  CHECK(fake.entered == 2);
  CHECK(fake.left == 2);
  CHECK(f.captures.size() == 1);
}

TEST_CASE("giving back says what was captured") {
  Fresh f;
  f.twice({1});
  f.twice({2});
  CHECK(f.captures.giveBack() == std::vector<CaptureKey>{{1}, {2}});
  CHECK(f.captures.giveBack().empty());
  CHECK(fake.pools == 0);
  CHECK(fake.emptied == 2);
}

TEST_CASE("memory that runs out is known behind TorchScript's interpreter, and in the words of CUDA's libraries") {
  static const auto library = torch::RegisterOperators().op("graft_test::run_out(Tensor x) -> Tensor",
                                                            [](const at::Tensor& x) { return runOut(), x; });
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR("graph(%x : Tensor):\n  %y : Tensor = graft_test::run_out(%x)\n  return (%y)\n", graph.get());
  torch::jit::GraphFunction function("f", graph, nullptr);
  try {
    function(std::vector<c10::IValue>{at::ones({2})});
    FAIL("nothing was thrown");
  } catch (const std::exception& e) {
    CHECK(outOfMemory(e));
  }
  CHECK(outOfMemory(std::runtime_error("CUDA error: out of memory")));
  CHECK(outOfMemory(std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")));
  CHECK_FALSE(outOfMemory(std::runtime_error("CUDA error: an illegal memory access was encountered")));
}

namespace {

/// How many calls it takes until the shape shall be captured.
int64_t callsUntilDue(Sightings& seen, const Sightings::Shape& shape, bool full = false) {
  int64_t calls = 1;
  while (!seen.come(shape, full)) ++calls;
  return calls;
}

}  // namespace

TEST_CASE("a shape is due the second time, and later where another must go for it") {
  Sightings seen;
  CHECK(callsUntilDue(seen, {0, {1}}) == 2);
  CHECK(callsUntilDue(seen, {0, {1}}) == 2);
  CHECK(callsUntilDue(seen, {0, {2}}, true) == 8);
  CHECK_FALSE(seen.come({1, {1}}, false));
}

TEST_CASE("where memory ran out, each next try takes twice as many calls, of that shape alone") {
  Sightings seen;
  for (int64_t wait = Sightings::kAfterRanOut, i = 0; i < 10; ++i, wait *= 2) {
    seen.ranOut({0, {1}});
    CHECK(callsUntilDue(seen, {0, {1}}) == wait);
  }
  CHECK(callsUntilDue(seen, {0, {2}}) == 2);
  for (int i = 0; i < 100; ++i) seen.ranOut({0, {1}});
  CHECK(callsUntilDue(seen, {0, {1}}) == Sightings::kMost);
}

TEST_CASE("a refused shape is never due, until all is forgotten") {
  Sightings seen;
  seen.refuse({0, {1}});
  for (int i = 0; i < 100; ++i) CHECK_FALSE(seen.come({0, {1}}, false));
  seen.forget();
  CHECK(callsUntilDue(seen, {0, {1}}) == 2);
}
