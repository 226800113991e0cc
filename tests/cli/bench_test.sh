#!/usr/bin/env bash
# locant bench from the outside: lines and their keys, files of cases, goals, the check, bad input.
. "$(dirname "$0")/lib.sh" "$1"

case='b1 h2 q64 d16 causal t5 fwd+bwd'
expect 0 'b1 h2 q64 k64 d16 causal t5 f32 fwd\+bwd t1' bench --rounds 1 "$case"
line=$("$locant" bench --json --rounds 1 "$case")
number='-?[0-9.e+-]+'
grep -Eqx "\{\"case\":\"b1 h2 q64 k64 d16 causal t5 f32 fwd\+bwd t1\",\"median_ms\":$number,\"best_ms\":$number,\"gflops\":$number,\"peak_share\":$number,\"extra_mb\":$number,\"vs_plain\":$number\}" <<<"$line" ||
  fail "not the keys in their order: $line"
expect 0 '"vs_plain":null' bench --json --rounds 1 --no-plain "$case"
expect 0 '"vs_plain":1[,}]' bench --json --rounds 1 'h2 q64 d16'

expect 0 '"vs_plain":[^,]*,"bandwidth_share":[0-9.e+-]+}' bench --json --rounds 1 'h2 k500 d16 decode alibi'
expect 0 'of the read bandwidth' bench --rounds 1 'h2 k500 d16 decode'

# Files, by name or behind @; one line a case in the order of the file; goals.
cat >"$work/cases.txt" <<'TEXT'
# small ones
h2 q64 d16 alibi -> vs_plain <= 1000, gflops >= 1e9
h2 q32 d16        # no goal
TEXT
for file in "$work/cases.txt" "@$work/cases.txt"; do
  lines=$("$locant" bench --json --rounds 1 "$file" 'h1 q16 d16')
  [ "$(wc -l <<<"$lines")" -eq 3 ] || fail "expected three lines for $file, got: $lines"
  grep -q '"case":"b1 h2 q32' <(sed -n 2p <<<"$lines") || fail "not in the order of the file: $lines"
done
grep -q '"goals":\[{"goal":"vs_plain <= 1000","got":[^,]*,"reached":true},{"goal":"gflops >= 1e9","got":[^,]*,"reached":false}\]' \
  <(sed -n 1p <<<"$lines") || fail "goals are not judged: $lines"
expect 0 'MISSED' bench --rounds 1 "$work/cases.txt"
expect 0 '1 of 2 goals' bench --rounds 1 "$work/cases.txt"

# Every line of the files that come with the project is understood: a case behind them is refused first.
for file in "$(dirname "$0")"/../../bench/*.txt; do
  case $file in *CMakeLists.txt) continue ;; esac
  expect 2 'nonsense' bench "$file" nonsense
done

# The check.
expect 0 'right' bench --check "$case"
expect 0 'q gradient' bench --check 'b1 h2 g1 q40 d16 shaw fwd+bwd t2'
expect 0 '"right":true,"worst_ratio":[0-9.e-]+,"arrays":\[\{"name":"out"' bench --check --json "$case"

# Help teaches; bad input says what there is.
expect 0 'fwd\+bwd' bench --help
expect 2 'no size.*alibi' bench 'q64 nothing'
expect 2 'q0' bench 'q0'
printf 'q64\nzzz\n' >"$work/bad.txt"
expect 2 'bad.txt, line 2.*zzz' bench "$work/bad.txt"
expect 2 'missing.txt.*cannot be read' bench "@$work/missing.txt"
expect 2 'rounds' bench --rounds 0 q16
expect 2 'causal' bench 'q16 d16 music_transformer'
expect 2 'forward pass' bench 'k100 decode bwd'
expect 2 'scalar' bench 'q16 isa=none'
finish
