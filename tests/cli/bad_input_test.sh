#!/usr/bin/env bash
# Bad input gets a message that names what was wrong, exit code 2, and loses nothing.
. "$(dirname "$0")/lib.sh" "$1"
text=$work/text.txt
make_text "$text"
out=$work/out
compare=(compare --preset smoke --corpus "$text" --out "$out")

# The corpus.
expect 2 "$work/missing.txt" compare --preset smoke --corpus "$work/missing.txt" --out "$out"
: >"$work/empty.txt"
expect 2 'empty.txt.*empty' compare --preset smoke --corpus "$work/empty.txt" --out "$out"
head -c 5000 "$text" >"$work/binary.txt"; printf 'a\0b' >>"$work/binary.txt"
expect 2 'binary.txt.*5001' compare --preset smoke --corpus "$work/binary.txt" --out "$out"
{ head -c 3000 "$text"; printf '\xff\xfe'; head -c 3000 "$text"; } >"$work/latin.txt"
expect 2 'latin.txt.*(UTF-8).*3000' compare --preset smoke --corpus "$work/latin.txt" --out "$out"
head -c 2000 "$text" >"$work/short.txt"
expect 2 'short.txt' compare --preset smoke --corpus "$work/short.txt" --out "$out"
mkdir "$work/folder"
expect 2 "$work/folder" compare --preset smoke --corpus "$work/folder" --out "$out"
expect 2 'corpus' compare --preset smoke --out "$out"
if [ "$(id -u)" -ne 0 ]; then
  cp "$text" "$work/secret.txt"; chmod 000 "$work/secret.txt"
  expect 2 'secret.txt' compare --preset smoke --corpus "$work/secret.txt" --out "$out"
fi

# Numbers that are zero, negative or absurd.
for bad in 0 -1 999999999; do
  expect 2 'length' "${compare[@]}" --length "$bad"
done
for bad in 0 -3; do expect 2 'steps' "${compare[@]}" --steps "$bad"; done
for bad in 0 -1 "" 1,,2 x 99999; do expect 2 'seeds.* 1 to 1000' "${compare[@]}" --seeds "$bad"; done
expect 2 'seeds.*0 to 999999999' "${compare[@]}" --seeds 4,5,1000000000
for bad in -1 100000; do expect 2 'threads' "${compare[@]}" --threads "$bad"; done
expect 2 'preset.*(smoke|quick|full)' compare --preset huge --corpus "$text" --out "$out"

# Every option that is a whole number tells its range, in the help and where it refuses one.
count=0
for command in schemes show compare train eval sample bench; do
  help=$("$locant" "$command" --help | tr -s '\n ' ' ')
  for option in $(grep -oE -- '--[a-z-]+ U?INT' <<<"$help" | sed 's/ .*//'); do
    grep -Eq -- "$option U?INT[^(]*[( ][0-9]+ to [0-9]+" <<<"$help" || fail "$command --help does not tell the range of $option"
    for bad in -1 99999999999999999999 18446744073709551616 x 1.5 010 ''; do
      expect 2 "^locant: \\[$command\\] $option: expected a whole number from [01-2] to [0-9]{2,20}, got $bad\$" "$command" "$option" "$bad"
    done
    count=$((count + 1))
  done
done
[ "$count" -ge 24 ] || fail "expected at least 24 whole numbers among the options, found $count"
for bad in 0 1 65537; do expect 2 'length: expected a whole number from 2 to 65536' "${compare[@]}" --length "$bad"; done

# An integer past 64 bits is not taken for another.
for bad in 18446744073709551616 99999999999999999999 -1; do
  expect 2 'seed' train nope --corpus "$text" --length 16 --steps 1 --seed "$bad" --out "$work/m"
  expect 2 'seed' sample "$work/m" --prompt in --seed "$bad"
done
expect 2 'steps.*1 to 1000000000' "${compare[@]}" --steps 9223372036854775808
[ ! -e "$work/m" ] || fail "a refused seed left a file"

# Schemes and their options: the message says what exists.
expect 2 'schemes' "${compare[@]}" --schemes ""
expect 2 'twice' "${compare[@]}" --schemes alibi,alibi
expect 2 'twice' "${compare[@]}" --schemes 't5,t5(layers=shared)'
expect 2 'no_such.*alibi' "${compare[@]}" --schemes no_such
expect 2 'nothing_like.*buckets' "${compare[@]}" --schemes 't5(nothing_like=3)'
expect 2 'buckets' "${compare[@]}" --schemes 't5(buckets=0)'
expect 2 'buckets' "${compare[@]}" --schemes 't5(buckets=many)'
expect 2 'order.*j-i' "${compare[@]}" --schemes 'shaw(order=sideways)'
expect 2 't5\(buckets' "${compare[@]}" --schemes 't5(buckets=3'
expect 2 'width' "${compare[@]}" --schemes 'rope(width=7)'
for bad in "" recall, ,recall recall,,copy foo; do
  expect 2 'tasks.*language_model, fine_tuning, recall, copy' "${compare[@]}" --tasks "$bad"
