#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "core/ir/size_expression.h"
#include "core/torch/types/size_names.h"

namespace graft {
namespace {

// Primes in two runs, so that products tell their factors; multiples of 64 in the third, so that rounded halves differ.
constexpr std::array<std::array<int64_t, 24>, SizeNames::runs> stands{
    {{211, 223, 227, 229, 233, 239, 241, 251, 257, 263, 269, 271,
      401, 409, 419, 421, 431, 433, 439, 443, 449, 457, 461, 463},
     {307, 311, 313, 317, 331, 337, 347, 349, 353, 359, 367, 373,
      503, 509, 521, 523, 541, 547, 557, 563, 569, 571, 577, 587},
     {192,  320,  448,  704,  832,  1088, 1216, 1472, 1856, 1984, 2368, 2624,
      2752, 3008, 3392, 3776, 3904, 4288, 4544, 4672, 5056, 5312, 5696, 6208}}};
// The same below 77, the shortest table of positions that is used much.
constexpr std::array<std::array<int64_t, 8>, SizeNames::runs> smallStands{
    {{11, 13, 17, 19, 23, 29, 31, 37}, {41, 43, 47, 53, 59, 61, 67, 71}, {16, 24, 40, 56, 48, 32, 64, 72}}};
// Below 14. No symbol's numbers are a multiple of another's, or a multiple and an offset.
constexpr std::array<std::array<int64_t, 4>, SizeNames::runs> smallestStands{
    {{3, 5, 7, 4}, {11, 13, 8, 9}, {6, 4, 12, 10}}};
constexpr size_t mostFactors = 48;
constexpr int64_t largestOffset = 4096, largestSlope = 64;
constexpr int64_t largestExample = int64_t{1} << 32;  // primes are looked for by division

template <size_t N>
std::optional<SizeNames::Sizes> numbersAt(const std::array<std::array<int64_t, N>, SizeNames::runs>& table, size_t at) {
  if (at >= N) return std::nullopt;
  return SizeNames::Sizes{table[0][at], table[1][at], table[2][at]};
}

bool isPrime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n > 1;
}

bool isPlain(std::string_view e) { return e.find_first_of(" /*") == e.npos; }
std::string inParentheses(const std::string& e) { return isPlain(e) ? e : "(" + e + ")"; }
std::string factor(const std::string& e) { return e.find_first_of(" /") == e.npos ? e : "(" + e + ")"; }

std::string plus(const std::string& e, int64_t n) {
  if (n == 0) return e;
  return fmt::format("{} {} {}", e, n < 0 ? "-" : "+", n < 0 ? -n : n);
}

// k with sizes = k * of; 0 where there is none.
int64_t multiple(const SizeNames::Sizes& sizes, const SizeNames::Sizes& of) {
  if (of[0] <= 0 || sizes[0] % of[0] != 0) return 0;
  const int64_t k = sizes[0] / of[0];
  for (size_t r = 1; r < SizeNames::runs; ++r)
    if (of[r] <= 0 || sizes[r] != k * of[r]) return 0;
  return k;
}

/// Whether two expressions are one size, tried at numbers of every remainder of small divisors.
bool areEqual(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto one = SizeExpression::parse(a), other = SizeExpression::parse(b);
  if (!one || !other) return false;
  for (int64_t n = 1000; n < 1064; ++n) {
    const auto number = [n](std::string_view symbol) {
      const auto which = static_cast<int64_t>(std::hash<std::string_view>()(symbol) % 97);
      return std::optional(n * (2 * which + 1));
    };
    if (one->evaluate(number) != other->evaluate(number)) return false;
  }
  return true;
}

std::string scaled(int64_t k, const std::string& e) { return k == 1 ? e : fmt::format("{}*{}", k, factor(e)); }

}  // namespace

std::optional<SizeNames::Sizes> SizeNames::numbersFor(std::string_view symbol, size_t at) const {
  if (scale_ == Scale::Below77) return numbersAt(smallStands, at);
  if (scale_ == Scale::Below14) return numbersAt(smallestStands, at);
  const auto example = examples_.find(symbol);
  if (scale_ == Scale::Large || example == examples_.end() || example->second < stands[0][0] ||
      example->second > largestExample)
    return numbersAt(stands, at);
  // Primes, and a multiple of 64, as in the tables; no two symbols have one number in a run.
  const int64_t n = example->second;
  const auto taken = [&](size_t run, int64_t number) {
    return std::any_of(symbols_.begin(), symbols_.end(), [&](const auto& s) { return s.second[run] == number; });
  };
  const auto prime = [&](size_t run, int64_t from, int64_t factor) {
    while (!isPrime(from) || taken(run, from * factor)) ++from;
    return from * factor;
  };
  return Sizes{prime(0, n * 5 / 4, 1), prime(1, n * 5 / 2, 1), prime(2, n * 7 / 4 / 64 + 1, 64)};
}

