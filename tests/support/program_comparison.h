// Runs a program as machine code and by the interpreter, on equal memory, and says where they differ.
//
//   std::string difference = test::compareCode(program, {.sizes = {7}, .seed = 3});      // empty: none
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/compile/loops/element.h"
#include "core/compile/loops/interpret.h"
#include "tests/support/compiled_program.h"

namespace graft::test {

struct Comparison {
  std::vector<int64_t> sizes;
  uint64_t seed = 0;
  enum class Places {
    Dense,
    Turned,
    Gaps,
    Expanded
  } places = Places::Dense;  ///< of buffers: as they are, dimensions reversed, apart; of inputs: one dimension repeats
  bool isSpecialised = false;  ///< the code is for these sizes alone
  bool hasSpecial = false;     ///< some elements are NaN, infinite, -0 or large
  int64_t slice = INT64_MAX;   ///< iterations of one call
  double tolerance = 1e-4;
};

namespace detail {

inline double numberOf(const std::byte* at, DType dtype) {
  const loops::Element e = loops::loadElement(at, dtype);
  return isFloatingPoint(dtype) ? e.floating : static_cast<double>(e.integer);
}

/// A buffer as both runs see it: elements between poison.
struct Space {
  DType dtype = DType::Float32;
  std::vector<int64_t> strides;
  std::vector<std::byte> bytes;
  static constexpr size_t kMargin = 64;
  std::byte* data() { return bytes.data() + kMargin; }
};

inline Space makeSpace(const loops::Program& p, loops::BufferId id, const Comparison& c) {
  const loops::Buffer& b = p.buffer(id);
  Space s;
  s.dtype = b.dtype;
  std::vector<int64_t> sizes;
  for (const loops::ExprId e : b.sizes) sizes.push_back(codegen::evaluateSize(p, e, c.sizes.data()));
  s.strides.resize(sizes.size());
  int64_t step = c.places == Comparison::Places::Gaps ? 2 : 1;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const size_t d = c.places == Comparison::Places::Turned ? k : sizes.size() - 1 - k;
    s.strides[d] = step;
    if (c.places == Comparison::Places::Expanded && b.role == loops::Buffer::Role::Input && d == sizes.size() / 2) {
      s.strides[d] = 0;
      continue;
    }
    step *= std::max<int64_t>(sizes[d], 1) + (c.places == Comparison::Places::Gaps ? 1 : 0);
  }
  s.bytes.assign(static_cast<size_t>(step) * dtypeSize(s.dtype) + 2 * Space::kMargin, std::byte{0xee});
  return s;
}

inline void fill(Space& s, std::mt19937_64& random, bool hasSpecial) {
  const size_t width = dtypeSize(s.dtype);
  constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 200.0, -200.0, 1e-40};
  for (std::byte* at = s.data(); at + width <= s.bytes.data() + s.bytes.size() - Space::kMargin; at += width) {
    loops::Element e;
    if (isFloatingPoint(s.dtype)) {
      e.floating = std::normal_distribution<double>(0, 2)(random);
      if (hasSpecial && random() % 16 == 0) e.floating = kSpecial[random() % 8];
    } else {
      e.integer = static_cast<int64_t>(random() % (s.dtype == DType::Bool ? 2 : 4));
      if (hasSpecial && s.dtype != DType::Bool) e.integer = static_cast<int64_t>(random() % 41) - 20;
    }
    loops::storeElement(at, s.dtype, e);
  }
}

inline bool isClose(double a, double b, DType dtype, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  if (a == b) return true;
  if (!isFloatingPoint(dtype) || std::isinf(a) || std::isinf(b)) return false;
  if (dtype == DType::Float16) tolerance = std::max(tolerance, 2e-3);
  if (dtype == DType::BFloat16) tolerance = std::max(tolerance, 1.6e-2);
  return std::abs(a - b) <= tolerance * (1 + std::max(std::abs(a), std::abs(b)));
}

}  // namespace detail

/// `run` computes the program in the memory of its inputs and outputs, and returns whether a check failed.
inline std::string compareRun(const loops::Program& program, const Comparison& c,
                              const std::function<int(const std::vector<void*>&)>& run) {
  using detail::Space;
  std::mt19937_64 random(c.seed);
  std::vector<loops::BufferId> ids = program.inputs();
  const size_t inputs = ids.size();
  for (const loops::BufferId id : program.outputs()) ids.push_back(id);
  std::vector<Space> mine;
  for (const loops::BufferId id : ids) mine.push_back(detail::makeSpace(program, id, c));
  for (size_t i = 0; i < inputs; ++i) detail::fill(mine[i], random, c.hasSpecial);
  std::vector<Space> theirs = mine;
  std::vector<loops::Memory> memory;
  for (Space& s : theirs) memory.push_back({s.data(), s.strides});
  const bool isWrong = !loops::interpret(program, c.sizes, memory);
  std::vector<void*> pointers;
  for (Space& s : mine) pointers.push_back(s.data());
  const bool failed = run(pointers) != 0;
  if (failed != isWrong) return failed ? "a check failed that holds" : "a check holds that failed";
  if (failed) return "";
  for (size_t i = 0; i < mine.size(); ++i) {
    const size_t width = dtypeSize(mine[i].dtype);
    for (size_t at = 0; at + width <= mine[i].bytes.size(); at += width) {
      const std::byte* a = mine[i].bytes.data() + at;
      const std::byte* b = theirs[i].bytes.data() + at;
      if (std::memcmp(a, b, width) == 0) continue;
      const double x = detail::numberOf(a, mine[i].dtype), y = detail::numberOf(b, mine[i].dtype);
      if (detail::isClose(x, y, mine[i].dtype, c.tolerance)) continue;
      return program.buffer(ids[i]).name + " at " +
             std::to_string((static_cast<long>(at) - static_cast<long>(Space::kMargin)) / static_cast<long>(width)) +
             " is " + std::to_string(x) + ", not " + std::to_string(y);
    }
  }
  return "";
}

/// `general`, where given, keeps the code for any sizes and dense memory, for further calls with the same program and
/// level.
inline std::string compareCode(const loops::Program& program, const Comparison& c, codegen::CpuLevel level,
                               std::optional<CompiledProgram>* general = nullptr) {
  loops::Program copy = program;
  codegen::CpuOptions options;
  options.level = level;
  if (c.places != Comparison::Places::Dense || c.isSpecialised) {
    std::vector<loops::BufferId> ids = program.inputs();
    for (const loops::BufferId id : program.outputs()) ids.push_back(id);
    for (const loops::BufferId id : ids)
      options.layouts.push_back(codegen::constantLayout(copy, detail::makeSpace(program, id, c).strides));
  }
  if (c.isSpecialised) options.sizes = c.sizes;
  const auto compare = [&](const CompiledProgram& compiled) {
    return compareRun(program, c,
                      [&](const std::vector<void*>& buffers) { return compiled.run(buffers, c.sizes, c.slice); });
  };
  if (!general || c.places != Comparison::Places::Dense || c.isSpecialised)
    return compare(CompiledProgram(std::move(copy), options));
  if (!general->has_value()) general->emplace(std::move(copy), options);
  return compare(**general);
}

}  // namespace graft::test
