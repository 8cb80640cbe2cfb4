"""Checks the kernels' machine code: no kernel frees shared memory by an mbarrier arrival before its loads from there have completed.

    python tests/gpu/machine_code.py build/lib/libgraft_ops_cuda.so

`mbarrier.arrive` does not wait for earlier loads, and the compiler may move the instructions that use the loaded values behind it. If the
TMA engine refills the memory as soon as the barrier's phase ends, such a load may read the next data: a few wrong columns, once in many
runs. compute-sanitizer does not detect it. So this test reads the SASS: between a load from shared memory and an arrival there must be an
instruction that uses the loaded value. Loads complete in order, so a use of the last one also covers those before it.

It needs no GPU, but cuobjdump, from the CUDA toolkit or from Triton's package; without it the test exits 77 (skipped).
"""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\S+)\s*([^;]*);")
REGISTER = re.compile(r"\bR(\d+)")


def width(op):
    """The number of registers that a load writes."""
    return 4 if ".M88.4" in op or ".128" in op else 2 if ".M88.2" in op or ".64" in op else 1


def early_arrivals(lines):
    """[(line of an arrival, loads that it does not wait for)] of one kernel, in the order of the listing, branches ignored."""
    pending, found = {}, []  # register -> number of the load
    loads = []
    for line in lines:
        m = INSTRUCTION.match(line)
        if not m:
            continue
        op, arguments = m.groups()
        registers = [int(r) for r in REGISTER.findall(arguments)]
        if pending and not op.startswith("SYNCS.ARRIVE"):
            # An instruction that reads several registers as one names the first, which was loaded together with the others.
            if used := [pending[r] for r in registers if r in pending]:
                pending = {r: n for r, n in pending.items() if n > max(used)}
        if op.startswith("LDSM") or op.startswith("LDS."):
            loads.append(line)
            pending.update({r: len(loads) - 1 for r in range(registers[0], registers[0] + width(op))})
        elif op.startswith("SYNCS.ARRIVE") and pending:
            found.append((line, [loads[n] for n in sorted(set(pending.values()))]))
            pending = {}
        elif op.startswith("BAR.") or op == "EXIT":
            pending = {}
    return found


def kernels(lines):
    """(name, lines) of each kernel in the output of cuobjdump."""
    name, mine = None, []
    for line in lines:
        at = line.find("Function : ")
        if at >= 0:
            if name:
                yield name, mine
            name, mine = line[at + 11:].strip(), []
        elif name:
            mine.append(line)
    if name:
        yield name, mine


def find_tool():
    found = shutil.which("cuobjdump")
    if not found and (triton := importlib.util.find_spec("triton")):
        found = pathlib.Path(triton.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return str(found) if found and pathlib.Path(found).exists() else None


def self_check():
    def kernel(*instructions):
        return [f"        /*{16 * i:04x}*/    {text} ;    /* 0x0 */" for i, text in enumerate(instructions)]

    load, second, arrive = "LDSM.16.M88.4 R56, [R6]", "LDSM.16.M88.4 R60, [R6+0x800]", "@!P0 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R6+URZ], RZ"
    multiply = "HMMA.16816.F32 R52, R80, R62, R52"
    cases = [
        ("used afterwards", kernel(load, second, arrive, multiply), [2]),
        ("used before; a use of the last one covers both", kernel(load, second, multiply, arrive), []),
        ("only the first is used before", kernel(load, second, "HMMA.16816.F32 R52, R80, R58, R52", arrive, multiply), [1]),
        ("a fourth register is used", kernel(load, "FADD R1, R2, R59", arrive), []),
        ("the next register is another's", kernel(load, "FADD R1, R2, R60", arrive), [1]),
        ("a block-wide barrier stands between", kernel(load, "BAR.SYNC.DEFER_BLOCKING 0x1, 0x80", arrive), []),
        ("nothing is loaded", kernel(arrive, "FADD R1, R2, R3"), []),
    ]
    wrong = [name for name, lines, loads in cases if [len(missed) for _, missed in early_arrivals(lines)] != loads]
    listing = ["\t\tFunction : first", *kernel(load, arrive), "\t\tFunction : second", *kernel(arrive)]
    if [(name, len(early_arrivals(lines))) for name, lines in kernels(listing)] != [("first", 1), ("second", 0)]:
        wrong.append("two kernels")
    print("\n".join(f"wrong: {name}" for name in wrong) or "finds early arrivals, and nothing else")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-check"]:
        return self_check()
    tool = find_tool()
    if not tool:
        print("skipped: no cuobjdump")
        return SKIPPED
    listing = subprocess.Popen([tool, "-sass", sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    count = waiting = failed = 0
    for name, lines in kernels(listing.stdout):
        count += 1
        if not any("SYNCS.ARRIVE" in line for line in lines) or not any("LDS" in line for line in lines):
            continue
        waiting += 1
        for arrival, loads in early_arrivals(lines):
            failed += 1
            print(f"{name}\n  loads that may not have completed:\n{''.join(loads)}  before the arrival:\n{arrival}")
    if listing.wait() != 0 or count == 0:
        print(f"{tool} lists no kernels of {sys.argv[1]}")
        return 1
    print(f"{count} kernels, {waiting} of them with loads and arrivals, {failed} early arrivals")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
