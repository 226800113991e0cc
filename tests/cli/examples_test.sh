#!/usr/bin/env bash
# Every example that --help shows works, made smaller where it would take minutes: lines "locant ..." and what
# stands behind "as in" are taken from the help itself.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh" "$(realpath "$1")"
cd "$work" || exit 1
make_text text
{ echo 'In the beginning was the Word.'; cat text text; } >book.txt
mkdir texts bench
cp book.txt texts/a.txt
cp "$here/../../bench/goals.txt" bench/

# What the examples stand on, under the names they give it.
small=(--layers 1 --width 16 --heads 2 --batch 2)
expect 0 '' train rope --corpus book.txt "${small[@]}" --steps 3 --out rope.safetensors
expect 0 '' compare --preset smoke --corpus book.txt --schemes alibi --steps 2 --tasks language_model --out server
mkdir laptop && cp server/records.jsonl laptop/

# Options that make an example small; it keeps its own, which come first.
smaller() {
  case $1 in
    compare) echo "--preset smoke --task-steps 2" ;;
    train) case $2 in *--from*) echo "--batch 2" ;; *) echo "${small[*]} --steps 3" ;; esac ;;
    bench) case $2 in *--check*) ;; *) echo "--rounds 1" ;; esac ;;
  esac
}

count=0
commands=$("$locant" --help | sed -n '/Subcommands:/,$ s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 8 ] || fail "expected eight commands in the help, got: $commands"
for command in $commands; do
  "$locant" "$command" --help >help.txt || fail "$command --help"
  grep -o 'locant [a-z]* *.*' <(sed -n '/^Example/,$p' help.txt) | grep "^locant $command" >examples.txt
  [ -s examples.txt ] || fail "$command --help shows no example"
  while IFS= read -r example; do
    # A shell takes it apart, as a person's would.
    eval "words=(${example%%>*})"
    rm -rf locant-compare  # examples of their own, not one after another in a folder
    case $example in
      *@bench/goals.txt*) # all of them take minutes; a case behind them is refused first
        expect 2 nonsense "${words[@]:1}" nonsense ;;
      *) # shellcheck disable=SC2046
        expect 0 '' "${words[@]:1}" $(smaller "$command" "$example") ;;
    esac
    count=$((count + 1))
  done <examples.txt

  # "as in alibi,t5(buckets=32),rope"
  for text in $(grep -oiE 'as in [a-z_][^ ;:]*' help.txt | sed 's/^[Aa]s in //; s/[.,]*$//'); do
    case $command in
      compare) for length in 8 16 32; do
          expect 0 '' compare --preset smoke --corpus book.txt --length $length --steps 1 --tasks language_model \
            --schemes "$text" --out "as-in-$length"
        done ;;
      train) expect 0 '' train "$text" --corpus book.txt --length 16 "${small[@]}" --steps 1 --out as-in.safetensors ;;
      show) expect 0 '' show "$text" --length 8 ;;
      eval) expect 0 '' eval rope.safetensors --corpus book.txt --scheme "$text" ;;
      sample) expect 0 '' sample rope.safetensors --prompt 'In the ' --length 5 --scheme "$text" ;;
      *) fail "$command --help: how is '$text' used?" ;;
    esac
    count=$((count + 1))
  done
done
[ "$count" -ge 20 ] || fail "expected at least 20 examples, got $count"
finish
