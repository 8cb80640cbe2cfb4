// What each pass records, and that each is known wherever its name is. What a pass computes is tested with numbers by
// the cases of tests/matcher/cases.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <set>

#include "tests/matcher/passes/fixtures.h"

using namespace graft;
using namespace graft::test;
using Names = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

namespace {

std::string read(const std::string& path) {
  std::ifstream in(std::string(GRAFT_SOURCE_DIR) + "/" + path);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string without(const std::string& text, const std::regex& what) { return std::regex_replace(text, what, ""); }

}  // namespace

TEST_CASE("every pass is one file, has a help line, a stub for Python and a line in the reference") {
  const std::string stubs = read("resources/python/graft/__init__.py");
  const std::string reference = read("docs/reference/recipes.md");
  CHECK(passes().size() >= 8);
  for (const Pass& p : passes()) {
    const std::string name(p.name);
    INFO(name);
    CHECK(findPass(name) == &p);
    CHECK_FALSE(p.help.empty());
    CHECK(read("matcher/passes/" + name + ".cpp").find("GRAFT_PASS(" + name + ",") != std::string::npos);
    CHECK(std::regex_search(stubs, std::regex("\\n[\\w =]*\\b" + name + "\\b[\\w =]*= _pattern_only")));
    CHECK(std::regex_search(reference, std::regex("\\n\\| [^|]*`" + name + "\\b[^|]*\\|")));
  }
  CHECK(findPass("no_such_pass") == nullptr);
}

TEST_CASE("the stubs for Python name no pass that does not exist") {
  const std::string stubs = read("resources/python/graft/__init__.py");
  const size_t passesBegin = stubs.find("# The passes");
  REQUIRE(passesBegin != std::string::npos);
  const std::regex name("\\w+");
  const std::string lines =
      without(stubs.substr(stubs.find('\n', passesBegin)), std::regex("_pattern_only|#.*|[^\\w\\n= ]"));
  std::set<std::string> named;
  for (std::sregex_iterator at(lines.begin(), lines.end(), name), end; at != end; ++at) named.insert(at->str());
  CHECK(named.size() == passes().size());
  for (const std::string& n : named) {
    INFO(n);
    CHECK(findPass(n) != nullptr);
  }
}

TEST_CASE("remove_dropout records each dropout that goes and what took its place") {
  Graph g = graph(R"(input %x : f32[2,3]
%a = aten.dropout.default(%x, 0.1, False) : f32[2,3]
%b = aten.dropout.default(%a, 0.5, True) : f32[2,3]
return %b)");
  const auto records = runPass(g, "remove_dropout");
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"a"});
  CHECK(records[0].addedNames.empty());
  CHECK(records[0].inputs == Pairs{{"x", "x"}});
  CHECK(records[0].outputs == Pairs{{"a", "x"}});
  CHECK(g.nodeCount() == 1);
}

TEST_CASE("split_bias makes an addition of a bias on a GPU, where a kernel may take it along") {
  const auto convolutions = [](const std::string& device) {
    const std::string at = "@" + device;
    return graph("input %x : f32[1,8,9]" + at + "\nweight %w \"w\" : f32[8,8,3]" + at + "\nweight %b \"b\" : f32[8]" +
                 at + "\nweight %d \"d\" : f32[8,1,3]" + at +
                 "\n%a = aten.conv1d.default(%x, %w, %b, [1], [1]) : f32[1,8,9]" + at +
                 "\n%r = aten.relu.default(%a) : f32[1,8,9]" + at +
                 // No kernel is generated for what reads it.
                 "\n%c = aten.conv1d.default(%r, %w, %b, [1], [1]) : f32[1,8,9]" + at +
                 // PyTorch's own kernel adds it: this one is of no image.
                 "\n%e = aten.conv1d.default(%c, %d, %b, [1], [1], [1], 8) : f32[1,8,9]" + at +
                 "\n%t = aten.tanh.default(%e) : f32[1,8,9]" + at + "\nreturn %t");
  };
  Graph g = convolutions("cuda:0");
  const auto records = runPass(g, "split_bias");
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"a"});
  CHECK(records[0].addedNames.size() == 3);
  const Node& relu = g.node(g.findNode("r"));
  const Node& add = g.node(g.value(relu.args[0].valueId()).producer);
  CHECK(add.op->name == "aten.add.Tensor");
  const Node& conv = g.node(g.value(add.args[0].valueId()).producer);
  CHECK(conv.op->name == "aten.conv1d.default");
  CHECK(conv.args[2].isNone());
  CHECK(toString(g.value(conv.outputs[0]).type) == "f32[1,8,9]@cuda:0");
  CHECK(runPass(g, "split_bias").empty());
  Graph onCpu = convolutions("cpu");
  CHECK(runPass(onCpu, "split_bias").empty());
  // Without a batch the channels come first.
  Graph one = graph(R"(input %x : f32[8,9]@cuda:0
weight %w "w" : f32[8,8,3]@cuda:0
weight %b "b" : f32[8]@cuda:0
%a = aten.conv1d.default(%x, %w, %b, [1], [1]) : f32[8,9]@cuda:0
%r = aten.relu.default(%a) : f32[8,9]@cuda:0
return %r)");
  REQUIRE(runPass(one, "split_bias").size() == 1);
  const std::string text = toText(one);
  INFO(text);
  CHECK(std::regex_search(text, std::regex("reshape.default\\(%b, (shape=)?\\[-1, ?1\\]\\)")));
  // The recipe may say that it is for a GPU.
  Recipe recipe;
  recipe.steps.emplace_back().name = "split_bias";
  recipe.steps[0].kwargs.emplace_back("gpu", Argument(true));
  const auto run = runRecipe(onCpu, RuleFile{}, recipe, FakeSemantics{});
  REQUIRE(run);
  CHECK(run->steps[0].records.size() == 1);
}

