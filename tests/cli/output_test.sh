#!/usr/bin/env bash
# What is written is never what is read, and a place that cannot be written is said before the work.
. "$(dirname "$0")/lib.sh" "$1"
text=$work/text.txt
make_text "$text"
small=(--length 16 --batch 2 --layers 1 --width 16 --heads 2)
expect 0 '' compare --preset smoke --corpus "$text" --schemes nope --steps 1 --tasks language_model --no-report --out "$work/x"
records=$work/x/records.jsonl
expect 0 '' train nope --corpus "$text" "${small[@]}" --steps 1 --out "$work/model"
mkdir "$work/texts" "$work/links" "$work/full"
cp "$text" "$work/texts/a.txt"
cp "$text" "$work/taken.tmp"
cp "$records" "$work/other_name"
ln -s "$records" "$work/links/soft"
ln "$work/other_name" "$work/links/hard"
ln -s "$work/x" "$work/links/x"
state() { (cd "$work" && find . -type f ! -name state.\* -exec sha256sum {} + | sort -k 2); }
state >"$work/state.before"
unchanged() {
  state >"$work/state.now"
  cmp -s "$work/state.before" "$work/state.now" || fail "$1: files changed: $(diff "$work/state.before" "$work/state.now")"
}
# refused 'WHAT THE MESSAGE SAYS' ARGS...: exit code 2, and every file is what it was.
refused() {
  expect 2 "$@"
  unchanged "$*"
}

# An output that is an input, by whatever name.
page=$work/page.html
for option in --out --svg --markdown; do
  out=(--out "$page"); [ "$option" = --out ] && out=()
  refused "report\] $option $records would be written over records $records, which is read; expected another" \
    report "$records" "${out[@]}" "$option" "$records"
  refused "$option .*/soft would be written over records" report "$records" "${out[@]}" "$option" "$work/links/soft"
  refused "$option .*/hard would be written over records" report "$work/other_name" "${out[@]}" "$option" "$work/links/hard"
  refused "$option .*/other_name would be written over" report "$work/links/hard" "${out[@]}" "$option" "$work/other_name"
  refused "$option .*/x/../x/records.jsonl would be" report "$work/links/x" "${out[@]}" "$option" "$work/x/../x/records.jsonl"
done
refused "train\] --out $text would be written over --corpus $text" train nope --corpus "$text" "${small[@]}" --steps 1 --out "$text"
refused 'model would be written over --from' train --from "$work/model" --corpus "$text" --steps 1 --out "$work/model"
refused 'taken would be written over --corpus .*taken.tmp' train nope --corpus "$work/taken.tmp" "${small[@]}" --steps 1 --out "$work/taken"
refused 'lies inside --corpus' train nope --corpus "$work/texts" "${small[@]}" --steps 1 --out "$work/texts/model"
mkdir "$work/own" && cp "$text" "$work/own/report.html"
state >"$work/state.before"
refused 'compare\] --out .*own: --corpus .*report.html is a file that is written there' \
  compare --preset smoke --corpus "$work/own/report.html" --schemes nope --out "$work/own"

# Two outputs in one file.
refused "--svg $page is what --out writes too" report "$records" --out "$page" --svg "$page"
refused "--html .* is what --svg writes too" show alibi --length 8 --svg "$page" --html "$work/./page.html"

# A records file is no output, nor are a folder, an empty name, and a file in a folder that is not there.
one() { refused "$1" report "$records" --out "$2"; refused "$1" report "$records" --out "$page" --svg "$2"
  refused "$1" report "$records" --out "$page" --markdown "$2"; refused "$1" show alibi --length 8 --svg "$2"
  refused "$1" show alibi --length 8 --html "$2"; refused "$1" show alibi --example --html "$2"
  refused "$1" train nope --corpus "$text" "${small[@]}" --steps 1000000 --out "$2"; }
one 'records.jsonl: a records.jsonl holds the results' "$work/full/records.jsonl"
one 'full is a folder; expected the name of a file' "$work/full"
one 'is a folder; expected the name of a file' "$work/newfile/"
one '"" is empty; expected the name of a file' ''
one 'there is no folder .*/nowhere; make it first' "$work/nowhere/file"
one '/model is not a folder' "$work/model/file"
one 'device, pipe or socket' /dev/null
long=$(printf 'n%.0s' $(seq 300))
one 'cannot be written: File name too long' "$work/$long"
# A root that may do everything still cannot write into /proc.
if [ "$(uname)" = Linux ] && [ -d /proc/self ]; then one '/proc/locant cannot be written' /proc/locant; fi
if [ "$(id -u)" -ne 0 ]; then
  mkdir "$work/readonly"; chmod 555 "$work/readonly"
  one 'readonly/file cannot be written: Permission denied' "$work/readonly/file"
fi

# What a comparison needs to go on, and the models of its records. One file by two names.
models=("$work"/x/models/*)
for file in asked.json lock unfinished.safetensors "models/${models[0]##*/}"; do
  one 'belongs to the comparison in its folder' "$work/x/$file"
done
cd "$work" || exit 1
refused 'is what --out writes too' report "$records" --out twice --markdown ./twice
# A new file by a relative name, in the folder that is read.
cd "$work/texts" || exit 1
refused 'lies inside --corpus' train nope --corpus "$work/texts" "${small[@]}" --steps 1 --out new_model
cd - >/dev/null || exit 1

# The folder of a comparison, before the text is read (which is missing here).
folder() { refused "compare\] $1" compare --preset smoke --corpus "$work/missing.txt" --schemes nope --out "$2"; }
folder '--out "" is empty; expected the name of a folder' ''
folder "--out $work/model is not a folder" "$work/model"
folder "--out $work/model/x: $work/model is not a folder" "$work/model/x"
folder '--out /proc/locant cannot be written: .*\(in /proc\)' /proc/locant
if [ "$(id -u)" -ne 0 ]; then folder 'readonly/x cannot be written: Permission denied' "$work/readonly/x"; fi
refused 'corpus.*missing.txt' compare --preset smoke --corpus "$work/missing.txt" --schemes nope --out "$work/new/deep/"
[ ! -e "$work/new" ] || fail "a refused comparison left its folder"

# What may be written is: over an old page, beside the records, through a link to a file that is not read.
expect 0 '' report "$work/x" --out "$work/x/report.html"
expect 0 '' report "$work/x" --out "$work/x/report.html" --markdown "$work/x/tables.md"
ln -s "$work/x/tables.md" "$work/links/tables"
expect 0 '' report "$work/x" --out "$page" --markdown "$work/links/tables"
cd "$work/full" || exit 1
expect 0 '' report "$work/x" --out page.html
expect 0 '' compare --preset smoke --corpus "$text" --schemes nope --steps 1 --tasks language_model --no-report --out new/deep/
[ -z "$(find "$work" -name '*.tmp' ! -name taken.tmp -o -name '.locant*')" ] || fail "left over: $(find "$work" -name '*.tmp' -o -name '.locant*')"
finish
