#!/usr/bin/env bash
# docs/questions.md: every command in it runs, and prints the lines that stand below it, in this order.
# "..." stands for anything.   usage: questions_test.sh LOCANT_BINARY SOURCE_FOLDER
. "$(dirname "$0")/../cli/lib.sh" "$1"
source=$2
mkdir "$work/run" && ln -s "$source/docs" "$work/run/docs"
locant() { "$locant" "$@"; }

# check COMMAND LINES: the regular expression of each line must match what follows the line before it.
commands=0
check() {
  local command=$1 lines=$2 output code rest line expected
  commands=$((commands + 1))
  output=$(cd "$work/run" && eval "$command" 2>&1 </dev/null)
  code=$?
  if [ $code -ne 0 ]; then
    fail "$command: exit code $code: ${output:0:300}"
    return
  fi
  rest=$'\n'$output$'\n'
  while IFS= read -r line; do
    [ "$line" = ... ] || [ -z "$line" ] && continue
    # A line with ... in it: what stands before it must begin a line, so that an id or a number may follow.
    expected=${line%%...*}
    if [ "$expected" = "$line" ]; then expected=$'\n'$line$'\n'; else expected=$'\n'$expected; fi
    if [[ $rest != *"$expected"* ]]; then
      fail "$command: does not print (or not in this order): $line"
      return
    fi
    rest=$'\n'${rest#*"$expected"}
  done <<<"$lines"
}

inside=0 command='' lines=''
while IFS= read -r line; do
  case $line in
    '```console') inside=1 command='' lines='' ;;
    '```')
      [ $inside = 1 ] && [ -n "$command" ] && check "$command" "$lines"
      inside=0
      ;;
    '$ locant '*) [ $inside = 1 ] && command=${line#\$ } ;;
    *) [ $inside = 1 ] && lines+=$line$'\n' ;;
  esac
done <"$source/docs/questions.md"
asked=$(grep -c '^## ' "$source/docs/questions.md")
[ "$commands" -ge "$asked" ] || fail "$asked questions, but only $commands commands"
finish
