// Functions over pytrees: nested tuples, lists and dictionaries, other leaves and undefined tensors.
#include "kernels/capture/pytree.h"

#include <ATen/ATen.h>

#include <string>

#include "tests/support/catch.h"

using namespace graft;

namespace {

/// ([1, 2], {"a": 3}, "text", undefined, None), with tensors of one element for the numbers.
c10::IValue nested() {
  c10::List<at::Tensor> list({at::full({1}, 1.0), at::full({1}, 2.0)});
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("a", at::full({1}, 3.0));
  return c10::ivalue::Tuple::create({list, dict, std::string("text"), at::Tensor(), c10::IValue()});
}

std::vector<double> numbersOf(const c10::IValue& v) {
  std::vector<double> numbers;
  for (const at::Tensor& t : flattenTensors({v})) numbers.push_back(t.item<double>());
  return numbers;
}

}  // namespace

TEST_CASE("flattenTensors returns the defined tensors in order") {
  CHECK(numbersOf(nested()) == std::vector<double>{1, 2, 3});
}

TEST_CASE("mapTensors replaces the defined tensors and keeps all other leaves and keys") {
  const c10::IValue doubled = mapTensors(nested(), [](const at::Tensor& t) { return t * 2; });
  CHECK(numbersOf(doubled) == std::vector<double>{2, 4, 6});
  const auto& members = doubled.toTupleRef().elements();
  CHECK(members[1].toGenericDict().contains("a"));
  CHECK(members[2].toStringRef() == "text");
  CHECK_FALSE(members[3].toTensor().defined());
  CHECK(members[4].isNone());
}

TEST_CASE("allTensors stops at the first tensor that fails") {
  size_t calls = 0;
  const auto below = [&](double limit) {
    return allTensors(nested(), [&](const at::Tensor& t) { return ++calls, t.item<double>() < limit; });
  };
  CHECK(below(4));
  CHECK(calls == 3);
  CHECK_FALSE(below(2));
  CHECK(calls == 5);
}
