// Random groups of lowered operators, with inputs for them. The same seed makes the same group.
//
//   RandomGroup group(seed);
//   Graph g = group.make();
//   TensorSet inputs = test::randomInputs(group.inputs(), seed);
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <random>
#include <set>

#include "core/compile/lower/lower.h"
#include "core/torch/executor.h"
#include "core/torch/semantics.h"
#include "tests/core/compile/lower/operator_cases.h"
#include "tests/core/compile/lower/torch_compare.h"
#include "tests/support/graphs.h"

namespace graft::test {

/// Makes one graph, line by line. A line that LibTorch refuses is taken back, so lines may be tried at random.
class RandomGroup {
 public:
  explicit RandomGroup(uint64_t seed) : engine_(seed) {}

  Graph make() {
    // Halves round differently in LibTorch and in a group: no place where that decides something.
    isHalf_ = chance(5);
    floating_ = isHalf_ ? (chance(2) ? "f16" : "bf16") : chance(5) ? "f64" : "f32";
    // Whole numbers all through, or NaN, infinities and zeros of both signs among the inputs.
    isWhole_ = !isHalf_ && chance(6);
    if (isWhole_) floating_ = one(std::array{"i64", "i32", "i16", "i8", "u8", "b8"});
    isSpecial_ = !isHalf_ && !isWhole_ && chance(8);
    const size_t rank = 1 + pick(4);
    std::vector<int64_t> base;
    for (size_t d = 0; d < rank; ++d) base.push_back(length());
    const size_t inputs = 1 + pick(3);
    for (size_t k = 0; k < inputs; ++k) {
      std::vector<int64_t> sizes = base;
      for (int64_t& n : sizes)
        if (chance(5)) n = 1;
      if (chance(4)) sizes.erase(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(pick(sizes.size())));
      addInput(floating_, sizes);
    }
    const size_t nodes = 1 + pick(12);
    for (size_t tries = 0; lines_ < nodes && tries < 6 * nodes; ++tries) addNode();
    std::string returns = values_.back();
    for (const std::string& v : values_)
      if (v != values_.back() && v[0] != 'x' && chance(6)) returns += ", %" + v;
    for (const std::string& v : last_)
      if (chance(2)) returns += ", %" + v;
    text_ += "  return %" + returns + "\n}\n";
    return graphOf("graph g {\n" + inputsText_ + text_, semantics().operators());
  }
  const std::vector<Random>& inputs() const { return random_; }
  const std::set<std::string>& refused() const { return refused_; }

 private:
  size_t pick(size_t n) { return n == 0 ? 0 : static_cast<size_t>(engine_() % n); }
  bool chance(size_t oneOf) { return pick(oneOf) == 0; }
  int64_t length() {
    constexpr std::array<int64_t, 12> lengths{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 33};
    if (chance(60)) return static_cast<int64_t>(100 + pick(900));
    return chance(40) ? 0 : lengths[pick(lengths.size())];
  }
  template <class List>
  std::string one(const List& list) {
    return list.begin()[pick(list.size())];
  }

  std::string addInput(const std::string& dtype, const std::vector<int64_t>& sizes, double least = -2,
                       double most = 2) {
    const std::string name = "x" + std::to_string(random_.size());
    inputsText_ += "  input %" + name + " : " + dtype + "[";
    for (size_t k = 0; k < sizes.size(); ++k) inputsText_ += (k ? "," : "") + std::to_string(sizes[k]);
    inputsText_ += "]\n";
    const DType d = *parseDType(dtype);
    Random r{.dtype = d, .sizes = sizes, .least = least, .greatest = most, .strided = chance(3)};
    r.image = r.strided && chance(2);
    if (isSpecial_ && isFloatingPoint(d)) r.special = true;
    if (d == DType::UInt8) r.least = std::max(0.0, least);
    random_.push_back(r);
    values_.push_back(name);
    exact_.insert(name);
    INFO(inputsText_ << text_);
    REQUIRE(refresh());
    return name;
  }

