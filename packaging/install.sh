#!/bin/sh
# Installs rondo for the user who runs it: the tarball of a release, after its digest was compared.
#   RONDO_RELEASE   where the files of the release lie: an address, or a folder [default: the latest on GitHub]
#   PREFIX          where it is installed [default: ~/.local]
set -eu

release=${RONDO_RELEASE:-https://github.com/rondo-engine/rondo/releases/latest/download}
prefix=${PREFIX:-$HOME/.local}
case $(uname -s)-$(uname -m) in
  Linux-x86_64 | Linux-aarch64) target=$(uname -m)-unknown-linux-gnu ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  *) echo "there is no package for $(uname -sm); build it from source: https://github.com/rondo-engine/rondo" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
get() {
  case $release in
    http://* | https://*) curl --proto '=https,http' -fsSL "$release/$1" -o "$work/$1" ;;
    *) cp "$release/$1" "$work/$1" ;;
  esac
}

get SHA256SUMS
name=$(sed -n "s/^[0-9a-f]*  \(rondo-[^ ]*-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
[ -n "$name" ] || { echo "$release has no tarball for $target" >&2; exit 1; }
get "$name"
digest() { if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi; }
(cd "$work" && [ "$(digest "$name")" = "$(grep "  $name\$" SHA256SUMS)" ]) || { echo "$name is not what SHA256SUMS says" >&2; exit 1; }
mkdir -p "$prefix"
tar -xzf "$work/$name" -C "$prefix" --strip-components=1
echo "rondo is in $prefix/bin: $("$prefix/bin/rondo" --version)"
case :$PATH: in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to PATH" ;; esac
