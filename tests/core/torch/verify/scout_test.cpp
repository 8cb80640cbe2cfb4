// Work that another process does first: what a signal ends there ends nothing here.
#include "core/torch/verify/scout.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "tests/support/catch.h"

using namespace graft;

namespace {

/// A value for the parameter: tensors are empty, numbers 1. Nothing for what no literal is.
std::optional<c10::IValue> argumentFor(const c10::Argument& parameter, int64_t rank) {
  if (parameter.default_value()) return *parameter.default_value();
  const c10::Type& t = *parameter.type();
  const auto empty = [&] {
    std::vector<int64_t> sizes(static_cast<size_t>(rank), 3);
    if (rank > 0) sizes[0] = 0;
    return at::zeros(sizes);
  };
  switch (t.kind()) {
    case c10::TypeKind::TensorType:
      return empty();
    case c10::TypeKind::OptionalType:
      return c10::IValue();
    case c10::TypeKind::IntType:
      return 1;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return 1.0;
    case c10::TypeKind::BoolType:
      return true;
    case c10::TypeKind::ListType: {
      const c10::TypeKind element = t.containedType(0)->kind();
      if (element == c10::TypeKind::IntType) return c10::List<int64_t>(std::initializer_list<int64_t>{1, 1});
      if (element == c10::TypeKind::BoolType) return c10::List<bool>(std::initializer_list<bool>{true, true, true});
      if (element == c10::TypeKind::TensorType) return c10::List<at::Tensor>({empty(), empty()});
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

void runOnEmpty(const torch::jit::Operator& op, int64_t rank) {
  torch::jit::Stack stack;
  for (const c10::Argument& a : op.schema().arguments()) {
    auto v = argumentFor(a, rank);
    if (!v) return;
    stack.push_back(std::move(*v));
  }
  const c10::NoGradGuard noGrad;
  op.getOperation()(stack);
}

}  // namespace

TEST_CASE("work that comes to its end, or throws, is fine") {
  int here = 0;
  CHECK(sendAhead([&] { here = 1; }));
  CHECK(here == 0);  // it was done elsewhere
  CHECK(sendAhead([] { throw std::runtime_error("refused"); }));
}

TEST_CASE("a signal is an error that names it, and time runs out") {
  const Status divided = sendAhead([] { ::raise(SIGFPE); });
  REQUIRE_FALSE(divided);
  CHECK(divided.error().kind == ErrorKind::BadInput);
  CHECK_THAT(divided.error().message, ContainsSubstring("SIGFPE"));
  CHECK_THAT(sendAhead([] { ::abort(); }).error().message, ContainsSubstring("SIGABRT"));
  const Status slow = sendAhead([] { std::this_thread::sleep_for(std::chrono::seconds(60)); }, 0.2);
  REQUIRE_FALSE(slow);
  CHECK_THAT(slow.error().message, ContainsSubstring("did not come to an end"));
}

TEST_CASE("operators that compute in many threads are run on one") {
  const at::Tensor large = at::zeros({1 << 20});
  (void)large.add(large);  // the threads are there
  CHECK(sendAhead([&] { (void)at::zeros({1 << 20}).add(large).sum(); }, 30));
}

TEST_CASE("of LibTorch's backward operators on empty tensors some die, and this process does not") {
  std::set<std::string> died;
  size_t tried = 0;
  for (const auto& op : torch::jit::getAllOperators()) {
    const c10::FunctionSchema& schema = op->schema();
    if (!schema.name().starts_with("aten::") || schema.name().find("backward") == std::string::npos) continue;
    if (schema.is_mutable() || !op->hasOperation()) continue;
    for (const int64_t rank : {int64_t{4}, int64_t{2}}) {
      ++tried;
      if (!sendAhead([&] { runOnEmpty(*op, rank); })) died.insert(schema.name());
    }
  }
  CHECK(tried > 100);
  std::string names;
  for (const std::string& name : died) names += " " + name;
  INFO(names);
  CHECK(died.contains("aten::native_batch_norm_backward"));
  CHECK(died.size() < tried / 4);
  if (std::getenv("GRAFT_KEEP")) WARN(tried << " runs; died:" << names);
}
