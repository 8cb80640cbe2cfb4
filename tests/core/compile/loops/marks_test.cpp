// Which part of a text was made for what: marks in texts, and origins of expressions that stay when these are rebuilt.
#include "core/compile/loops/marks.h"

#include "core/compile/loops/simplify.h"
#include "core/compile/loops/text.h"
#include "tests/support/catch.h"

using namespace graft;
using namespace graft::loops;

TEST_CASE("marks come out of a text as spans, the innermost one where they are nested") {
  const MarkedText m = withoutMarks("y = " + marked("a * " + marked("exp(x)", 1) + " + b", 2));
  CHECK(m.text == "y = a * exp(x) + b");
  CHECK(m.spans == std::vector<OriginSpan>{{2, 4, 8}, {1, 8, 14}, {2, 14, 18}});
}

TEST_CASE("neighbours of one origin are one span, and origin 0 marks nothing") {
  const MarkedText m = withoutMarks(marked(marked("a", 3) + marked("b", 3), 3) + marked("c", 0));
  CHECK(m.text == "abc");
  CHECK(m.spans == std::vector<OriginSpan>{{3, 0, 2}});
}

TEST_CASE("a mark counts for a whole text only where it ends with it") {
  CHECK(markLength(marked("a", 12)) == 4);
  CHECK(markLength(marked("a", 1) + marked("b", 2)) == 0);
  CHECK(markLength("a") == 0);
  CHECK(withoutMarks("\x01").text.empty());  // a broken text ends there
}

TEST_CASE("an expression keeps its first origin, and what is simplified keeps it too") {
  Program p;
  ExprPool& e = p.expressions;
  const BufferId x = p.addBuffer("x", DType::Float32, {e.integer(8)}, Buffer::Role::Input);
  const BufferId y = p.addBuffer("y", DType::Float32, {e.integer(8)}, Buffer::Role::Output);
  const RangeId i = p.addRange("i0", e.integer(8));
  const ExprId load = e.load(x, {e.range(i)}, DType::Float32);
  ExprId inner, outer;
  {
    const ExprPool::MadeFor first(e, 1);
    inner = e.unary(Op::Exp, load);
    const ExprPool::MadeFor second(e, 2);
    outer = e.binary(Op::Multiply, e.unary(Op::Exp, load), e.number(DType::Float32, 2.0));
  }
  CHECK(e.origin(inner) == 1);
  CHECK(e.origin(outer) == 2);
  CHECK(e.origin(e.unary(Op::Tanh, load)) == 0);
  // Another index: all is built anew.
  Simplifier s(p);
  const ExprId moved = s.substitute(outer, {{i, e.integer(3)}});
  REQUIRE(moved != outer);
  CHECK(e.origin(moved) == 2);
  CHECK(e.origin(e[moved].operands[0]) == 1);
  p.nests.push_back({{i}, {{.buffer = y, .index = {e.range(i)}, .value = outer, .ranges = {}}}});
  const MarkedText text = withoutMarks(printProgram(p, true));
  CHECK(text.text == printProgram(p));
  REQUIRE(text.spans.size() == 2);
  CHECK(text.text.substr(text.spans[0].begin, text.spans[0].end - text.spans[0].begin) == "exp(x[i0])");
  CHECK(text.spans[0].origin == 1);
  CHECK(text.spans[1].origin == 2);
}
