"""Put pip into the virtual environment that runs this, where Python came without it.

    .venv/bin/python tools/fetch_pip.py

Debian has pip and `ensurepip` in packages of their own, which not everybody may install. PyPI has it for
everybody; what comes from there is checked.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

FILE = "pip-26.2.1-py3-none-any.whl"
PLACE = "https://files.pythonhosted.org/packages/f3/6e/1736e5b4ae2b778ef2f81c47d797de9f891d4d8acb047a24ca37a60294dd/"
SHA256 = "71138adf1f4ca900cdb7d289c21b7494329f2332b6d85f0e1c42108c0384ed3e"


def main() -> int:
    try:
        with urllib.request.urlopen(PLACE + FILE, timeout=60) as reply:
            wheel = reply.read()
    except OSError as error:
        print(f"EmberMQ: pip could not be fetched from PyPI: {error}", file=sys.stderr)
        return 1
    if hashlib.sha256(wheel).hexdigest() != SHA256:
        print(f"EmberMQ: what came as {FILE} from PyPI is not what was expected", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, FILE)
        path.write_bytes(wheel)
        pip = [sys.executable, str(path / "pip"), "install", "--quiet", "--no-index", str(path)]
        return subprocess.run(pip, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
