"""Generate constants, methods and properties of wire/ from wire/amqp.toml.

    python tools/generate_wire.py           write the files
    python tools/generate_wire.py --check   write nothing; exit 1 and name the stale files if any

The output is straight-line code: each method's fields are laid out when this runs, not when a frame arrives.
Neighbouring fields of a fixed size become one struct, neighbouring bits one octet, and whatever is constant
(ids, reserved fields) one bytes literal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIRE = ROOT / "src" / "embermq" / "wire"

sys.path.insert(0, str(ROOT))  # for `python tools/generate_wire.py`, which only sees tools/ itself

from tools.wiregen.constants import constants  # noqa: E402
from tools.wiregen.methods import methods, methods_0_8, methods_0_9  # noqa: E402
from tools.wiregen.properties import properties, properties_0_9  # noqa: E402


def generate(definition: dict[str, Any]) -> dict[Path, str]:
    """Every generated file with the text that it should have."""
    return {
        WIRE / f"{module.__name__}.py": formatted("\n".join(module(definition)) + "\n")
        for module in (constants, methods, methods_0_9, methods_0_8, properties, properties_0_9)
    }


def formatted(source: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=110", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Generate the protocol code of wire/ from amqp.toml.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a file is stale")
    check = parser.parse_args(arguments).check
    files = generate(tomllib.loads((WIRE / "amqp.toml").read_text("utf-8")))
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    if check:
        for path in stale:
            print(f"{path} is stale: run tools/generate_wire.py", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(files[path], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
