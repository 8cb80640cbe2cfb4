#include "core/torch/run/plan_builtin.h"

#include <unordered_set>

namespace graft {

bool isBuiltIn(std::string_view op) {
  static const std::unordered_set<std::string_view> names{
      "prim.getitem",       "prim.TupleIndex",    "prim.ListConstruct", "prim.TupleConstruct",
      "prim.DictConstruct", "prim.ListUnpack",    "prim.TupleUnpack",   "prim.If",
      "prim.Loop",          "prim.Uninitialized", "prim.SetAttr"};
  return names.contains(op);
}

std::string_view builtInName(std::string_view op) {
  constexpr std::string_view tail = ".default";
  return op.starts_with("prim.") && op.ends_with(tail) ? op.substr(0, op.size() - tail.size()) : op;
}

Status planBuiltIn(const Node& n, std::string_view name, Instruction& i, std::vector<Argument>& args) {
  using Kind = Instruction::Kind;
  auto wants = [&](bool ok, const char* what) { return ok ? done() : Status(badInput(what)); };
  if (name == "prim.getitem" || name == "prim.TupleIndex") {
    i.kind = Kind::GetItem;
    return wants(args.size() == 2 && n.outputs.size() == 1, "takes a list and an index");
  }
  if (name == "prim.ListUnpack" || name == "prim.TupleUnpack") {
    i.kind = Kind::Unpack;
    return wants(args.size() == 1, "takes one list or tuple");
  }
  if (name == "prim.If") {
    i.kind = Kind::If;
    return wants(args.size() == 1 && n.blocks.size() == 2, "takes a condition and two blocks");
  }
  if (name == "prim.Loop") {
    i.kind = Kind::Loop;
    return wants(args.size() == n.outputs.size() + 2 && n.blocks.size() == 1,
                 "takes a trip count, a condition and what it carries, and one block");
  }
  if (name == "prim.SetAttr") {
    i.kind = Kind::Drop;
    return wants((args.size() == 2 || args.size() == 3) && n.outputs.empty(),
                 "takes an attribute's path and what it becomes");
  }
  i.kind = Kind::Collect;
  if (name == "prim.ListConstruct")
    args = {Argument::list(std::move(args))};
  else if (name == "prim.TupleConstruct")
    args = {Argument::tuple(std::move(args))};
  else if (name == "prim.Uninitialized")
    args = {Argument::none()};
  else {
    std::vector<std::pair<Argument, Argument>> entries;
    if (args.size() % 2) return badInput("takes keys and values in turn");
    for (size_t k = 0; k + 1 < args.size(); k += 2) entries.emplace_back(args[k], args[k + 1]);
    args = {Argument::dict(std::move(entries))};
  }
  return wants(n.outputs.size() == 1, "gives one value");
}

}  // namespace graft
