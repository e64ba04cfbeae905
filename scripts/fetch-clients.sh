#!/bin/sh
# Installs the clients that the server is tested with, once for each change of their pins. Each folder of tests/clients is
# a separate set, so that two generations of one package can be there: what its requirements.txt and
# package-lock.json name, checked against the hashes that are written there. Silent when they are already there.
#
#   scripts/fetch-clients.sh [FOLDER]
set -eu

pins="$(cd "$(dirname "$0")/../tests/clients" && pwd)"
root="${1:-$(dirname "$0")/../.tools/clients}"

fail() {
    echo "fetch-clients: $1" >&2
    exit 1
}

for program in node npm python3; do
    command -v "$program" >/dev/null 2>&1 || fail "$program is needed to test the server with the clients people use"
done

# Installs the set $1 into a folder of its name.
install() {
    set="$pins/$1"
    folder="$root/$1"
    pinned="$(cat "$set"/requirements.txt "$set"/package-lock.json "$0" 2>/dev/null | cksum) $(python3 --version) $(node --version)"
    if [ "$(cat "$folder/pinned" 2>/dev/null)" = "$pinned" ]; then
        return
    fi
    rm -rf "$folder"
    mkdir -p "$folder" || fail "$folder cannot be made"
    folder="$(cd "$folder" && pwd)"
    log="$folder/install.log"
    if [ -f "$set/requirements.txt" ]; then
        # Without pip of its own: the one of python3 installs into it.
        python3 -m venv --without-pip "$folder/python" >"$log" 2>&1 || broken "a Python environment"
        python3 -m pip --python "$folder/python/bin/python" install --disable-pip-version-check --quiet \
            --require-hashes --only-binary=:all: -r "$set/requirements.txt" >>"$log" 2>&1 || broken "Python's part of $1"
    fi
    if [ -f "$set/package-lock.json" ]; then
        cp "$set/package.json" "$set/package-lock.json" "$folder"
        (cd "$folder" && npm ci --ignore-scripts --no-fund --no-audit) >>"$log" 2>&1 || broken "Node's part of $1"
    fi
    printf '%s' "$pinned" >"$folder/pinned"
}

broken() {
    tail -n 5 "$log" >&2
    fail "$1 could not be installed; are you offline? Run this again with a network"
}

for set in "$pins"/*/; do
    install "$(basename "$set")"
done
