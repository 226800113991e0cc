#!/usr/bin/env bash
# One model, from training to use: what is kept, and what is said of it.
. "$(dirname "$0")/lib.sh" "$1"
text=$work/text.txt
make_text "$text"
small=(--corpus "$text" --length 16 --batch 2 --layers 1 --width 16 --heads 2)

# stopped CODE_FILE ARGS...: a training that would take for ever and is stopped after some steps; its output is $work/said.
stopped() {
  "$locant" train "$@" "${small[@]}" --threads 1 --steps 1000000 >"$work/said" 2>&1 &
  local child=$!
  # Ready to be stopped: the signals are caught.
  while kill -0 "$child" && ! grep -q '^SigBlk:.*[1-9a-f]' "/proc/$child/status"; do sleep .1; done
  sleep 1
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
finish
