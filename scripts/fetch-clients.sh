#!/bin/sh
# Installs the clients that the server is tested with, once for each change of their pins: an EventSource for Node, and
# for Python a maker of clients and schemathesis. Every file is checked against the hashes in tests/clients. Silent when
# they are already there.
#
#   scripts/fetch-clients.sh [FOLDER]
set -eu

pins="$(cd "$(dirname "$0")/../tests/clients" && pwd)"
folder="${1:-$(dirname "$0")/../.tools/clients}"

fail() {
    echo "fetch-clients: $1" >&2
    exit 1
}

for program in node npm python3; do
    command -v "$program" >/dev/null 2>&1 || fail "$program is needed to test the server with the clients people use"
done

pinned="$(cat "$pins/requirements.txt" "$pins/package-lock.json" "$0" | cksum) $(python3 --version) $(node --version)"
if [ "$(cat "$folder/pinned" 2>/dev/null)" = "$pinned" ]; then
    exit 0
fi

rm -rf "$folder"
mkdir -p "$folder" || fail "$folder cannot be made"
folder="$(cd "$folder" && pwd)"
log="$folder/install.log"
broken() {
    tail -n 5 "$log" >&2
    fail "$1 could not be installed; are you offline? Run this again with a network"
}
# Without pip of its own: the one of python3 installs into it.
python3 -m venv --without-pip "$folder/python" >"$log" 2>&1 || broken "a Python environment"
python3 -m pip --python "$folder/python/bin/python" install --disable-pip-version-check --quiet --require-hashes \
    --only-binary=:all: -r "$pins/requirements.txt" >>"$log" 2>&1 || broken "Python's clients"
cp "$pins/package.json" "$pins/package-lock.json" "$folder"
(cd "$folder" && npm ci --ignore-scripts --no-fund --no-audit) >>"$log" 2>&1 || broken "Node's clients"
printf '%s' "$pinned" >"$folder/pinned"
