#!/usr/bin/env bash
# llm.sh PORT COMMAND...: runs COMMAND with RONDO_TEST_LLM_URL set to a real model server.
# That is the one which the variable names already, else one built and started by llm-server/serve.sh, which is stopped
# afterwards. Where it cannot be built, says why and ends with exit code 0: nothing was tested, and nothing failed.
set -euo pipefail

port="$1"
shift
serve="$(dirname "${BASH_SOURCE[0]}")/llm-server/serve.sh"

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
if ! ready="$("$serve" "$port")"; then
  echo "skipped: the model server could not be built or started; the reason stands above" >&2
  exit 0
fi
trap '"$serve" stop "$port"' EXIT
RONDO_TEST_LLM_URL="$(sed -n 's/^READY base_url=\([^ ]*\).*/\1/p' <<<"$ready")"
export RONDO_TEST_LLM_URL
"$@"
