// Captures over a fake of CUDA graphs, whose "replay" does nothing and which fails on request, with tensors on the CPU:
// which captures are kept, which are freed, which errors are rethrown, and that every use of the pool ends.
#include "kernels/capture/captures.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/library.h>

#include <cstdio>
#include <functional>

#include "tests/support/catch.h"

using namespace graft;
using Values = Captures::Values;

namespace {

struct {
  int pools = 0, graphs = 0, captures = 0, emptied = 0, usesBegun = 0, usesEnded = 0;
  int tries = 0;  ///< runs that are captured and discarded, before the one that is kept
  bool capturing = false, instantiates = true, replays = true;
  std::function<void()> onReplay;  ///< what the graph's kernels do
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

/// As kernels/cuda/graphs has it: a reset before each run that is not captured.
void* captureWriting(void* pool, int (*body)(void*), int (*reset)(void*), void* argument, char* error, size_t size) {
  struct Both {
    int (*body)(void*);
    int (*reset)(void*);
    void* argument;
  } both{body, reset, argument};
  const auto run = [](void* p) -> int {
    const auto* b = static_cast<Both*>(p);
    if (!fake.capturing && !b->reset(b->argument)) return 0;
    return b->body(b->argument);
  };
  return capture(pool, run, &both, error, size);
}

const GraftCudaGraphs table = [] {
  GraftCudaGraphs t{};
  t.version = graftCudaGraphsVersion;
  t.makePool = [](int) -> void* { return ++fake.pools, &fake; };
  t.freePool = [](void*) { --fake.pools; };
  t.capture = capture;
  t.captureWriting = captureWriting;
  t.beginUse = [](void*, char*, size_t) { return ++fake.usesBegun, true; };
  t.endUse = [](void*, char*, size_t) { return ++fake.usesEnded, true; };
  t.addCopies = [](void*, size_t, void* const*, const size_t*, size_t, void* const*, const size_t*, char*, size_t) {
    return true;
  };
  t.replay = [](void*, const void* const*, void* const*, char* error, size_t size) {
    if (!fake.replays) std::snprintf(error, size, "the GPU fails");
    if (fake.onReplay) fake.onReplay();
    return fake.replays;
  };
  t.replayTimed = [](void*, bool, char*, size_t) {
    if (fake.onReplay) fake.onReplay();
    return 1.0f;
  };
  t.kernelCount = t.streamCount = [](void*) { return size_t{1}; };
  t.freeGraph = [](void*) { --fake.graphs; };
  t.isCapturing = [] { return fake.capturing; };
  t.emptyCache = [] { ++fake.emptied; };
  return t;
}();

struct Fresh {
  Fresh() { fake = {}; }
  Captures captures{table, 0, 4, {}};
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

namespace {

/// A model with a cache: each call adds its input to the cache, doubles the input in place, and returns the cache, a
/// view of the input, and a sum of its own.
struct Writer {
  at::Tensor cache = at::zeros({2});
  bool fails = false;
  Captures captures{table, 0, 4, {false, {{cache}, {0}}}};