done
huge='learned(rows=2147483648)'
for command in "train $huge --corpus $text --out $work/m" "show $huge --length 4" "${compare[*]} --schemes $huge"; do
  expect 2 'rows=2147483648.*needs at least [0-9.]+ [GT]B of memory, [0-9.]+ [kMG]B are free' $command
done
expect 2 "no scheme 'foo'" schemes foo
"$locant" schemes foo 2>/dev/null | grep -q . && fail "a refused scheme has a heading"
expect 2 'p2p' "${compare[@]}" --schemes 'deberta(pos_att_type=p2p)'
expect 2 'causal' show music_transformer --length 8 --full

# show
expect 2 'length' show alibi --length 0
expect 2 'heads' show alibi --length 8 --heads 0
expect 2 'odd|even' show rope --length 8 --head-size 7
expect 2 "\\[show\\] --length N is required.*locant show 'alibi' --length 16" show alibi
expect 2 'no command "nothing".*locant --help' nothing
expect 2 'no command "comparre"; did you mean "compare"' comparre --corpus "$text"
expect 2 'subcommand'

# Schemes of which one is meant twice, and all beside another.
expect 2 'the same scheme, as t5\(buckets=16\) and as t5, with seed 0 is named twice \(t5\(' "${compare[@]}" \
  --schemes 't5(buckets=16),t5(buckets=32),t5'
expect 2 'scheme alibi with seed 0 is named twice' "${compare[@]}" --schemes alibi,rope,alibi
expect 2 'all is every scheme and stands alone, got all,alibi' "${compare[@]}" --schemes all,alibi

# One model: heads that do not divide the width, files that are no models, models of another shape.
expect 2 'heads.*width|width.*heads' train alibi --corpus "$text" --heads 3 --width 32 --steps 1 --out "$work/m"
[ ! -e "$work/m" ] || fail "a refused training left a file"
expect 2 'width' train alibi --corpus "$text" --width 0 --steps 1 --out "$work/m"
expect 0 '' train alibi --corpus "$text" --length 16 --steps 1 --batch 2 --layers 1 --width 16 --heads 2 --out "$work/model"
expect 2 'vocabulary|byte values|byte' eval "$work/model" --corpus "$0"
expect 2 'text.txt' eval "$text" --corpus "$text"
expect 2 'regular file' train alibi --corpus "$text" --length 16 --steps 1 --batch 2 --layers 1 --width 16 --heads 2 --out /dev/null
head -c 900 "$work/model" >"$work/cut_model"
expect 2 'cut_model' eval "$work/cut_model" --corpus "$text"
for command in "eval $work/model --corpus $text" "sample $work/model --prompt in"; do
  expect 2 'trained with alibi.*expected other options of alibi' $command --scheme t5
  expect 2 'trained with alibi.*expected other options of alibi' $command --scheme nope
done
expect 2 'alibi has no scalings' train --from "$work/model" --length 32 --scaling pi --corpus "$text" --out "$work/m"
expect 2 'batch 100000 x length 1024 is 102400000 tokens a step; expected at most 4194304 .*between steps' \
  train alibi --corpus "$text" --length 1024 --batch 100000 --steps 1 --out "$work/m"
expect 2 'missing_model' eval "$work/missing_model" --corpus "$text"

# Places that cannot be written.
: >"$work/file"
expect 2 "$work/file" compare --preset smoke --corpus "$text" --out "$work/file/out" --schemes nope
if [ "$(id -u)" -ne 0 ]; then
  mkdir "$work/readonly"; chmod 555 "$work/readonly"
  expect 2 'readonly' compare --preset smoke --corpus "$text" --out "$work/readonly/out" --schemes nope
fi
expect 2 'nowhere/model' train nope --corpus "$text" --length 16 --steps 1 --batch 2 --layers 1 --width 16 --heads 2 \
  --out "$work/nowhere/model"

mkdir "$work/texts" && cp "$text" "$work/texts/a.txt"
expect 2 'inside the corpus' compare --preset smoke --corpus "$work/texts" --out "$work/texts/out" --schemes nope
tr eto '@#%' <"$text" >"$work/other.txt"
expect 2 'byte' eval "$work/model" --corpus "$work/other.txt"
"$locant" show alibi --length 0 2>&-
[ $? -eq 2 ] || fail "a closed standard error changed the exit code"
if [ -w /dev/full ]; then
  "$locant" show alibi --length 8 --json >/dev/full 2>/dev/null
  [ $? -eq 2 ] || fail "lost output was not noticed"
fi

# No file may grow further, as on a full disk: what failed is said, and no piece stays.
model=(train nope --corpus "$text" --length 16 --steps 1 --batch 2 --layers 2 --width 64 --heads 2)
output=$( (ulimit -f 8; "$locant" "${model[@]}" --out "$work/large") 2>&1); code=$?
[ "$code" -eq 2 ] || fail "a file that may not grow: expected exit code 2, got $code: $output"
grep -q "cannot write $work/large: File too large" <<<"$output" || fail "a file that may not grow: $output"
[ -z "$(find "$work" -name 'large*')" ] || fail "left over: $(find "$work" -name 'large*')"
output=$( (ulimit -f 8; "$locant" compare --preset smoke --corpus "$text" --schemes learned --out "$work/limited") 2>&1); code=$?
[ "$code" -eq 2 ] || fail "a comparison whose files may not grow: expected exit code 2, got $code: $output"
grep -q "$work/limited/.*File too large" <<<"$output" || fail "a comparison whose files may not grow: $output"
[ -z "$(find "$work" -name '*.tmp')" ] || fail "left over: $(find "$work" -name '*.tmp')"

