"""The rows of samples/zoo/bench.py as tables of Markdown."""
import math
import statistics

TITLES = {"graft": "Graft", "eager": "eager", "frozen": "frozen", "onnx": "ONNX Runtime"}


def title(contender):
    return TITLES.get(contender) or f"compile, {contender.partition(':')[2]}"


def failed(found):
    return "ms" not in found


def first_run(found, kind="calls"):
    """Seconds from a file (for eager and torch.compile: from the module) to the end of the first call that was as fast as the later ones."""
    if "ms" not in found or kind not in found:
        return None
    seconds = found["export"] if "export" in found else 0
    seconds += found["load"] if kind == "calls" else found.get("loadWarm", 0)
    for call in found[kind]:
        seconds += call
        if call * 1e3 <= 1.5 * max(found["ms"], min(found[kind]) * 1e3):
            break
    return seconds


def time_cell(found, what="ms", ratio="ratio"):
    """Of calls that are waited for ("ms", "ratio"), or that are queued without a wait ("queued", "queuedRatio")."""
    if what not in found:
        return "-"
    said = f", {found[ratio]:.2f} ({found[ratio + 'P10']:.2f} to {found[ratio + 'P90']:.2f})" if ratio in found else ""
    return f"{found[what]:.3g}{said}" if found[what] < 100 else f"{found[what]:.0f}{said}"


def amount(found):
    if found.get("kernels") is None:
        return "-"
    if "ran" in found:
        return f"{found['kernels']}, {sum(us for name, _, us in found['ran'] if not name.startswith('Mem')):.0f} us" + (f", {found['bytes'] / 1e6:.1f} MB" if found.get("bytes") is not None else "")
    return f"{found['kernels']}" + (f", {found['bytes'] / 1e6:.1f}" if found.get("bytes") is not None else "")


def seconds_cell(found, contender):
    cold, warm = first_run(found), first_run(found, "callsWarm")
    if cold is None:
        return "-"
    return f"{cold:.2f}" + (f" / {warm:.2f}" if warm is not None else "")


def errors_cell(found, contenders):
    ours = found.get("graft", {}).get("difference")
    theirs = [found[c]["difference"] for c in contenders if c.startswith("compile") and found.get(c, {}).get("difference") is not None]
    return f"{ours:.1e} / {theirs[0]:.1e}" if ours is not None and theirs else "-"


def name_of(row):
    return row["model"] if row["batch"] == 1 else f"{row['model']}, batch {row['batch']}"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def head(cells):
    return [line(cells), "|" + "---|" * len(cells)]


def times(row, contenders):
    found = row["contenders"]
    return line([name_of(row), *(time_cell(found.get(c, {})) for c in contenders), errors_cell(found, contenders), row.get("recipe", "")])


def times_head(contenders):
    return head(["model", *(f"{title(c)}, ms" for c in contenders), "error: Graft / compile", "kept"])


def summary(rows, contenders):
    """For each contender but Graft, the geometric mean of its time over Graft's and the least of them."""
    said = []
    for contender, which, how in ((c, *kind) for c in contenders for kind in (("ratio", ""), ("queuedRatio", ", calls without a wait"))):
        ratios = {name_of(r): r["contenders"][contender][which] for r in rows if which in r["contenders"].get(contender, {})}
        if ratios:
            worst = min(ratios, key=ratios.get)
            said.append(f"- {title(contender)}{how}: geometric mean {math.exp(statistics.fmean(map(math.log, ratios.values()))):.2f} over {len(ratios)} models, "
                        f"least {ratios[worst]:.2f} ({worst})")
    return said


def about(rows):
    """One line for each machine that rows were measured on."""
    seen = {}
    for row in rows:
        stamp = ", ".join(f"{key} {value}" for key, value in row["machine"].items() if key not in ("MHz", "load", "date"))
        mhz = row["machine"].get("MHz")
        seen.setdefault((f"{row['device']}, {row['dtype']}, {row['threads'] or 'default'} threads; {stamp}", row["machine"].get("date", "")[:10]), []).append(mhz)
    return [f"- {where}; {day}; {len(mhz)} rows" + (f"; clocks {min(m for m in mhz if m):.0f} to {max(m for m in mhz if m):.0f} MHz" if any(mhz) else "")
            for (where, day), mhz in seen.items()]


def without_wait(rows, contenders):
    """On a GPU: times of calls that are queued one behind the other."""
    rows = [r for r in rows if any("queued" in found for found in r["contenders"].values())]
    if not rows:
        return []
    cells = (line([name_of(r), *(time_cell(r["contenders"].get(c, {}), "queued", "queuedRatio") for c in contenders)]) for r in rows)
    return ["The same where nobody waits between two calls:", "", *head(["model", *(f"{title(c)}, ms" for c in contenders)]), *cells, ""]


def document(rows, contenders):
    """All tables, the means, the failures and the machines."""
    rows = sorted(rows, key=name_of)
    text = ["Times: median ms; then the time over Graft's, with the 10th to 90th percentile of the turns. Above 1 Graft is faster.", "",
            *times_head(contenders), *(times(r, contenders) for r in rows), "", *summary(rows, contenders), "",
            *without_wait(rows, contenders),
            "Kernels of one call, on a GPU the microseconds that they take, and the MB that they read and write:", "",
            *head(["model", *map(title, contenders)]),
            *(line([name_of(r), *(amount(r["contenders"].get(c, {})) for c in contenders)]) for r in rows), "",
            "Seconds to the end of the first fast call, with empty caches / with what an earlier process kept. Graft's and frozen TorchScript's count from the file,",
            "torch.compile's from the module, ONNX Runtime's from the export. What `graft optimize` took to make the file stands apart.", "",
            *head(["model", "graft optimize", *map(title, contenders)]),
            *(line([name_of(r), f"{r['optimize']:.1f}" if "optimize" in r else "-", *(seconds_cell(r["contenders"].get(c, {}), c) for c in contenders)]) for r in rows)]
    why = [f"- {name_of(r)}, {title(c)}: {found['why']}" for r in rows for c, found in r["contenders"].items() if failed(found) and found.get("why", "-") != "-"]
    if why:
        text += ["", "Not measured:", "", *why]
    return "\n".join([*text, "", "Machines:", "", *about(rows), ""])
