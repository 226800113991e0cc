#!/usr/bin/env bash
# Which folder `./run compare` takes: a copy of the script, with programs that do nothing in place of the build.
. "$(dirname "$0")/lib.sh" "$1"
repository=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$work/root/build/release/bin" "$work/bin" "$work/one" "$work/two"
cp "$repository/run" "$work/root/run"
: >"$work/root/build/release/build.ninja"
printf '#!/bin/sh\nexit 0\n' | tee "$work/bin/cmake" "$work/bin/apt-get" >/dev/null
# Whatever is asked for is installed.
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
for name; do echo "$name installed"; done
END
cat >"$work/root/build/release/bin/locant" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --out ] && basename "$2"; shift; done
END
chmod +x "$work"/bin/* "$work/root/build/release/bin/locant"
export PATH=$work/bin:$PATH
cd "$work/one" || exit 1

folder() { "$work/root/run" compare "$@" 2>/dev/null; }
is() {  # is PATTERN ARGS...
  local pattern=$1 got
  shift
  got=$(folder "$@")
  [[ $got =~ ^$pattern$ ]] || fail "run compare $*: expected a folder like $pattern, got '$got'"
}
same=$(folder --corpus my.txt --preset smoke)
is 'compare-my.txt-[0-9a-f]{4}-smoke' --corpus my.txt --preset smoke
is "$same" --preset smoke --corpus my.txt
is "$same" --preset=smoke --schemes rope --corpus=../one/my.txt
is "$same" --corpus "$work/one/my.txt" --preset smoke
[ "$same" != "$(folder --corpus ../two/my.txt --preset smoke)" ] || fail "two texts of one name have one folder"
is 'compare-texts-[0-9a-f]{4}-full-length-32-steps-9' --steps 9 --corpus texts/ --length=32 --preset full
is 'compare-task-steps-5' --tasks copy --task-steps 5
is 'mine' --out mine --corpus my.txt
is 'compare-full' --preset full --resume
is 'compare' --resume
finish
