#include "core/torch/run/capture_facts.h"

#include <set>
#include <string>

#include "core/ir/operators/graft_operators.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/torch_semantics.h"

using namespace graft;
using test::graphOf;
using test::torchSemantics;

namespace {

bool promises(std::string_view text) {
  return captureFacts(graphOf(text, torchSemantics().operators())).constantWeights;
}

/// A call with a value of the graph for each tensor, `computed` for the one of that name.
std::string callOf(const Operator& op, const std::string& computed) {
  std::string text = "graph g {\n weight %w \"w\" : f32[8,8]\n input %x : f32[8,8]\n %c = aten.neg.default(%x)\n %out";
  for (size_t i = 1; i < op.returns.size(); ++i) text += ", %out" + std::to_string(i);
  text += " = " + op.name + "(";
  bool first = true;
  for (const Parameter& p : op.parameters) {
    if (p.defaultValue) continue;
    const std::string type = toString(p.type);
    const std::string value = p.name == computed ? "%c" : "%w";
    const bool list = type.find("list") != std::string::npos || type.find("[]") != std::string::npos;
    const bool tensor = type.find("tensor") != std::string::npos || type.find("Tensor") != std::string::npos;
    text += (first ? "" : ", ") + (p.keywordOnly ? p.name + "=" : "") +
            (tensor          ? (list ? "[" + value + "]" : value)
             : list          ? "[1, 1]"
             : type == "str" ? "\"text\""
                             : "1");
    first = false;
  }
  return text + ")\n return %out\n}";
}

CaptureFacts factsIn(std::string_view text) { return captureFacts(graphOf(text, torchSemantics().operators())); }

/// Names of what the graph writes, weights first.
std::set<std::string> writtenIn(std::string_view text) {
  const Graph g = graphOf(text, torchSemantics().operators());
  const CaptureFacts facts = captureFacts(g);
  std::set<std::string> names;
  for (ValueId w : facts.writtenWeights) names.insert(g.value(w).name);
  for (size_t i : facts.writtenInputs) names.insert(g.value(g.inputs()[i]).name);
  CHECK(facts.obstacle == "");
  return names;
}

}  // namespace

TEST_CASE("what a graph writes is found through views, lists and control flow") {
  const std::string head = "graph g {\n buffer %w \"w\" : f32[4,4]\n input %x : f32[4,4]\n input %c : bool\n";
  CHECK(writtenIn(head + " %y = aten.add.Tensor(%x, %w)\n %z = aten.relu_.default(%y)\n return %z\n}").empty());
  CHECK(writtenIn(head + " %y = aten.add_.Tensor(%w, %x)\n return %y\n}") == std::set<std::string>{"w"});
  CHECK(writtenIn(head + " %y = aten.add_.Tensor(%x, %w)\n return %y\n}") == std::set<std::string>{"x"});
  CHECK(writtenIn(head + " %s = aten.select.int(%w, 0, 1)\n %t = aten.t.default(%x)\n %y = aten.copy_.default(%s, %x)\n"
                         " %z = aten.mul_.Tensor(%t, 2)\n return %y\n}") == std::set<std::string>{"w", "x"});
  CHECK(writtenIn(head + " %l = prim.ListConstruct(%w, %x)\n %a, %b = prim.ListUnpack(%l)\n"
                         " %y = aten.neg_.default(%a)\n return %y\n}") == std::set<std::string>{"w", "x"});
}

TEST_CASE("a weight that is written is no constant one, and an attribute that is replaced is an obstacle") {
  const std::string head = "graph g {\n buffer %w \"w\" : f32[8,8]\n input %x : f32[8,8]\n";
  const std::string product = " %y = graft.linear.default(%x, %w, None)\n";
  CHECK(factsIn(head + product + " return %y\n}").constantWeights);
  CHECK_FALSE(factsIn(head + " %n = aten.add_.Tensor(%w, %x)\n" + product + " return %y\n}").constantWeights);
  const std::string why = factsIn(head + " !set = prim.SetAttr(\"w\", %x)\n return %x\n}").obstacle;
  CHECK(why.find("prim.SetAttr") != std::string::npos);
  CHECK(why.find("copy_") != std::string::npos);
}

TEST_CASE("a number that is read out of a tensor makes the CPU wait, a size does not") {
  const std::string head = "graph g {\n input %x : f32[8,8]\n";
  CHECK(factsIn(head + " %n = aten.size.int(%x, 0)\n %y = aten.neg.default(%x)\n return %y\n}").waits == "");
  const std::string waits =
      factsIn(head + " %n = aten.item.default(%x)\n %y = aten.mul.Scalar(%x, %n)\n return %y\n}").waits;
  CHECK(waits.find("aten.item") != std::string::npos);
}

