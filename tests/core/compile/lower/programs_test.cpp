// Groups of operators and the loops that they become, as text: programs.txt. UPDATE_EXPECT=1 writes it anew.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "core/compile/codegen/cpp/cpp_code.h"
#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/loops/marks.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/torch/semantics.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;

namespace {

const std::filesystem::path path = GRAFT_SOURCE_DIR "/tests/core/compile/lower/programs.txt";

const OperatorSet& operators() {
  static const std::unique_ptr<Semantics> torch = makeTorchSemantics();
  return torch->operators();
}

/// The graph with all types, which follow from those of its inputs.
Graph typedGraph(const std::string& text) {
  Graph g = test::graphOf(text, operators());
  std::vector<Type> types;
  for (const ValueId v : g.inputs()) types.push_back(g.value(v).type);
  REQUIRE_RESULT(inferAllTypes(g, types));
  return g;
}

std::string loopsOf(const std::string& text) {
  const Graph g = typedGraph(text);
  const auto program = lower::lower(g);
  return program ? loops::printProgram(*program) : "error: " + program.error().message + "\n";
}

}  // namespace

TEST_CASE("groups of operators become the loops that programs.txt shows") {
  const std::string all = test::readFile(path);
  std::string updated;
  // "== NAME", the graph, "--", the program.
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find("\n== ", at), all.size() - 1);
    const std::string one = all.substr(at, end + 1 - at);
    at = end + 1;
    const size_t line = one.find('\n'), split = one.find("\n--\n");
    REQUIRE(line != one.npos);
    const std::string title = one.substr(0, line);
    const std::string graph = one.substr(line + 1, split == one.npos ? one.npos : split - line);
    const std::string expected = split == one.npos ? "" : one.substr(split + 4);
    const std::string program = loopsOf(graph);
    updated += title + "\n" + graph + "--\n" + program;
    if (std::getenv("UPDATE_EXPECT")) continue;
    INFO(title);
    CHECK(program == expected);
  }
  if (std::getenv("UPDATE_EXPECT")) test::writeFile(path, updated);
}

TEST_CASE("on a GPU, what a column sum is made of and what is stored of it is read once") {
  const lower::Machine machine{.columns = {.least = 2, .partLength = 2, .elements = 0}, .isGpu = true};
  const auto loopsOnGpu = [&](const std::string& text) {
    const auto program = lower::lower(typedGraph(text), {}, machine);
    REQUIRE_RESULT(program);
    return loops::printProgram(*program);
  };
  // Views between the result and its sum leave each element its place.
  const std::string joined = loopsOnGpu(R"(graph g {
    input %g : f32[4,8,16]
    input %x : f32[4,8,16]
    %d = aten.gelu_backward.default(%g, %x)
    %v = aten.view.default(%d, [32, 16])
    %s = aten.sum.dim_IntList(%v, [0], True)
    return %d, %s
  })");
  INFO(joined);
  const auto count = [](const std::string& text, std::string_view what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count(joined, "\nnest") == 2);  // the parts and the result; the parts' sum
  // A sum over half of the rows does not go over the whole result.
  const std::string apart = loopsOnGpu(R"(graph g {
    input %g : f32[32,16]
    input %x : f32[32,16]
    %d = aten.gelu_backward.default(%g, %x)
    %h = aten.slice.Tensor(%d, 0, 0, 16)
    %s = aten.sum.dim_IntList(%h, [0], True)
    return %d, %s
  })");
  INFO(apart);
  CHECK(count(apart, "\nnest") == 3);
}

TEST_CASE("on a GPU, statistics of few long rows read what they are of once, whatever else it is made of") {
  const auto nestsOf = [&](const std::string& text) {
    const auto program = lower::lower(typedGraph(text), {}, lower::kGpu);
    REQUIRE_RESULT(program);
    UNSCOPED_INFO(loops::printProgram(*program));
    return program->nests.size();
  };
  // The parts, what joins them, and the result.
  CHECK(nestsOf(R"(graph g {
    input %x : f16[1,64,56,56]
    %n = aten.group_norm.default(%x, 1)
    return %n
  })") == 3);
  // The windows' sums are stored before, and are no statistic.
  CHECK(nestsOf(R"(graph g {
    input %x : f16[1,64,56,56]
    %p = aten.avg_pool2d.default(%x, [3, 3], [1, 1], [1, 1], False, False)
    %d = aten.sub.Tensor(%p, %x)
    %n = aten.group_norm.default(%d, 1)
    return %d, %n
  })") == 4);
}