  Writer() {
    fake = {};
    fake.tries = 3;
  }
  Values body(const Values& in) {
    const at::Tensor x = in[0].toTensor();
    const at::Tensor sum = cache + x;
    cache.add_(x);
    x.mul_(2);
    if (fails && fake.capturing) throw std::runtime_error("it waits");
    return {cache, x.slice(0, 1), sum};
  }
  Values run(const at::Tensor& x) {
    return captures.run({x}, {1}, [this](const Values& in) {
      if (fake.capturing) {  // what is captured does not run
        const at::Tensor keep = cache.clone(), mine = in[0].toTensor().clone();
        Values out = body(in);
        cache.copy_(keep), in[0].toTensor().copy_(mine);
        own = in[0].toTensor();
        fake.onReplay = [this] { body({own}); };
        return out;
      }
      return body(in);
    });
  }
  at::Tensor own;  ///< the capture's copy of the input
};

}  // namespace

TEST_CASE("each call of a model that writes has the effect of one call, the one that captures too") {
  Writer w;
  const at::Tensor x = at::ones({2});
  for (int call = 1; call <= 3; ++call) {
    const at::Tensor before = x.clone();
    const auto versions = std::pair(x._version(), w.cache._version());
    const at::Tensor cached = w.cache + before;
    const Values out = w.run(x);
    INFO("call " << call);
    CHECK(at::equal(w.cache, cached));
    CHECK(at::equal(x, before * 2));
    CHECK(out[0].toTensor().is_same(w.cache));
    CHECK(out[1].toTensor().is_alias_of(x));
    CHECK(at::equal(out[1].toTensor(), x.slice(0, 1)));
    CHECK_FALSE(out[2].toTensor().is_alias_of(w.cache));
    CHECK(x._version() > versions.first);
    CHECK(w.cache._version() > versions.second);
  }
  CHECK(fake.captures == 1);
}

TEST_CASE("a capture that fails leaves what the model writes as it was") {
  Writer w;
  w.fails = true;
  const at::Tensor x = at::ones({2});
  CHECK_THROWS_AS(w.run(x), CaptureError);
  CHECK(at::equal(w.cache, at::zeros({2})));
  CHECK(at::equal(x, at::ones({2})));
  CHECK(fake.pools == 0);
}

TEST_CASE("timing leaves what the model writes as it was, and begins with the same numbers each time") {
  fake = {};
  const at::Tensor cache = at::zeros({2});
  at::Tensor own;
  const auto body = [&](const Values& in) {
    own = in[0].toTensor();
    if (fake.capturing) return Values{own.sum()};
    cache.add_(own);
    own.mul_(2);
    return Values{own.sum()};
  };
  int pool = 0;
  CapturedRun run(table, &pool, {at::ones({2})}, body, {false, {{cache}, {0}}});
  std::vector<at::Tensor> seen;
  fake.onReplay = [&] {
    seen.push_back(at::stack({cache, own}));
    body({own});
  };
  for (int i = 0; i < 3; ++i) run.time(false);
  for (const at::Tensor& numbers : seen) CHECK(at::equal(numbers, at::stack({at::zeros({2}), at::ones({2})})));
  CHECK(seen.size() == 3);
  CHECK(at::equal(cache, at::zeros({2})));
  CHECK(at::equal(own, at::ones({2})));
}

TEST_CASE("inputs that share memory with what is written are no inputs for a capture") {
  const at::Tensor cache = at::zeros({4}), x = at::zeros({4}), other = at::zeros({4});
  const LastingWrites writes{{cache.slice(0, 0, 2)}, {0}};
  const auto why = [&](const Values& in) {
    const char* text = writes.obstacle(in);
    return std::string(text ? text : "");
  };
  CHECK(why({x, other}) == "");
  CHECK(why({x.slice(0, 0, 4, 2), c10::ivalue::Tuple::create(other, other)}) == "");
  CHECK(why({x, cache.slice(0, 2)}).find("buffer") != std::string::npos);
  CHECK(why({x, x.slice(0, 1)}).find("another input") != std::string::npos);
  CHECK(why({at::zeros({1}).expand({4}), other}).find("same place") != std::string::npos);
  CHECK(why({x, at::zeros({1}).expand({4})}) == "");
}

TEST_CASE("an error is said in one line: what failed, not where") {
  CHECK(briefMessage(std::runtime_error("too large\nmore")) == "too large");
  CHECK(briefMessage(std::runtime_error("The following operation failed in the TorchScript interpreter.\n"
                                        "  File \"code/__torch__.py\", line 3\n    ~~~ <--- HERE\n"
                                        "RuntimeError: operation not permitted when stream is capturing\n"
                                        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1")) ==
        "operation not permitted when stream is capturing");
}