TEST_CASE("split_bias takes Graft's convolutions in groups apart on a GPU, and leaves others whole") {
  const std::string head = R"(input %x : f16[1,8,9,9]@cuda:0
input %r : f16[1,8,9,9]@cuda:0
weight %w "w" : f16[8,1,3,3]@cuda:0
weight %v "v" : f16[8,8,3,3]@cuda:0
weight %p "p" : f16[8,4,3,3]@cuda:0
weight %b "b" : f16[8]@cuda:0
)";
  const auto ops = [&](const std::string& call) {
    Graph g = graph(head + "%y = graft." + call + " : f16[1,8,9,9]@cuda:0\nreturn %y");
    runPass(g, "split_bias");
    Names names;
    for (const NodeId id : g.order()) {
      names.push_back(g.node(id).op->name);
      if (names.back() != "aten.reshape.default")
        CHECK(toString(g.value(g.node(id).outputs[0]).type) == "f16[1,8,9,9]@cuda:0");
    }
    return names;
  };
  const std::string conv = "aten.conv2d.default", shape = "aten.reshape.default", add = "aten.add.Tensor";
  const std::string places = ", [1, 1], [1, 1], [1, 1], ";
  CHECK(ops("conv_activation.default(%x, %w, %b, %r" + places + "8, \"silu\")") ==
        Names{conv, shape, add, add, "aten.silu.default"});
  CHECK(ops("conv_activation.default(%x, %w, None, None" + places + "8, \"hardtanh\", 0.0, 6.0)") ==
        Names{conv, "aten.clamp.default"});
  CHECK(ops("conv_activation.default(%x, %w, %b, None" + places + "8, \"none\")") == Names{conv, shape, add});
  CHECK(ops("conv_bias_add_relu.default(%x, %w, None, None" + places + "8)") == Names{conv, "aten.relu.default"});
  CHECK(ops("conv_bias_add_relu.default(%x, %w, None, %r" + places + "8, False)") == Names{conv, add});
  CHECK(ops("conv_activation.default(%x, %v, %b, %r" + places + "1, \"silu\")") ==
        Names{"graft.conv_activation.default"});
  // Groups of several channels: Graft's own convolution chooses how to compute them.
  CHECK(ops("conv_activation.default(%x, %p, %b, None" + places + "2, \"silu\")") ==
        Names{"graft.conv_bias_add_relu.default", shape, add, "aten.silu.default"});
}

