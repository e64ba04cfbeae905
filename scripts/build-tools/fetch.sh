#!/bin/sh
# Fetches CMake and libclang, which llama.cpp is built with, into .tools/build, once: the wheels that requirements.txt
# pins, which pip checks. Prints the folder. Cargo calls it through the programs next to this file (.cargo/config.toml),
# only where the system has none.
set -eu

here="$(cd "$(dirname "$0")" && pwd)"
tools="$here/../../.tools"
folder="$tools/build"

if ! cmp -s "$here/requirements.txt" "$folder/requirements.txt"; then
    command -v python3 >/dev/null 2>&1 || {
        echo "flowloom: llama.cpp is built with CMake and libclang; install both, or python3 with pip to fetch them" >&2
        exit 1
    }
    mkdir -p "$tools"
    # Complete before it is renamed: several builds may fetch at the same time.
    work="$(mktemp -d "$tools/build-XXXXXX")"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --disable-pip-version-check --quiet --no-deps --only-binary=:all: --require-hashes \
        --target "$work/all" --requirement "$here/requirements.txt" >&2
    mkdir "$work/all/llvm"
    ln -s ../clang/native "$work/all/llvm/lib"
    cp "$here/requirements.txt" "$work/all/requirements.txt"
    rm -rf "$folder"
    mv "$work/all" "$folder" 2>/dev/null || cmp -s "$here/requirements.txt" "$folder/requirements.txt"
fi
(cd "$folder" && pwd)
