#!/bin/sh
# Installs what `make bench PEERS=1` compares with, once for each change of their pins, checked against the hashes that are
# written here. A peer that cannot be installed leaves a file with the reason, and becomes a row of the table.
#
#   bench/peers/install.sh [FOLDER]
set -u

pins="$(cd "$(dirname "$0")" && pwd)"
root="${1:-$pins/../../target/peers}"

# Runs the installation $2 … of the peer $1, unless its pins are installed.
install() {
    peer="$1"
    shift
    folder="$root/$peer"
    pinned="$(cat "$pins/$peer"/requirements.txt "$pins/$peer"/package-lock.json "$pins/$peer"/Cargo.lock \
        "$pins/$peer"/src/* "$0" 2>/dev/null | cksum)"
    if [ "$(cat "$folder/pinned" 2>/dev/null)" = "$pinned" ]; then
        return
    fi
    echo "installing $peer …" >&2
    mkdir -p "$folder"
    rm -f "$folder/pinned" "$folder/missing"
    if "$@" >"$folder/install.log" 2>&1; then
        printf '%s' "$pinned" >"$folder/pinned"
    else
        tail -n 1 "$folder/install.log" >"$folder/missing"
    fi
}

install_python() {
    rm -rf "$folder/python"
    # Without pip of its own: the one of python3 installs into it.
    python3 -m venv --without-pip "$folder/python" &&
        python3 -m pip --python "$folder/python/bin/python" install --disable-pip-version-check --quiet \
            --require-hashes --only-binary=:all: -r "$pins/$peer/requirements.txt"
}

install_node() {
    cp "$pins/$peer/package.json" "$pins/$peer/package-lock.json" "$folder" &&
        (cd "$folder" && npm ci --ignore-scripts --no-fund --no-audit --loglevel error)
}

install_rust() {
    cargo build --release --locked --manifest-path "$pins/$peer/Cargo.toml" --target-dir "$folder"
}

for peer in langgraph agno dbos; do
    install "$peer" install_python
done
install mastra install_node
install graph-flow install_rust
