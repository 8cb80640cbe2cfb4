#!/usr/bin/env bash
# run.sh PROGRAM SEED_CORPUS SECONDS: fuzzes for that long under the sanitizers. New inputs go beside the program, into
# corpus/NAME; what crashes it into crashes/NAME, and fails the run. Exits with 77 where the program was not built.
set -euo pipefail
program=$1 seeds=$2 seconds=$3
name=$(basename "$program")
name=${name#fuzz_}
[[ -x $program ]] || {
  echo "skipped: $program is not there; ./dev test builds it where there is clang, ./dev fuzz always"
  exit 77
}
folder=$(dirname "$program")
mkdir -p "$folder/corpus/$name" "$folder/crashes/$name"
# LibTorch itself is built without the sanitizers: what crosses into it looks like overflows of containers and leaks.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:detect_container_overflow=0}
# ASan of older clangs wants the address space where older kernels put it.
fixed=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed=(setarch "$(uname -m)" -R); fi
# Behind the tests that run beside it.
exec nice -n 10 "${fixed[@]}" "$program" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2000 -print_final_stats=1 -verbosity=0 \
  -artifact_prefix="$folder/crashes/$name/" "$folder/corpus/$name" "$seeds"
