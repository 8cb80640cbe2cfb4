#!/usr/bin/env python3
"""Fails on an #include that points against the architecture, and on a folder that has no place in it or too many files.

    include_direction.py ROOT          scans ROOT's sources
    include_direction.py --self-check  plants wrong includes and sees that each is found

Needs nothing but Python. The arrows are the table LAYERS: a folder ("core/formats/*" is any folder there), the folders or single
headers that it may include, and where it may include LibTorch and Qt. The most specific folder counts; a folder may always include
itself. What is not in the table (the two programs' own files in app, tests, samples) may include everything. Headers that share
LibTorch's or JSON's types among one library's sources live in folders of their own
below it (core/torch/values, matcher/lang/internal), which no other library may include.
"""

import collections
import dataclasses
import fnmatch
import pathlib
import re
import sys
from dataclasses import dataclass

NOWHERE, SOURCES, EVERYWHERE = "nowhere", "in .cpp files only", "everywhere"
TEXT_CORE = ("core/base", "core/ir", "core/text", "core/json")
ALL_CORE = TEXT_CORE + ("core/torch",)


MATCHER = ("matcher/rule", "matcher/search", "matcher/facts", "matcher/rewrite", "matcher/passes")
WORKBENCH = ALL_CORE + MATCHER + ("core/formats", "matcher/lang")
# The formats' names and endings: plain data, which the window shows.
FORMAT_LIST = ("core/formats/file_format.h", "core/formats/format_list.h")
CANVAS = ("views/layout", "views/document", "views/widgets")  # what the canvas stands on


def torch_part(*parts):
    """What a folder that shares LibTorch's types may include: the other folders it names, and all that is public."""
    return ALL_CORE + parts


FORMAT = torch_part("core/archive", "core/training/signature.h", "core/formats", "core/torch/normal", "core/torch/values")


@dataclass(frozen=True)
class Layer:
    folder: str
    may_include: tuple
    libtorch: str = NOWHERE
    qt: str = NOWHERE
    json: str = SOURCES


