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
of_task() { grep -c "\"task\":\"$1\".*\"test_scaling\":\"none\"" "$out/records.jsonl"; }
for task in language_model recall copy; do
  [ "$schemes" -eq "$(of_task $task)" ] || fail "$task: expected $schemes trained schemes, got $(of_task $task)"
done
[ "$(of_task reverse_encoder)" -ge $((schemes - 2)) ] || fail "expected an encoder for all but causal schemes"
grep -q '"task":"fine_tuning","scheme":"rope' "$out/records.jsonl" || fail "no fine-tuned RoPE"
grep -q '"test_scaling":"ntk"' "$out/records.jsonl" || fail "no record of RoPE under NTK at test time"
"$locant" report "$out" --out "$work/claims.html" --json 2>/dev/null | grep -o '"claim":11,[^}]*' | grep -q 'not tested' ||
  fail "three steps of an encoder's task tell something of claim 11"
grep -q '"diverged":true' "$out/records.jsonl" && fail "a scheme diverged"
[ -s "$out/report.html" ] || fail "no report"
for word in 'Loss against length' 'Claims' 'speed and memory' 'cannot show' 'these numbers advise'; do
  grep -q "$word" "$out/report.html" || fail "the report lacks '$word'"
done
models=$(find "$out/models" -name '*.safetensors' | wc -l)
trained=$(grep -c '"test_scaling":"none"\|"task":"fine_tuning"' "$out/records.jsonl")
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
few=(--schemes alibi,nope,rope --steps 60 --tasks language_model)
numbers() { grep -o '"scheme":"[^"]*"\|"losses":{.*},"test_schemes"\|"curve":.*,"tables"' "$1"; }
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/whole" "${few[@]}"
cp "$work/whole/records.jsonl" "$work/one_run"
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

# Stopped before its first record: what is asked under other settings is refused, and nothing of it is lost.
"$locant" compare --preset smoke --corpus "$text" --out "$work/held" --schemes alibi --steps 1000000 --tasks language_model \
  >/dev/null 2>&1 &
child=$!
for _ in $(seq 200); do [ -s "$work/held/asked.json" ] && break; sleep 0.05; done
sleep 1
kill -INT "$child"
wait "$child"
[ -s "$work/held/unfinished.safetensors" ] && [ ! -s "$work/held/records.jsonl" ] || fail "not stopped in the first training"
(cd "$work/held" && sha256sum asked.json unfinished.safetensors) >"$work/held.sums"
cat "$text" "$text" >"$work/longer.txt"
expect 2 'other settings \(steps 1000000, here 20.*--out' compare --preset smoke --corpus "$text" --out "$work/held" --schemes nope --steps 20
expect 2 'other settings \(corpus .*--out' compare --preset smoke --corpus "$work/longer.txt" --out "$work/held" --schemes nope \
  --steps 1000000 --tasks language_model
(cd "$work/held" && sha256sum --check --quiet ../held.sums) || fail "a refused comparison changed what was there"
rm "$work/held/unfinished.safetensors"
expect 2 'other settings \(steps 1000000, here 20.*--out' compare --preset smoke --corpus "$text" --out "$work/held" --schemes nope --steps 20
# As an older program let it come to be: --resume says what to do.
sed -i 's/}]}/},\n{"schemes":["nope"],"corpus":"","preset":"smoke","seeds":[0],"length":32,"steps":20,"tasks":["language_model"],"task_steps":3}]}/' \
  "$work/held/asked.json"
sed -i 's|"corpus":""|"corpus":"'"$text"'"|' "$work/held/asked.json"
expect 2 'request 1 asks for other settings \(steps 1000000, here 20.*take one of the two out of this file' compare --resume --out "$work/held"

# The training that was stopped is damaged: it begins again, and says so. Nothing asked for can be done: bad input.
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/damaged" --schemes alibi --steps 2 --tasks language_model --no-report
cp "$text" "$work/damaged/unfinished.safetensors"
expect 0 'unfinished.safetensors is damaged' compare --preset smoke --corpus "$text" --out "$work/damaged" --schemes nope --steps 2 \
  --tasks language_model --no-report