TEST_CASE("functionalize makes functions of writes through views of what the model makes itself") {
  const std::string inputs =
      "input %l : f32[20000,6]\ninput %s : f32[12,6]\ninput %x : f32[4,6]\ninput %y : f32[4,5]\ninput %r : f32[6]\n%b "
      "= aten.mul.Tensor(%x, 2.0) : f32[4,6]\n";
  const auto text = [&](const std::string& body) {
    Graph g = graph(inputs + body);
    runPass(g, "functionalize");
    const std::string out = toText(g, {.sources = false});
    return out.substr(out.find("%b ="));
  };
  const auto stays = [&](const std::string& body) { return text(body).find("_.") != std::string::npos; };
  const std::string end = "9223372036854775807";
  // scores[:, 1:] += y, as tracing writes it: with a copy of the view to itself.
  const std::string added = text("%a = aten.slice.Tensor(%b, 0, 0, " + end +
                                 ", 1) : f32[4,6]\n"
                                 "%v = aten.slice.Tensor(%a, 1, 1, " +
                                 end +
                                 ", 1) : f32[4,5]\n"
                                 "%w = aten.add_.Tensor(%v, %y) : f32[4,5]\n"
                                 "%c = aten.slice.Tensor(%b, 0, 0, " +
                                 end +
                                 ", 1) : f32[4,6]\n"
                                 "%d = aten.slice.Tensor(%c, 1, 1, " +
                                 end +
                                 ", 1) : f32[4,5]\n"
                                 "%e = aten.copy_.default(%d, %w, False) : f32[4,5]\n"
                                 "%z = aten.relu.default(%b) : f32[4,6]\nreturn %z");
  INFO(added);
  CHECK(std::regex_search(added, std::regex("%add = aten.add.Tensor\\(%v, %y")));
  CHECK(std::regex_search(added, std::regex("%(\\w+) = aten.slice_scatter.default\\(%a, %add, [^\\n]*: "
                                            "f32\\[4,6\\][^\\n]*\\n[^\\n]*relu.default\\(%\\1\\)")));
  CHECK(added.find("copy_") == std::string::npos);
  // A row. A view that was made before shows the write, and so does what is returned.
  const std::string row = text(
      "%t = aten.transpose.int(%b, 0, 1) : f32[6,4]\n%v = aten.select.int(%b, 0, 2) : f32[6]\n"
      "%e = aten.copy_.default(%v, %r, False) : f32[6]\n%z = aten.relu.default(%t) : f32[6,4]\nreturn %z, %b");
  INFO(row);
  CHECK(std::regex_search(row, std::regex("%(\\w+) = aten.copy.default\\(%v, %r, [^\\n]*\\n"
                                          "[^\\n]*%(\\w+) = aten.select_scatter.default\\(%b, %\\1, [^\\n]*\\n"
                                          "[^\\n]*%(\\w+) = aten.transpose.int\\(%\\2,[^\\n]*\\n"
                                          "[^\\n]*relu.default\\(%\\3\\)[^\\n]*\\n *return[^\\n]*%\\2")));
  // What may be a view or a copy must not be read after a write that it may show.
  const std::string reshaped =
      "%f = aten.reshape.default(%b, [24]) : f32[24]\n%v = aten.select.int(%b, 0, 2) : f32[6]\n"
      "%e = aten.add_.Tensor(%v, %r) : f32[6]\n";
  CHECK(stays(reshaped + "%z = aten.relu.default(%f) : f32[24]\nreturn %z"));
  CHECK_FALSE(stays(reshaped + "%z = aten.relu.default(%b) : f32[4,6]\nreturn %z"));
  // It changes the shape, and no elements.
  CHECK(stays("%v = aten.select.int(%b, 0, 2) : f32[6]\n%u = aten.unsqueeze_.default(%v, 0) : f32[1,6]\nreturn %b"));
  // Somebody outside may see it.
  CHECK(stays("%v = aten.select.int(%x, 0, 2) : f32[6]\n%e = aten.add_.Tensor(%v, %r) : f32[6]\nreturn %b"));
  // A loop that fills a tensor row by row would go over all of it each time.
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows += fmt::format(
        "%v{0} = aten.select.int(%all, 0, {0}) : f32[6]\n%e{0} = aten.copy_.default(%v{0}, %r) : f32[6]\n", i);
  CHECK(stays("%all = aten.mul.Tensor(%l, 2.0) : f32[20000,6]\n" + rows + "return %all, %b"));
  CHECK_FALSE(stays("%all = aten.mul.Tensor(%s, 2.0) : f32[12,6]\n" + rows + "return %all, %b"));
}

TEST_CASE(
    "conv1d_as_conv2d takes convolutions over time, and what is between them, over images of height one on a GPU") {
  const auto ops = [](const std::string& device, const std::string& body) {
    const std::string text =
        "input %x : f16[2,8,20]\nweight %w \"w\" : f16[16,8,5]\nweight %v \"v\" : f16[16,4,3]\n"
        "weight %d \"d\" : f16[8,1,3]\nweight %b \"b\" : f16[16]\ninput %r : f16[2,16,1]\n" +
        body;
    Graph g = graph(std::regex_replace(text, std::regex("(f16\\[[0-9,]*\\])"), "$1@" + device));
    runPass(g, "conv1d_as_conv2d");
    Names out;
    for (const NodeId id : g.order()) {
      const Node& n = g.node(id);
      out.push_back(std::string(n.op->baseName()) + " " + toString(g.value(n.outputs[0]).type));
    }
    return out;
  };
  const std::string two =
      "%a = aten.conv1d.default(%x, %w, %b, [2], [1], [1], 1) : f16[2,16,9]\n"
      "%g = aten.relu.default(%a) : f16[2,16,9]\n%s = aten.mul.Tensor(%g, %r) : f16[2,16,9]\n"
      "%c = aten.conv1d.default(%s, %v, None, [1], [0], [1], 4) : f16[2,16,7]\nreturn %c";
  const std::string at = "@cuda:0";
  CHECK(ops("cuda:0", two) ==
        Names{"unsqueeze f16[2,8,1,20]" + at, "unsqueeze f16[16,8,1,5]" + at, "conv2d f16[2,16,1,9]" + at,
              "relu f16[2,16,1,9]" + at, "unsqueeze f16[2,16,1,1]" + at, "mul f16[2,16,1,9]" + at,
              "unsqueeze f16[16,4,1,3]" + at, "conv2d f16[2,16,1,7]" + at, "squeeze f16[2,16,7]" + at});
  CHECK(ops("cpu", two).size() == 4);
  // Windows of each channel, for which there are generated kernels, stay; so does what works along another dimension.
  CHECK(ops("cuda:0", "%a = aten.conv1d.default(%x, %d, None, [1], [1], [1], 8) : f16[2,8,20]\nreturn %a") ==
        Names{"conv1d f16[2,8,20]" + at});
  CHECK(ops("cuda:0",
            "%a = aten.conv1d.default(%x, %w, %b, [1], [2], [1], 1) : f16[2,16,20]\n"
            "%t = aten.transpose.int(%a, 1, 2) : f16[2,20,16]\n%g = aten.relu.default(%t) : f16[2,20,16]\n"
            "return %g") == Names{"unsqueeze f16[2,8,1,20]" + at, "unsqueeze f16[16,8,1,5]" + at,
                                  "conv2d f16[2,16,1,20]" + at, "squeeze f16[2,16,20]" + at,
                                  "transpose f16[2,20,16]" + at, "relu f16[2,20,16]" + at});
}

