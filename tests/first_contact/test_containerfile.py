"""contrib/Containerfile by its steps, in a plain directory: no registry is needed for a base image.

Paths of the image are put below a temporary directory. apt is asked whether it knows the packages; compiling,
which `make install` does as well, is left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.brokers import REPOSITORY

pytestmark = [pytest.mark.once("it installs the interpreted package"), pytest.mark.timeout(600)]
SECONDS_MAX = 300
PACKAGES = re.compile(r"apt-get install -y --no-install-recommends ([\w -]+?)(?: &&|$)")


def steps() -> list[tuple[str, str]]:
    """Instructions and what follows them, continued lines joined."""
    text = (REPOSITORY / "contrib" / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip().partition(" ") for line in text.splitlines()]
    return [(word, rest) for word, _, rest in lines if word and word[0] != "#"]


def ignored(directory: str, names: list[str]) -> set[str]:
    """What .dockerignore keeps out of the image."""
    patterns = [line.removeprefix("**/") for line in (REPOSITORY / ".dockerignore").read_text().split()]
    # A source distribution that another test builds here is there one moment and gone the next.
    return set(shutil.ignore_patterns(*patterns, "embermq-*")(directory, names))


def in_directory(command: str, root: Path) -> str:
    return re.sub(r"(?<![\w.])/(opt|src|var)\b", rf"{root}/\1", command)


def is_known(package: str) -> bool:
    return subprocess.run(["apt-cache", "show", package], capture_output=True, timeout=60).returncode == 0


def test_its_packages_are_there() -> None:
    if shutil.which("apt-cache") is None or not is_known("python3"):
        pytest.skip("apt has no list of packages here")
    installing = [rest for word, rest in steps() if word == "RUN" and "apt-get" in rest]
    names = [name for rest in installing for found in PACKAGES.findall(rest) for name in found.split()]
    assert "python3" in names and "gcc" in names
    assert [name for name in names if not is_known(name)] == []


def test_its_steps_make_a_broker_that_starts(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {"EMBERMQ_AMQP_PORT": "0", "EMBERMQ_HTTP_PORT": "0"}
    entry: list[str] = []
    built = False
    for word, rest in steps():
        if word == "COPY" and rest == ". /src":
            shutil.copytree(REPOSITORY, tmp_path / "src", ignore=ignored)
        elif word == "RUN" and "pip install" in rest:
            assert "EMBERMQ_COMPILE=require" in rest
            command = in_directory(rest, tmp_path).replace("=require", "=off")
            done = subprocess.run(
                ["bash", "-ec", command], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
            )
            if "NewConnectionError" in done.stderr:
                pytest.skip("PyPI cannot be reached")
            assert done.returncode == 0, done.stderr
            built = True
        elif word == "ENV":
            environment |= dict(each.split("=", 1) for each in in_directory(rest, tmp_path).split())
        elif word in ("ENTRYPOINT", "CMD"):
            entry += json.loads(in_directory(rest, tmp_path))
        else:
            assert word in ("FROM", "RUN", "COPY", "USER", "VOLUME", "EXPOSE"), word
    assert built
    with subprocess.Popen(entry, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        broker.terminate()
    assert re.match(r"EmberMQ \S+ ready: amqp://0\.0\.0\.0:\d+ http://0\.0\.0\.0:\d+ ", line), line
    assert broker.returncode == 0
    assert (tmp_path / "var/lib/embermq/data").is_dir()
