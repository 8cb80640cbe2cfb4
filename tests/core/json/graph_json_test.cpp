// The JSON form of graphs: what is written reads back, whole, in parts, and in any order of its fields.
#include "core/json/graph_json.h"

#include <nlohmann/json.hpp>

#include "core/json/graph_reader.h"
#include "core/json/json_reader.h"
#include "core/json/json_writer.h"
#include "core/text/text.h"
#include "tests/support/catch.h"
#include "tests/support/operators.h"

using namespace graft;

namespace {

/// A chain with everything that the form knows: modules, weights, sources, all kinds of arguments, a branch.
Graph sample(int pairs = 3) {
  Graph g;
  g.name = "S\xc3\xa4mple";
  g.setSymbol({"s0", 2, {}});
  const ValueId x = g.addInput("x", Type::tensor(DType::Float32, {Dim("s0"), Dim(4)}));
  const ValueId on = g.addInput("on", Type(Type::Kind::Bool));
  const ModuleCallId outer = g.addModuleCall({}, "encoder", "nets.Encoder");
  g.mutableModuleCall(outer).constructor = {{"eps", Argument(1e-5)}, {"size", Argument(int64_t{4})}};
  const uint32_t line = g.addSource({"model.py", 7, 3, 9, "return \"\\x\""});
  const OperatorRef add = testOperators().find("aten.add.Tensor"), relu = testOperators().find("aten.relu.default");
  ValueId last = x;
  for (int i = 0; i < pairs; ++i) {
    const std::string path = "encoder.layer." + std::to_string(i);
    const ModuleCallId inner = g.addModuleCall(outer, path, "nets.Layer");
    const ValueId w = g.addWeight(path + ".weight", Type::tensor(DType::Float32, {Dim(4)}), nullptr, i % 2 == 1);
    const NodeId a = g.append(g.root(), add, {Argument(last), Argument(w), Argument(int64_t{1})});
    g.setModule(a, inner);
    g.setSource(a, line);
    const NodeId r = g.append(g.root(), relu, {Argument(g.output(a))});
    g.setType(g.output(r), Type::tensor(DType::Float32, {Dim("s0"), Dim(4)}));
    last = g.output(r);
  }
  const NodeId odd =
      g.append(g.root(), unknownOperator("my.odd.default"),
               {Argument(last), Argument(), Argument(true), Argument(2.0), Argument(-1e-7),
                Argument("a\"\\\n\x01 \xc3\xa9"), Argument::list({Argument(last), Argument(int64_t{2})}),
                Argument::tuple({Argument(Named{"torch.strided"})}), Argument::dict({{Argument("k"), Argument(last)}}),
                Argument(DType::Float16), Argument(std::numeric_limits<double>::infinity())},
               "odd");
  g.setKeywordArguments(odd, {{"a", Argument(int64_t{5})}, {"z", Argument(x)}});
  g.addOutput(odd, "odd", Type::tensor());
  const ValueId second = g.addOutput(odd, "odd_1", Type::any());
  const NodeId branch = g.append(g.root(), unknownOperator("prim.If"), {Argument(on)}, "chosen");
  g.addOutput(branch, "chosen", Type::tensor());
  for (int i = 0; i < 2; ++i) {
    const BlockId block = g.addBlock(branch);
    const ValueId p = g.addBlockParameter(block, "p", Type::tensor());
    g.setReturns(block, {Argument(g.output(g.append(block, relu, {Argument(i == 0 ? p : last)})))});
  }
  g.setReturns(g.root(), {Argument(g.output(branch)), Argument(second)});
  return g;
}

std::shared_ptr<const Graph> read(const std::vector<std::string>& parts) {
  GraphReader reader;
  for (const std::string& part : parts) {
    INFO(reader.why());
    REQUIRE(reader.read(part));
  }
  return reader.take();
}

}  // namespace

TEST_CASE("a graph's JSON reads back as the same graph, whole and in parts of any length") {
  const Graph g = sample();
  for (const JsonForm form : {JsonForm::Complete, JsonForm::Compact}) {
    const std::string text = jsonText(g, form);
    REQUIRE(jsonText(*read({text}), form) == text);
    // A tree sorts the fields by name: nodes come before the weights that they use.
    REQUIRE(jsonText(*read({toJson(g, form).dump()}), form) == text);
  }
  for (const size_t bytes : {size_t{1}, size_t{200}, size_t{1} << 20}) {
    std::vector<std::string> parts;
    REQUIRE(writeJsonParts(g, bytes, [&](std::string_view part) { return parts.emplace_back(part), true; }));
    REQUIRE((parts.size() > 1) == (bytes < 1000));
    for (const std::string& part : parts) REQUIRE(nlohmann::json::accept(part));
    REQUIRE(jsonText(*read(parts)) == jsonText(g));
  }
}