  /// The graph so far, all types known; nothing where LibTorch refuses a line of it.
  bool refresh() {
    auto g = parseText("graph g {\n" + inputsText_ + text_ + "  return %x0\n}\n", semantics().operators());
    if (!g) return false;
    std::vector<Type> types;
    for (const ValueId v : g->inputs()) types.push_back(g->value(v).type);
    if (!inferAllTypes(*g, types) || !completeTypes(*g, randomInputs(random_, 1))) return false;
    for (const NodeId n : g->order())
      for (const ValueId v : g->node(n).outputs)
        if (const Type& t = g->value(v).type; t.kind != Type::Kind::List && t.kind != Type::Kind::Int &&
                                              (!t.isTensor() || !t.tensorInfo.dtype || !t.tensorInfo.shape))
          return false;
    // Arguments that have no lowering: the documentation says which.
    for (const NodeId n : g->order())
      if (const lower::Traits t = lower::traitsOf(*g, g->node(n)); t.kind == lower::Kind::None) {
        refused_.insert(t.whyNot);
        return false;
      }
    graph_ = std::move(*g);
    return true;
  }
  const TensorInfo& info(const std::string& v) const { return graph_.value(graph_.findValue(v)).type.tensorInfo; }
  int64_t rankOf(const std::string& v) const { return static_cast<int64_t>(info(v).shape->size()); }
  int64_t sizeAt(const std::string& v, int64_t d) const { return (*info(v).shape)[static_cast<size_t>(d)].size; }
  bool isFloating(const std::string& v) const { return isFloatingPoint(*info(v).dtype); }
  int64_t elements(const std::string& v) const {
    int64_t n = 1;
    for (const Dim& d : *info(v).shape) n *= d.size;
    return n;
  }

  /// Adds `%v = expression` where LibTorch takes it.
  bool add(const std::string& expression, bool isExact, const std::string& also = "") {
    const std::string name = "v" + std::to_string(lines_), before = text_;
    text_ += "  %" + name + (also.empty() ? "" : ", %" + name + also) + " = " + expression + "\n";
    if (!refresh() || elements(name) > 20000) {
      text_ = before;
      refresh();
      return false;
    }
    ++lines_;
    values_.push_back(name);
    if (isExact) exact_.insert(name);
    return true;
  }

  std::string value() { return chance(2) ? values_.back() : values_[pick(values_.size())]; }
  std::string floatingValue() {
    for (int k = 0; k < 8; ++k)
      if (const std::string v = value(); isFloating(v)) return v;
    return "x0";
  }
  std::string dimOf(const std::string& v) {
    const int64_t rank = std::max<int64_t>(1, rankOf(v));
    return std::to_string(static_cast<int64_t>(pick(static_cast<size_t>(2 * rank))) - rank);
  }
  std::string flag() { return chance(2) ? "True" : "False"; }

  void addNode() {
    if (isWhole_ && chance(2)) return wholeNumbers();
    switch (pick(17)) {
      case 12:
      case 13:
        return listedCase();
      case 14:
        return chance(2) ? scatter() : order();
      case 15:
        return chance(2) ? question() : cast();
      case 16:
        return isWhole_ ? wholeNumbers() : scan();
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
        return binary();
      case 4:
      case 5:
        return view();
      case 6:
        return reduction();
      case 7:
        return norm();
      case 8:
        return join();
      case 9:
        return choice();
      case 10:
        return lookup();
      default:
        return window();
    }
  }

