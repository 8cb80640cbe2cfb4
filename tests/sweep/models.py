#!/usr/bin/env python3
"""Whether Graft computes what PyTorch computes: models of torchvision and of transformers, small and with random weights, as traced
files and as torch.export archives, against PyTorch's own run of the very file.

    models.py BUILD                    all models: half an hour
    models.py BUILD --sample           those of families.SAMPLE alone, as CI does
    models.py BUILD --only bert        models whose names contain this
    models.py BUILD --form traced      one of the forms alone; the default is both
    models.py BUILD --table FILE       writes the table of docs/reference/models-checked.md there
    models.py BUILD --keep FOLDER      leaves the files of models that differ in FOLDER

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

import families  # noqa: E402
import own_models  # noqa: E402

torch.set_num_threads(1)
FORMS = {"traced": ".pt", "exported": ".pt2"}
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
    return found


class Refused(Exception):
    """PyTorch does not do it."""


def first_line(error):
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:160]


def saved(model, inputs, form, path):
    """Writes the model as a file; a function that runs that file in PyTorch comes back."""
    try:
        if form == "traced":
            torch.jit.trace(model, inputs, check_trace=False, strict=False).save(path)
            return torch.jit.load(path)
        program = torch.export.export(model, inputs, strict=False)
        torch.export.save(program, path)
        return program.module()
    except Exception as error:
        raise Refused(first_line(error)) from None


class Sweep:
    def __init__(self, graft, folder, keep):
        self.graft, self.folder, self.keep = graft, pathlib.Path(folder), keep
        self.workers = concurrent.futures.ThreadPoolExecutor(2)

    def compared(self, stem, path, run, inputs, what):
        """Starts Graft on the file; the future says how far its outputs are from PyTorch's."""
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                expected = leaves(run(*inputs))
        except Exception as error:
            raise Refused(first_line(error)) from None
        given, wanted = self.folder / f"{stem}.{what}.in.pt", self.folder / f"{stem}.{what}.out.pt"
        torch.save(inputs, given)
        torch.save(expected, wanted)
        return self.workers.submit(self.run, path, given, wanted)

    def run(self, path, given, wanted):
        command = [str(self.graft), "run", str(path), "--inputs", str(given), "--expect", str(wanted), "--json"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        if done.returncode not in (0, 5):
            result = "fails", ([line for line in done.stderr.splitlines() if line.startswith("graft:")] or [f"exit code {done.returncode}"])[-1][7:]
        else:
            differences = json.loads(done.stdout)["differences"]
            wrong = [d for d in differences if not d["passed"]]
            worst = max((d["maxAbs"] for d in differences), default=0)
            if wrong:
                result = "differs", f"output {wrong[0]['name']}: {wrong[0]['why']}"
            else:
                result = ("bitwise", "") if worst == 0 else ("near", f"{worst:.1e}")
        for file in (given, wanted):
            if self.keep and result[0] in ("fails", "differs", "near"):
                shutil.copy(file, self.keep)
                shutil.copy(path, self.keep)
            file.unlink()
        return result

    def model(self, row, forms):
        """{column: future or (word, detail)} of one model."""
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
            return {form: ("not built", first_line(error)) for form in forms}
        found = {}
        for form in forms:
            path = self.folder / (stem + FORMS[form])
            try:
                with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    run = saved(module, given, form, path)
                found[form] = self.compared(stem, path, run, given, form)
                if form == "traced":
                    with contextlib.suppress(Refused):
                        found["other sizes"] = self.compared(stem, path, run, inputs(True), "other")
            except Refused as error:
                found[form] = "no", str(error)
        row.seconds = time.time() - begin
        return found


def word(result):
    kind, detail = result
    return f"≤ {detail}" if kind == "near" else kind


def table(rows):
    """The page of the documentation."""
    results = [r for _, found in rows for r in found.values()]
    count = lambda *kinds: sum(kind in kinds for kind, _ in results)
    lines = ["# Models checked", "",
             f"`./dev sweep models` makes this page. It builds {len(rows)} models, small and with seeded random weights, lets",
             "PyTorch trace and export each, and runs every file twice on the CPU with one thread: by PyTorch",
             "and by `graft run`.", "",
             "| Column | Says |", "|---|---|",
             "| traced | the file of `torch.jit.trace`, against `torch.jit.load` |",
             "| other sizes | the same file on a larger batch, and a longer text or sound, where PyTorch runs it on these |",
             "| exported | the archive of `torch.export`, against the exported program |", "",
             "*Bitwise* means that all outputs are equal bit for bit, and have PyTorch's dtypes. *≤ x* is the",
             "largest difference of an element where they are not. An en dash stands where PyTorch refuses: it does",
             "not trace or export the model, or its traced file does not run on other sizes.", "",
             f"Of {count('bitwise', 'near', 'differs', 'fails')} comparisons, {count('bitwise')} are bitwise, {count('near')} are near, "
             f"{count('differs')} differ, and Graft failed in {count('fails')}.", "",
             "| library | model | traced | other sizes | exported |", "|---|---|---|---|---|"]
    cell = lambda found, column: word(found[column]) if column in found and found[column][0] not in ("no", "not built") else "–"
    for row, found in rows:
        lines.append(f"| {row.library} | {row.name} | {cell(found, 'traced')} | {cell(found, 'other sizes')} | {cell(found, 'exported')} |")
    bad = [(row.name, column, *found[column]) for row, found in rows for column in found if found[column][0] in ("differs", "fails")]
    if bad:
        lines += ["", "What differs or fails:", "", *(f"- {name}, {column}: {detail}" for name, column, _, detail in bad)]
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
    arguments = parser.parse_args()
    models = [m for m in all_models() if (not arguments.only or arguments.only in m.name) and
              (not arguments.library or arguments.library == m.library) and (not arguments.sample or m.name in families.SAMPLE)]
    forms = arguments.form or list(FORMS)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    rows, unexpected = [], []
    with tempfile.TemporaryDirectory(prefix="graft-sweep-") as folder:
        sweep = Sweep(arguments.build.resolve() / "bin/graft", folder, arguments.keep)
        waiting = []

        def finish(row, found):
            results = {column: r.result() if isinstance(r, concurrent.futures.Future) else r for column, r in found.items()}
            for path in pathlib.Path(folder).glob(row.name.replace(" ", "_") + ".pt*"):
                path.unlink()
            rows.append((row, results))
            said = ", ".join(f"{column} {word(r)}" for column, r in results.items())
            print(f"{row.name}: {said} ({getattr(row, 'seconds', 0):.1f} s)", flush=True)
            for column, (kind, detail) in results.items():
                if kind in ("fails", "differs", "no", "not built"):
                    print(f"    {column}: {detail}", flush=True)
                if kind in ("fails", "differs") and (row.name, column) not in families.KNOWN:
                    unexpected.append(f"{row.name}, {column}: {kind}: {detail}")

        for row in models:
            waiting.append((row, sweep.model(row, forms)))
            gc.collect()
            if len(waiting) > 1:
                finish(*waiting.pop(0))
        for pair in waiting:
            finish(*pair)
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