TEST_CASE("what is read has the modules, sources, users and types of what was written") {
  const auto g = read({jsonText(sample(), JsonForm::Compact)});
  REQUIRE(g->name == "S\xc3\xa4mple");
  const Node& add = g->node(g->findNode("add_1"));
  REQUIRE(g->scopeOf(add.id) == "encoder.layer.1");
  REQUIRE(g->moduleCall(g->moduleCall(add.module).parent).path == "encoder");
  REQUIRE(g->sourceOf(add)->code == "return \"\\x\"");
  REQUIRE(add.op->parameters.at(2).name == "alpha");
  REQUIRE(g->value(g->findValue("relu")).users == std::vector<NodeId>{add.id});
  REQUIRE(toString(g->value(g->findValue("relu")).type) == "f32[s0,4]");
  REQUIRE(g->findSymbol("s0")->min == 2);
  REQUIRE(g->node(g->findNode("chosen")).blocks.size() == 2);
  REQUIRE(g->value(g->weights().at(1)).isBuffer);
}

TEST_CASE("writing in parts stops when nobody wants more") {
  int parts = 0;
  REQUIRE_FALSE(writeJsonParts(sample(50), 300, [&](std::string_view) { return ++parts < 3; }));
  REQUIRE(parts == 3);
}

TEST_CASE("names that cannot be kept are still found by those who refer to them") {
  const auto g = read({R"({"inputs":[{"name":"a b","type":"tensor"}],"nodes":[{"name":"1","op":"aten.relu.default",
    "args":[{"v":"a b"}],"outputs":[{"name":"1","type":"tensor"}]}],"returns":[{"v":"1"}]})"});
  REQUIRE(g->returns().size() == 1);
  REQUIRE(g->returns()[0].isValue());
  REQUIRE(g->value(g->inputs()[0]).users.size() == 1);
}

TEST_CASE("text that is no JSON is refused in words; what is not understood is left out") {
  for (const auto& [text, why] : std::initializer_list<std::pair<std::string, std::string>>{
           {"[1]", "no object"},
           {"{\"nodes\":[{]}", "no name"},
           {"{\"nodes\":[{\"name\":\"a\"}", "ends too early"},
           {"{} x", "follows"},
           {"{\"name\":\"a", "does not end"},
           {"{\"name\":\"\\q\"}", "escape"},
           {"{\"name\":tru}", "neither true"},
           {"{\"a\":01}", "number"},
           {"{\"nodes\":" + std::string(2000, '[') + std::string(2000, ']') + "}", "too deeply"}}) {
    GraphReader reader;
    INFO(text.substr(0, 60));
    REQUIRE_FALSE(reader.read(text));
    INFO(reader.why());
    REQUIRE(reader.why().find(why) != std::string::npos);
  }
  const auto g = read({R"({"nodes":[7,{"name":"a","op":"x.y.z","args":[{"v":"nowhere"},{"q":1}],"module":99,"source":-3,
    "outputs":[{"name":"a","type":"sausage"}],"news":{}}],"weights":null,"returns":"none","name":[1]})"});
  REQUIRE(g->nodeCount() == 2);
  REQUIRE(g->node(g->findNode("a")).args.at(0) == Argument(Named{"nowhere"}));
}

TEST_CASE("the reader and nlohmann's agree on strings and numbers") {
  for (const char* text : {R"("a\u00e9\ud83d\ude00\n\/\b")", R"("")", R"("\u0041\\")", "1", "-0", "12345678901234567",
                           "1.5", "-2e-3", "9223372036854775807", "1E3", "0.1"}) {
    const auto tree = nlohmann::json::parse(text);
    JsonReader r(text);
    INFO(text);
    if (tree.is_string()) {
      REQUIRE(std::string(r.string()) == tree.get<std::string>());
    } else {
      const JsonReader::Number n = r.number();
      REQUIRE(n.isInteger == tree.is_number_integer());
      REQUIRE(n.real == tree.get<double>());
    }
    REQUIRE(r.atEnd());
  }
}

TEST_CASE("what the writer writes is JSON of the same numbers, and of UTF-8 whatever the bytes") {
  std::string text;
  JsonWriter w(text);
  w.open('[').number(1.0).number(1e20).number(-1e-7).number(int64_t{-5}).boolean(true).null();
  w.string("\xff ok \xed\xa0\x80 \xf0\x9f\x98\x80 \xc3").open('{').close('}').close(']');
  const auto tree = nlohmann::json::parse(text);
  REQUIRE(tree[0].is_number_float());
  REQUIRE(tree[1] == 1e20);
  REQUIRE(tree[2] == -1e-7);
  REQUIRE(tree[3] == -5);
  const std::string bad = "\xef\xbf\xbd";
  REQUIRE(tree[6] == bad + " ok " + bad + bad + bad + " \xf0\x9f\x98\x80 " + bad);
}