  /// A case of operators.txt, its operands fresh inputs seen through views that give their elements back.
  void listedCase() {
    static const std::vector<OperatorCase> cases = readOperatorCases();
    const OperatorCase& c = cases[pick(cases.size())];
    std::vector<DType> letters;
    for (const auto& in : c.inputs)
      if (const auto d = dtypesOf(in.dtype); d.size() > letters.size()) letters = d;
    const DType letter = letters.empty() ? DType::Float32 : letters[pick(letters.size())];
    std::map<std::string, int64_t> symbols;
    std::map<std::string, std::string> names;  // of the case's values, here
    const State before = state();
    bool isExact = c.statements.size() == 1;
    for (const auto& in : c.inputs) {
      const auto dtypes = dtypesOf(in.dtype);
      const DType d = dtypes.size() > 1 ? letter : dtypes[0];
      isExact = isExact && !isHalf(d);
      std::vector<int64_t> sizes;
      for (const std::string& size : in.sizes) {
        if (!isSymbol(size)) {
          sizes.push_back(std::stoll(size));
          continue;
        }
        auto [at, isNew] = symbols.emplace(size, length());
        if (isNew && !c.anySize) at->second = std::clamp<int64_t>(at->second, 2, 64);
        sizes.push_back(at->second);
      }
      const bool isUnsigned = d == DType::UInt8 || d == DType::Bool;
      const std::string x = addInput(std::string(dtypeShort(d)), sizes,
                                     in.least.value_or(isFloatingPoint(d) ? -3
                                                       : isUnsigned       ? 0
                                                                          : -4),
                                     in.greatest.value_or(isFloatingPoint(d) ? 3 : 4));
      random_.back().special = isSpecial_ && !c.finite && !in.least && isFloatingPoint(d);
      if (c.contiguous) random_.back().strided = random_.back().image = false;
      if (c.image) random_.back().image = true;
      names[in.name] = c.contiguous ? x : turned(x);
    }
    std::erase_if(values_, [&](const std::string& v) { return v != "x0" && !fits(v); });
    for (const std::string& statement : c.statements) {
      // `%a, %b = op(%x)`, its names replaced.
      const size_t equals = statement.find(" = ");
      const bool isNamed = statement[0] == '%' && equals != statement.npos;
      std::string expression = isNamed ? statement.substr(equals + 3) : statement;
      std::string made, word;
      for (size_t i = 0; i < expression.size(); ++i) {
        made += expression[i];
        if (expression[i] != '%') continue;
        word.clear();
        while (i + 1 < expression.size() && (std::isalnum(static_cast<unsigned char>(expression[i + 1])) != 0))
          word += expression[++i];
        const auto known = names.find(word);
        made += known == names.end() ? word : known->second;
      }
      std::vector<std::string> results;
      std::string left;
      for (size_t i = 0, k = 0; isNamed && i < equals; ++i) {
        if (statement[i] != '%') continue;
        word.clear();
        for (size_t j = i + 1; j < equals && (std::isalnum(static_cast<unsigned char>(statement[j])) != 0); ++j)
          word += statement[j];
        const std::string name = "c" + std::to_string(lines_) + "_" + std::to_string(k++);
        names[word] = name;
        results.push_back(name);
      }
      if (results.empty()) results.push_back("c" + std::to_string(lines_) + "_0");
      for (const std::string& r : results) left += (left.empty() ? "%" : ", %") + r;
      text_ += "  " + left + " = " + made + "\n";
      ++lines_;
      if (!refresh()) return restore(before);
      for (const std::string& r : results) {
        const Type& type = graph_.value(graph_.findValue(r)).type;
        if (!type.isTensor()) continue;
        if (elements(r) > 20000) return restore(before);
        if (&statement != &c.statements.back()) continue;
        // What is computed from floating numbers of another dtype has another precision than the reference takes.
        (fits(r) ? values_ : last_).push_back(r);
        if (isExact && !isFloating(r)) exact_.insert(r);
      }
    }
  }

  bool fits(const std::string& v) const { return !isFloating(v) || dtypeShort(*info(v).dtype) == floating_; }

