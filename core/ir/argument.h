// Argument: what a node is given at one parameter: a value of the graph, a literal, or a pytree of both.
//
//   Argument a = Argument::list({Argument::value(x), Argument(int64_t{2})});   // [%x, 2]
//   a.forEachValue([](ValueId v) { … });
#pragma once

#include <complex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/id.h"
#include "core/ir/type.h"

namespace graft {

/// A name that torch gives to something that is neither number nor string: "torch.strided", "torch.contiguous_format".
struct Named {
  std::string name;
  bool operator==(const Named&) const = default;
};
struct DeviceName {
  std::string name;  ///< "cpu", "cuda:0"
  bool operator==(const DeviceName&) const = default;
};
/// A symbolic integer that no node computes: "s0", "2*s0 + 1".
struct SymbolicInt {
  std::string expression;
  bool operator==(const SymbolicInt&) const = default;
};
struct Ellipsis {
  bool operator==(const Ellipsis&) const = default;
};

struct Argument {
  struct List {
    std::vector<Argument> items;
    bool operator==(const List&) const;
  };
  struct Tuple {
    std::vector<Argument> items;
    bool operator==(const Tuple&) const;
  };
  struct Dict {
    std::vector<std::pair<Argument, Argument>> items;
    bool operator==(const Dict&) const;
  };
  struct Slice {
    std::vector<Argument> bounds;  ///< start, stop, step
    bool operator==(const Slice&) const;
  };
  using Data = std::variant<std::monostate, ValueId, bool, int64_t, double, std::complex<double>, std::string, DType,
                            DeviceName, Named, SymbolicInt, Ellipsis, List, Tuple, Dict, Slice>;
  Data data;

  Argument() = default;  ///< None
  explicit Argument(ValueId v) : data(v) {}
  explicit Argument(bool v) : data(v) {}
  explicit Argument(int64_t v) : data(v) {}
  explicit Argument(double v) : data(v) {}
  explicit Argument(std::complex<double> v) : data(v) {}
  explicit Argument(std::string v) : data(std::move(v)) {}
  explicit Argument(const char* v) : data(std::string(v)) {}
  explicit Argument(DType v) : data(v) {}
  explicit Argument(DeviceName v) : data(std::move(v)) {}
  explicit Argument(Named v) : data(std::move(v)) {}
  explicit Argument(SymbolicInt v) : data(std::move(v)) {}
  explicit Argument(Ellipsis v) : data(v) {}
  static Argument none() { return {}; }
  static Argument value(ValueId v) { return Argument(v); }
  static Argument list(std::vector<Argument> items);
  static Argument tuple(std::vector<Argument> items);
  static Argument dict(std::vector<std::pair<Argument, Argument>> items);
  static Argument slice(Argument start, Argument stop, Argument step);
  static Argument ints(const std::vector<int64_t>& items);

  bool isNone() const { return data.index() == 0; }
  bool isValue() const { return std::holds_alternative<ValueId>(data); }
  bool isList() const { return std::holds_alternative<List>(data); }
  bool isTuple() const { return std::holds_alternative<Tuple>(data); }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  ValueId valueId() const { return std::get<ValueId>(data); }
  /// The items of a List or Tuple; nothing for the rest.
  const std::vector<Argument>* items() const;
  /// Int, Float or Bool as a number; nothing for the rest.
  std::optional<double> number() const;

  /// Calls f(ValueId) for every value in the argument, in order, nested ones too.
  template <class F>
  void forEachValue(F&& f) const {
    visitValues(*this, f);
  }
  /// Whether it is a value or holds one; otherwise it is a literal.
  bool holdsValue() const {
    bool any = false;
    forEachValue([&](ValueId) { any = true; });
    return any;
  }
  /// Calls f(ValueId&) for every value: for renaming.
  template <class F>
  void forEachValueMutable(F&& f) {
    visitValues(*this, f);
  }

  /// Structural equality; NaN equals NaN and 0.0 differs from -0.0, so that equal arguments compute equal things.
  bool operator==(const Argument&) const;

 private:
  template <class A, class F>
  static void visitValues(A& a, F& f) {
    if (auto* v = std::get_if<ValueId>(&a.data)) {
      f(*v);
    } else if (auto* l = std::get_if<List>(&a.data)) {
      for (auto& i : l->items) visitValues(i, f);
    } else if (auto* t = std::get_if<Tuple>(&a.data)) {
      for (auto& i : t->items) visitValues(i, f);
    } else if (auto* d = std::get_if<Dict>(&a.data)) {
      for (auto& [k, v2] : d->items) {
        visitValues(k, f);
        visitValues(v2, f);
      }
    } else if (auto* s = std::get_if<Slice>(&a.data)) {
      for (auto& i : s->bounds) visitValues(i, f);
    }
  }
};

/// What one call of a model takes or gives, as a tree of containers: PyTorch's TreeSpec (torch.utils._pytree).
struct TreeSpec {
  std::string type;     ///< the container as PyTorch names it ("builtins.dict"); empty: a leaf
  std::string context;  ///< what PyTorch needs to make the container again, as JSON: "[\"ids\", \"mask\"]"
  std::vector<TreeSpec> children;
  Argument leaf;  ///< of arguments: an input of the graph, or the literal that was exported in its place

  bool isLeaf() const { return type.empty(); }
  /// Calls f(const TreeSpec&) for every leaf, in order.
  template <class F>
  void forEachLeaf(F&& f) const {
    if (isLeaf()) return f(*this);
    for (const TreeSpec& c : children) c.forEachLeaf(f);
  }
  size_t leafCount() const;
  /// The names of the children, of a dict or another container that PyTorch keeps names for: texts and whole numbers.
  /// Empty where it keeps none.
  std::vector<Argument> keys() const;
  bool operator==(const TreeSpec&) const;
};

/// How a model is called, where a plain tuple of its inputs would not say it: keyword arguments, dicts, classes that
/// PyTorch knows as pytrees. Rewrites change neither the inputs nor how many results there are, so it always holds.
struct CallingConvention {
  TreeSpec arguments;              ///< a tuple of positional arguments and a dict of keyword arguments
  std::vector<std::string> names;  ///< of the arguments, positional ones first
  TreeSpec result;                 ///< a leaf by itself where only the graph's returns say it
  std::vector<std::pair<std::string, std::vector<std::string>>> namedTuples;  ///< types in the trees, their fields
  bool operator==(const CallingConvention&) const = default;
};

}  // namespace graft
