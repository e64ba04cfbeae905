#!/bin/sh
# Checks the dependencies against the snapshot of the RustSec advisory database in tests/advisories, without a network.
# `cargo deny check advisories` does the same with the current database. scripts/update-advisories.py makes a new snapshot.
set -eu

cd "$(dirname "$0")/.."
database="$PWD/target/advisories"
config="$database/deny.toml"
# The program reads databases that are Git repositories, in a folder named after the hash of their URL.
snapshot="$database/db-eb741c8d888d3edb"

rm -rf "$database"
mkdir -p "$snapshot"
cp -R tests/advisories/crates "$snapshot/"
read -r date _ <tests/advisories/snapshot
export GIT_AUTHOR_DATE="${date}T00:00:00Z" GIT_COMMITTER_DATE="${date}T00:00:00Z"
git -C "$snapshot" init --quiet
git -C "$snapshot" add .
git -C "$snapshot" -c user.name=snapshot -c user.email=snapshot@localhost commit --quiet --message "$date"

# The same settings as online, except for where the database is, that it may be old, and that the registry is not asked.
sed -e "s|^\[advisories\]|&\ndb-path = \"$database\"\ndb-urls = [\"https://advisories.example/db\"]\nmaximum-db-staleness = \"P5Y\"|" \
    -e 's|^yanked = .*|yanked = "allow"|' deny.toml >"$config"
.tools/bin/cargo-deny --locked --offline --config "$config" check advisories
echo "checked against the advisories of $date"
