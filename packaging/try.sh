#!/usr/bin/env bash
# Installs each package of a folder into an empty prefix and runs the demo from it, with no network.
# usage: packaging/try.sh FOLDER
set -euo pipefail
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work/home
mkdir "$HOME"

failed=0
# Runs the demo with the program of a package in an empty folder.
demo() {
  local name=$1 program=$2 begun
  mkdir -p "$work/$name.demo"
  begun=$(date +%s%N)
  if (cd "$work/$name.demo" && "$program" run review-loop --offline --quiet) | grep -q '"title": "Six hours in a tide pool"'; then
    echo "$name: $("$program" --version), the demo in $((($(date +%s%N) - begun) / 1000000)) ms"
  else
    echo "$name: the demo failed" >&2
    failed=1
  fi
}
have() { command -v "$1" >/dev/null 2>&1 || { echo "$2: left out, there is no $1 here"; return 1; }; }

(cd "$folder" && sha256sum --check --quiet SHA256SUMS)

RONDO_RELEASE=$folder PREFIX=$work/tarball sh "$folder/install.sh" >/dev/null
demo tarball "$work/tarball/bin/rondo"
gzip -t "$work/tarball/share/man/man1/rondo.1.gz"
mkdir "$work/changed"
cp "$folder"/*.tar.gz "$folder/SHA256SUMS" "$work/changed"
for file in "$work"/changed/*.tar.gz; do printf x >> "$file"; done
if RONDO_RELEASE=$work/changed PREFIX=$work/none sh "$folder/install.sh" >/dev/null 2>&1; then
  echo "install.sh takes a tarball that was changed" >&2
  failed=1
fi

if have python3 wheel; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --no-index --disable-pip-version-check "$folder"/*.whl
  demo wheel "$work/venv/bin/rondo"
fi
if have uvx wheel-by-uvx; then
  begun=$(date +%s%N)
  (mkdir "$work/uvx" && cd "$work/uvx" && uvx --offline --cache-dir "$work/uv" --from "$folder"/*.whl rondo run review-loop --offline --quiet) |
    grep -q '"drafts": 3' || failed=1
  echo "uvx with an empty cache: $((($(date +%s%N) - begun) / 1000000)) ms to the result"
fi
if have npm npm; then
  mkdir "$work/npm"
  (cd "$work/npm" && npm install --silent --offline --no-audit --no-fund "$folder"/rondo-engine-*.tgz "$folder"/rondo-[0-9]*.tgz)
  demo npm "$work/npm/node_modules/.bin/rondo"
fi
if have dpkg-deb deb; then
  dpkg-deb --info "$folder"/*.deb >/dev/null
  dpkg-deb --extract "$folder"/*.deb "$work/deb"
  demo deb "$work/deb/usr/bin/rondo"
fi
exit "$failed"
