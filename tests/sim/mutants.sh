#!/usr/bin/env bash
# Builds rondo with each fault of tests/sim/mutants and runs the tests that name it: every one of them has to fail.
# usage: tests/sim/mutants.sh [arguments of cargo]   The working tree has to be clean: faults are made in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
git diff --quiet || { echo "error: commit your changes first: mutants are made in the working tree" >&2; exit 1; }

patch=
restore() { [ -z "$patch" ] || git apply -R "$patch"; patch=; }
trap restore EXIT

survived=0
for candidate in tests/sim/mutants/*.patch; do
  git apply "$candidate"
  patch=$candidate
  echo "== $(basename "$candidate" .patch): $(head -n 1 "$candidate")"
  cargo build "$@" --quiet 2>/dev/null || { echo "error: it does not build" >&2; exit 1; }
  while read -r target name; do
    case "$target" in
      lib) selected=(--lib) ;;
      *) selected=(--test "$target") ;;
    esac
    cargo test "$@" "${selected[@]}" --no-run --quiet 2>/dev/null || { echo "error: its tests do not build" >&2; exit 1; }
    said=$(cargo test "$@" "${selected[@]}" --no-fail-fast --quiet -- --exact "$name" 2>&1) && outcome=0 || outcome=$?
    if ! grep -qE '^running 1 test' <<<"$said"; then
      echo "error: there is no test $name" >&2
      exit 1
    elif [ "$outcome" = 0 ]; then
      echo "   SURVIVED $name"
      survived=1
    else
      echo "   caught by $name"
    fi
  done < <(sed -n 's/^Caught by: //p' "$candidate")
  restore
done
# The binary of the sources as they are.
cargo build "$@" --quiet
exit "$survived"
