#!/usr/bin/env bash
# llm.sh PORT COMMAND...: runs COMMAND with three real model servers, each with a grammar of its own for its answers:
# RONDO_TEST_LLM_URL, RONDO_TEST_LLM_REVIEW_URL and RONDO_TEST_LLM_CALLS_URL name them. Either these are set already, or the
# servers are built and started by llm-server/serve.sh at PORT and the two ports above it, and stopped afterwards. Where they
# cannot be built, says why and ends with exit code 0: nothing was tested, and nothing failed.
set -euo pipefail

port="$1"
shift
folder="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/llm-server"

if [ -n "${RONDO_TEST_LLM_URL:-}" ]; then
  exec "$@"
fi

export LLM_SERVE_DIR="${LLM_SERVE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/rondo/llm-serve}"
for tool in python3 curl c++; do
  if ! command -v "$tool" >/dev/null 2>&1; then
    echo "skipped: the model server cannot be built without $tool" >&2
    exit 0
  fi
done

# start PORT OPTION...: prints the address.
start() {
  local ready
  if ! ready="$("$folder/serve.sh" "$@")"; then
    echo "skipped: the model server could not be built or started; the reason stands above" >&2
    return 1
  fi
  sed -n 's/^READY base_url=\([^ ]*\).*/\1/p' <<<"$ready"
}

stop() {
  local at
  for at in "$port" "$((port + 1))" "$((port + 2))"; do "$folder/serve.sh" stop "$at"; done
}
trap stop EXIT

RONDO_TEST_LLM_URL="$(start "$port" --grammar-file "$folder/answers.gbnf")" || exit 0
RONDO_TEST_LLM_REVIEW_URL="$(start "$((port + 1))" --grammar-file "$folder/review.gbnf" -c 8192)" || exit 0
RONDO_TEST_LLM_CALLS_URL="$(start "$((port + 2))" --grammar-file "$folder/calls.gbnf" -c 8192 \
  --chat-template-file "$folder/calls.jinja")" || exit 0
export RONDO_TEST_LLM_URL RONDO_TEST_LLM_REVIEW_URL RONDO_TEST_LLM_CALLS_URL
"$@"
