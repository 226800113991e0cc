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

expect 0 'right' bench --check 'h2 g1 q5 k40 d16 decode'  # several queries over a cache
expect 0 'right' bench --check 'h2 k100 d16 decode rope(scaling=dynamic,factor=4,original=64)'  # keys not turned
expect 0 '; 1 round$' bench --rounds 1 'h1 q16 d16'

# A case without room is named with what it needs; the others go on.
big='b1000 h64 q1000000 d64'
expect 1 'case "b1000 h64 q1000000 [^"]*" needs at least 65[.0-9]* TB, .* are free: left out' bench --rounds 1 "$big" 'h2 q32 d16'
[ "$("$locant" bench --json --rounds 1 "$big" 'h2 q32 d16' 2>/dev/null | wc -l)" -eq 1 ] || fail "the case behind the large one is missing"
expect 1 'left out' bench --check "$big"
# Both streams in one file: what was printed before a message stands before it.
"$locant" bench --rounds 1 "$big" >"$work/both.out" 2>&1
grep -q 'left out' <(tail -n 1 "$work/both.out") || fail "the message is not behind what was printed before: $(cat "$work/both.out")"

# Ctrl-C ends at once, in the middle of a case too.
for options in '--rounds 100000' '--check'; do
  for signal in INT TERM; do
    "$locant" bench $options 'h2 q32 d16' 'h8 q6000 d64 causal t5 fwd+bwd' >"$work/bench.out" 2>"$work/bench.err" &
    child=$!
    sleep 1.5
    kill -"$signal" "$child"
    begin=$SECONDS
    wait "$child"
    code=$?
    [ "$code" -eq 130 ] || fail "bench $options: expected exit code 130 after SIG$signal, got $code"
    [ $((SECONDS - begin)) -le 5 ] || fail "bench $options took $((SECONDS - begin)) s to stop"
    grep -q 'Stopped. [01] of 2 cases are done' "$work/bench.err" || fail "bench $options: $(cat "$work/bench.err")"
  done
done

# Help teaches; bad input says what there is.
expect 0 'fwd\+bwd' bench --help
expect 2 'no size.*alibi' bench 'q64 nothing'
expect 2 'q0' bench 'q0'
printf 'q64\nzzz\n' >"$work/bad.txt"
expect 2 'bad.txt, line 2.*zzz' bench "$work/bad.txt"
expect 2 'missing.txt: cannot be read: No such file' bench "@$work/missing.txt"
expect 2 'rounds' bench --rounds 0 q16
expect 2 'missing.txt: cannot be read: No such file' bench "$work/missing.txt"
expect 2 'missing.txt: cannot be read: No such file' bench missing.txt
# What a scheme refuses names its case, and nothing has run before it.
refused='h2 q16 d16 music_transformer'
for option in --check --rounds=1; do
  expect 2 "case \"$refused\": .music_transformer. needs a causal mask" bench "$option" 'h2 q16 d16 fire' "$refused"
  [ -z "$("$locant" bench "$option" 'h2 q16 d16 fire' "$refused" 2>/dev/null)" ] || fail "a case ran before one that is refused"
done
expect 2 'case "b1 h2 q16 k16 d16 fire hook f32 fwd t1": .*without the word hook' bench --check 'h2 q16 d16 fire hook'
expect 2 'forward pass' bench 'k100 decode bwd'
expect 2 'scalar' bench 'q16 isa=none'
# An instruction set of another machine: refused in a case, left out in a file, which may be meant for many.
case $(uname -m) in aarch64) other=avx2 ;; *) other=neon ;; esac
expect 2 "case .*isa=$other.*this machine and build have scalar" bench "h2 q16 d16 isa=$other"
printf 'h2 q16 d16 isa=%s\nh2 q32 d16\nh2 q64 d16 -> vs(isa=%s) <= 1.1\n' "$other" "$other" >"$work/other.txt"
printf 'h2 q16 d16 isa=%s\n' "$other" >"$work/none.txt"
for option in --check --rounds=1; do
  expect 0 "case .*q16.*isa=$other.*left out" bench "$option" "$work/other.txt"
  # Checking has no goals, so the last line's case is checked.
  if [ "$option" = --check ]; then last='b1 h2 q64 k64 d16 f32 fwd t1'; else last="case .*q64.*isa=$other.*left out"; fi
  expect 0 "$last" bench "$option" "$work/other.txt"
  expect 0 'b1 h2 q32 k32 d16 f32 fwd t1' bench "$option" "$work/other.txt"
  expect 2 'no case is left' bench "$option" "$work/none.txt"
done
finish