LAYERS = [
    Layer("core/base", (), json=NOWHERE),
    Layer("core/ir", ("core/base",), json=NOWHERE),
    Layer("core/text", ("core/base", "core/ir"), json=NOWHERE),
    Layer("core/json", ("core/base", "core/ir", "core/text")),
    Layer("core/archive", ("core/base",)),
    Layer("core/training", ("core/base", "core/ir"), json=NOWHERE),
    Layer("core/compile/loops", ("core/base", "core/ir", "core/compile/loops/algebra", "core/compile/loops/checks"), json=NOWHERE),
    Layer("core/compile/loops/algebra", ("core/base", "core/ir", "core/compile/loops/element.h", "core/compile/loops/expression.h", "core/compile/loops/program.h"), json=NOWHERE),
    Layer("core/compile/loops/checks", ("core/base", "core/ir", "core/compile/loops", "core/compile/loops/algebra"), json=NOWHERE),
    Layer("core/compile/lower", ("core/base", "core/ir", "core/compile/loops"), json=NOWHERE),
    Layer("core/compile/lower/operators", ("core/base", "core/ir", "core/compile/loops", "core/compile/lower"), json=NOWHERE),
    Layer("core/compile/codegen", ("core/base", "core/ir", "core/compile/loops"), json=NOWHERE),
    Layer("core/compile/nvrtc", ("core/base",), json=NOWHERE),
    Layer("core/compile/fusion", ("core/base", "core/ir", "core/text", "core/compile/loops", "core/compile/lower", "core/compile/codegen"), json=NOWHERE),
    Layer("core/torch", TEXT_CORE, json=NOWHERE),
    Layer("core/torch/values", torch_part("core/archive") + ("kernels/capture",), libtorch=EVERYWHERE),
    Layer("core/torch/libraries", torch_part("core/torch/values") + ("kernels/capture",), libtorch=EVERYWHERE),
    Layer("core/torch/types", torch_part("core/torch/values"), libtorch=EVERYWHERE),
    Layer("core/torch/normal", torch_part("core/torch/types", "core/torch/values"), libtorch=EVERYWHERE),
    Layer("core/torch/run", torch_part("core/torch/values") + ("kernels/capture",), libtorch=EVERYWHERE),
    Layer("core/torch/timing", torch_part("core/torch/run", "core/torch/values") + ("kernels/capture",), libtorch=EVERYWHERE),
    Layer("core/torch/verify", torch_part("core/torch/run", "core/torch/values"), libtorch=EVERYWHERE),
    Layer("core/formats", torch_part("core/archive", "core/training/signature.h", "core/formats/*/format.h", "core/torch/normal", "core/torch/run")),
    Layer("core/formats/torchscript", FORMAT + ("core/torch/run",), libtorch=EVERYWHERE),
    Layer("core/formats/*", FORMAT, libtorch=EVERYWHERE, json=EVERYWHERE),
    Layer("matcher/rule", TEXT_CORE),
    Layer("matcher/search", TEXT_CORE + ("matcher/rule",)),
    Layer("matcher/facts", TEXT_CORE + ("matcher/search",)),
    Layer("matcher/rewrite", TEXT_CORE + ("matcher/rule", "matcher/search")),
    Layer("matcher/passes", TEXT_CORE + ("core/compile/fusion", "matcher/rule", "matcher/search", "matcher/facts", "matcher/rewrite")),
    Layer("matcher/lang/syntax", ALL_CORE, libtorch=SOURCES),
    Layer("matcher/lang", ALL_CORE + MATCHER + ("matcher/lang/syntax",), libtorch=SOURCES),
    Layer("app/workbench", WORKBENCH + ("app/workbench/baselines", "app/workbench/compile/call_origin.h", "app/workbench/compile/roofline.h", "core/compile/fusion/group_text.h", "core/compile/fusion/steering.h")),
    Layer("app/workbench/baselines", ALL_CORE + ("core/formats",)),
    Layer("app/workbench/batch", ("core/base",)),
    Layer("app/workbench/captured", ("core/base",)),
    Layer("app/workbench/cases", WORKBENCH + ("app/workbench",)),
    Layer("app/workbench/compile", WORKBENCH + ("app/workbench", "core/compile/*")),
    Layer("app/workbench/optimize", WORKBENCH + ("app/workbench", "app/workbench/baselines", "core/compile/fusion/fusion_nodes.h", "core/compile/fusion/group_text.h")),
    Layer("app/workbench/side_by_side", WORKBENCH + ("app/workbench",)),
    Layer("app/workbench/training", WORKBENCH + ("app/workbench", "app/workbench/baselines", "core/training")),
    Layer("app/json", WORKBENCH + ("app/workbench", "app/workbench/*"), json=EVERYWHERE),
    Layer("app/console", TEXT_CORE + MATCHER + ("core/torch", "app/workbench", "app/workbench/baselines")),
    Layer("app/engine", WORKBENCH + ("app/workbench", "app/workbench/*", "app/json", "core/compile/fusion"), json=EVERYWHERE),
    Layer("app/commands/rules", WORKBENCH + ("app/workbench", "app/workbench/*", "app/json", "app/console", "app/commands"), json=EVERYWHERE),
    Layer("app/commands/shell", ("core/base", "app", "app/commands", "app/console")),
    Layer("app/commands", WORKBENCH + ("core/compile/fusion", "app/workbench", "app/workbench/*", "app/json", "app/console", "views/drawing", "views/layout/blocks.h"), json=EVERYWHERE),
    Layer("kernels", ("core/base", "kernels/capture", "kernels/generated/group.h"), libtorch=EVERYWHERE, json=EVERYWHERE),
    Layer("kernels/capture", (), libtorch=EVERYWHERE, json=NOWHERE),
    Layer("kernels/generated", ("core/base", "core/ir", "core/text", "core/compile/*", "core/torch/values", "core/torch/types/size_names.h", "kernels/jit/jit.h", "kernels/generated/cuda"), libtorch=EVERYWHERE),
    Layer("kernels/generated/cuda", ("core/base", "core/ir", "core/text", "core/compile/*", "core/torch/values", "core/torch/types/size_names.h", "kernels/generated", "kernels/capture/cuda_graphs.h", "kernels/cuda/tuning/tuning_budget.h"), libtorch=EVERYWHERE),
    Layer("kernels/jit", (), json=NOWHERE),
    Layer("views/layout", TEXT_CORE),
    Layer("views/drawing", TEXT_CORE + ("views/layout",)),
    Layer("views/picture", (), qt=EVERYWHERE),
    Layer("views/document", TEXT_CORE + FORMAT_LIST + ("views/layout/blocks.h",), qt=EVERYWHERE, json=EVERYWHERE),
    Layer("views/widgets", ("views/layout",), qt=EVERYWHERE),
    Layer("views/canvas", TEXT_CORE + CANVAS, qt=EVERYWHERE, json=EVERYWHERE),
    Layer("views/panels", TEXT_CORE + CANVAS + ("views/canvas",), qt=EVERYWHERE, json=EVERYWHERE),
    Layer("views/window", TEXT_CORE + CANVAS + ("views/canvas", "views/panels", "views/drawing", "views/picture"), qt=EVERYWHERE, json=EVERYWHERE),
]
# Single files that may include what their folder may not.
EXCEPTIONS = {"app/commands/engine.cpp": ("app/engine",), "app/commands/batch.cpp": ("app",)}
LAYERED_FOLDERS = ("core", "kernels", "matcher", "views")
MOST_FILES = 25
PROJECT_FOLDERS = ("app", "core", "kernels", "matcher", "samples", "tests", "views")
LIBTORCH = ("torch/", "ATen/", "c10/", "caffe2/")
HEADERS = (".h", ".hpp", ".cuh")
SUFFIXES = HEADERS + (".cpp", ".cu")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def layer_of(path):
    """The most specific layer whose folder holds `path`, or None."""
    found = []
    for layer in LAYERS:
        if begins := re.match(re.escape(layer.folder).replace(r"\*", "[^/]+") + "/", path):
            found.append(dataclasses.replace(layer, folder=begins.group()[:-1]))
    return max(found, key=lambda layer: len(layer.folder), default=None)


