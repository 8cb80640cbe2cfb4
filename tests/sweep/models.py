#!/usr/bin/env python3
"""Whether Graft computes what PyTorch computes: models of torchvision, transformers and timm, small and with random weights, as traced
files and as torch.export archives, against PyTorch's own run of the very file.

    models.py BUILD                    all models: three hours of one core
    models.py BUILD --sample           those of families.SAMPLE alone; CI asks their first part
    models.py BUILD --library timm     those of one library: of torchvision, transformers, timm, or "Graft's own"
    models.py BUILD --only bert        models whose names contain this
    models.py BUILD --form traced      one of the forms alone; the default is both
    models.py BUILD --part run         one of the parts alone: run, rewritten, again, optimized; the default is all
    models.py BUILD --table FILE       writes the table of docs/reference/models-checked.md there
    models.py BUILD --keep FOLDER      leaves the files of models that differ in FOLDER
    models.py BUILD --state FILE       writes each model's results to FILE as they come, and takes those that FILE has, but for what
                                       failed or differed: so a sweep that was stopped goes on

Each file is run by Graft on the inputs that it was traced with (and on others), rewritten with the shipped rules and run again in
PyTorch, and converted to its own format and run again in PyTorch. What `graft optimize` makes of the traced file, with the kernels
that it generates, is run in PyTorch on the inputs that it was made with and on those of other sizes.

timm is not among requirements.txt, and its models are skipped where it is not installed. `pip install --no-deps --target FOLDER timm`
and PYTHONPATH=FOLDER are enough.

The exit code is 1 where a model differs, or fails, that families.KNOWN does not name. Models that PyTorch itself does not trace or
export are not counted.
"""

import argparse
import concurrent.futures
import contextlib
import gc
import inspect
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")

import logging

logging.disable(logging.WARNING)

import torch  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES  # noqa: E402

try:
    import timm  # not in requirements.txt
except ImportError:
    timm = None

import families  # noqa: E402
import own_models  # noqa: E402

torch.set_num_threads(1)
FORMS = {"traced": ".pt", "exported": ".pt2"}
# What is asked of each form; "other sizes" of the traced one alone.
COLUMNS = {"traced": ("traced", "other sizes", "traced, rewritten", "traced, again", "traced, optimized"),
           "exported": ("exported", "exported, rewritten", "exported, again")}
RULES = pathlib.Path(__file__).resolve().parents[2] / "resources" / "rules"
CONVOLUTIONS, LAYERS = ("conv.py", "ConvNet"), ("transformer.py", "Encoder")
RECIPES = {"torchvision": (CONVOLUTIONS,), "timm": (CONVOLUTIONS, LAYERS), "": (LAYERS,)}  # by library
SMALL = {key: number for number, keys in families.SMALL.items() for key in keys.split()}


def tokens(n, length):
    ids = torch.randint(5, 100, (n, length))
    mask = torch.ones_like(ids)
    mask[-1, length - 4:] = 0  # padding, so that the mask matters
    return dict(input_ids=ids, attention_mask=mask)


# By kind: the batch that is traced, that of other sizes, and inputs by keyword of a batch of n; those that are `longer` have another
# length too.
INPUTS = {
    "tokens": (2, 3, lambda n, longer: tokens(n, 15 if longer else 12)),
    "texts": (2, 3, lambda n, longer: dict(**tokens(n, 15 if longer else 12), decoder_input_ids=torch.randint(5, 100, (n, 8 if longer else 7)))),
    "pixels": (1, 2, lambda n, longer: dict(pixel_values=torch.randn(n, 3, 64, 64))),
    "pictures and texts": (2, 3, lambda n, longer: dict(**tokens(n, 12), pixel_values=torch.randn(n, 3, 64, 64))),
    "sound": (1, 2, lambda n, longer: dict(input_values=torch.randn(n, 5200 if longer else 4000))),
    "channel of sound": (1, 2, lambda n, longer: dict(input_values=torch.randn(n, 1, 5200 if longer else 4000))),
    "mel": (1, 2, lambda n, longer: dict(input_values=torch.randn(n, 100, 80))),
    "features": (1, 2, lambda n, longer: dict(input_features=torch.randn(n, 80, 100))),
    "features and texts": (1, 2, lambda n, longer: dict(input_features=torch.randn(n, 80, 100), decoder_input_ids=torch.randint(5, 100, (n, 7)))),
    "sound and texts": (1, 2, lambda n, longer: dict(input_values=torch.randn(n, 4000), decoder_input_ids=torch.randint(5, 100, (n, 7)))),
    "frames": (1, 2, lambda n, longer: dict(pixel_values=torch.randn(n, 8, 3, 64, 64))),
}


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (list, tuple, type({}.values()))) else []