TEST_CASE("channels_last lays weights of convolutions out on a GPU, and images that a caller gives, once") {
  const std::string head = R"(input %x : f32[1,8,9,9]@cuda:0
input %s : f32[1,8,9,9]@cuda:0
weight %w "w" : f32[8,8,3,3]@cuda:0
)";
  const auto text = [](const Graph& g) { return toText(g, {.sources = false}); };
  const auto contains = [](const std::string& all, const std::string& part) { return all.find(part) != all.npos; };
  // Elementwise operators and cats take an image to a convolution, and what reads its memory as rows is a reshape.
  Graph g = graph(head + R"(%m = aten.mul.Tensor(%x, 2.0) : f32[1,8,9,9]@cuda:0
%c = aten.conv2d.default(%m, %w) : f32[1,8,7,7]@cuda:0
%d = aten.conv2d.default(%x, %w) : f32[1,8,7,7]@cuda:0
%v = aten.view.default(%m, [1, 648]) : f32[1,648]@cuda:0
%n = aten.neg.default(%s) : f32[1,8,9,9]@cuda:0
%y = aten.amax.default(%x) : f32[]@cuda:0
return (%c, %d, %v, %n, %y))");
  REQUIRE(runPass(g, "channels_last").size() == 3);  // the image, and each convolution's weight
  CHECK(g.nodeCount() == 8);                         // the weight, too, is laid out once
  const std::string once = text(g);
  INFO(once);
  CHECK(std::regex_search(once, std::regex("%contiguous = aten.contiguous.default\\(%x, .*channels_last>\\)")));
  CHECK(contains(once, "aten.mul.Tensor(%contiguous, "));
  CHECK(contains(once, "aten.conv2d.default(%contiguous, "));
  CHECK(contains(once, "aten.reshape.default(%m, "));
  CHECK(contains(once, "aten.neg.default(%s)"));
  CHECK(contains(once, "aten.amax.default(%x"));
  // A convolution would turn what a contiguous() lays out in rows.
  Graph rows = graph(head + R"(%p = aten.permute.default(%s, [0, 3, 1, 2]) : f32[1,9,8,9]@cuda:0
%q = aten.permute.default(%p, [0, 2, 3, 1]) : f32[1,8,9,9]@cuda:0
%k = aten.contiguous.default(%q) : f32[1,8,9,9]@cuda:0
%c = aten.conv2d.default(%k, %w) : f32[1,8,7,7]@cuda:0
return (%c, %k))");
  REQUIRE(runPass(rows, "channels_last").size() == 2);
  INFO(text(rows));
  CHECK(contains(text(rows), "aten.conv2d.default(%q, "));
  // Memory that is read as it lies stays so.
  Graph fixed = graph(head + R"(%m = aten.mul.Tensor(%x, 2.0) : f32[1,8,9,9]@cuda:0
%c = aten.conv2d.default(%m, %w) : f32[1,8,7,7]@cuda:0
%v = aten.as_strided.default(%m, [8], [1]) : f32[8]@cuda:0
return (%c, %v))");
  runPass(fixed, "channels_last");
  INFO(text(fixed));
  CHECK(contains(text(fixed), "aten.mul.Tensor(%x, "));
  // So do images whose memory the model reads behind a convolution, writes, or has permuted.
  for (const std::string& body : {
           std::string(R"(%c = aten.conv2d.default(%x, %w) : f32[1,8,7,7]@cuda:0
%v = aten.as_strided.default(%c, [8], [1]) : f32[8]@cuda:0
return %v)"),
           std::string(R"(%r = aten.relu_.default(%x) : f32[1,8,9,9]@cuda:0
%c = aten.conv2d.default(%x, %w) : f32[1,8,7,7]@cuda:0
return %c)"),
           std::string(R"(%p = aten.permute.default(%x, [0, 1, 3, 2]) : f32[1,8,9,9]@cuda:0
%c = aten.conv2d.default(%p, %w) : f32[1,8,7,7]@cuda:0
return %c)"),
       }) {
    Graph same = graph(head + body);
    runPass(same, "channels_last");
    INFO(text(same));
    CHECK_FALSE(contains(text(same), "aten.contiguous.default(%x"));
  }
  Graph written = graph(head + R"(%p = aten.mul.Tensor(%s, 2.0) : f32[1,8,9,9]@cuda:0
%k = aten.contiguous.default(%p) : f32[1,8,9,9]@cuda:0
%r = aten.relu_.default(%p) : f32[1,8,9,9]@cuda:0
%c = aten.conv2d.default(%k, %w) : f32[1,8,7,7]@cuda:0
return (%c, %r))");
  runPass(written, "channels_last");
  INFO(text(written));
  CHECK(contains(text(written), "aten.conv2d.default(%k, "));
  Graph onCpu = graph(R"(input %x : f32[1,8,9,9]@cpu
weight %w "w" : f32[8,8,3,3]@cpu
%c = aten.conv2d.default(%x, %w) : f32[1,8,7,7]@cpu
return %c)");
  CHECK(runPass(onCpu, "channels_last").empty());
}