def complaints(path, text):
    """What is wrong with the includes of the file `path` (relative to the root), as messages."""
    layer = layer_of(path)
    if layer is None:
        return
    is_header = path.endswith(HEADERS)

    def forbidden(where):
        return where == NOWHERE or (where == SOURCES and is_header)

    for include in INCLUDE.finditer(text):
        quote, target = include.groups()
        at = f"{path}:{text.count(chr(10), 0, include.start()) + 1}"
        if target.startswith(LIBTORCH):
            if forbidden(layer.libtorch):
                yield f"{at}: includes {target}; {layer.folder} may include LibTorch {layer.libtorch}"
        elif quote == "<" and re.match(r"Q[A-Za-z]", target):
            if forbidden(layer.qt):
                yield f"{at}: includes {target}; {layer.folder} may include Qt {layer.qt}"
        elif target.startswith("nlohmann/"):
            if forbidden(layer.json) and not target.endswith("json_fwd.hpp"):
                yield f"{at}: includes {target}; {layer.folder} may include nlohmann/json {layer.json}"
        elif quote == '"' and target.split("/")[0] in PROJECT_FOLDERS:
            other = layer_of(target)
            name = other.folder if other else target.split("/")[0]
            allowed = layer.may_include + EXCEPTIONS.get(path, ())
            if name != layer.folder and not any(fnmatch.fnmatch(target, m) or name == m for m in allowed):
                allowed = ", ".join(layer.may_include) or "nothing but itself"
                yield f"{at}: includes {target}; {layer.folder} may include {allowed}"
        elif quote == '"' and target.startswith("."):
            yield f"{at}: includes {target}; write the path from the repository's root"


def crowded(counts):
    """Messages for folders of sources that no row covers, or that hold too many files; `counts` by folder."""
    for folder, count in sorted(counts.items()):
        if folder.split("/")[0] in LAYERED_FOLDERS and not layer_of(folder + "/"):
            yield f"{folder}: no row of LAYERS covers this folder"
        if count > MOST_FILES:
            yield f"{folder}: {count} files; a folder holds at most {MOST_FILES}: split it by what its files are about"


def scan(root):
    files = sorted(p for f in PROJECT_FOLDERS for p in (root / f).rglob("*") if p.suffix in SUFFIXES)
    wrong = [c for p in files for c in complaints(p.relative_to(root).as_posix(), p.read_text(errors="replace"))]
    counts = collections.Counter(p.parent.relative_to(root).as_posix() for p in files)
    wrong += crowded(counts)
    for complaint in wrong:
        print(complaint, file=sys.stderr)
    print(f"{len(files)} files, {len(wrong)} wrong includes")
    return bool(wrong)


