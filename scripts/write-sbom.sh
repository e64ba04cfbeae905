#!/bin/sh
# Writes the software bill of materials of the program (CycloneDX, JSON) to target/release/flowloom.cdx.json.
set -eu

cd "$(dirname "$0")/.."
sbom=target/release/flowloom.cdx.json

# The tool writes a file next to the manifest of every member of the workspace.
trap 'find . -path ./target -prune -o -name "*_bin.cdx.json" -exec rm -f {} +' EXIT
trap 'exit 130' INT TERM

# The same commit gives the same file.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
PATH="$PWD/.tools/bin:$PATH" cargo cyclonedx --manifest-path crates/flowloom/Cargo.toml --format json \
    --describe binaries --spec-version 1.5 --quiet
mkdir -p target/release
# Without the path of this machine.
sed "s|file://$PWD|file://.|g" crates/flowloom/flowloom_bin.cdx.json >"$sbom"
echo "$sbom"
