#include "core/ir/calls/einsum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace graft;

namespace {

/// "ij,jk->ik" for what the equation says of operands of these ranks; empty where it is refused.
std::string read(std::string_view text, const std::vector<size_t>& ranks) {
  const auto e = EinsumEquation::of(text, ranks);
  if (!e) return "";
  return fmt::format("{}->{}", fmt::join(e->operands, ","), e->result);
}

}  // namespace

TEST_CASE("An einsum's equation is read as PyTorch reads it") {
  CHECK(read("ij,jk->ik", {2, 2}) == "ij,jk->ik");
  CHECK(read(" i j , jk -> i k", {2, 2}) == "ij,jk->ik");
  CHECK(read("i,j,k->kji", {1, 1, 1}) == "i,j,k->kji");
  CHECK(read("ij->", {2}) == "ij->");
  CHECK(read(",i->i", {0, 1}) == ",i->i");
}

TEST_CASE("Without an arrow, the result of einsum has the letters that occur once, in the order of the alphabet") {
  CHECK(read("zk,ka", {2, 2}) == "zk,ka->az");
  CHECK(read("bZ,bA", {2, 2}) == "bZ,bA->AZ");
  CHECK(read("...k,kB", {3, 2}) == "abk,kB->abB");
}

TEST_CASE("Dots of einsum stand for the dimensions that have no letter, the last ones alike in all operands") {
  CHECK(read("...i,io->...o", {4, 2}) == "abci,io->abco");
  CHECK(read("...ai,io->...ao", {3, 2}) == "bai,io->bao");
  CHECK(read("...ik,...kj->...ij", {4, 3}) == "abik,bkj->abij");
  CHECK(read("...i,i->i...", {2, 1}) == "ai,i->ia");
  CHECK(read("...i,i->i", {2, 1}) == "ai,i->i");
  CHECK(read("...i,i->...i", {1, 1}) == "i,i->i");
}

TEST_CASE("An equation of einsum that PyTorch refuses, or that takes a diagonal, is not read") {
  CHECK(read("ij,jk->ik", {2}).empty());
  CHECK(read("ij,jk->ik", {2, 3}).empty());
  CHECK(read("ij,jk->il", {2, 2}).empty());
  CHECK(read("ij,jk->ii", {2, 2}).empty());
  CHECK(read("ii->i", {2}).empty());
  CHECK(read("i1,1k->ik", {2, 2}).empty());
  CHECK(read("...ij->...", {1}).empty());
  CHECK(read("...i...->i", {3}).empty());
  CHECK(read("ij,jk-ik", {2, 2}).empty());
  CHECK(read("ij->i->j", {2}).empty());
}