TEST_CASE("on a GPU, gradients over rows and over columns are one kernel, and the join of the columns' parts") {
  // 37 rows: the last part of the columns is shorter.
  const Graph g = typedGraph(R"(graph g {
    input %g : f32[37,1,64]
    input %x : f32[37,1,64]
    input %m : f32[37,1,1]
    input %r : f32[37,1,1]
    input %w : f32[64]
    input %e : f32[37,1,64]
    %o, %v, %b = aten.native_layer_norm_backward.default(%g, %x, [64], %m, %r, %w, %w, [True, True, True])
    %d = aten.add.Tensor(%o, %e)
    return %d, %v, %b
  })");
  const lower::Machine machine{.columns = {.least = 2, .partLength = 2, .elements = 0}, .isGpu = true};
  const auto program = lower::lower(g, {}, machine);
  REQUIRE_RESULT(program);
  INFO(loops::printProgram(*program));
  const auto code = codegen::makeCudaCode(*program, {.name = "graft_norm"});
  REQUIRE_RESULT(code);
  REQUIRE(code->kernels.size() == 2);
  CHECK(code->kernels[0].function == "graft_norm_0");
  CHECK(code->kernels[0].schedule.find("which combines their columns") != std::string::npos);
  CHECK(code->kernels[0].blocks == 10);
}

TEST_CASE("columns of so few rows that one part holds them are no reduction of parts") {
  const Graph g = typedGraph(R"(graph g {
    input %x : f16[4,33]
    %n = aten.rms_norm.default(%x, [33], weight=None, eps=0.1)
    %s = aten.softmax.int(%n, 0)
    return %s
  })");
  const lower::Machine machine{.columns = {.least = 2, .partLength = 2, .elements = 0}, .isGpu = true};
  const auto program = lower::lower(g, {}, machine);
  REQUIRE_RESULT(program);
  INFO(loops::printProgram(*program));
  CHECK(loops::verify(*program));
}

TEST_CASE("a node says how it becomes loops, or why it does not") {
  const Graph g = typedGraph(R"(graph g {
    input %x : f32[2,8,64]
    input %w : f32[64,64]
    %a = aten.gelu.default(%x)
    %v = aten.transpose.int(%a, 1, 2)
    %s = aten.softmax.int(%v, 1)
    %m = aten.matmul.default(%x, %w)
    %t = aten.dropout.default(%m, 0.5, True)
    return %s, %t
  })");
  const auto traits = [&](std::string_view name) { return lower::traitsOf(g, g.node(g.findNode(name))); };
  CHECK(traits("a").kind == lower::Kind::Pointwise);
  CHECK(traits("a").cost > 10);
  CHECK(traits("v").kind == lower::Kind::View);
  CHECK(traits("s").kind == lower::Kind::Reduction);
  CHECK(traits("s").reducedDims == std::vector<int64_t>{1});
  CHECK(traits("m").kind == lower::Kind::Product);
  CHECK(traits("m").multiplied == std::vector<size_t>{0, 1});
  CHECK(traits("t").kind == lower::Kind::None);
  CHECK(traits("t").whyNot == "Graft has no loops for aten.dropout.default where train is true");
  const Graph hand = test::graphOf(
      "graph h {\n input %x : f32[2,4,8,8]\n %y = graft.attention.default(%x, %x, %x)\n return %y\n}", operators());
  const lower::Traits own = lower::traitsOf(hand, hand.node(hand.findNode("y")));
  CHECK(own.whyNot == "graft.attention.default is a kernel of its own, written by hand");
}

TEST_CASE("a number that no loop reads may be negative, others are sizes") {
  const Graph g = test::graphOf(
      "graph g {\n input %x : f32[8]\n input %start : int\n input %end : int\n"
      " %a = aten.arange.start_step(%start, %end, -1) : i64[8]\n %y = aten.add.Tensor(%x, %a) : f32[8]\n return %y\n}",
      operators());
  const auto program = lower::lower(g);
  REQUIRE_RESULT(program);
  REQUIRE(program->sizes.size() == 2);
  CHECK(loops::verify(*program).ok());
  const auto again = loops::parseProgram(loops::printProgram(*program));
  REQUIRE_RESULT(again);
  CHECK((again->sizes == program->sizes));
  for (const loops::Program& p : {*program, *again}) {
    CHECK(loops::checkSizes(p, std::vector<int64_t>{4, -4}).ok());
    CHECK_FALSE(loops::checkSizes(p, std::vector<int64_t>{-4, 4}).ok());
  }
  loops::Program lying = *program;
  lying.sizes[0].min = -1;
  CHECK_FALSE(loops::verify(lying).ok());
}

