#!/usr/bin/env bash
# The command on an emulated CPU: lists, shows, trains and evaluates a small model, without an illegal
# instruction.   usage: command_test.sh LOCANT_BINARY EMULATOR...
binary=$1
shift
. "$(dirname "$0")/../cli/lib.sh" "$binary"
locant=$work/locant
printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$*" "$binary" >"$locant"
chmod +x "$locant"

text=$work/text.txt
make_text "$text"
expect 0 'alibi' schemes
expect 0 'alibi' show alibi --length 16
# LOCANT_ISA cannot bring back what the CPU lacks, and the command says so.
export LOCANT_ISA=avx2
expect 0 'LOCANT_ISA=avx2: not available here \(scalar\)' show alibi --length 16
unset LOCANT_ISA
for scheme in rope t5 shaw transformer_xl; do
  expect 0 'loss' train "$scheme" --corpus "$text" --length 16 --steps 5 --batch 4 --layers 1 --width 16 \
    --heads 2 --out "$work/$scheme"
  expect 0 'sliding' eval "$work/$scheme" --corpus "$text"
done
finish
