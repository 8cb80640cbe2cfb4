#include "app/workbench/captured/guards.h"

#include "tests/support/catch.h"

using graft::workbench::BreakPlace;
using graft::workbench::breakPlace;
using graft::workbench::explainGuard;
using graft::workbench::explainGuards;
using graft::workbench::Guard;
using graft::workbench::InputType;

static std::string brokenBy(std::string_view text, const std::vector<InputType>& inputs = {}) {
  return explainGuard(text, inputs).brokenBy;
}

TEST_CASE("a guard says which call would break it") {
  const std::vector<InputType> inputs{{"x", "f32[5,16]@cpu"}, {"l_kwargs_ids_", "i64[s0,16]@cpu"}};
  CHECK(brokenBy("CONSTANT_MATCH L['scale']: L['scale'] == 3") == "scale other than 3");
  CHECK(brokenBy("TENSOR_MATCH L['x']: hasattr(L['x'], '_dynamo_dynamic_indices') == False", inputs) ==
        "x of another dtype, device or size than f32[5,16]@cpu, or that requires gradients where it did not");
  CHECK(brokenBy("TENSOR_MATCH L['kwargs']['ids']", inputs).find("device or rank than i64[s0,16]@cpu") !=
        std::string::npos);
  CHECK(brokenBy("TENSOR_MATCH L['y']", inputs).find("y of another dtype, device or size, or") == 0);
  CHECK(brokenBy("TYPE_MATCH L['scale']: ___check_type_id(L['scale'], 140396), type=<class 'int'>") ==
        "scale of another type than int");
  CHECK(brokenBy("SHAPE_ENV: 2 <= L['x'].size()[0]") == "sizes for which this does not hold: 2 <= x.shape[0]");
  CHECK(brokenBy("DICT_KEYS_MATCH L['kwargs']: len(L['kwargs']) == 2 and list(dict.keys(L['kwargs'])) == ['a', 'b']") ==
        "kwargs with other keys than ['a', 'b']");
  CHECK(brokenBy("GRAD_MODE") == "torch.no_grad() or torch.enable_grad() around the call where it was otherwise");
  CHECK(brokenBy("EMPTY_NN_MODULE_HOOKS_DICT L['self']._modules['first']._forward_hooks") ==
        "a hook registered in self.first._forward_hooks");
  CHECK(brokenBy("MODULE_MATCH G['__import_torch_dot_nn_dot_modules_dot_module']: ___check_obj_id(1)") ==
        "torch.nn.modules.module replaced by another Python module");
  CHECK(brokenBy("BUILTIN_MATCH G['__builtins_dict___21']['print']: ___check_obj_id(1)") ==
        "print replaced by another function");
  CHECK(brokenBy("CONSTANT_MATCH object.__getattribute__(L['self'].config, 'return_dict'): object.__getattribute__("
                 "L['self'].config, 'return_dict') == True") == "self.config.return_dict other than True");
}

TEST_CASE("a kind of guard that nobody knows yet still says what is asked") {
  CHECK(brokenBy("NEW_KIND L['x']: L['x'].flag") == "this no longer being so: x.flag");
  CHECK(brokenBy("NEW_KIND L['x']") == "a change of x");
  CHECK(brokenBy("") == "a change of ");
}

TEST_CASE("guards about the call come before those about the model, and these before PyTorch's") {
  const auto guards = explainGuards({"GRAD_MODE", "TYPE_MATCH L['self']", "CONSTANT_MATCH L['scale']: L['scale'] == 3",
                                     "SHAPE_ENV: 2 <= L['x'].size()[0]"},
                                    {});
  REQUIRE(guards.size() == 4);
  CHECK(guards[0].brokenBy == "scale other than 3");
  CHECK(guards[1].about == Guard::About::Arguments);
  CHECK(guards[2].about == Guard::About::Model);
  CHECK(guards[3].about == Guard::About::Surroundings);
}

TEST_CASE("a break has a place, a reason and what PyTorch advises") {
  const BreakPlace item = breakPlace(
      "Unsupported Tensor.item() call Explanation: Dynamo does not trace it. Hint: Set a. Hint: Set b. (/a "
      "b/net.py:24: "
      "print(\"mean\", float(y.mean())))");
  CHECK(item.reason == "Unsupported Tensor.item() call");
  CHECK(item.explanation == "Dynamo does not trace it.");
  CHECK(item.hint == "Set a.\nSet b.");
  CHECK(item.file == "/a b/net.py");
  CHECK(item.line == 24);
  CHECK(item.code == "print(\"mean\", float(y.mean()))");
  const BreakPlace branch = breakPlace("generic_jump TensorVariable() (net.py:22: if y.sum() > 0:)");
  CHECK(branch.reason == "the branch depends on the values of a tensor");
  CHECK(branch.code == "if y.sum() > 0:");
  CHECK(breakPlace("step_unsupported (a.py:7: f(x))").reason == "torch.compile does not support what the line does");
  CHECK(breakPlace("something new").reason == "something new");
  CHECK(breakPlace("something new").line == 0);
}