expect 2 'nothing is left to do.*causal' compare --preset smoke --schemes music_transformer --tasks reverse_encoder --out "$work/none"

# Two signals at once are one request, which is answered; a model that is stopped says so.
"$locant" train alibi --corpus "$text" --steps 1000000 --threads 1 --out "$work/stopped_model" >"$work/stopped_text" 2>&1 &
child=$!
sleep 2
kill -INT "$child"
kill -INT "$child"
wait "$child"
code=$?
[ "$code" -eq 130 ] && [ -s "$work/stopped_model" ] && grep -q 'stopped after .* of 1000000' "$work/stopped_text" &&
  grep -q 'stopping, what is done is kept' "$work/stopped_text" || fail "train: exit code $code, $(cat "$work/stopped_text")"
expect 0 '"stopped":false' train nope --corpus "$text" --steps 1 --json --out "$work/one_step"
# Weights that are finite and good for nothing.
expect 0 '' train nope --corpus "$text" --steps 1 --learning-rate 1e37 --out "$work/huge"
expect 1 'is not finite' eval "$work/huge" --corpus "$text"
expect 1 'are not finite' sample "$work/huge" --prompt 'in '

# Records cut in their middle: the whole ones count, the cut run is made again.
size=$(wc -c <"$work/whole/records.jsonl")
head -c $((size - 40)) "$work/whole/records.jsonl" >"$work/parts/records.jsonl"
expect 0 'cut off' compare --resume --out "$work/parts"
expect 0 'alibi' report "$work/parts" --out "$work/parts.html"
"$locant" report "$work/parts" --out "$work/parts.html" >"$work/both.out" 2>&1
grep -q '^Report: ' <(tail -n 1 "$work/both.out") || fail "the report's place is not the last line: $(tail -n 3 "$work/both.out")"

# Another configuration has no place in this folder; merged records are two comparisons.
expect 2 'other settings.*--out' compare --preset smoke --corpus "$text" --out "$work/whole" --schemes alibi --steps 61
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/third" --schemes alibi --steps 5 --json --tasks language_model
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

# A folder remembers all that was asked in it: fewer schemes narrow nothing, others are added, and --resume
# goes on with everything; the report shows what the folder holds.
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/whole" --schemes alibi --steps 60 --tasks language_model
cmp -s "$work/whole/asked.json" "$work/asked" || fail "asked again for less, the folder forgot the rest: $(cat "$work/whole/asked.json")"
grep -q '>nope<' "$work/whole/report.html" || fail "asked again for less, the report forgot the rest"
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/whole" --schemes sinusoidal --steps 60 --tasks language_model
grep -q '"alibi","nope","rope","sinusoidal"' "$work/whole/asked.json" || fail "not added: $(cat "$work/whole/asked.json")"
expect 0 '' compare --preset smoke --out "$work/whole" --schemes alibi --tasks recall --seeds 2 --task-steps 2
cp "$work/whole/records.jsonl" "$work/before"
grep -v '"scheme":"nope\|"scheme":"sinusoidal\|"task":"recall"' "$work/before" >"$work/whole/records.jsonl"
expect 0 'Request 2 of 2' compare --resume --out "$work/whole"
key() { grep -o '"task":"[^"]*","scheme":"[^"]*","name":"[^"]*","seed":[0-9]*\|"test_scaling":"[^"]*"' "$1" | sort; }
[ "$(key "$work/whole/records.jsonl")" = "$(key "$work/before")" ] || fail "--resume did not go on with everything asked for"
# As it was kept at first: one request in the words it was made with.
mkdir "$work/old"
printf '{"schemes":"alibi","corpus":"%s","preset":"smoke","seeds":"","length":0,"steps":2,"tasks":"language_model","task_steps":0}\n' \
  "$text" >"$work/old/asked.json"