# A model that diverged: said, nothing saved, what was there stays; before a loss shows it (one step) and after.
cp "$work/model" "$work/kept"
for steps in 1 2 3; do
  for out in kept none; do
    expect 1 'diverged: (weights|loss) not finite (after|at) step [123]; nothing is saved' train nope --corpus "$text" \
      --length 16 --steps "$steps" --batch 2 --layers 1 --width 16 --heads 2 --learning-rate 1e38 --out "$work/$out"
  done
done
[ ! -e "$work/none" ] || fail "a diverged model was saved"
cmp -s "$work/model" "$work/kept" || fail "a diverged model took a good one's place"

# Records.
head -c 3000 /dev/urandom | tr -d '{' >"$work/noise.jsonl"
expect 2 'noise.jsonl, line 1' report "$work/noise.jsonl" --out "$work/r.html"
expect 2 'missing.jsonl: cannot be read: No such file' report "$work/missing.jsonl" --out "$work/r.html"
expect 2 'folder: there is no records.jsonl in this folder' report "$work/folder" --out "$work/r.html"
echo '{"record_version":1}' >"$work/odd.jsonl"
expect 2 'odd.jsonl, line 1.*task' report "$work/odd.jsonl" --out "$work/r.html"
echo '{"record_version":99}' >"$work/new.jsonl"
expect 2 'new.jsonl, line 1.*record_version 1, got 99' report "$work/new.jsonl" --out "$work/r.html"
small=(--preset smoke --corpus "$text" --schemes t5 --steps 1 --tasks language_model --no-report --out "$work/good")
expect 0 '' compare "${small[@]}"
good=$work/good/records.jsonl
expect 0 '' report "$good" --out "$work/good.html"
changed() { { head -n 1 "$good"; sed -n 1p "$good" | sed "$1"; } >"$work/changed.jsonl"; cmp -s "$work/changed.jsonl" <(cat "$good" "$good") && fail "$1 changed nothing"; }
changed 's/"windows":{"32":[0-9.]*/"windows":{"32":-5/'; expect 2 'changed.jsonl, line 2: field losses.windows.32: expected a loss of 0 or more.*got -5' report "$work/changed.jsonl" --out "$work/r.html"
changed 's/"windows":{"32":[0-9.]*/"windows":{"32":null/'; expect 2 'line 2: field losses.windows.32.*got null' report "$work/changed.jsonl" --out "$work/r.html"
changed 's/"windows":{"32"/"windows":{"-7"/'; expect 2 'line 2: field losses.windows.-7' report "$work/changed.jsonl" --out "$work/r.html"
changed 's/"seed":0/"seed":-1/'; expect 2 'line 2: field seed.*got -1' report "$work/changed.jsonl" --out "$work/r.html"
changed 's/"scheme":"t5(/"scheme":"t6(/'; expect 2 "line 2: field scheme.*no scheme 't6'" report "$work/changed.jsonl" --out "$work/r.html"
sed 's/"peak_share":[0-9.e-]*/"peak_share":null/; s/"tokens_per_second":[0-9.e-]*/"tokens_per_second":null/' "$good" >"$work/unmeasured.jsonl"
"$locant" report "$work/unmeasured.jsonl" --out "$work/unmeasured.html" --markdown "$work/unmeasured.md" >"$work/unmeasured.out" 2>&1 ||
  fail "unmeasured: $(cat "$work/unmeasured.out")"
grep -n '\bnan\b' "$work"/unmeasured.{html,md,out} && fail "what was not measured is printed as nan"
{ cat "$good"; sed 's/"seed":0/"seed":18446744073709551616/' "$good"; } >"$work/large.jsonl"
expect 2 'large.jsonl, line 2: holds a number that has no room' report "$work/large.jsonl" --out "$work/r.html"
{ head -c -200 "$good"; cat "$good"; } >"$work/joined.jsonl"
expect 2 'joined.jsonl, line 1: a record that was cut off, and another one behind it' report "$work/joined.jsonl" --out "$work/r.html"
{ head -c -200 "$good"; echo; cat "$good"; } >"$work/joined.jsonl"
expect 0 'joined.jsonl, line 1: cut off' report "$work/joined.jsonl" --out "$work/joined.html"
# What was recorded once is read for good.
for kept in "$(dirname "$0")"/../../docs/results/*.jsonl; do expect 0 'Report: ' report "$kept" --out "$work/kept.html"; done
: >"$work/none.jsonl"
expect 2 'no records' report "$work/none.jsonl" --out "$work/r.html"
[ ! -e "$work/r.html" ] || fail "a refused report left a page"
[ ! -e "$out" ] || fail "refused comparisons left $out"
finish
