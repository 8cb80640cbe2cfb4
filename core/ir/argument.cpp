#include "core/ir/argument.h"

#include <bit>

#include "core/base/json_document.h"

namespace graft {

bool Argument::List::operator==(const List& o) const { return items == o.items; }
bool Argument::Tuple::operator==(const Tuple& o) const { return items == o.items; }
bool Argument::Dict::operator==(const Dict& o) const { return items == o.items; }
bool Argument::Slice::operator==(const Slice& o) const { return bounds == o.bounds; }

Argument Argument::list(std::vector<Argument> items) {
  Argument a;
  a.data = List{std::move(items)};
  return a;
}
Argument Argument::tuple(std::vector<Argument> items) {
  Argument a;
  a.data = Tuple{std::move(items)};
  return a;
}
Argument Argument::dict(std::vector<std::pair<Argument, Argument>> items) {
  Argument a;
  a.data = Dict{std::move(items)};
  return a;
}
Argument Argument::slice(Argument start, Argument stop, Argument step) {
  Argument a;
  a.data = Slice{{std::move(start), std::move(stop), std::move(step)}};
  return a;
}
Argument Argument::ints(const std::vector<int64_t>& items) {
  std::vector<Argument> out;
  out.reserve(items.size());
  for (int64_t i : items) out.emplace_back(i);
  return list(std::move(out));
}

const std::vector<Argument>* Argument::items() const {
  if (const auto* l = as<List>()) return &l->items;
  if (const auto* t = as<Tuple>()) return &t->items;
  return nullptr;
}

std::optional<double> Argument::number() const {
  if (const auto* i = as<int64_t>()) return static_cast<double>(*i);
  if (const auto* d = as<double>()) return *d;
  if (const auto* b = as<bool>()) return *b ? 1.0 : 0.0;
  return std::nullopt;
}

bool Argument::operator==(const Argument& o) const {
  if (data.index() != o.data.index()) return false;
  if (const auto* d = as<double>()) {
    const double e = std::get<double>(o.data);
    return std::bit_cast<uint64_t>(*d) == std::bit_cast<uint64_t>(e) || (*d != *d && e != e);
  }
  return data == o.data;
}

size_t TreeSpec::leafCount() const {
  size_t n = 0;
  forEachLeaf([&](const TreeSpec&) { ++n; });
  return n;
}

std::vector<Argument> TreeSpec::keys() const {
  const auto json = JsonDocument::parse(context);
  if (!json || !json->root().isArray()) return {};
  std::vector<Argument> out;
  for (JsonValue key : json->root())
    if (key.isText())
      out.emplace_back(key.text());
    else if (key.isInteger())
      out.emplace_back(key.integer());
  return out.size() == children.size() ? out : std::vector<Argument>();
}

// Written out: clang 14 ends with a crash on a defaulted comparison of a type that holds a vector of itself.
bool TreeSpec::operator==(const TreeSpec& o) const {
  return type == o.type && context == o.context && leaf == o.leaf && children == o.children;
}

}  // namespace graft
