#!/usr/bin/env bash
# What this compiler makes of constant bf16 vectors (bf16_constants.cc). Data from memory must be right.
# Constants may be wrong: Locant has none, which layout_test sees to. A compiler that is wrong and not
# known for it fails the test, so that somebody looks.
# usage: bf16_constants_test.sh CXX ID VERSION [EMULATOR...]
set -euo pipefail
cxx=$1 id=$2 version=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
source=$(dirname "$0")/bf16_constants.cc

"$cxx" -std=c++20 -O2 -march=armv8.2-a+bf16+fp16 "$source" -o "$folder/constants"
got=$("$@" "$folder/constants")
echo "$id $version: constant and loaded: $got (both 8 when right)"
read -r constant loaded <<<"$got"
[ "$loaded" = 8 ] || { echo "FAILED: loaded bf16 data is wrong"; exit 1; }
[ "$constant" != 8 ] || exit 0
echo "constant bf16 vectors are wrong with this compiler; nothing of Locant uses one"
case $id-$version in GNU-12.*) exit 0 ;; esac
echo "FAILED: and it is not known for it"
exit 1
