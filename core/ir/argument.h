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

}  // namespace graft