def self_check():
    wrong = [
        ("core/base/a.h", '#include "core/ir/graph.h"'),
        ("core/ir/a.h", '#include "core/text/print.h"'),
        ("core/text/a.cpp", '#include "core/json/json.h"'),
        ("core/ir/a.cpp", "#include <ATen/ATen.h>"),
        ("core/ir/a.cpp", "  #  include <torch/script.h>"),
        ("core/json/a.h", "#include <nlohmann/json.hpp>"),
        ("core/torch/a.h", "#include <c10/util/Optional.h>"),
        ("core/torch/run/a.cpp", '#include "matcher/rule/pattern.h"'),
        ("core/archive/a.cpp", "#include <torch/script.h>"),
        ("core/archive/a.cpp", '#include "core/formats/reader.h"'),
        ("core/formats/pt2/a.cpp", '#include "core/formats/torchscript/writer.h"'),
        ("core/torch/normal/a.cpp", '#include "core/formats/metadata.h"'),
        ("core/formats/a.cpp", "#include <torch/script.h>"),
        ("core/formats/a.cpp", '#include "core/formats/pt2/writer.h"'),
        ("core/formats/pt2/a.cpp", '#include "core/torch/run/plan.h"'),
        ("core/torch/values/a.cpp", '#include "core/torch/run/plan.h"'),
        ("core/torch/run/a.cpp", '#include "core/torch/verify/program_set.h"'),
        ("app/engine/a.cpp", "#include <torch/script.h>"),
        ("app/engine/a.cpp", '#include "core/torch/values/values.h"'),
        ("app/engine/a.cpp", '#include "app/console/console.h"'),
        ("app/workbench/a.cpp", '#include "app/json/documents_json.h"'),
        ("app/workbench/a.cpp", '#include "app/engine/session.h"'),
        ("app/workbench/a.h", "#include <nlohmann/json.hpp>"),
        ("app/commands/a.cpp", '#include "app/engine/server.h"'),
        ("core/text/a.cpp", '#include "matcher/rule.h"'),
        ("matcher/search/a.cpp", '#include "matcher/lang/parse.h"'),
        ("matcher/search/a.cpp", "#include <torch/script.h>"),
        ("matcher/rule/a.cpp", '#include "matcher/search/search.h"'),
        ("matcher/lang/a.h", "#include <torch/csrc/jit/frontend/parser.h>"),
        ("kernels/a.cu", '#include "core/ir/graph.h"'),
        ("kernels/cuda/a.cuh", '#include "matcher/rule.h"'),
        ("views/window/a.cpp", '#include "core/torch/import.h"'),
        ("views/document/a.cpp", '#include "core/formats/model.h"'),
        ("views/canvas/a.cpp", '#include "views/window/lang/parse.h"'),
        ("views/panels/a.h", "#include <torch/script.h>"),
        ("views/panels/a.cpp", '#include "views/window/main_window.h"'),
        ("views/document/a.cpp", '#include "views/widgets/theme.h"'),
        ("views/layout/a.cpp", "#include <QWidget>"),
        ("core/ir/a.cpp", "#include <QString>"),
        ("matcher/passes/a.cpp", '#include "app/main.h"'),
        ("core/ir/a.cpp", '#include "../text/print.h"'),
    ]
    right = [
        ("core/ir/a.cpp", '#include "core/ir/a.h"\n#include "core/base/id.h"\n#include <vector>'),
        ("core/ir/a.cpp", '// #include "core/text/print.h"'),
        ("core/torch/run/a.cpp", "#include <torch/script.h>"),
        ("core/torch/run/a.cpp", '#include "core/torch/values/values.h"'),
        ("core/torch/values/a.h", '#include <ATen/ATen.h>\n#include "core/torch/a.h"'),
        ("app/engine/a.cpp", '#include "matcher/lang/parse.h"'),
        ("app/commands/a.cpp", '#include "app/workbench/apply.h"\n#include "app/json/documents_json.h"'),
        ("app/commands/engine.cpp", '#include "app/engine/server.h"'),
        ("matcher/lang/a.cpp", "#include <torch/csrc/jit/frontend/parser.h>"),
        ("kernels/cuda/a.cu", '#include "kernels/schema.h"\n#include <ATen/ATen.h>'),
        ("views/window/a.h", '#include <QWidget>\n#include "views/layout/layout.h"'),
        ("views/document/a.cpp", '#include "core/formats/format_list.h"'),
        ("app/main.cpp", "#include <torch/script.h>"),
    ]
    missed = [case for case in wrong if len(list(complaints(*case))) != 1]
    false_alarms = [case for case in right if list(complaints(*case))]
    planted = {"matcher": 1, "core/ir": MOST_FILES + 1, "core/text": MOST_FILES}
    if len(list(crowded(planted))) != 2:
        missed.append(("matcher", "a source outside of its folders, or a crowded core/ir"))
    for path, text in missed:
        print(f"not found: {path}: {text}", file=sys.stderr)
    for path, text in false_alarms:
        print(f"wrongly found: {path}: {text}", file=sys.stderr)
    print(f"{len(wrong)} wrong includes planted, {len(missed)} missed; {len(right)} right, {len(false_alarms)} blamed")
    return bool(missed or false_alarms)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(self_check() if sys.argv[1] == "--self-check" else scan(pathlib.Path(sys.argv[1])))