  struct State {
    std::string text, inputsText;
    size_t lines;
    std::vector<std::string> values, last;
    std::set<std::string> exact;
    std::vector<Random> random;
  };
  State state() const { return {text_, inputsText_, lines_, values_, last_, exact_, random_}; }
  void restore(const State& s) {
    text_ = s.text;
    inputsText_ = s.inputsText;
    lines_ = s.lines;
    values_ = s.values;
    last_ = s.last;
    exact_ = s.exact;
    random_ = s.random;
    refresh();
  }
  static bool isHalf(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

  /// The same elements, computed in the group.
  std::string turned(const std::string& x) {
    const int64_t rank = rankOf(x);
    if (rank == 0 || chance(2)) return x;
    const std::string d = std::to_string(pick(static_cast<size_t>(rank))), last = std::to_string(rank - 1);
    const std::string kept = values_.back();
    const auto both = [&](const std::string& one, const std::string& other) {
      if (!add("aten." + one, true)) return x;
      const std::string middle = values_.back();
      const size_t at = other.find('#');
      return add("aten." + other.substr(0, at) + "%" + middle + other.substr(at + 1), true) ? values_.back() : x;
    };
    switch (pick(4)) {
      case 0:
        return both("flip.default(%" + x + ", [" + d + "])", "flip.default(#, [" + d + "])");
      case 1:
        return both("transpose.int(%" + x + ", 0, " + last + ")", "transpose.int(#, 0, " + last + ")");
      case 2:
        return both("roll.default(%" + x + ", [1], [" + d + "])", "roll.default(#, [-1], [" + d + "])");
      default:
        return both("cat.default([%" + x + ", %" + x + "], " + d + ")",
                    "narrow.default(#, " + d + ", 0, " + std::to_string(sizeAt(x, std::stoll(d))) + ")");
    }
  }

  void wholeNumbers() {
    const std::string a = value(), b = value(), x = "(%" + a + ", ";
    const std::string other = chance(2) ? "%" + b : one(std::array{"2", "-3", "7"});
    const bool isExact = exact_.contains(a) && exact_.contains(b);
    if (isFloating(a) || isFloating(b)) return cast();
    switch (pick(7)) {
      case 0:
        add("aten." + one(std::array{"bitwise_and", "bitwise_or", "bitwise_xor"}) + ".Tensor" + x + other + ")",
            isExact);
        return;
      case 1: {
        std::string divisor = one(std::array{"3", "-2", "5"});
        if (chance(2) && *info(a).shape == *info(b).shape && addDivisor(b)) divisor = "%" + values_.back();
        const std::string name = one(std::array{"floor_divide.default", "remainder.Tensor", "fmod.Tensor"});
        add("aten." + name + x + divisor + ")", isExact);
        return;
      }
      case 2:
        add("aten." + one(std::array{"bitwise_left_shift", "bitwise_right_shift"}) + ".Tensor" + x +
                std::to_string(pick(4)) + ")",
            isExact);
        return;
      case 3:
        add("aten." + one(std::array{"abs", "neg", "sign", "bitwise_not", "square", "logical_not"}) + ".default(%" + a +
                ")",
            isExact);
        return;
      case 4:
        add("aten." + one(std::array{"sum", "amax", "cumsum", "any", "prod"}) +
                one(std::array{".dim_IntList", ".default", ".dim", ".dim_int"}) + x +
                (chance(2) ? dimOf(a) : "[" + dimOf(a) + "]") + ")",
            isExact);
        return;
      case 5:
        add("aten." + one(std::array{"clamp", "clamp_min", "div"}) + one(std::array{".default", ".Tensor"}) + x +
                (chance(2) ? "2" : "1.5") + ")",
            isExact);
        return;
      default:
        add("aten." + one(std::array{"lt", "ge", "eq", "logical_and", "logical_xor"}) +
                one(std::array{".Tensor", ".default"}) + x + other + ")",
            isExact);
        return;
    }
  }
  /// 1 and more, of the dtype and the shape.
  bool addDivisor(const std::string& like) {
    std::vector<int64_t> sizes;
    for (const Dim& d : *info(like).shape) sizes.push_back(d.size);
    if (*info(like).dtype == DType::Bool) return false;
    addInput(std::string(dtypeShort(*info(like).dtype)), sizes, 1, 5);
    return true;
  }

  void cast() {
    const std::string v = value();
    // Of floating numbers that are not known to the bit, an integer may differ, and f64 would hold an error of f32. Of
    // NaN an integer is undefined.
    std::string to = floating_ == "f64" ? "torch.float64" : "torch.float32";
    if (exact_.contains(v) && (!isFloating(v) || !isSpecial_))
      to = one(std::array{"torch.int64", "torch.int32", "torch.int16", "torch.float32", "torch.float64", "torch.bool"});
    add("aten.to.dtype(%" + v + ", " + to + ")", exact_.contains(v));
  }

  void question() {
    const std::string v = value();
    if (!exact_.contains(v)) return;
    const std::string name = one(std::array{"isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit",
                                            "logical_not", "sign", "nan_to_num", "floor", "ceil", "round", "trunc"});
    // Of 0 and -0, PyTorch's maximum is the one that its loops come to first.
    if (name == "signbit" && isSpecial_ && v[0] != 'x') return;
    add("aten." + name + ".default(%" + v + ")", true);
  }

  /// Writes at random places along a dimension.
  void scatter() {
    const std::string v = value();
    const int64_t rank = rankOf(v);
    if (rank == 0 || elements(v) == 0) return;
    const auto d = static_cast<int64_t>(pick(static_cast<size_t>(rank)));
    const bool e = exact_.contains(v);
    const std::string dtype(dtypeShort(*info(v).dtype)), dim = std::to_string(d);
    std::vector<int64_t> sizes;
    for (const Dim& n : *info(v).shape) sizes.push_back(n.size);
    const auto last = static_cast<double>(sizes[static_cast<size_t>(d)] - 1);
    sizes[static_cast<size_t>(d)] = static_cast<int64_t>(1 + pick(6));
    const auto places = [&](std::vector<int64_t> shape) { return addInput("i64", shape, 0, last); };
    const std::string src = addInput(dtype, sizes);
    const bool isSame = e && *info(v).dtype != DType::Float16;
    switch (isSpecial_ ? 2 : pick(5)) {
      case 0:
        add("aten.index_copy.default(%" + v + ", " + dim + ", %" + places({sizes[static_cast<size_t>(d)]}) + ", %" +
                src + ")",
            isSame);
        return;
      case 1:
        add("aten.index_add.default(%" + v + ", " + dim + ", %" + places({sizes[static_cast<size_t>(d)]}) + ", %" +
                src + ")",
            false);
        return;
      case 2:
        add("aten.scatter.src(%" + v + ", " + dim + ", %" + places(sizes) + ", %" + src + ")", isSame);
        return;
      case 3:
        add("aten.scatter_add.default(%" + v + ", " + dim + ", %" + places(sizes) + ", %" + src + ")", false);
        return;
      default: {
        std::string indices;
        for (int64_t k = 0; k < d; ++k) indices += "None, ";
        add("aten.index_put.default(%" + v + ", [" + indices + "%" + places({sizes[static_cast<size_t>(d)]}) + "], %" +
                src + ")",
            isSame);
        return;
      }
    }
  }

  /// Of values that are the same bits in both, without equal ones.
  void order() {
    const std::string v = value();
    if (!exact_.contains(v) || !isFloating(v) || isHalf_ || isSpecial_) return;
    const std::string x = "(%" + v + ", ";
    if (chance(2)) {
      add("aten.sort.stable" + x + "stable=True, dim=" + dimOf(v) + ", descending=" + flag() + ")", true, "_i");
      return;
    }
    add("aten.topk.default" + x + std::to_string(1 + pick(3)) + ", " + dimOf(v) + ", " + flag() + ")", true, "_i");
  }

  void scan() {
    const std::string v = floatingValue();
    if (!exact_.contains(v)) return;
    add("aten." + one(std::array{"cummax", "cummin"}) + ".default(%" + v + ", " + dimOf(v) + ")", true, "_i");
  }

  void unary() {
    const std::string v = "%" + floatingValue();
    const std::array smooth{"tanh",        "sigmoid",  "sin",        "cos",  "erf",         "gelu",
                            "silu",        "softplus", "hardswish",  "mish", "atan",        "expm1",
                            "hardsigmoid", "elu",      "leaky_relu", "celu", "log_sigmoid", "asinh"};
    const std::array plain{"relu", "abs", "neg", "relu6"};
    if (chance(3)) {
      const std::string x = v.substr(1);
      add("aten." + one(plain) + ".default(" + v + ")", exact_.contains(x));
      return;
    }
    if (chance(5)) {  // functions that need positive numbers
      if (!add("aten.abs.default(" + v + ")", false)) return;
      if (!add("aten.add.Tensor(%" + values_.back() + ", 0.5)", false)) return;
      add("aten." + one(std::array{"log", "sqrt", "rsqrt", "reciprocal", "log1p"}) + ".default(%" + values_.back() +
              ")",
          false);
      return;
    }
    const std::string name = one(smooth);
    if (isSpecial_ && name == "gelu") return;  // LibTorch's differs from itself in how it takes infinity
    add("aten." + name + ".default(" + v + ")", false);
  }

  void binary() {
    const std::string a = value(), b = chance(3) ? "" : value();
    const bool isExact = exact_.contains(a) && (b.empty() || exact_.contains(b)) && !isHalf_;
    const std::string other = b.empty() ? one(std::array{"0.5", "2", "-1.25", "3"}) : "%" + b;
    if (chance(5) && isFloating(a)) {
      add("aten.lerp.Scalar(%" + a + ", " + (b.empty() || !isFloating(b) ? "%" + a : other) + ", 0.25)", false);
      return;
    }
    if (!b.empty() && chance(3)) {
      add("aten." + one(std::array{"maximum", "minimum"}) + ".default(%" + a + ", " + other + ")",
          exact_.contains(a) && exact_.contains(b));
      return;
    }
    add("aten." + one(std::array{"add", "sub", "mul"}) + ".Tensor(%" + a + ", " + other + ")", isExact);
  }

  void view() {
    const std::string v = value();
    const bool e = exact_.contains(v);
    const int64_t rank = rankOf(v);
    const std::string x = "(%" + v + ", ";
    switch (pick(12)) {
      case 0:
        add("aten.transpose.int" + x + dimOf(v) + ", " + dimOf(v) + ")", e);
        return;
      case 1:
        add("aten.unsqueeze.default" + x + dimOf(v) + ")", e);
        return;
      case 2:
        add("aten.flip.default" + x + "[" + dimOf(v) + "])", e);
        return;
      case 3:
        if (rank > 0) add("aten.roll.default" + x + "[" + std::to_string(pick(5)) + "], [" + dimOf(v) + "])", e);
        return;
      case 4:
        add("aten.slice.Tensor" + x + dimOf(v) + ", " + std::to_string(static_cast<int64_t>(pick(5)) - 2) + ", " +
                one(std::array{"None", "3", "-1", "5"}) + ", " + std::to_string(1 + pick(3)) + ")",
            e);
        return;
      case 5:
        add("aten.select.int" + x + dimOf(v) + ", " + one(std::array{"0", "-1", "1"}) + ")", e);
        return;
      case 6:
        if (rank > 1) add("aten.flatten.using_ints" + x + std::to_string(pick(static_cast<size_t>(rank))) + ")", e);
        return;
      case 7: {
        // A dimension taken apart.
        const int64_t d = rank == 0 ? 0 : static_cast<int64_t>(pick(static_cast<size_t>(rank)));
        if (rank > 0 && sizeAt(v, d) > 1 && sizeAt(v, d) % 2 == 0)
          add("aten.unflatten.int" + x + std::to_string(d) + ", [" + (chance(2) ? "2,-1" : "-1,2") + "])", e);
        return;
      }
      case 8: {
        std::string pads;
        for (size_t k = 0; k < 2 * (1 + pick(2)); ++k) pads += (k ? "," : "") + std::to_string(pick(3));
        add("aten.constant_pad_nd.default" + x + "[" + pads + "], 0.5)", e);
        return;
      }
      case 9: {
        std::string times;
        for (int64_t k = 0; k < rank; ++k) times += (k ? "," : "") + std::to_string(1 + pick(2));
        add("aten.repeat.default" + x + "[" + times + "])", e);
        return;
      }
      case 10: {
        const std::string list = "l" + std::to_string(lines_), before = text_;
        text_ += "  %" + list + " = aten.chunk.default(%" + v + ", 2, " + dimOf(v) + ")\n";
        if (!refresh() || !add("prim.getitem(%" + list + ", " + std::to_string(pick(2)) + ")", e)) {
          text_ = before;
          refresh();
        }
        return;
      }
      default:
        add("aten." + one(std::array{"tril", "triu"}) + ".default" + x + std::to_string(pick(3)) + ")", e);
        return;
    }
  }

  void reduction() {
    const std::string v = floatingValue();
    const std::string x = "(%" + v + ", ", dims = "[" + dimOf(v) + "]";
    // Sums of numbers of all magnitudes say little.
    switch (isSpecial_ ? (chance(2) ? 2 : 8) : pick(9)) {
      case 0:
        add("aten.sum.dim_IntList" + x + dims + ", " + flag() + ")", false);
        return;
      case 1:
        add("aten.mean.dim" + x + dims + ", " + flag() + ")", false);
        return;
      case 2:
        add("aten." + one(std::array{"amax", "amin"}) + ".default" + x + dims + ", " + flag() + ")",
            exact_.contains(v));
        return;
      case 3:
        add("aten.var.correction" + x + dims + ", correction=0, keepdim=" + flag() + ")", false);
        return;
      case 4:
        if (exact_.contains(v)) add("aten.argmax.default" + x + dimOf(v) + ", " + flag() + ")", true);
        return;
      case 5:
        add("aten.logsumexp.default" + x + dims + ", " + flag() + ")", false);
        return;
      case 6:
        add("aten.cumsum.default" + x + dimOf(v) + ")", false);
        return;
      case 7:
        add("aten.mean.default(%" + v + ")", false);
        return;
      default:
        if (exact_.contains(v)) add("aten.max.dim" + x + dimOf(v) + ", " + flag() + ")", true, "_i");
        return;
    }
  }

  void norm() {
    if (isSpecial_) return;
    const std::string v = floatingValue();
    const std::string x = "(%" + v + ", ";
    const int64_t rank = rankOf(v);
    const std::string last = rank > 0 ? std::to_string(sizeAt(v, rank - 1)) : "1";
    switch (pick(5)) {
      case 0:
        add("aten.layer_norm.default" + x + "[" + last + "], None, None, 0.1)", false);
        return;
      case 1:
        add("aten.rms_norm.default" + x + "[" + last + "], None, 0.1)", false);
        return;
      case 2:
        if (rank > 1 && sizeAt(v, 1) > 0)
          add("aten.group_norm.default" + x + (sizeAt(v, 1) % 2 == 0 ? "2" : "1") + ", None, None, 0.1)", false);
        return;
      default:
        add("aten." + one(std::array{"softmax", "log_softmax"}) + ".int" + x + dimOf(v) + ")", false);
        return;
    }
  }

  void join() {
    const std::string a = value(), b = value();
    add("aten." + one(std::array{"cat", "cat", "stack"}) + ".default([%" + a + ", %" + b + "], " + dimOf(a) + ")",
        exact_.contains(a) && exact_.contains(b));
  }

  void choice() {
    const std::string a = value(), b = value(), c = value();
    if (!exact_.contains(a) || !exact_.contains(b)) return;
    if (!add("aten." + one(std::array{"lt", "ge", "gt", "ne"}) + ".Tensor(%" + a + ", %" + b + ")", true)) return;
    const std::string condition = values_.back();
    if (chance(2))
      add("aten.where.self(%" + condition + ", %" + c + ", 0.0)", false);
    else
      add("aten.masked_fill.Scalar(%" + c + ", %" + condition + ", -1.5)", false);
  }

  void lookup() {
    const std::string v = value();
    const int64_t rank = rankOf(v);
    if (rank == 0) return;
    const int64_t d = static_cast<int64_t>(pick(static_cast<size_t>(rank)));
    if (sizeAt(v, d) == 0) return;
    const bool e = exact_.contains(v);
    const std::string i =
        addInput("i64", {static_cast<int64_t>(1 + pick(5))}, 0, static_cast<double>(sizeAt(v, d) - 1));
    if (chance(2)) {
      add("aten.index_select.default(%" + v + ", " + std::to_string(d) + ", %" + i + ")", e);
      return;
    }
    std::string indices;
    for (int64_t k = 0; k < d; ++k) indices += "None, ";
    add("aten.index.Tensor(%" + v + ", [" + indices + "%" + i + "])", e);
  }

  void window() {
    const std::string v = floatingValue();
    const int64_t rank = rankOf(v);
    if ((rank != 3 && rank != 4) || elements(v) == 0) return;
    const std::string x = "(%" + v + ", ", n = rank == 3 ? "1d" : "2d";
    switch (isSpecial_ ? 0 : pick(5)) {
      case 0:
        add("aten.max_pool" + n + ".default" + x + "[2], [1], [1])", exact_.contains(v));
        return;
      case 1:
        add("aten.avg_pool" + n + ".default" + x + "[3], [2], [1])", false);
        return;
      case 2:
        add("aten.adaptive_avg_pool" + n + ".default" + x + (rank == 3 ? "[2])" : "[3,1])"), false);
        return;
      case 3:
        add("aten.upsample_nearest" + n + ".vec" + x + "None, [" + (rank == 3 ? "2.0" : "2.0, 1.5") + "])",
            exact_.contains(v));
        return;
      default:
        if (rank == 4) add("aten.upsample_bilinear2d.vec" + x + "None, False, [2.0, 1.5])", false);
        return;
    }
  }

  std::mt19937_64 engine_;
  bool isHalf_ = false, isWhole_ = false, isSpecial_ = false;
  std::string floating_, inputsText_, text_;
  size_t lines_ = 0;
  std::vector<std::string> values_;  // what lines read
  std::vector<std::string> last_;    // what none reads
  std::set<std::string> exact_;      // the same bits in LibTorch and in a group
  std::set<std::string> refused_;    // why lines were taken back though LibTorch takes them
  std::vector<Random> random_;
  Graph graph_;
};

}  // namespace graft::test