std::optional<int64_t> SizeNames::standIn(std::string_view symbol, size_t run) {
  auto it = std::find_if(symbols_.begin(), symbols_.end(), [&](const auto& s) { return s.first == symbol; });
  if (it == symbols_.end()) {
    const auto numbers = numbersFor(symbol, symbols_.size());
    if (!numbers) return std::nullopt;
    it = symbols_.insert(symbols_.end(), {std::string(symbol), *numbers});
    enter(*numbers, Named::plain(std::string(symbol)));
  }
  return it->second[run];
}

void SizeNames::nameUnknown(std::set<std::string> taken) {
  nameUnknown_ = true;
  taken_ = std::move(taken);
}

SizeNames::Named& SizeNames::enter(const Sizes& sizes, Named named) {
  const auto [it, isNew] = known_.try_emplace(sizes, std::move(named));
  if (isNew) order_.push_back(&*it);
  return it->second;
}

Dim SizeNames::dim(const Sizes& sizes) {
  if (std::all_of(sizes.begin(), sizes.end(), [&](int64_t n) { return n == sizes[0]; })) return Dim(sizes[0]);
  if (const auto it = known_.find(sizes); it != known_.end())
    return it->second.text.empty() ? Dim() : Dim(it->second.text);
  std::string found = search(sizes);
  if (found.empty() && nameUnknown_) {
    do found = fmt::format("d{}", next_++);
    while (taken_.contains(found));
  }
  return found.empty() ? Dim() : Dim(enter(sizes, Named::plain(std::move(found))).text);
}

void SizeNames::declare(const Sizes& sizes, const std::string& expression) {
  if (std::all_of(sizes.begin(), sizes.end(), [&](int64_t n) { return n == sizes[0]; })) return;
  Named& known = enter(sizes, Named::plain(expression));
  if (known.text.empty() || areEqual(known.text, expression)) return;
  known.text.clear();
  std::erase_if(order_, [&](const auto* e) { return &e->second == &known; });
}

void SizeNames::declareFloor(const Sizes& sizes, const Sizes& of, int64_t add, int64_t divisor) {
  if (known_.contains(sizes)) return;
  if (std::all_of(of.begin(), of.end(), [&](int64_t n) { return n == of[0]; }) || !dim(of).isKnown()) return;
  // ((b + a)//m + n)//d is (b + a + n*m)//(m*d).
  const Named& from = known_.at(of);
  Named made{"", from.base, from.add + add * from.divisor, from.divisor * divisor};
  const std::string sum = plus(made.base, made.add);
  made.text = made.divisor == 1 ? sum : fmt::format("{}//{}", inParentheses(sum), made.divisor);
  enter(sizes, std::move(made));
}

std::string SizeNames::search(const Sizes& sizes) const {
  if (std::string e = product(sizes); !e.empty()) return e;
  return sum(sizes);
}

std::string SizeNames::product(const Sizes& sizes) const {
  for (const auto* e : order_)
    if (const int64_t k = multiple(sizes, e->first)) return scaled(k, e->second.text);
  const size_t count = std::min(order_.size(), mostFactors);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i; j < count; ++j) {
      Sizes both;
      bool fits = true;
      for (size_t r = 0; r < runs; ++r)
        fits = fits && !__builtin_mul_overflow(order_[i]->first[r], order_[j]->first[r], &both[r]);
      if (const int64_t k = fits ? multiple(sizes, both) : 0)
        return scaled(k, factor(order_[i]->second.text) + "*" + factor(order_[j]->second.text));
    }
  // Exact parts: what viewing a size as [-1, k] makes of it.
  for (const auto* e : order_)
    if (const int64_t k = multiple(e->first, sizes); k > 1) return fmt::format("{}//{}", factor(e->second.text), k);
  return {};
}

std::string SizeNames::sum(const Sizes& sizes) const {
  for (const auto* e : order_) {
    const int64_t step = e->first[1] - e->first[0];
    if (step == 0 || (sizes[1] - sizes[0]) % step != 0) continue;
    const int64_t slope = (sizes[1] - sizes[0]) / step, rest = sizes[0] - slope * e->first[0];
    if (slope > 0 && slope <= largestSlope && std::abs(rest) <= largestOffset && sizes[2] == slope * e->first[2] + rest)
      return plus(scaled(slope, e->second.text), rest);
  }
  const size_t count = std::min(order_.size(), mostFactors);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i; j < count; ++j) {
      const Sizes &a = order_[i]->first, &b = order_[j]->first;
      const int64_t rest = sizes[0] - a[0] - b[0];
      if (std::abs(rest) <= largestOffset && sizes[1] == a[1] + b[1] + rest && sizes[2] == a[2] + b[2] + rest)
        return plus(order_[i]->second.text + " + " + order_[j]->second.text, rest);
    }
  return {};
}

}  // namespace graft
