#!/usr/bin/env bash
# Law `vocabulary`: takes the two hook kinds that keep answers, with their tests and their lines in the registry, out of a
# copy of the sources, and builds and tests everything else.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
copy="$(mktemp -d)"

# Cargo takes the copy's artifacts for those of the checkout, because both have the same relative paths, and some hold the
# copy's own: all of it has to look changed afterwards, so that it is built again.
finish() {
  rm -rf "$copy"
  find "$root" -name target -prune -o -name '*.rs' -exec touch {} +
}
trap finish EXIT

git -C "$root" ls-files -z --cached --others --exclude-standard | tar -C "$root" --null -T - -cf - | tar -C "$copy" -xf -
cd "$copy"
without() { grep -v -w -e "$1" "$2" >"$2.new" && mv "$2.new" "$2"; }
for kind in response_cache tool_cache; do
  rm -rf "engine/src/hook/kinds/$kind" "engine/src/hook/kinds/$kind.rs" "tests/suite/$kind" "tests/suite/$kind.rs"
  without "$kind" engine/src/hook/kinds/mod.rs
  without "$kind" tests/suite/main.rs
done
if grep -rlE 'response_cache|tool_cache|ResponseCache|ToolCache' engine/src/hook/kinds; then
  echo "error: the kinds are still named there" >&2
  exit 1
fi
echo "Building and testing without response_cache and tool_cache."
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --release --workspace
else
  cargo test --release --workspace --lib --bins --tests
fi
