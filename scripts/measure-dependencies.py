#!/usr/bin/env python3
"""Prints the table of docs/dependencies.md: what each direct dependency of the program alone adds to it.

  CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_LTO=off cargo build --release --locked -p flowloom --timings \\
    --config 'profile.release.package.flowloom.strip=false'
  scripts/measure-dependencies.py target/release/flowloom target/cargo-timings/cargo-timing.html

"Alone" means: the packages that the program would no longer need without the dependency. Seconds are the CPU time of
compiling them on one core; kilobytes are the machine code that the symbols of the program attribute to them. Generic
code counts where it is defined, and inlined code where it is used, so both are estimates. The newest release is that of the
registry's index, as Cargo has it on this machine; the index has no dates.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

# Crates whose code is C: the symbols of the program that belong to them.
C_SYMBOLS = [
    ("libsqlite3-sys", re.compile(r"sqlite3|fts5|vdbe|pager|btree", re.I)),
    ("aws-lc-sys", re.compile(r"aws_lc|bignum_|ecp_|p384|p256|sha256_block|sha512_block")),
    ("rquickjs-sys", re.compile(r"^(js_|JS_|__JS|lre_|bf_|unicode_|resolve_|emit_)")),
    ("blake3", re.compile(r"blake3")),
]

# Symbols of C++ look like those of Rust, so these names come first.
LLAMA_SYMBOL = re.compile(r"^(?:void |int |bool |std::\S+ )?_?(?:ggml|gguf|llama|llm|quantize|dequantize)_")


def read_graph():
    """The packages, and what each needs to be built for the program on this platform."""
    host = re.search(r"host: (.*)", subprocess.check_output(["rustc", "-vV"], text=True))[1]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    metadata = json.loads(subprocess.check_output(command))
    needs = {}
    for node in metadata["resolve"]["nodes"]:
        kinds = [(dep["pkg"], {kind["kind"] for kind in dep["dep_kinds"]}) for dep in node["deps"]]
        needs[node["id"]] = [package for package, kind in kinds if kind & {None, "build"}]
    packages = {package["id"]: package for package in metadata["packages"]}
    return packages, needs, set(metadata["workspace_members"])


def find_needed(needs, root, without=None):
    """The packages that `root` needs if `without` is left out."""
    found, pending = {root}, [root]
    while pending:
        for package in needs[pending.pop()]:
            if package != without and package not in found:
                found.add(package)
                pending.append(package)
    return found


def read_build_seconds(path):
    """The compile time of each package, from the report of `cargo build --timings`."""
    units = re.search(r"const UNIT_DATA = (\[.*?\]);", open(path, encoding="utf-8").read(), re.S)[1]
    seconds = collections.Counter()
    for unit in json.loads(units):
        seconds[unit["name"], unit["version"]] += unit["duration"]
    return seconds


def read_code_bytes(program):
    """The machine code of each crate, from the symbols of the program."""
    listing = subprocess.check_output(["nm", "--demangle", "--print-size", "--defined-only", program], text=True)
    code = collections.Counter()
    for line in listing.splitlines():
        fields = line.split(" ", 3)
        if len(fields) == 4 and fields[2] in "tTwW":
            code[find_crate(fields[3])] += int(fields[1], 16)
    return code


def find_crate(symbol):
    if LLAMA_SYMBOL.search(symbol):
        return "llama_cpp_sys_2"
    rust = re.search(r"([a-z_][a-z0-9_]*)(?:\[[0-9a-f]+\])?::", symbol)
    if rust:
        return rust[1]
    return next((name.replace("-", "_") for name, pattern in C_SYMBOLS if pattern.search(symbol)), "other")


def find_newest_release(name):
    """The newest release in Cargo's copy of the index that was not withdrawn; `None` if it is not there."""
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    folder = {1: "1", 2: "2", 3: f"3/{name[0]}"}.get(len(name), f"{name[:2]}/{name[2:4]}")
    versions = []
    for path in home.glob(f"registry/index/*/.cache/{folder}/{name}"):
        entries = (json.loads(line) for line in path.read_bytes().split(b"\0") if line.startswith(b"{"))
        found = (entry["vers"].split("+")[0] for entry in entries if not entry["yanked"])
        versions += [version for version in found if "-" not in version]
    return max(versions, key=lambda version: [int(part) for part in version.split(".")], default=None)


def describe_release(name, version):
    """Whether a newer release than the one that is used is known."""
    newest = find_newest_release(name)
    if newest is None:
        return "–"
    return "the same" if newest == version.split("+")[0] else newest


def main():
    program, timings = sys.argv[1:]
    packages, needs, own = read_graph()
    purposes = tomllib.load(open("Cargo.toml", "rb"))["workspace"]["metadata"]["purposes"]
    root = next(package for package in own if packages[package]["name"] == "flowloom")
    needed, seconds, code = find_needed(needs, root), read_build_seconds(timings), read_code_bytes(program)
    direct = {package for member in needed & own for package in needs[member]} - own
    versions = collections.Counter(packages[package]["name"] for package in needed)
    print(f"<!-- {len(needed - own)} packages, {sum(count > 1 for count in versions.values())} in several versions -->\n")
    print("| dependency | version | newest release | purpose | packages | seconds | kB |\n|---|---|---|---|---:|---:|---:|")
    rows = []
    for package in direct:
        alone = needed - find_needed(needs, root, without=package)
        names = {(packages[one]["name"], packages[one]["version"]) for one in alone}
        kilobytes = sum(code[name.replace("-", "_")] for name, _ in names) / 1024
        row = (len(names), sum(seconds[name] for name in names), kilobytes)
        rows.append((packages[package]["name"], packages[package]["version"], row))
    for name, version, (count, time, kilobytes) in sorted(rows, key=lambda row: -row[2][0]):
        used = f"{version.split('+')[0]} | {describe_release(name, version)}"
        print(f"| {name} | {used} | {purposes[name]} | {count} | {time:.1f} | {kilobytes:,.0f} |")


if __name__ == "__main__":
    main()