TEST_CASE("a value without a type is named") {
  const Graph g =
      test::graphOf("graph g {\n input %x : f32[4]\n %y = aten.relu.default(%x)\n return %y\n}", operators());
  const auto program = lower::lower(g);
  REQUIRE_FALSE(program);
  CHECK(program.error().message == "%y: the dtype of %y is not known");
}

TEST_CASE("each part of loops and of C++ says which node it computes") {
  const Graph g = typedGraph(
      "graph g {\n  input %x : f32[4,8]\n  input %y : f32[4,8]\n  %add = aten.add.Tensor(%x, %y, alpha=1)\n"
      "  %exp = aten.exp.default(%add)\n  %softmax = aten.softmax.int(%exp, dim=-1, dtype=None)\n  return "
      "%softmax\n}\n");
  const auto program = lower::lower(g);
  REQUIRE_RESULT(program);
  for (const std::string& printed : {loops::printProgram(*program, true), codegen::makeCppCode(*program, {}, true)}) {
    const loops::MarkedText text = loops::withoutMarks(printed);
    INFO(text.text);
    CHECK((text.text == loops::printProgram(*program) || text.text == codegen::makeCppCode(*program, {})));
    const auto partsOf = [&](const char* node) {
      std::string parts;
      for (const loops::OriginSpan& s : text.spans)
        if (s.origin == g.findNode(node).index + 1) parts += text.text.substr(s.begin, s.end - s.begin) + "\n";
      return parts;
    };
    CHECK(partsOf("add").find(" + y[") != std::string::npos);
    CHECK(partsOf("add").find("exp(") == std::string::npos);
    CHECK(partsOf("exp").find("exp(") != std::string::npos);
    CHECK(partsOf("softmax").find("1.0") != std::string::npos);
  }
}

TEST_CASE("each part of CUDA C++ says which node it computes, and the marks change nothing else") {
  const std::string all = test::readFile(path);
  size_t programs = 0, named = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find("\n== ", at), all.size() - 1);
    const std::string one = all.substr(at, end + 1 - at);
    at = end + 1;
    const size_t line = one.find('\n'), split = one.find("\n--\n");
    INFO(one);
    const Graph g = typedGraph(one.substr(line + 1, split == one.npos ? one.npos : split - line));
    const auto program = lower::lower(g);
    if (!program) continue;
    codegen::CudaOptions options;
    for (const loops::Size& s : program->sizes) options.sizes.push_back(std::max<int64_t>(s.min, 16));
    const auto plain = codegen::makeCudaCode(*program, options);
    options.hasMarks = true;
    const auto marked = codegen::makeCudaCode(*program, options);
    REQUIRE(plain.ok() == marked.ok());
    if (!plain) continue;
    const loops::MarkedText text = loops::withoutMarks(marked->source);
    CHECK(text.text == plain->source);
    ++programs;
    std::set<uint32_t> origins;
    for (const loops::OriginSpan& s : text.spans) {
      CHECK(s.begin >= plain->preludeBytes);
      CHECK(text.text.substr(s.begin, s.end - s.begin).find('\n') == std::string::npos);
      CHECK(g.isAlive(NodeId(s.origin - 1)));
      origins.insert(s.origin);
    }
    named += origins.size();
  }
  CHECK(programs >= 8);
  CHECK(named >= programs);

  const Graph g = typedGraph(
      "graph g {\n  input %x : f16[64,768]\n  input %b : f16[768]\n  %add = aten.add.Tensor(%x, %b, alpha=1)\n"
      "  %gelu = aten.gelu.default(%add)\n  return %gelu\n}\n");
  codegen::CudaOptions options;
  options.hasMarks = true;
  const auto program = lower::lower(g);
  REQUIRE_RESULT(program);
  const auto code = codegen::makeCudaCode(*program, options);
  REQUIRE_RESULT(code);
  const loops::MarkedText text = loops::withoutMarks(code->source);
  std::string sum, gelu;
  for (const loops::OriginSpan& s : text.spans)
    (s.origin == g.findNode("add").index + 1 ? sum : gelu) += text.text.substr(s.begin, s.end - s.begin) + "\n";
  INFO(text.text.substr(code->preludeBytes));
  CHECK(sum.find(" + ") != std::string::npos);
  CHECK(sum.find("erf") == std::string::npos);
  CHECK(gelu.find("erf") != std::string::npos);
}