expect 0 'alibi' compare --resume --out "$work/old"
echo '{"asked":[{"schemes":[5]}]}' >"$work/old/asked.json"
expect 2 'asked.json: field' compare --resume --out "$work/old"
expect 2 'asked.json is missing' compare --resume --out "$work/nowhere"
cp "$work/before" "$work/whole/records.jsonl"

# Threads change nothing.
expect 0 '' compare --preset smoke --corpus "$text" --out "$work/threads" "${few[@]}" --threads 3
[ "$(numbers "$work/threads/records.jsonl")" = "$(numbers "$work/one_run")" ] ||
  fail "another number of threads gives other numbers"

# A model that is gone: what needs it is left out, the rest is done, and the exit code tells.
gone=(compare --preset smoke --corpus "$text" --schemes rope,alibi --steps 2 --out "$work/gone" --no-report --tasks)
expect 0 '' "${gone[@]}" language_model
rm "$work"/gone/models/rope-*
expect 1 'a run was left out' "${gone[@]}" language_model,fine_tuning,recall
[ "$(grep -c '"task":"recall"' "$work/gone/records.jsonl")" -eq 2 ] || fail "a missing model kept others from their runs"

# Tasks alone need no text.
expect 0 'alibi .*not learned' compare --preset smoke --tasks copy,recall --schemes alibi --out "$work/tasks" --no-report
cp "$work/tasks/asked.json" "$work/asked"
expect 2 'other settings \(copy: steps 3, here 4.*--out' compare --preset smoke --tasks copy --task-steps 4 --schemes alibi,nope --out "$work/tasks"
cmp -s "$work/tasks/asked.json" "$work/asked" || fail "a refused comparison changed what was asked"
expect 0 '' compare --preset smoke --tasks reverse_encoder --task-steps 4 --schemes alibi --out "$work/tasks" --no-report
expect 2 'copy_twice' compare --preset smoke --tasks copie --out "$work/tasks"

# A task's model reads no text: what it was trained on is said, and how it answers.
answer=$("$locant" eval "$work"/tasks/models/alibi-*-recall.safetensors --corpus "$text" 2>&1)
grep -q 'trained on a task (recall), not on a text' <<<"$answer" || fail "eval of a task's model: $answer"
eval "words=($(sed 's/.*`locant \(sample [^`]*\)`.*/\1/' <<<"$answer"))"
expect 0 '[?!#]' "${words[@]}"
expect 2 'trained on a task \(copy or' eval "$work"/tasks/models/alibi-*-copy.safetensors --corpus "$text"
expect 2 'trained on a task \(reverse_encoder\), not on a text' eval "$out"/models/alibi-*-reverse_encoder.safetensors --corpus "$text"

# No claim can be judged: for one reason, or each for its own.
expect 0 'Claims: none is tested by this run \(needs 700 training steps, this run has 2\)' compare --preset smoke --corpus "$text" \
  --out "$work/gone" --schemes alibi --steps 2 --no-report
expect 0 'Claims: none is tested by this run \(each needs schemes or tasks' compare --preset smoke --corpus "$text" \
  --schemes shaw --steps 700 --tasks language_model --out "$work/one" --no-report

# Variants of a scheme are told apart by the options that are not its defaults; the columns stay one below another.
expect 0 'after 1 more step ' compare --preset smoke --corpus "$text" --steps 1 --task-steps 1 --length 3 --no-report \
  --schemes 'rope,rope(base=500),nope' --tasks language_model,fine_tuning,copy --out "$work/variants"
"$locant" compare --preset smoke --corpus "$text" --steps 1 --task-steps 1 --length 3 --no-report \
  --schemes 'rope,rope(base=500),nope' --tasks language_model,fine_tuning,copy --out "$work/variants" >"$work/variants.out" 2>/dev/null
for row in 'rope  ' 'rope(base=500)  ' 'rope(base=500) + yarn  ' 'nope  '; do
  grep -qF "$row" <(grep "^${row%% *}" "$work/variants.out") || fail "no row '$row': $(cat "$work/variants.out")"
