# What the tests of the command share. Source it with: . lib.sh LOCANT_BINARY
set -u
locant=$1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
failures=0

fail() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}

# expect CODE 'PATTERN' ARGS...: runs locant ARGS; its exit code must be CODE and its output (both streams)
# must match the extended regular expression PATTERN. What is refused is said by name, whoever found it.
expect() {
  local code=$1 pattern=$2 output got
  shift 2
  output=$("$locant" "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" -eq "$code" ] || fail "locant $*: expected exit code $code, got $got: ${output:0:600}"
  [ "$code" -ne 2 ] || grep -q '^locant: ' <<<"$output" || fail "locant $*: no line begins with 'locant: ': ${output:0:600}"
  grep -Eq -- "$pattern" <<<"$output" || fail "locant $*: expected output like '$pattern', got: ${output:0:600}"
}

# A small text with some order in it: enough for a training length of 32 and its tests to 16 times that.
make_text() {
  awk 'BEGIN { srand(7); split("in the beginning was a word and then another came to pass over many days", w, " ");
    for (n = 0; n < 4200; ++n) printf "%s%s", w[int(rand() * 15) + 1], (n % 11 == 10 ? ".\n" : " ") }' >"$1"
}

finish() {
  [ "$failures" -eq 0 ] || { printf '%d failed\n' "$failures"; exit 1; }
  echo "all passed"
}
