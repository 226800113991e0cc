#!/usr/bin/env bash
# The smoke comparison from the outside: every scheme, the table, records, report; a stop and a resume;
# a records file cut in its middle; other settings kept apart.
. "$(dirname "$0")/lib.sh" "$1"
text=$work/text.txt
make_text "$text"

# Every scheme of the list, in one go.
out=$work/all
expect 0 'alibi' compare --preset smoke --corpus "$text" --out "$out"
schemes=$("$locant" schemes --json | wc -l)
trained=$(grep -c '"test_scaling":"none"' "$out/records.jsonl")
[ "$schemes" -eq "$trained" ] || fail "expected $schemes trained schemes, got $trained"
grep -q '"test_scaling":"ntk"' "$out/records.jsonl" || fail "no record of RoPE under NTK at test time"
grep -q '"diverged":true' "$out/records.jsonl" && fail "a scheme diverged"
[ -s "$out/report.html" ] || fail "no report"
for word in 'Loss against length' 'Claims' 'Speed and memory' 'cannot show'; do
  grep -q "$word" "$out/report.html" || fail "the report lacks '$word'"
done
models=$(find "$out/models" -name '*.safetensors' | wc -l)
[ "$models" -eq "$trained" ] || fail "expected $trained models, got $models"

# The same again: nothing is trained twice, nothing is written.
cp "$out/records.jsonl" "$work/before"
expect 0 'already recorded' compare --preset smoke --corpus "$text" --out "$out"
cmp -s "$out/records.jsonl" "$work/before" || fail "a finished comparison changed its records"

# What a record must hold.
line=$(head -n 1 "$out/records.jsonl")
for field in scheme seed task train_length test_scaling losses position_parameters tokens_per_second peak_share; do
  grep -q "\"$field\":" <<<"$line" || fail "records lack the field $field"
done

# Stopped in its middle by Ctrl-C: exit code 130, and the resumed records equal those of one go.
few=(--schemes alibi,nope,rope --steps 60)
numbers() { grep -o '"scheme":"[^"]*"\|"losses":{.*},"test_schemes"\|"curve":.*,"tables"' "$1"; }
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/whole" "${few[@]}"
"$locant" compare --preset smoke --corpus "$text" --out "$work/parts" "${few[@]}" >/dev/null 2>&1 &
child=$!
for _ in $(seq 200); do [ -s "$work/parts/records.jsonl" ] && break; sleep 0.05; done
kill -INT "$child"
wait "$child"
code=$?
case $code in 130 | 0) ;; *) fail "expected exit code 130 after Ctrl-C, got $code" ;; esac
expect 0 '' compare --resume --out "$work/parts"
[ "$(numbers "$work/parts/records.jsonl")" = "$(numbers "$work/whole/records.jsonl")" ] ||
  fail "a resumed comparison has other numbers than one go"

# Records cut in their middle: the whole ones count, the cut run is made again.
size=$(wc -c <"$work/whole/records.jsonl")
head -c $((size - 40)) "$work/whole/records.jsonl" >"$work/parts/records.jsonl"
expect 0 'cut off' compare --resume --out "$work/parts"
expect 0 'alibi' report "$work/parts" --out "$work/parts.html"

# Another configuration has no place in this folder; merged records are two comparisons.
expect 2 'other settings.*--out' compare --preset smoke --corpus "$text" --out "$work/whole" --schemes alibi --steps 61
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/third" --schemes alibi --steps 5 --json
cat "$work/whole/records.jsonl" "$work/third/records.jsonl" "$work/whole/records.jsonl" >"$work/merged.jsonl"
expect 0 'Settings [0-9a-f]{16}' report "$work/merged.jsonl" --out "$work/merged.html"
[ "$("$locant" report "$work/merged.jsonl" --out "$work/merged.html" --json 2>/dev/null | grep -c settings_id)" -eq 2 ] ||
  fail "merged records of two settings are not two comparisons"

# One comparison at a time works on a folder; a refused one leaves what --resume needs.
cp "$work/whole/asked.json" "$work/asked"
exec 9>"$work/whole/lock"; flock 9
expect 2 'another comparison' compare --resume --out "$work/whole"
exec 9>&-
cmp -s "$work/whole/asked.json" "$work/asked" || fail "a refused comparison changed what was asked"
expect 0 '' compare --resume --out "$work/whole"

# Threads change nothing.
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/threads" --schemes alibi,nope,rope --steps 60 --threads 3
[ "$(numbers "$work/threads/records.jsonl")" = "$(numbers "$work/whole/records.jsonl")" ] ||
  fail "another number of threads gives other numbers"

# One model by hand, and every scheme shown.
expect 0 'loss' train rope --corpus "$text" --length 16 --steps 5 --batch 4 --layers 1 --width 16 --heads 2 --out "$work/rope"
expect 0 'sliding' eval "$work/rope" --corpus "$text"
expect 0 '"loss":' eval "$work/rope" --corpus "$text" --scheme 'rope(scaling=linear,factor=2,original=16)' --json
for scheme in $("$locant" schemes --json | sed 's/^{"name":"\([^"]*\)".*/\1/'); do
  expect 0 "$scheme" show "$scheme" --length 12 --svg "$work/$scheme.svg"
  grep -q '</svg>' "$work/$scheme.svg" || fail "show $scheme drew no picture"
  expect 0 '"matrix"' show "$scheme" --length 5 --json
  expect 0 'acts on' schemes "$scheme"
done
finish