class Positional(torch.nn.Module):
    """Takes tensors one after the other, and gives the tensors among a model's results."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        given = dict(zip(self.names, inputs)) if self.names else {}
        return tuple(leaves(self.model(**given) if self.names else self.model(*inputs)))


class Model:
    """A row of the table."""

    def __init__(self, library, name, build):
        self.library, self.name, self.build = library, name, build


def small_configuration(kind, given):
    """The configuration class's own, with small numbers under the keys that it has, inside of it too."""
    keys = {key for base in kind.__mro__ for key in getattr(base, "__annotations__", {})} | set(inspect.signature(kind.__init__).parameters)
    keys -= set(getattr(kind, "attribute_map", {}))
    values = {key: number for key, number in SMALL.items() if key in keys}
    for key, inner in (getattr(kind, "sub_configs", None) or {}).items():
        if key in keys and key not in given and isinstance(inner, type) and inner.__name__ != "AutoConfig":
            values[key] = small_configuration(inner, {}).to_dict()
    values.update(given)
    return kind(**values)


def family(name, kind, given):
    def build():
        configuration = small_configuration(getattr(transformers, CONFIG_MAPPING_NAMES[name]), given)
        if hasattr(configuration, "use_cache"):
            configuration.use_cache = False
        model = MODEL_MAPPING_NAMES[name]
        model = getattr(transformers, model[0] if isinstance(model, tuple) else model)(configuration)
        batch, more, inputs = INPUTS[kind]
        taken = inspect.signature(model.forward).parameters
        names = [key for key in inputs(1, False) if key in taken]
        made = lambda other: tuple(value for key, value in inputs(more if other else batch, other).items() if key in names)
        return Positional(model, names), made

    return build


def picture_model(name, side):
    def build():
        options = {"weights": None}
        if "deeplab" in name or "fcn" in name or "lraspp" in name:
            options["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            options.update(init_weights=False, aux_logits=name == "inception_v3", transform_input=True)
        if name.startswith("vit"):
            options["image_size"] = side
        if name == "maxvit_t":
            options = dict(input_size=(side, side), stem_channels=16, partition_size=2, block_channels=[16, 32], block_layers=[1, 1],
                           head_dim=8, stochastic_depth_prob=0.0)
            return Positional(torchvision.models.MaxVit(**options), []), lambda other: (torch.randn(1 + other, 3, side, side),)
        make = getattr(torchvision.models, name, None) or getattr(torchvision.models.segmentation, name)
        return Positional(make(**options), []), lambda other: (torch.randn(1 + other, 3, side, side),)

    return build


def lively(model, *inputs):
    """The model with statistics that its batch norms have seen, and without weights that are all alike or next to zero: layers that begin
    with zeros, or are scaled by 1e-6, would hide what is wrong in them."""
    for weight in model.parameters():
        if weight.is_floating_point() and weight.numel() > 1 and weight.min() == weight.max():
            torch.nn.init.normal_(weight, weight.flatten()[0].item(), 0.1)
        elif weight.ndim > 1 and weight.std() < 0.02 * weight[0].numel() ** -0.5:
            torch.nn.init.normal_(weight, 0, weight[0].numel() ** -0.5)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None  # the mean of all that it sees
            module.train()
    model(*inputs)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            # Channels without variance would amplify rounding.
            module.running_var.clamp_(min=0.1 * module.running_var.mean().item())
    return model.eval()


def timm_model(name, side, given):
    def build():
        options = {"img_size": side, **given} if timm.get_pretrained_cfg(name).fixed_input_size else given
        model = timm.create_model(name, pretrained=False, num_classes=10, **options).eval()
        with torch.no_grad():
            lively(model, torch.randn(4, 3, side, side))
        return Positional(model, []), lambda other: (torch.randn(1 + other, 3, side, side),)

    return build


def own(name):
    def build():
        make, inputs = own_models.MODELS[name]
        return make(), lambda other: inputs(2 + other)

    return build


def all_models():
    found = [Model("Graft's own", name, own(name)) for name in own_models.MODELS]
    for side, names in families.PICTURES.items():
        found += [Model("torchvision", name, picture_model(name, side)) for name in names.split()]
    for kind, rows in families.FAMILIES.items():
        for row in rows:
            name, given = row if isinstance(row, tuple) else (row, {})
            found.append(Model("transformers", name, family(name, kind, given)))
    for side, rows in families.TIMM.items():
        for row in rows:
            name, given = row if isinstance(row, tuple) else (row, {})
            found.append(Model("timm", name, timm_model(name, side, given)))
    return found


class Refused(Exception):
    """PyTorch does not do it."""


def first_line(error):
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:160]


