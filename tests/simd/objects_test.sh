#!/usr/bin/env bash
# No instruction of a set leaves the files compiled for it. The linker keeps one copy of every inline
# function, so a copy compiled for AVX-512 could be the one that plain code calls on a machine without it.
#   1. Code that an object compiled for one set offers to others carries the set's name.
#   2. Other objects (on x86) have no AVX instruction at all, but for functions of their own whose name ends
#      in the width (bandwidth.cc).
# usage: objects_test.sh MACHINE NM OBJDUMP CXX OBJECT...      MACHINE as CMAKE_SYSTEM_PROCESSOR says it
set -euo pipefail
machine=$1 nm=$2 objdump=$3 cxx=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Prints what is wrong with an object.
complaints_about() {
  local object=$1 set
  if [[ $object =~ _(neon|avx2|avx512|avx512bf16)\.cc\.o$ ]]; then
    set=${BASH_REMATCH[1]}
    "$nm" -g -C --defined-only "$object" |
      awk -v own="(^|[^A-Za-z0-9_])([a-z]+_)?${set}::" '($2 == "T" || $2 == "W") && $0 !~ own {
        $1 = $2 = ""; print "offers code without the name of its set:" $0 }'
  elif [[ $machine =~ x86_64|AMD64 ]]; then
    "$objdump" -d -C --no-show-raw-insn "$object" |
      awk '/^[0-9a-f]+ </ { $1 = ""; name = $0; own = name ~ /anonymous namespace.*_(256|512)\(/ }
        $2 ~ /^v[a-z0-9]+$/ && !own { if (++seen[name] == 1) print "has " $2 " in" name }'
  fi
}

failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# The rules are seen to be broken by objects that break them.
echo 'inline int twice(int x) { return 2 * x; } int use(int x) { return twice(x); }' >"$folder/leak.cc"
"$cxx" -O0 -c "$folder/leak.cc" -o "$folder/leak_neon.cc.o"
[ "$(complaints_about "$folder/leak_neon.cc.o" | wc -l)" -eq 2 ] || fail "a leak was not seen"
if [[ $machine =~ x86_64|AMD64 ]]; then
  echo 'void add(float* x) { for (int n = 0; n < 8; ++n) x[n] += 1; }' >"$folder/plain.cc"
  "$cxx" -O3 -mavx2 -c "$folder/plain.cc" -o "$folder/plain.cc.o"
  [ -n "$(complaints_about "$folder/plain.cc.o")" ] || fail "AVX in a plain object was not seen"
fi

sets=0
for object in "$@"; do
  [[ ! $object =~ _(neon|avx2|avx512|avx512bf16)\.cc\.o$ ]] || sets=$((sets + 1))
  found=$(complaints_about "$object")
  [ -z "$found" ] || fail "${object##*/}"$'\n'"$found"
done
[ "$sets" -gt 0 ] || fail "no object of an instruction set among the $# given"
[ "$failures" -eq 0 ] || exit 1
echo "$# objects, $sets of them for one instruction set"
