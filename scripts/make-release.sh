#!/bin/sh
# Builds a release archive: the program for any processor of this kind (local language models need AVX2 on x86-64), its man
# pages, shell completions, licences and bill of materials. Writes target/dist/flowloom-VERSION-TARGET.tar.gz and its
# SHA-256 checksum.
set -eu

cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name="flowloom-$version-$target"

cargo build --release --locked -p flowloom
program=target/release/flowloom

scripts/write-sbom.sh >/dev/null

dist=target/dist
folder=$dist/$name
rm -rf "$folder"
mkdir -p "$folder/completions"
cp "$program" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$folder"
cp target/release/flowloom.cdx.json "$folder"
"$program" man "$folder/man" >/dev/null
for shell in bash zsh fish; do
    "$program" completions "$shell" >"$folder/completions/flowloom.$shell"
done

# The same commit gives the same archive, apart from the program.
time="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$time" --mode=a+rX \
    -C "$dist" -cf - "$name" | gzip -n -9 >"$dist/$name.tar.gz"
rm -rf "$folder"
(cd "$dist" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256" && cat "$name.tar.gz.sha256")