TEST_CASE("eliminate_common records the second calculation as the first") {
  Graph g = graph(R"(input %x : f32[2,3]
%a = aten.relu.default(%x) : f32[2,3]
%b = aten.relu.default(%x) : f32[2,3]
%c = aten.add.Tensor(%a, %b) : f32[2,3]
return %c)");
  const auto records = runPass(g, "eliminate_common");
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"b"});
  CHECK(records[0].outputs == Pairs{{"b", "a"}});
  CHECK(runPass(g, "eliminate_common").empty());
}

TEST_CASE("eliminate_dead records all that goes at once, and nothing where nothing does") {
  Graph g = graph(R"(weight %w "w" : f32[3]
input %x : f32[2,3]
%a = aten.relu.default(%x) : f32[2,3]
%d = aten.add.Tensor(%a, %w) : f32[2,3]
%e = aten.tanh.default(%d) : f32[2,3]
return %a)");
  const auto records = runPass(g, "eliminate_dead");
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"e", "d"});
  CHECK(g.weights().empty());
  CHECK(runPass(g, "eliminate_dead").empty());
}

TEST_CASE("fold_constants records the new weight, and leaves what cannot be calculated") {
  const std::string text = R"(weight %w "fc.w" : f32[3]
input %x : f32[2,3]
%c = aten.relu.default(%w) : f32[3]
%y = aten.add.Tensor(%x, %c) : f32[2,3]
return %y)";
  Graph g = graph(text), same = graph(text);
  const auto records = runPass(g, "fold_constants");
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"c"});
  CHECK(records[0].newWeights == Names{"fc.w_relu"});
  CHECK(g.weights().size() == 1);  // the old one is read by nobody
  FakeSemantics noData;
  noData.evaluates = false;
  CHECK(runPass(same, "fold_constants", {}, noData).empty());
  CHECK(same.nodeCount() == 2);
}

TEST_CASE("normalize records what it changes in place as removed and added") {
  Graph g = graph(R"(input %x : f32[2,3]
%a = aten.mul.Tensor(%x, 1.0) : f32[2,3]
%b = aten.relu_.default(%a) : f32[2,3]
%c = aten.transpose.int(%x, 1, -1) : f32[2,3]
%d = aten.tanh.default(%c) : f32[2,3]
return %d)");
  const auto records = runPass(g, "normalize");
  REQUIRE_FALSE(records.empty());
  CHECK(records[0].removedNames == Names{"c"});
  CHECK(records[0].outputs == Pairs{{"c", "x"}});
  CHECK(runPass(g, "normalize").empty());
}

