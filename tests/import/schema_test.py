"""The importer of torch.export archives knows every kind of argument, input and output of the installed PyTorch's schema."""

import dataclasses
import pathlib
import re
import unittest

from torch._export.serde import schema

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "core" / "torch"
KNOWN = set(re.findall(r'"([a-z_]+)"', (SOURCE / "pt2/import.cpp").read_text()))
# Written by PyTorch for effect tokens and for script objects, which no tensor program has; the importer names them when it refuses.
REFUSED = {"InputSpec": {"custom_obj", "token"}, "OutputSpec": {"token"}}


def members(union):
    return {field.name for field in dataclasses.fields(union)}


class Schema(unittest.TestCase):
    def test_the_version_is_the_one_that_is_read(self):
        self.assertEqual(schema.SCHEMA_VERSION[0], 8)

    def test_every_kind_of_argument_is_read(self):
        self.assertEqual(members(schema.Argument) - KNOWN, set())

    def test_every_kind_of_input_and_output_is_read_or_refused_by_name(self):
        for name in ("InputSpec", "OutputSpec"):
            kinds = members(getattr(schema, name)) - REFUSED[name]
            unknown = {kind for kind in kinds if kind not in KNOWN and not kind.startswith("gradient_to")}
            self.assertEqual(unknown, set(), name)

    def test_every_dtype_code_has_a_case(self):
        text = (SOURCE / "import/pt2_schema.cpp").read_text()
        cases = {int(n) for n in re.findall(r"case (\d+):", text.split("pt2DType")[1].split("default:")[0])}
        # FNUZ float8 exists on other vendors' devices alone.
        codes = {code.value for code in schema.ScalarType if code.name != "UNKNOWN" and not code.name.endswith("FNUZ")}
        self.assertEqual(codes - cases, set())


unittest.main()
