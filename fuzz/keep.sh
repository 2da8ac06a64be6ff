#!/bin/sh
# Keeps 400 inputs that a fuzz target found, or as many as are asked for, from the shortest to the longest, for the project's tests:
# fuzz/keep.sh TARGET [NUMBER], after fuzz/run.sh TARGET.
set -eu
cd "$(dirname "$0")"
target=$1
kept=${2:-400}
merged=$(mktemp -d)
trap 'rm -rf "$merged"' EXIT
"target/$(rustc -vV | sed -n 's/^host: //p')/release/$target" -merge=1 -max_len=4096 "$merged" "corpus/$target"
mkdir -p seeds
count=$(find "$merged" -type f | wc -l)
find "$merged" -type f -printf '%s %p\n' | sort -n | awk -v n="$count" -v k="$kept" 'n <= k || int(NR * k / n) != int((NR - 1) * k / n)' | while read -r _ path; do
    od -An -v -tx1 "$path" | tr -d ' \n'
    echo
done | grep . | zstd -q -19 -f -o "seeds/$target.zst"