TEST_CASE("find_products makes an einsum of a multiplication that broadcasts and a sum") {
  const auto lines = [](const std::string& body) {
    Graph g = graph(body);
    const auto records = runPass(g, "find_products");
    std::vector<std::string> out;
    for (NodeId id : g.order()) {
      const Node& n = g.node(id);
      std::string line = n.op->name;
      if (n.op->name == "aten.einsum.default") line += " " + *n.args[0].as<std::string>();
      out.push_back(std::move(line));
    }
    const auto isEinsum = [](const std::string& line) { return line.find("einsum") != std::string::npos; };
    CHECK(records.size() == static_cast<size_t>(std::count_if(out.begin(), out.end(), isEinsum)));
    return out;
  };
  using Lines = std::vector<std::string>;
  const std::string inputs = "input %x : f32[2,9,1,16]\ninput %y : f32[2,1,12,16]\ninput %z : f32[12,16]\n";
  CHECK(lines(inputs + "%m = aten.mul.Tensor(%x, %y) : f32[2,9,12,16]\n"
                       "%s = aten.sum.dim_IntList(%m, [-1], False) : f32[2,9,12]\nreturn %s") ==
        Lines{"aten.einsum.default abcd,abcd->abc"});
  // One that is an operand of the next.
  CHECK(lines(inputs + "input %v : f32[2,9,10,12]\n%m = aten.mul.Tensor(%x, %y) : f32[2,9,12,16]\n"
                       "%s = aten.sum.dim_IntList(%m, [-1], True) : f32[2,9,12,1]\n"
                       "%n = aten.mul.Tensor(%s, %y) : f32[2,9,12,16]\n"
                       "%t = aten.sum.dim_IntList(%n, [2]) : f32[2,9,16]\nreturn %t") ==
        Lines{"aten.einsum.default abcd,abcd->abc", "aten.unsqueeze.default", "aten.einsum.default abcd,abcd->abd"});
  // An operand of fewer dimensions, and a sum that keeps its dimension.
  CHECK(lines(inputs + "%m = aten.mul.Tensor(%z, %x) : f32[2,9,12,16]\n"
                       "%s = aten.sum.dim_IntList(%m, [3], True) : f32[2,9,12,1]\nreturn %s") ==
        Lines{"aten.einsum.default cd,abcd->abc", "aten.unsqueeze.default"});
  const auto stays = [&](const std::string& body) {
    const Lines out = lines(inputs + body);
    return std::none_of(out.begin(), out.end(),
                        [](const std::string& s) { return s.find("einsum") != std::string::npos; });
  };
  CHECK(
      stays("%m = aten.mul.Tensor(%x, %y) : f32[2,9,12,16]\n"  // the large tensor is wanted, too
            "%s = aten.sum.dim_IntList(%m, [-1], False) : f32[2,9,12]\nreturn %s, %m"));
  CHECK(
      stays("%m = aten.mul.Tensor(%x, %y) : f32[2,9,12,16]\n"  // a sum over what one operand alone has
            "%s = aten.sum.dim_IntList(%m, [1], False) : f32[2,12,16]\nreturn %s"));
  CHECK(
      stays("%w = aten.sigmoid.default(%x) : f32[2,9,1,16]\n%m = aten.mul.Tensor(%x, %w) : f32[2,9,1,16]\n"
            "%s = aten.sum.dim_IntList(%m, [-1], False) : f32[2,9,1]\nreturn %s"));  // no columns
  CHECK(
      stays("%m = aten.mul.Tensor(%x, %y) : f32[2,9,12,16]\n"  // in another dtype
            "%s = aten.sum.dim_IntList(%m, [-1], False, dtype=torch.float64) : f64[2,9,12]\nreturn %s"));
}

TEST_CASE("normalize drops a zero that is added to floating-point numbers") {
  Graph g = graph(R"(input %x : f32[2,3]
input %n : i64[2,3]
%r = aten.relu.default(%x) : f32[2,3]
%a = aten.add.Tensor(%r, 0, alpha=1) : f32[2,3]
%b = aten.sub.Tensor(%a, 0.0) : f32[2,3]
%c = aten.tanh.default(%b) : f32[2,3]
%d = aten.add.Tensor(%n, 0.0) : f32[2,3]
%e = aten.add.Tensor(%r, 2) : f32[2,3]
%t = aten.transpose.int(%r, 0, 1) : f32[3,2]
%f = aten.add.Tensor(%t, 0) : f32[3,2]
%h = aten.add.Tensor(%x, 0) : f32[2,3]
return %c, %d, %e, %f, %h)");
  const auto records = runPass(g, "normalize");
  REQUIRE_FALSE(records.empty());
  Names left;
  for (NodeId id : g.order()) left.push_back(g.node(id).name);
  CHECK(left == Names{"r", "c", "d", "e", "t", "f", "h"});  // those that copy stay
}

TEST_CASE("decompose records what it adds, and takes everything back where a step has no types") {
  const std::string text = "input %x : f32[2,3]\n%y = aten.silu.default(%x) : f32[2,3]\nreturn %y";
  Graph g = graph(text), same = graph(text);
  const auto records = runPass(g, "decompose", {Argument(Named{"torch.nn.SiLU"})});
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"y"});
  CHECK(records[0].addedNames == Names{"sigmoid", "mul"});
  CHECK(records[0].outputs == Pairs{{"y", "mul"}});
  FakeSemantics semantics;
  semantics.refuse = "aten.mul.Tensor";
  CHECK(errorOf(same, "decompose", {Argument(Named{"torch.nn.SiLU"})}, semantics) ==
        "`y` (aten.silu) cannot be decomposed: no such shapes");
  CHECK(toText(same) == toText(graph(text)));
}

