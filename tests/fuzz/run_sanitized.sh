#!/usr/bin/env bash
# Runs a test program that was built with AddressSanitizer and UBSan; 77 (skipped) where it was not built.
program=$1
shift
if [[ ! -x $program ]]; then
  echo "$program is not built: './dev test' builds it where clang is installed"
  exit 77
fi
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
# ASan of older clangs wants the address space where older kernels put it.
fixed=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed=(setarch "$(uname -m)" -R); fi
exec "${fixed[@]}" "$program" "$@"