def saved(model, inputs, form, path):
    """Writes the model as a file; a function that runs that file in PyTorch comes back, and whether the file calls operators that
    transformers defines in Python."""
    try:
        if form == "traced":
            torch.jit.trace(model, inputs, check_trace=False, strict=False).save(path)
            return torch.jit.load(path), False
        program = torch.export.export(model, inputs, strict=False)
        torch.export.save(program, path)
        return program.module(), any(str(n.target).startswith("transformers.") for n in program.graph.nodes)
    except Exception as error:
        raise Refused(first_line(error)) from None


loading = threading.Lock()  # torch.export loads one archive at a time


def loaded(path):
    """A function that runs a file in PyTorch."""
    if path.suffix == ".pt":
        return torch.jit.load(path)
    with loading:
        return torch.export.load(path).module()


def distance(expected, actual):
    """(word, detail): how far outputs are from PyTorch's own. What was rewritten may differ by rounding."""
    if len(expected) != len(actual):
        return "differs", f"{len(actual)} outputs where there are {len(expected)}"
    worst = 0.0
    for i, (e, a) in enumerate(zip(expected, actual)):
        if e.shape != a.shape or e.dtype != a.dtype:
            return "differs", f"output {i}: {a.dtype} {list(a.shape)} where {e.dtype} {list(e.shape)} is expected"
        if torch.equal(e, a) or torch.equal(e.isnan(), a.isnan()) and torch.equal(e.nan_to_num(), a.nan_to_num()):
            continue
        if not e.is_floating_point() or not torch.equal(e.isfinite(), a.isfinite()):
            return "differs", f"output {i} is another one"
        difference, size = (torch.where(e.isfinite(), x, 0).double() for x in (e - a, e))
        worst = max(worst, difference.abs().max().item())
        allowed = max(1e-4, torch.finfo(e.dtype).eps)  # a kernel of several operators rounds halves once
        if difference.square().mean().sqrt() > allowed * size.square().mean().sqrt() + 1e-6:
            return "differs", f"output {i} is off by up to {worst:.1e}"
    return ("near", f"{worst:.1e}") if worst else ("bitwise", "")


