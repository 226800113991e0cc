#!/usr/bin/env bash
# One model, from training to use: what is kept, and what is said of it.
. "$(dirname "$0")/lib.sh" "$1"
text=$work/text.txt
make_text "$text"
small=(--corpus "$text" --length 16 --batch 2 --layers 1 --width 16 --heads 2)

# stopped CODE_FILE ARGS...: a training that would take for ever and is stopped after some steps; its output is $work/said.
# `meanwhile` is a command that runs while it trains.
meanwhile=:
stopped() {
  "$locant" train "$@" "${small[@]}" --threads 1 --steps 1000000 >"$work/said" 2>&1 &
  local child=$!
  # Ready to be stopped: the signals are caught.
  while kill -0 "$child" && ! grep -q '^SigBlk:.*[1-9a-f]' "/proc/$child/status"; do sleep .1; done
  sleep 1
  $meanwhile
  kill -INT "$child"
  wait "$child"
  local code=$?
  [ "$code" -eq 130 ] || fail "stopped training: exit code $code, $(cat "$work/said")"
}

# A training that is stopped writes over no model that was there, nor over what was stopped before.
cd "$work" || exit 1
expect 0 'm.st: nope after 3 steps' train nope "${small[@]}" --steps 3 --out m.st
cp m.st before
stopped alibi --out m.st
cmp -s m.st before || fail "a stopped training wrote over a model"
grep -q '^m.stopped.st: alibi.* stopped after [0-9]* steps* of 1000000, .*; m.st, which was there before, is as it was$' said ||
  fail "stopped: $(cat said)"
expect 0 '^alibi' eval m.stopped.st --corpus "$text"
cp m.stopped.st first
stopped alibi --out m.st
grep -q '^m.stopped2.st: ' said && cmp -s m.stopped.st first || fail "stopped again: $(cat said)"
stopped alibi --json --out m.st
grep -q '"model":"m.stopped3.st".*"stopped":true' said || fail "stopped, as JSON: $(cat said)"
# Where nothing was, the model is what was asked for; a finished one takes the old one's place.
stopped alibi --out new
grep -q '^new: alibi.* stopped after [^;]*$' said && [ ! -e new.stopped ] || fail "stopped, nothing there before: $(cat said)"
# Another training may have finished there meanwhile.
meanwhile='cp before late.st'
stopped alibi --out late.st
meanwhile=:
cmp -s late.st before && grep -q '^late.stopped.st: ' said || fail "stopped, a model came meanwhile: $(cat said)"
expect 0 'm.st: alibi.* after 1 step' train alibi "${small[@]}" --steps 1 --out m.st
cmp -s m.st before && fail "a finished training left the old model"

# Losses of another text with the same bytes are said to be that.
tac text.txt >other.txt
other='other.txt .fingerprint [0-9a-f]{16}. is not the text that m.st was trained on .[0-9a-f]{16}.'
expect 0 "$other" eval m.st --corpus other.txt
expect 0 'loss' train --from m.st --corpus other.txt --steps 1 --batch 2 --out both.st
expect 0 '' compare --preset smoke --corpus "$text" --schemes rope --steps 2 --tasks language_model,fine_tuning --no-report --out run
for model in run/models/*; do expect 0 'is not the text' eval "$model" --corpus other.txt; done
silent() { ! "$locant" eval "$@" 2>&1 | grep 'is not the text' || fail "eval $*: said of the text of its training"; }
silent m.st --corpus "$text"
silent both.st --corpus "$text"
silent both.st --corpus other.txt
for model in run/models/*; do silent "$model" --corpus "$text"; done
# A model of before says of no text that it is another one: without the entry, in a header of the same length.
sed 's/"texts":"[0-9a-f]*"/"other":"                "/' m.st >old.st
expect 0 'sliding' eval old.st --corpus other.txt
silent old.st --corpus other.txt

# A table without rows: the last is repeated, and that is said; within the table nothing is.
expect 0 '' train learned "${small[@]}" --steps 1 --out rows.st
expect 0 'past 16 tokens the table has no rows; its last was repeated' sample rows.st --prompt 'in the ' --length 11
expect 0 '"repeated_rows":true' sample rows.st --prompt 'in the ' --length 11 --json
"$locant" sample rows.st --prompt 'in the ' --length 10 2>&1 | grep 'no rows' && fail "16 tokens were read, none past the table"
expect 0 'Past 16 tokens the last row of the table was repeated, whatever' eval rows.st --corpus "$text"
[ "$("$locant" eval rows.st --corpus "$text" --json | grep -c '"repeated_rows":true')" -eq 15 ] || fail "repeated rows are not marked"

# What a model cannot do is said once, with its file and what to do.
expect 0 '' compare --preset smoke --schemes alibi --tasks recall,reverse_encoder --task-steps 1 --no-report --out tasks
expect 2 '\[sample\] tasks/models/.* is an encoder \(reverse_encoder\): .*expected a model that reads from left.*locant report' \
  sample tasks/models/*reverse_encoder* --prompt '>abc.'
expect 2 'trained on a task \(recall\).*lets it answer$' eval tasks/models/*recall* --corpus "$text"
for command in "eval --corpus $text" 'sample --prompt in'; do
  expect 2 'model "" is empty; expected a file that' $command ''
done
expect 0 '' train rope "${small[@]}" --steps 1 --out rope.st
expect 0 '' train --from rope.st --length 32 --scaling pi --corpus "$text" --steps 1 --batch 2 --out scaled.st
expect 2 'the model is scaled already, rope\(scaling=linear,factor=2\); expected' train --from scaled.st --length 64 --scaling pi \
  --corpus "$text" --steps 1 --batch 2 --out no.st

# Of two comparisons the second tells what differs from the first.
expect 0 '' compare --preset smoke --corpus "$text" --schemes rope --steps 3 --tasks language_model --no-report --out longer
expect 0 'Settings [0-9a-f]{16}: as [0-9a-f]{16} but steps 2, here 3$' report run longer --out both.html
expect 0 'Settings [0-9a-f]{16}: text.txt, L = [0-9]+, 2 steps of ' report run longer --out both.html

# Factors of xPos are in xPos alone.
expect 0 "times xPos's factor" show xpos --length 4
"$locant" show rope --length 4 | grep xPos && fail "show rope tells of xPos"
finish
