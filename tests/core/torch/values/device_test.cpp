// Which of the devices that a graph names mean the model's place. What runs a graph and what writes it as TorchScript
// ask the same; a machine without a GPU runs what was traced on one.
#include <map>

#include "core/formats/export.h"
#include "core/formats/model.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/semantics.h"
#include "core/torch/values/model_device.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using test::graphOf;

namespace {

const Semantics& torchSemantics() {
  static const auto semantics = makeTorchSemantics();
  return *semantics;
}

/// A graph whose input is on `held` and whose masks are made on `named`.
Graph masks(const std::string& held, const std::vector<std::string>& named) {
  std::string text = "graph Masks {\n input %x : f32[2,4]" + (held.empty() ? "" : "@" + held) + "\n";
  std::string sum = "%x";
  for (size_t i = 0; i < named.size(); ++i) {
    const std::string n = std::to_string(i);
    text += " %m" + n + " = aten.arange.default(4, dtype=torch.float32, device=device(\"" + named[i] + "\"))\n %s" + n +
            " = aten.add.Tensor(" + sum + ", %m" + n + ")\n";
    sum = "%s" + n;
  }
  return graphOf(text + " return " + sum + "\n}", torchSemantics().operators());
}

}  // namespace

TEST_CASE(
    "a name means the model's place where the model was on that device alone, or has its weights and inputs there") {
  const auto place = [](const char* held, std::vector<std::string> named) { return modelDevice(masks(held, named)); };
  CHECK(place("cpu", {}) == "");
  CHECK(place("cpu", {"cpu"}) == "cpu");
  CHECK(place("", {"cuda:0"}) == "cuda:0");
  CHECK(place("cpu", {"cuda:0"}) == "cuda:0");  // a TorchScript file's weights are read to the CPU
  CHECK(place("cuda:0", {"cuda:0", "cpu"}) == "cuda:0");
  CHECK(place("cuda:0", {"cpu"}) == "");  // a table on the CPU, by intent
}

TEST_CASE("what runs and what writes read a device's name alike") {
  struct Case {
    const char *name, *model, *elsewhere;
    bool moves;
  };
  for (const Case& c : {Case{"cpu", "cpu", "cuda:0", true}, Case{"cuda:0", "cuda:0", "cpu", true},
                        Case{"cpu", "cuda:0", "cuda:1", false}, Case{"cpu", "", "cuda:0", false}}) {
    INFO(c.name << " in a model on '" << c.model << "', run on " << c.elsewhere);
    CHECK(meansModel(DeviceName{c.name}, c.model) == c.moves);
    CHECK(placed(DeviceName{c.name}, c.model, c.elsewhere).name == (c.moves ? c.elsewhere : c.name));
  }
  // A GPU that is no place of the model's is none of the program's either.
  CHECK(placed(DeviceName{"cuda:1"}, "cpu", "cuda:0").name == "cuda:0");
}

TEST_CASE("what was traced on a GPU runs on the CPU, and its code asks the module for the one place it names") {
  const test::TempDir dir;
  const auto inputs = makeInputs(masks("cpu", {}), {}, 1);
  REQUIRE_RESULT(inputs);
  std::optional<TensorSet> first;
  for (const std::vector<std::string>& named :
       {std::vector<std::string>{"cpu", "cpu"}, {"cuda:0", "cuda:0"}, {"cuda:0", "cpu"}, {"cuda:1", "cuda:0"}}) {
    const Graph g = masks("", named);
    INFO(toText(g));
    const auto program = Program::build(g);
    REQUIRE_RESULT(program);
    const auto out = program->run(*inputs);
    REQUIRE_RESULT(out);
    if (!first) first = *out;
    for (const Difference& d : compareTensors(*first, *out)) CHECK(d.maxAbs == 0);
    const std::string path = (dir / "masks.pt").string();
    const Status written = exportModel(g, path);
    REQUIRE_RESULT(written);
    const auto again = importModel(path, torchSemantics());
    REQUIRE_RESULT(again);
    CHECK(toText(again->graph) == toText(g));
  }
}
