#!/usr/bin/env python3
"""Updates tests/advisories from a clone of the RustSec advisory database.

  git clone https://github.com/rustsec/advisory-db /tmp/advisory-db
  scripts/update-advisories.py /tmp/advisory-db

Only the facts about the packages in Cargo.lock are stored: the metadata of each advisory without links, and its title.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

SNAPSHOT = Path("tests/advisories")
DROPPED = re.compile(r"^(url|references|related|license)\s*=")


def read_facts(text):
    """The metadata of an advisory without links, and its title."""
    metadata, rest = re.match(r"```toml\n(.*?)```\n(.*)", text, re.S).groups()
    metadata = re.sub(r"\[\s*\n([^\]]*)\n?\]", lambda list_: "[" + " ".join(list_[1].split()) + "]", metadata)
    lines = [line for line in metadata.splitlines() if not DROPPED.match(line)]
    title = next(line for line in rest.splitlines() if line.startswith("# "))
    return "```toml\n" + "\n".join(lines).strip() + f"\n```\n\n{title}\n"


def main():
    clone = Path(sys.argv[1])
    lock = tomllib.load(open("Cargo.lock", "rb"))
    shutil.rmtree(SNAPSHOT / "crates", ignore_errors=True)
    for name in sorted({package["name"] for package in lock["package"]}):
        for file in sorted((clone / "crates" / name).glob("RUSTSEC-*.md")):
            target = SNAPSHOT / "crates" / name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(read_facts(file.read_text(encoding="utf-8")), encoding="utf-8")
    date = subprocess.check_output(["git", "-C", clone, "show", "-s", "--format=%cs %H"], text=True)
    (SNAPSHOT / "snapshot").write_text(date, encoding="utf-8")


if __name__ == "__main__":
    main()