class Sweep:
    def __init__(self, build, folder, keep):
        self.graft, self.folder, self.keep = build / "bin/graft", pathlib.Path(folder), keep
        self.workers = concurrent.futures.ThreadPoolExecutor(2)
        operators = build / "lib/libgraft_ops.so"
        if operators.exists():
            torch.ops.load_library(str(operators))
        self.of_transformers = self.folder / "transformers_operators.py"
        self.of_transformers.write_text("import transformers.integrations.moe\n")
        self.libraries = {}  # by file: what Graft has to load for it

    def expected(self, run, inputs, stem):
        """What PyTorch makes of the inputs, and both as files for Graft."""
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                expected = leaves(run(*inputs))
        except Exception as error:
            raise Refused(first_line(error)) from None
        given, wanted = self.folder / f"{stem}.in.pt", self.folder / f"{stem}.out.pt"
        torch.save(inputs, given)
        torch.save(expected, wanted)
        return expected, given, wanted

    def asked(self, *command):
        """(exit code, standard output, what went wrong). The second word of a command is the model."""
        command += self.libraries.get(command[1], ())
        try:
            done = subprocess.run([str(self.graft), *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return 124, "", "it did not end within 300 s"
        said = [line[7:] for line in done.stderr.splitlines() if line.startswith("graft:")]
        return done.returncode, done.stdout, (said or [f"exit code {done.returncode}"])[-1]

    def compared(self, path, given, wanted):
        code, out, why = self.asked("run", path, "--inputs", given, "--expect", wanted, "--json")
        if code not in (0, 5):
            return self.kept(("fails", why), path, given, wanted)
        differences = json.loads(out)["differences"]
        wrong = [d for d in differences if not d["passed"]]
        if wrong:
            return self.kept(("differs", f"output {wrong[0]['name']}: {wrong[0]['why']}"), path, given, wanted)
        worst = max((d["maxAbs"] for d in differences), default=0)
        return self.kept(("near", f"{worst:.1e}"), path, given, wanted) if worst else ("bitwise", "")

    def kept(self, result, *files):
        if self.keep:
            for file in files:
                shutil.copy(file, self.keep)
        return result

    def rewritten(self, row, path, given, inputs, expected):
        """By the recipe that fits the library, of timm the first that matches; the detail begins with the number of rewrites."""
        out = path.with_name(path.stem + ".fast" + path.suffix)
        for rules, recipe in RECIPES.get(row.library, RECIPES[""]):
            code, said, why = self.asked("apply", path, "--rules", RULES / rules, "--recipe", recipe, "--inputs", given, "-o", out,
                                         "--no-timing", "--json")
            if code != 7:
                break
        if code == 7:
            return "no", "no rule matches"
        if code != 0:
            return self.kept(("fails", why), path, given)
        count = sum(step["rewrites"] for model in json.loads(said)["models"] for step in model["steps"])
        kind, detail = self.rerun(out, inputs, expected)
        return (kind, f"{count} {detail}".rstrip()) if kind not in ("fails", "differs") else self.kept((kind, detail), path, given)

    def optimized(self, path, given, batches):
        """`batches`: the inputs, and what PyTorch makes of them. The worst result of all batches."""
        out = path.with_name(path.stem + ".optimized" + path.suffix)
        code, _, why = self.asked("optimize", path, "--inputs", given, "-o", out, "--allow-unchanged", "--budget", 6, "--seconds", 0.3)
        if code != 0:
            return self.kept(("fails", why), path, given)
        order = ("bitwise", "near", "differs", "fails")
        result = max((self.rerun(out, *batch) for batch in batches), key=lambda r: (order.index(r[0]), float(r[1]) if r[0] == "near" else 0))
        return self.kept(result, path, given, out) if result[0] in ("fails", "differs") else result

    def again(self, path, given, inputs, expected):
        out = path.with_name(path.stem + ".again" + path.suffix)
        code, _, why = self.asked("convert", path, "-o", out)
        if code != 0:
            return self.kept(("fails", why), path, given)
        result = self.rerun(out, inputs, expected)
        return self.kept(result, path, given) if result[0] in ("fails", "differs") else result

    def rerun(self, path, inputs, expected):
        try:
            torch.manual_seed(0)
            with torch.no_grad():
                return distance(expected, leaves(loaded(path)(*inputs)))
        except Exception as error:
            return "fails", "in PyTorch: " + first_line(error)

    def model(self, row, wanted):
        """{column: future or (word, detail)} of one model, for the columns that are wanted."""
        stem = row.name.replace(" ", "_")
        torch.manual_seed(0)
        begin = time.time()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                module, inputs = row.build()
            module.eval()
            given = inputs(False)
            with torch.no_grad():
                module(*given)
        except Exception as error:
            return {column: ("not built", first_line(error)) for column in wanted}
        found = {}
        for form, columns in COLUMNS.items():
            columns = [column for column in columns if column in wanted]
            if not columns:
                continue
            path = self.folder / (stem + FORMS[form])
            try:
                with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    run, calls_transformers = saved(module, given, form, path)
                self.libraries[path] = ("--library", self.of_transformers) if calls_transformers else ()
                expected, given_file, wanted_file = self.expected(run, given, f"{stem}.{form}")
            except Refused as error:
                found.update({column: ("no", str(error)) for column in columns})
                continue
            batches, refused = [(given, expected)], None
            if {"other sizes", "traced, optimized"} & {*columns}:
                try:
                    larger = inputs(True)
                    others, other_file, others_file = self.expected(run, larger, f"{stem}.other")
                    batches.append((larger, others))
                except Refused as error:
                    refused = str(error)
            for column in columns:
                if column == form:
                    found[column] = self.workers.submit(self.compared, path, given_file, wanted_file)
                elif column == "other sizes":
                    found[column] = ("no", refused) if refused else self.workers.submit(self.compared, path, other_file, others_file)
                elif column.endswith("optimized"):
                    found[column] = self.workers.submit(self.optimized, path, given_file, batches)
                elif column.endswith("rewritten"):
                    found[column] = self.workers.submit(self.rewritten, row, path, given_file, given, expected)
                else:
                    found[column] = self.workers.submit(self.again, path, given_file, given, expected)
        row.seconds = time.time() - begin
        return found


def word(column, result):
    kind, detail = result
    if column.endswith("rewritten") and kind in ("bitwise", "near"):
        count, _, worst = detail.partition(" ")
        return f"{count}, {'≤ ' + worst if worst else 'bitwise'}"
    return f"≤ {detail}" if kind == "near" else kind


def table(rows):
    """The page of the documentation."""
    columns = [column for form in COLUMNS.values() for column in form]
    count = lambda *kinds, of: sum(found.get(column, ("no",))[0] in kinds for _, found in rows for column in columns if of(column))
    runs = lambda column: column in (*FORMS, "other sizes")
    rewritten = lambda column: column.endswith("rewritten")
    again = lambda column: column.endswith("again")
    optimized = lambda column: column.endswith("optimized")
    good, all_ = ("bitwise", "near"), ("bitwise", "near", "differs", "fails")
    wrapped = lambda text: textwrap.wrap(text, 100, subsequent_indent="  " if text.startswith("- ") else "", break_long_words=False)
    lines = ["# Models checked", "",
             *wrapped("`./dev sweep models` makes this page. It builds small models with seeded random weights, lets PyTorch trace and "
                      "export each, and runs every file on the CPU with one thread: by PyTorch and by Graft."), "",
             "| Column | Says |", "|---|---|",
             "| traced | Graft's run of the file of `torch.jit.trace`, against PyTorch's run of that file |",
             "| other sizes | the same file on a larger batch, and a longer text or sound, if PyTorch runs it on these |",
             "| exported | Graft's run of the archive of `torch.export`, against PyTorch's run of it |",
             "| rewritten | how many rewrites the shipped rules make, and what PyTorch computes with the rewritten file |",
             "| again | what PyTorch computes with the file that Graft reads and writes again |",
             "| optimized | what PyTorch computes with the file of `graft optimize`, also on the other sizes |", "",
             *wrapped("The rules are `ConvNet` of `conv.py` for torchvision, and `Encoder` of `transformer.py` for the others. Models of "
                      "timm have the first of both that rewrites something. *Bitwise* "
                      "means that all outputs are equal bit for bit, and have PyTorch's dtypes. *≤ x* is the largest difference of an "
                      "element where they are not. *Differs* and *fails* are explained below the table. An en dash stands where PyTorch "
                      "refuses: it does not trace or export the model, or its traced file does not run on other sizes. Under "
                      "*rewritten* it also stands where no rule matches. Mixtures of experts are exported with an operator that "
                      "transformers defines in Python; Graft gets it with `--library`. timm has a small model of each of its modules "
                      "here; the sweep skips them where timm is not installed. What was not asked in the latest sweep is left "
                      "empty."), "",
             *wrapped(f"- Run by Graft: of {count(*all_, of=runs)} runs, {count('bitwise', of=runs)} are bitwise equal to PyTorch's, "
                      f"{count('near', of=runs)} are near, {count('differs', of=runs)} differ, and {count('fails', of=runs)} fail."),
             *wrapped(f"- Rewritten: of {count(*all_, of=rewritten)} files, {count(*good, of=rewritten)} compute the same in PyTorch, "
                      f"{count('differs', of=rewritten)} differ, and {count('fails', of=rewritten)} fail."),
             *wrapped(f"- Written again: of {count(*all_, of=again)} files, {count(*good, of=again)} compute the same in PyTorch, "
                      f"{count('differs', of=again)} differ, and {count('fails', of=again)} fail."),
             *wrapped(f"- Optimized: of {count(*all_, of=optimized)} files, {count(*good, of=optimized)} compute the same in PyTorch at "
                      f"all sizes, {count('differs', of=optimized)} differ, and {count('fails', of=optimized)} fail."), "",
             "| library | model | traced | other sizes | rewritten | again | optimized | exported | rewritten | again |", "|" + "---|" * 10]
    for row, found in rows:
        cells = ["" if c not in found else "–" if found[c][0] in ("no", "not built") else word(c, found[c]) for c in columns]
        lines.append(f"| {row.library} | {row.name} | {' | '.join(cells)} |")
    bad = [(row.name, column, *found[column]) for row, found in rows for column in columns
           if found.get(column, ("no",))[0] in ("differs", "fails")]
    if bad:
        lines += ["", "What differs or fails:", ""]
        for name, column, kind, detail in bad:
            detail = families.KNOWN.get((name, column), detail)
            lines += textwrap.wrap(f"- {name}, {column}: {kind}: {detail}", 100, subsequent_indent="  ", break_long_words=False)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only")
    parser.add_argument("--library")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--state", type=pathlib.Path)
    parser.add_argument("--part", action="append", choices=("run", "rewritten", "again", "optimized"))
    arguments = parser.parse_args()
    models = [m for m in all_models() if (not arguments.only or arguments.only in m.name) and
              (not arguments.library or arguments.library == m.library) and (not arguments.sample or m.name in families.SAMPLE)]
    if not timm and any(m.library == "timm" for m in models):
        print("timm is not installed: skipped")
        models = [m for m in models if m.library != "timm"]
    part = lambda column: column.partition(", ")[2] or "run"
    columns = [c for form in arguments.form or FORMS for c in COLUMNS[form] if not arguments.part or part(c) in arguments.part]
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    before = {}
    if arguments.state and arguments.state.exists():
        for line in arguments.state.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # a line that was being written when the sweep was stopped
                library, name, results = json.loads(line)
                before.setdefault((library, name), {}).update({column: tuple(r) for column, r in results.items()})
    rows, unexpected = [], []
    with tempfile.TemporaryDirectory(prefix="graft-sweep-") as folder:
        sweep = Sweep(arguments.build.resolve(), folder, arguments.keep)
        waiting = []

        def finish(row, known, found):
            results = {column: r.result() if isinstance(r, concurrent.futures.Future) else r for column, r in found.items()}
            stem = row.name.replace(" ", "_")
            for path in (p for p in pathlib.Path(folder).iterdir() if p.name.startswith(stem + ".")):
                path.unlink()
            if arguments.state and results:
                with open(arguments.state, "a") as state:
                    state.write(json.dumps([row.library, row.name, results]) + "\n")
            results = {**known, **results}
            rows.append((row, results))
            if found:
                said = ", ".join(f"{column} {word(column, r)}" for column, r in results.items())
                print(f"{row.name}: {said} ({getattr(row, 'seconds', 0):.1f} s)", flush=True)
            for column, (kind, detail) in results.items():
                if found and kind in ("fails", "differs", "no", "not built"):
                    print(f"    {column}: {detail}", flush=True)
                if kind in ("fails", "differs") and (row.name, column) not in families.KNOWN:
                    unexpected.append(f"{row.name}, {column}: {kind}: {detail}")

        for row in models:
            known = {c: r for c, r in before.get((row.library, row.name), {}).items()
                     if c not in columns or r[0] not in ("fails", "differs")}
            missing = [column for column in columns if column not in known]
            waiting.append((row, known, sweep.model(row, missing) if missing else {}))
            gc.collect()
            if len(waiting) > 1:
                finish(*waiting.pop(0))
        for started in waiting:
            finish(*started)
    if arguments.table:
        arguments.table.write_text(table(rows))
    missing = set(families.SAMPLE) - {row.name for row, found in rows if any(r[0] == "bitwise" for r in found.values())}
    if arguments.sample and missing:
        unexpected.append(f"nothing was compared of {', '.join(sorted(missing))}")
    print(f"{len(rows)} models, {len(unexpected)} unexpected")
    for line in unexpected:
        print(f"    {line}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