TEST_CASE("half records the casts and the weights that it converts") {
  Graph g = graph(R"(weight %w "w" : f32[3]
input %x : f32[2,3]
%y = aten.add.Tensor(%x, %w) : f32[2,3]
return %y)");
  const auto records = runPass(g, "half");
  REQUIRE(records.size() == 1);
  CHECK(records[0].addedNames == Names{"x_half", "y_float"});
  CHECK(records[0].newWeights == Names{"w"});
  CHECK(records[0].changesNumbers);
}

TEST_CASE("half records what it changes where only literals become float16") {
  Graph g = graph(R"(input %i : i64[2,3]
%a = aten.to.dtype(%i, torch.float32) : f32[2,3]
%n = aten.size.int(%a, 0) : int
return %n)");
  const auto records = runPass(g, "half");
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"a"});
  CHECK(records[0].addedNames == Names{"a"});
  CHECK(records[0].changesNumbers);
  CHECK(runPass(g, "half").empty());
}

TEST_CASE("swap_module records the new operator and that numbers change") {
  Graph g = graph(R"(graph g {
module m0 "act" torch.nn.modules.activation.SiLU
input %x : f32[2,3]
%y = aten.silu.default(%x) : f32[2,3] @m0
return %y
})");
  const auto records = runPass(g, "swap_module", {Argument(Named{"torch.nn.SiLU"}), Argument(Named{"torch.nn.ReLU"})});
  REQUIRE(records.size() == 1);
  CHECK(records[0].removedNames == Names{"y"});
  CHECK(records[0].addedNames == Names{"relu"});
  CHECK(records[0].changesNumbers);
  CHECK(records[0].scope == "act");
  CHECK(g.moduleCalls()[0].shortType() == "ReLU");
}

TEST_CASE("partition's modules are runs of connected nodes, and no node moves before what it reads or across a write") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto any = [&](size_t n) { return std::to_string(random() % n); };
    std::string text = "graph g {\ninput %v0 : f32[2]\n%kept = aten.clone.default(%v0) : f32[2]\n";
    const size_t count = 5 + seed % 20;
    for (size_t i = 1; i <= count; ++i) {
      const std::string v = "%v" + std::to_string(i), a = "(%v" + any(i), b = ", %v" + any(i);
      switch (random() % 8) {
        case 0:
          text += "%w" + std::to_string(i) + " = aten.add_.Tensor(%kept" + b + ") : f32[2]\n";
          [[fallthrough]];
        case 1:
          text += v + " = aten.relu.default" + a;
          break;
        case 2:
          text += v + " = aten.exp.default" + a;
          break;
        case 3:
          text += v + " = aten.tanh.default" + a;
          break;
        case 4:
          text += v + " = aten.add.Tensor(%kept" + b;
          break;
        default:
          text += v + " = aten.mul.Tensor" + a + b;
      }
      text += ") : f32[2]\n";
    }
    Graph g = graph(text + "return (%v" + std::to_string(count) + ", %v" + any(count) + ")\n}");
    const auto order = [&](const Graph& of, const auto& wanted) {
      Names names;
      for (const NodeId n : of.order())
        if (wanted(of.node(n))) names.push_back(of.node(n).name);
      return names;
    };
    // What reads or writes the memory that is written.
    const auto touches = [](const Node& n) {
      bool any = n.op->writes();
      for (const Argument& a : n.args) any = any || (a.isValue() && a.valueId().index == 1);
      return any;
    };
    const Graph before = g;
    runPass(g, "partition",
            {Argument::list(
                {Argument(std::string("mul")), Argument(std::string("aten.add")), Argument(std::string("tanh"))})});
    const Status sound = verify(g);
    REQUIRE(sound);
    // Between two writes, the order of those that read is free.
    const auto touchesInOrder = [&](const Graph& of) {
      Names names = order(of, touches);
      const auto writes = [](const std::string& name) { return name[0] == 'w'; };
      for (auto from = names.begin(), to = from; from != names.end(); from = to == names.end() ? to : to + 1)
        to = std::find_if(from, names.end(), writes), std::sort(from, to);
      return names;
    };
    CHECK(touchesInOrder(before) == touchesInOrder(g));
    for (const ModuleCall& part : g.moduleCalls()) {
      const auto isIn = [&](const Node& n) { return n.module == part.id; };
      NodeId first, last;
      for (const NodeId n : g.order())
        if (isIn(g.node(n))) last = n, first = first ? first : n;
      size_t length = 0;
      for (NodeId n = first; n; n = n == last ? NodeId() : g.node(n).next) ++length;
      CHECK(length == order(g, isIn).size());
      CHECK(length >= 2);
    }
  }
}