done
[ "$(grep -c '^rope(base=500) after 1 more step ' "$work/variants.out")" -eq 1 ] || fail "fine-tuned variants are not told apart"
awk '/^scheme .* 1L / { end = index($0, " 1L ") + 2 } /^copy:/ { end = 0 }
  end && /^(rope|nope)/ && !/ after / { ++rows; if (substr($0, end, 2) !~ /^[0-9-] $/) bad = 1 }
  END { exit bad || rows < 9 }' "$work/variants.out" || fail "columns are not below each other: $(cat "$work/variants.out")"
grep -q ' 1.33L ' "$work/variants.out" || fail "no length of 1.33 L: $(head -n 2 "$work/variants.out")"
bad_name=$work/$(printf 'k\377.txt')
cp "$text" "$bad_name"
expect 2 'must be UTF-8' compare --preset smoke --corpus "$bad_name" --out "$work/bad_name"

# A model goes on at a longer length, and with a text: the same text for the same seed, cached or not.
expect 0 'loss' train rope --corpus "$text" --length 16 --steps 30 --batch 4 --layers 2 --width 16 --heads 2 --out "$work/short"
expect 0 'scaling=linear,factor=2' train --from "$work/short" --length 32 --scaling pi --steps 4 --batch 4 --corpus "$text" --out "$work/long"
expect 0 'sliding' eval "$work/long" --corpus "$text"
expect 2 'has pi' train --from "$work/short" --length 32 --scaling xx --corpus "$text" --out "$work/no"
for length in 16 8; do
  expect 2 "must be above 16, got $length" train --from "$work/short" --length $length --scaling pi --corpus "$text" --out "$work/no"
done
expect 2 'leave out alibi' train alibi --from "$work/short" --corpus "$text" --out "$work/no"
expect 2 'scheme or --from' train --corpus "$text" --out "$work/no"
sample=(sample "$work/short" --prompt 'in the ' --length 40 --seed 5)
expect 0 '^in the ' "${sample[@]}"
one=$("$locant" "${sample[@]}")
[ "$one" = "$("$locant" "${sample[@]}")" ] || fail "the same seed wrote another text"
[ "$one" = "$("$locant" "${sample[@]}" --recompute)" ] || fail "read again, another text is written"
[ "$one" != "$("$locant" sample "$work/short" --prompt 'in the ' --length 40 --seed 6)" ] || fail "another seed wrote the same text"
long=$("$locant" sample "$work/short" --prompt 'in the ' --length 300 --seed 5)
[ "${long:0:${#one}}" = "$one" ] || fail "a longer text begins otherwise"
# A text without an end is written as it is made, and stops at once.
"$locant" sample "$work/short" --prompt 'in the ' --length 1000000 --seed 5 >"$work/endless" 2>/dev/null &
child=$!
sleep 2
size=$(wc -c <"$work/endless")
[ "$size" -gt 50 ] || fail "after two seconds $size bytes were written"
kill -INT "$child"
begin=$SECONDS
wait "$child"
code=$?
[ "$code" -eq 130 ] || fail "sample: expected exit code 130 after Ctrl-C, got $code"
[ $((SECONDS - begin)) -le 5 ] || fail "sample took $((SECONDS - begin)) s to stop"
[ "$(head -c ${#one} "$work/endless")" = "$one" ] || fail "an endless text begins otherwise"
"$locant" sample "$work/short" --prompt 'in the ' --length 1000000 --json >"$work/stopped" 2>/dev/null &
child=$!
sleep 1
kill -INT "$child"
wait "$child"
code=$?
[ "$code" -eq 130 ] && grep -q '"stopped":true}' "$work/stopped" || fail "stopped: exit code $code, $(head -c 300 "$work/stopped")"
expect 0 '"text":.*"stopped":false' "${sample[@]}" --json --temperature 0 --top-k 3
expect 2 "byte 0x51 \\('Q'\\) at offset 3" sample "$work/short" --prompt 'in Q'
expect 2 'byte 0xc3 at offset 0' sample "$work/short" --prompt 'ä'
expect 2 'temperature' sample "$work/short" --prompt 'in ' --temperature -1
expect 2 'no such file' sample "$work/nothing" --prompt 'in '

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
