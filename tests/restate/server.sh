#!/usr/bin/env bash
# server.sh: prints the path of a Restate server, from its npm package, which is fetched once. The server has a licence of
# its own (BSL 1.1): it is a tool of this test and no part of rondo. server.sh --check: says why there is none, and fails.
set -euo pipefail

version="1.7.12"
folder="${XDG_CACHE_HOME:-$HOME/.cache}/rondo/restate-$version"
case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) package="restate-server-linux-x64" ;;
  Linux-aarch64) package="restate-server-linux-arm64" ;;
  *)
    echo "skipped: no Restate server is fetched for $(uname -s) on $(uname -m)" >&2
    exit 1
    ;;
esac
binary="$folder/node_modules/@restatedev/$package/bin/restate-server"

if [ ! -x "$binary" ]; then
  if ! command -v npm >/dev/null 2>&1; then
    echo "skipped: the Restate server is an npm package, and npm is not installed" >&2
    exit 1
  fi
  mkdir -p "$folder"
  if ! timeout 300 npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts --loglevel=error \
    "@restatedev/$package@$version" >&2; then
    echo "skipped: the Restate server could not be fetched from npm" >&2
    exit 1
  fi
fi
[ "${1:-}" = "--check" ] || echo "$binary"