TEST_CASE("partition says which names are of nothing, and refuses what is no name") {
  const char* text = "graph g {\ninput %x : f32[2]\n%y = aten.relu.default(%x) : f32[2]\nreturn %y\n}";
  Graph g = graph(text);
  Recipe recipe;
  recipe.steps.push_back({"partition", {Argument(std::string("rellu"))}, {}});
  const auto run = runRecipe(g, RuleFile{}, recipe, FakeSemantics{});
  REQUIRE(run);
  CHECK(run->steps[0].refused ==
        Names{"no node, operator or module of the model is called `rellu` (did you mean `relu`?)"});
  for (const Argument& wrong : {Argument(int64_t{3}), Argument(std::string()), Argument::list({})})
    CHECK(errorOf(g, "partition", {wrong}).starts_with("partition takes what a part may hold"));
  CHECK(errorOf(g, "partition", {Argument(std::string("relu")), Argument(std::string("no name"))}) ==
        "the name of partition's modules is an identifier: partition([…], \"npu\")");
}

TEST_CASE("fuse says which names are of nothing, and fuses the others") {
  Graph g = graph("graph g {\ninput %x : f32[2]\n%y = aten.relu.default(%x) : f32[2]\nreturn %y\n}");
  Recipe recipe;
  Step& step = recipe.steps.emplace_back();
  step.name = "fuse";
  step.kwargs = {{"only", Argument::list({Argument(std::string("relu")), Argument(std::string("encoder"))})},
                 {"apart", Argument(std::string("gellu"))}};
  const auto run = runRecipe(g, RuleFile{}, recipe, FakeSemantics{});
  REQUIRE(run);
  const Names& refused = run->steps[0].refused;
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].starts_with("only: no node, operator or module of the model is called `encoder`"));
  CHECK(refused[1].starts_with("apart: no node, operator or module of the model is called `gellu`"));
}

TEST_CASE("a pass refuses arguments that it does not know") {
  Graph g = graph("graph g {\ninput %x : f32[2]\n%y = aten.relu.default(%x) : f32[2]\nreturn %y\n}");
  const auto error = [&](const char* pass, std::vector<Argument> args, std::string keyword) {
    Recipe recipe;
    Step& step = recipe.steps.emplace_back();
    step.name = pass;
    step.args = std::move(args);
    if (!keyword.empty()) step.kwargs = {{std::move(keyword), Argument(true)}};
    const auto run = runRecipe(g, RuleFile{}, recipe, FakeSemantics{});
    return run ? std::string() : run.error().message;
  };
  CHECK(error("split_bias", {}, "cpu") == "split_bias takes no cpu; it takes gpu=True");
  CHECK(error("split_bias", {Argument(true)}, "").starts_with("split_bias takes keywords alone: gpu=True"));
  CHECK(error("split_bias", {}, "gpu").empty());
  CHECK(error("fuse", {}, "y").starts_with("fuse takes no y; it takes only=[…]"));  // the end of a keyword is none
  CHECK(error("fuse", {}, "onlly").starts_with("fuse takes no onlly; it takes only=[…]"));
  CHECK(error("normalize", {Argument(int64_t{1})}, "") == "normalize takes no arguments");
  CHECK(error("eliminate_dead", {}, "only") == "eliminate_dead takes no arguments");
}

TEST_CASE("a pass that fails its check is taken back with its records, and the listener hears of it") {
  struct Refusal : RewriteCheck {
    void prepare(const Graph&, const std::vector<std::vector<NodeId>>&) override {}
    RewriteVerification check(const RewriteCandidate&) override { return {}; }
    RewriteVerification checkWhole(const Graph&, const Graph&, bool) override {
      RewriteVerification v;
      v.verdict = RewriteVerification::Verdict::Failed;
      v.why = "the numbers differ";
      return v;
    }
  } refusal;
  const std::string text = "input %x : f32[2,3]\n%a = aten.dropout.default(%x, 0.1, False) : f32[2,3]\nreturn %a";
  Graph g = graph(text);
  Recipe recipe;
  recipe.name = "R";
  recipe.steps.emplace_back().name = "remove_dropout";
  VerifyingListener listener;
  const auto run = runRecipe(g, RuleFile{}, recipe, FakeSemantics{}, {}, {&refusal, false, &listener});
  REQUIRE(run);
  CHECK(run->steps[0].records.empty());
  REQUIRE(run->steps[0].rolledBack.size() == 1);
  CHECK(run->steps[0].rolledBack[0].verification.why == "the numbers differ");
  CHECK(toText(g) == toText(graph(text)));
  CHECK(listener.heard.size() == 1);
  REQUIRE(listener.rolledBack.size() == 1);
  CHECK(listener.rolledBack[0].node.empty());
}

TEST_CASE("a step that is neither a rule nor a pass is an error that names the nearest") {
  Graph g = graph("input %x : f32[2,3]\n%a = aten.relu.default(%x) : f32[2,3]\nreturn %a");
  CHECK(errorOf(g, "normalise") ==
        "the recipe R has a step `normalise` that is neither a rule of this file nor a known pass; did you mean "
        "`normalize`?");
  CHECK(errorOf(g, "partitions").find("neither a rule of this file nor a known pass") != std::string::npos);
}
