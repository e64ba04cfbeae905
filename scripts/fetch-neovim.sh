#!/bin/sh
# Fetches Debian's Neovim for the tests of the language server, once: pinned packages, checked and unpacked without being
# installed. Silent if it exists. Elsewhere than on this Debian, an installed Neovim does.
#
#   scripts/fetch-neovim.sh [CACHE_DIR]
set -eu

cache="${1:-${FLOWLOOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flowloom}/neovim}"
version=0.7.2-7
place="$cache/$version"

fall_back() {
    if command -v nvim >/dev/null 2>&1; then
        exit 0
    fi
    echo "fetch-neovim: $1, and no Neovim is installed; run this again with a network, or install one" >&2
    exit 1
}

[ -f "$place/complete" ] && exit 0
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || fall_back "the pinned Neovim is for Linux on x86_64"
command -v apt-get >/dev/null 2>&1 || fall_back "apt-get is needed to fetch Neovim"

mkdir -p "$cache"
# In the cache folder itself, so that the last step is a rename.
work="$(mktemp -d "$cache/.fetch-XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# The SHA-256 and the name of each package.
cat >"$work/pins" <<'PINS'
1f0ea919d09d47420993aca0102ec0aed46338b2bf7e072a4b4566c5616f09d2  libluajit-5.1-2_2.1.0~beta3+git20220320+dfsg-4.1+deb12u1_amd64.deb
ddfabcad872846ab0501c9a077a41da419448f67bff333b6480b293cd986e796  libluajit-5.1-common_2.1.0~beta3+git20220320+dfsg-4.1+deb12u1_all.deb
60d7f1ca4213389adcb65db869b859c25147ccc66e9dbb9f57ab83fb8afa1ed9  libmsgpackc2_4.0.0-3_amd64.deb
0a52bed8b97cc25f652468e6422fde5fdd47a4f91d58950d8674f2b18beda7a4  libtermkey1_0.22-1_amd64.deb
cac5e60ef6d223162ab5115ca4a47b003dd43af36ad64bc0cd40266b47f023f9  libtree-sitter0_0.20.7-1_amd64.deb
461e796dd5e1de15deb5bd4e7811b37f4c48f598cb002a3e4acc3597163a8e58  libunibilium4_2.1.0-1_amd64.deb
204f0e13354b44e6d19317887a53dab6f26696e8d95838db970b81f2a393f7fd  libuv1_1.44.2-1+deb12u1_amd64.deb
1d8eeccb083ac2e80416d6044cd0d31274d8ffe9f05dc052f4fe05b8f3c2c2c7  libvterm0_0.1.4-1_amd64.deb
12f7487ecbc3cd00ec2db091911fe26c75648c96b1263e1308339a37ba28107d  lua-luv_1.44.2-0-1_amd64.deb
dc3861cf63e8576f887437c9925437eb118272c1bc8451e18baff9183da08cdb  neovim-runtime_0.7.2-7_all.deb
b1b76134e6d36e4d433c23a9e3639f8041dbb808185cbe3f0f3cbe09d788d211  neovim_0.7.2-7_amd64.deb
PINS

# `name_version_architecture.deb` is downloaded as name=version.
packages() {
    sed -E 's/^[0-9a-f]+  ([^_]+)_([^_]+)_.*/\1=\2/; s/%3a/:/' "$work/pins"
}
download() {
    # shellcheck disable=SC2046 # one argument for each package
    (cd "$work" && apt-get download $(packages)) >"$work/apt.log" 2>&1
}
if ! download; then
    # The lists of packages may be missing or old.
    apt-get update >>"$work/apt.log" 2>&1 || true
    download || {
        tail -n 3 "$work/apt.log" >&2
        fall_back "Neovim could not be fetched"
    }
fi
(cd "$work" && sha256sum --check --quiet pins) || fall_back "a package is not the one that was pinned"
mkdir "$work/unpacked"
for package in "$work"/*.deb; do
    dpkg-deb --extract "$package" "$work/unpacked"
done
touch "$work/unpacked/complete"
# Another fetch may have been first; then its result is as good.
mv -T "$work/unpacked" "$place" 2>/dev/null || [ -f "$place/complete" ]
