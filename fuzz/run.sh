#!/bin/sh
# Runs a fuzz target without cargo-fuzz: fuzz/run.sh TARGET [libFuzzer option …]. The compiler is the one of this directory's toolchain.
set -eu
cd "$(dirname "$0")"
target=$1
shift
coverage='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares'
RUSTFLAGS="$coverage --cfg fuzzing" \
  cargo build --release --target "$(rustc -vV | sed -n 's/^host: //p')" --bin "$target"
mkdir -p "corpus/$target"
export FUZZ_SEEDS="corpus/$target"
[ ! -e "$target.dict" ] || set -- -dict="$target.dict" "$@"
exec "target/$(rustc -vV | sed -n 's/^host: //p')/release/$target" "corpus/$target" "$@"
