#!/bin/sh
# Fetches a Restate server for the tests, once: a pinned package through npm, checked and unpacked. Silent if it exists.
# Its licence (BSL 1.1) permits this use; it is not a part of Flowloom's releases.
#
#   scripts/fetch-restate.sh [CACHE_DIR]
set -eu

package=@restatedev/restate-server-linux-x64
version=1.7.12
sha512=511a2d275008a9a4820e444c9783ab41f4cb1fe358b8e65bdd9b0fef0c718ae001ea99dc80f8535184af7a04c5e4f4eb0128673721cda63bbd9237f63b7431a0

cache="${1:-${FLOWLOOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flowloom}/restate}"
place="$cache/$version"

fail() {
    echo "fetch-restate: $1" >&2
    exit 1
}

[ -f "$place/complete" ] && exit 0
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || fail "the pinned Restate is for Linux on x86_64"
command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch Restate"

mkdir -p "$cache"
# In the cache folder itself, so that the last step is a rename.
work="$(mktemp -d "$cache/.fetch-XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

if ! npm pack --silent --pack-destination "$work" "$package@$version" >"$work/npm.log" 2>&1; then
    tail -n 3 "$work/npm.log" >&2
    fail "Restate could not be fetched; run this again with a network"
fi
archive="$work/restatedev-restate-server-linux-x64-$version.tgz"
echo "$sha512  $archive" | sha512sum --check --quiet - || fail "the package is not the one that was pinned"
mkdir "$work/unpacked"
tar --extract --gzip --file "$archive" --directory "$work/unpacked" --strip-components 1
touch "$work/unpacked/complete"
# Another fetch may have been first; then its result is as good.
mv -T "$work/unpacked" "$place" 2>/dev/null || [ -f "$place/complete" ]
