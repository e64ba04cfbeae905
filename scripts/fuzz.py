#!/usr/bin/env python3
"""Fuzzes the readers of untrusted text with libFuzzer, on the stable toolchain.

  scripts/fuzz.py [--seconds N] [--seed N] [TARGET...]   search for inputs that break a promise
  scripts/fuzz.py --update-corpus [TARGET...]            keep the smallest set of inputs that reach all code seen so far

Inputs start from tests/fuzz/corpus, the texts of the attacks, and the examples. New inputs are collected in
target/fuzz/found. An input that breaks a promise is written to tests/fuzz/findings.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "target/fuzz"
CRATE = ROOT / "tests/fuzz"

# Longest input, in bytes. Longer ones only take longer.
MAX_INPUT_BYTES = 4096
# Longest input of the corpus in the repository.
MAX_KEPT_BYTES = 512
# A target reads no input for longer.
TIMEOUT_SECONDS = 20

# Coverage for libFuzzer: a counter for each edge, and the values that comparisons compare.
COVERAGE = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
]


def build_driver():
    """Builds the driver. Naming the platform keeps build scripts free of coverage."""
    host = re.search(r"host: (.*)", subprocess.check_output(["rustc", "-vV"], text=True))[1]
    command = ["cargo", "build", "--locked", "-p", "fuzz", "--features", "libfuzzer", "--bin", "fuzz"]
    command += ["--profile", "fuzz", "--target", host, "--target-dir", str(BUILD)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "RUSTFLAGS": " ".join(COVERAGE)})
    return BUILD / host / "fuzz/fuzz"


def list_targets():
    source = (CRATE / "src/targets.rs").read_text(encoding="utf-8")
    return re.findall(r'Target \{ name: "(\w+)"', source)


def write_seeds():
    """The texts of the attacks and the examples, a file each."""
    folder = BUILD / "seeds"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = set()
    for path in (ROOT / "tests/attacks").glob("*.json"):
        rows = json.loads(path.read_text(encoding="utf-8")).get("rows", [])
        texts |= {text.encode() for row in rows for text in row.get("inputs", []) if isinstance(text, str)}
    for path in (ROOT / "examples").rglob("*"):
        if path.suffix in {".json", ".mdx", ".csv"} and ".flowloom" not in path.parts:
            texts.add(path.read_bytes())
    for number, text in enumerate(sorted(texts)):
        (folder / str(number)).write_bytes(text)
    return folder


def run_driver(driver, target, options, folders):
    environment = {**os.environ, "FUZZ_TARGET": target}
    command = [driver, *options, f"-timeout={TIMEOUT_SECONDS}", f"-dict={CRATE / 'words.dict'}", *folders]
    return subprocess.run([str(part) for part in command], env=environment, check=False).returncode == 0


def search(driver, target, seeds, arguments):
    """Searches for an input that breaks a promise; `False` if one is found."""
    found, findings = BUILD / "found" / target, CRATE / "findings" / target
    found.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={arguments.seconds}", f"-max_len={MAX_INPUT_BYTES}", f"-artifact_prefix={findings}/"]
    options += [f"-seed={arguments.seed}", "-print_final_stats=1", "-verbosity=1", "-reload=0"]
    is_good = run_driver(driver, target, options, [found, CRATE / "corpus" / target, seeds])
    if not any(findings.iterdir()):
        findings.rmdir()
    return is_good


def update_corpus(driver, target, seeds):
    """Replaces the corpus by the smallest set of short inputs that reach the same code."""
    corpus, merged = CRATE / "corpus" / target, BUILD / "merged" / target
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    short = BUILD / "short" / target
    shutil.rmtree(short, ignore_errors=True)
    short.mkdir(parents=True)
    for folder in [corpus, BUILD / "found" / target, seeds]:
        for path in folder.iterdir() if folder.is_dir() else []:
            if path.stat().st_size <= MAX_KEPT_BYTES:
                shutil.copy(path, short / f"{folder.name}-{path.name}")
    findings = CRATE / "findings" / target
    findings.mkdir(parents=True, exist_ok=True)
    if not run_driver(driver, target, ["-merge=1", f"-artifact_prefix={findings}/"], [merged, short]):
        return False
    shutil.rmtree(corpus, ignore_errors=True)
    shutil.copytree(merged, corpus)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="time for each target (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="the number of the random sequence (default: 1)")
    parser.add_argument("--update-corpus", action="store_true", help="replace the corpora in the repository")
    parser.add_argument("targets", nargs="*", help="the targets (default: all)")
    arguments = parser.parse_args()
    targets = list_targets()
    if unknown := set(arguments.targets) - set(targets):
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(targets)}")
    driver, seeds = build_driver(), write_seeds()
    for target in arguments.targets or targets:
        print(f"\n{target}", flush=True)
        is_good = update_corpus(driver, target, seeds) if arguments.update_corpus else search(driver, target, seeds, arguments)
        if not is_good:
            sys.exit(f"{target}: an input breaks a promise; see tests/fuzz/findings/{target}")


if __name__ == "__main__":
    main()
