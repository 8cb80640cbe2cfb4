#include "matcher/rewrite/known_strides.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/matcher/search/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

using Sizes = std::vector<int64_t>;

/// Where each element lies, in the order of the indices.
std::vector<int64_t> places(const Sizes& sizes, const Strides& strides) {
  std::vector<int64_t> out{0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t at : out)
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(at + i * strides[d]);
    out = std::move(next);
  }
  return out;
}

/// The strides that those places have with these sizes, if they have any.
std::optional<Strides> stridesOfPlaces(const Sizes& sizes, const std::vector<int64_t>& at) {
  Strides out(sizes.size(), 0);
  size_t step = at.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    step /= static_cast<size_t>(sizes[d]);
    if (sizes[d] > 1) out[d] = at[step] - at[0];
  }
  return places(sizes, out) == at ? std::optional(out) : std::nullopt;
}

}  // namespace

TEST_CASE("strides of a view are those that its elements have, and there are none where it would be a copy") {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  size_t views = 0, copies = 0;
  for (int round = 0; round < 4000; ++round) {
    Sizes sizes;
    for (size_t d = below(4) + 1; d > 0; --d) sizes.push_back(Sizes{1, 2, 3, 4, 6}[below(5)]);
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (below(2)) std::shuffle(order.begin(), order.end(), random);
    Strides strides(sizes.size());
    int64_t stride = 1;
    for (const size_t d : order) {
      strides[d] = stride;
      stride *= sizes[d] + static_cast<int64_t>(below(8) == 0);  // sometimes with a gap
    }
    Sizes viewed;
    int64_t rest = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    while (rest > 1 || viewed.empty() || below(4) == 0) {
      Sizes divisors;
      for (int64_t n = 1; n <= rest; ++n)
        if (rest % n == 0) divisors.push_back(n);
      viewed.push_back(divisors[below(divisors.size())]);
      rest /= viewed.back();
    }
    INFO(Catch::Detail::stringify(sizes) << Catch::Detail::stringify(strides) << Catch::Detail::stringify(viewed));
    const auto at = places(sizes, strides);
    const auto found = stridesOfView(sizes, strides, viewed);
    const auto expected = stridesOfPlaces(viewed, at);
    REQUIRE(found.has_value() == expected.has_value());
    ++(found ? views : copies);
    if (found) REQUIRE(places(viewed, *found) == at);
  }
  CHECK(views > 500);
  CHECK(copies > 500);
}

TEST_CASE("strides are known behind operators that lay their results out one way, and through views") {
  const Graph g = graph(R"(input %x : f16[2,8,6,4]
weight %w "w" : f16[12,8,1,1]
%n = aten.softmax.int(%x, 1) : f16[2,8,6,4]
%r = aten.contiguous.default(%x) : f16[2,8,6,4]
%l = aten.contiguous.default(%w, memory_format=<torch.channels_last>) : f16[12,8,1,1]
%c = aten.conv2d.default(%x, %l) : f16[2,12,6,4]
%d = aten.conv2d.default(%x, %w) : f16[2,12,6,4]
%v = aten.view.default(%c, [2, 3, 4, 24]) : f16[2,3,4,24]
%t = aten.transpose.int(%v, -1, -2) : f16[2,3,24,4]
%p = aten.permute.default(%r, [0, 2, 3, 1]) : f16[2,6,4,8]
%f = aten.reshape.default(%p, [2, 24, 8]) : f16[2,24,8]
%q = aten.reshape.default(%p, [12, 32]) : f16[12,32]
%s = aten.slice.Tensor(%r, 3, 0, 4, 2) : f16[2,8,6,2]
%o = aten.select.int(%r, 1, 0) : f16[2,6,4]
%k = aten.chunk.default(%t, 2, 3) : list[tensor]
%i = prim.getitem(%k, 1) : f16[2,3,24,2]
return (%n, %d, %f, %q, %s, %o, %i))");
  KnownStrides strides(g);
  const auto of = [&](const std::string& name) {
    const Strides* const found = strides.of(g.node(g.findNode(name)).outputs[0]);
    return found ? *found : Strides{};
  };
  CHECK(of("n").empty());
  CHECK(of("d").empty());  // the image decides
  CHECK(of("r") == Strides{192, 24, 4, 1});
  CHECK(of("c") == Strides{288, 1, 48, 12});
  CHECK(of("t") == Strides{288, 4, 12, 1});
  CHECK(of("p") == Strides{192, 4, 1, 24});
  CHECK(of("f") == Strides{192, 1, 24});
  CHECK(of("q") == Strides{32, 1});  // a copy
  CHECK(of("s") == Strides{192, 24, 4, 2});
  CHECK(of("o") == Strides{192, 4, 1});
  CHECK(of("i") == Strides{288, 4, 12, 1});
}