TEST_CASE("a size that depends on numbers makes the CPU wait, one that somebody gives does not") {
  const std::string head = "graph g {\n input %x : f32[8,8]\n input %b : b8[8,8]\n input %i : i64[8]\n";
  const auto waits = [&](const std::string& call) {
    return !factsIn(head + " %y = " + call + "\n return %y\n}").waits.empty();
  };
  CHECK(waits("aten.nonzero.default(%x)"));
  CHECK(waits("aten.where.default(%b)"));
  CHECK(waits("aten.masked_select.default(%x, %b)"));
  CHECK(waits("aten.index.Tensor(%x, [%b])"));
  CHECK(waits("aten.repeat_interleave.self_Tensor(%x, %i, 0)"));
  CHECK(waits("aten.one_hot.default(%i)"));
  CHECK_FALSE(waits("aten.where.self(%b, %x, %x)"));
  CHECK_FALSE(waits("aten.index.Tensor(%x, [%i])"));
  CHECK_FALSE(waits("aten.repeat_interleave.self_Tensor(%x, %i, 0, output_size=9)"));
  CHECK_FALSE(waits("aten.repeat_interleave.self_int(%x, 2, 0)"));
  CHECK_FALSE(waits("aten.one_hot.default(%i, 9)"));
}

TEST_CASE("a list that grows is no write to the tensors in it, and a branch's condition is not written") {
  const std::string head = "graph g {\n input %x : f32[4,4]\n input %c : bool\n";
  CHECK(writtenIn(head + " %l = prim.ListConstruct(%x) : list[tensor]\n %y = aten.neg.default(%x)\n"
                         " %p = aten.append.t(%l, %y)\n %s = aten.stack.default(%l)\n return %s\n}")
            .empty());
  CHECK(writtenIn(head +
                  " %n = aten.neg.default(%x)\n %y = prim.If(%c) : f32[4,4] {\n  return %x\n } {\n  return %n\n }\n"
                  " %z = aten.relu_.default(%y)\n return %z\n}") == std::set<std::string>{"x"});
}

TEST_CASE("a tensor's dtype is known without waiting for it") {
  CHECK(factsIn("graph g {\n input %x : f32[8]\n %d = prim.dtype.default(%x)\n return %d\n}").waits == "");
}

TEST_CASE("a graph that waits runs in pieces unless it writes to tensors, and lists that grow stay between them") {
  const std::string head = "graph g {\n buffer %w \"w\" : f32[8]\n input %x : f32[8]\n input %c : bool\n";
  const std::string reads = " %n = aten.item.default(%x)\n";
  const auto apart = [&](const std::string& text) -> std::string {
    const Graph g = graphOf(head + text, torchSemantics().operators());
    const auto pieces = capturePieces(g, captureFacts(g));
    if (!pieces) return "no pieces";
    std::string names;
    for (NodeId id : g.order())
      if (pieces->apart[id.index]) names += g.node(id).name + " ";
    return names;
  };
  CHECK(apart(" %y = aten.neg.default(%x)\n return %y\n}") == "no pieces");
  CHECK(apart(reads + " %y = aten.add_.Tensor(%w, %x)\n return %y, %n\n}") == "no pieces");
  CHECK(apart(reads + " %z = aten.neg.default(%x)\n %y = aten.add_.Tensor(%z, %x)\n return %y, %n\n}") == "no pieces");
  CHECK(apart(reads + " %y = aten.mul.Scalar(%x, %n)\n return %y\n}") == "n ");
  CHECK(
      apart(" %y = prim.If(%c) : f32[8] {\n  %a = aten.item.default(%x)\n  %m = aten.mul.Scalar(%x, %a)\n  return %m\n"
            " } {\n  %o = aten.neg.default(%x)\n  return %o\n }\n return %y\n}") == "y a ");
  CHECK(apart(reads + " %l = prim.ListConstruct()\n %k = prim.ListConstruct(%x)\n %a = aten.neg.default(%x)\n %p = "
                      "aten.append.t(%l, %a)\n"
                      " %s = aten.stack.default(%l)\n %t = aten.stack.default(%k)\n return %s, %t, %n\n}") ==
        "n l p s ");
}

TEST_CASE("weights are promised to be constant only where no node makes them, for each operator of the library") {
  // What is computed from a model's input. Any other tensor is one that kernels may read before the one ahead is done.
  const std::set<std::string> activations{"x",  "q",   "k",   "v",   "mask",     "gate",
                                          "up", "cos", "sin", "ids", "residual", "inputs"};
  int tried = 0;
  for (const GraftOperator& described : graftOperators()) {
    const std::string name(described.name);
    const OperatorRef op = torchSemantics().operators().find("graft." + name + ".default");
    REQUIRE(op);
    for (const Parameter& p : op->parameters) {
      const std::string type = toString(p.type);
      if (p.defaultValue || type.find("ensor") == std::string::npos) continue;
      INFO(name << " " << p.name << "\n" << callOf(*op, p.name));
      CHECK(promises(callOf(*op, p.name)) == activations.contains(p.name));
      ++tried;
    }
    CHECK(promises(callOf(*op, "")));
  }
  REQUIRE(tried > 40);
}
