"""Compile the load generator on demand, into build/bench/, and import it from there.

A module is built again when its source, the compiler flags or the versions involved change, so that
`python -m bench` always runs what is in the checkout.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).resolve().parent
TARGET = SOURCES.parent / "build" / "bench"
FLAGS = ["-O2", "-march=native", "-shared", "-fPIC", "-fno-strict-aliasing", "-Wno-unused-function"]


def _fingerprint(source: Path) -> str:
    shared = b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.pxd")))
    material = source.read_bytes() + shared + repr((FLAGS, version("Cython"), sys.version)).encode()
    return hashlib.sha256(material).hexdigest()[:16]


def compiled(name: str) -> Path:
    """The shared object of `bench/<name>.pyx`, built if there is none for the present source."""
    source = SOURCES / f"{name}.pyx"
    folder = TARGET / _fingerprint(source)
    library = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    # Names with our pid and a rename at the end: two processes may build at the same time.
    c_file = folder / f"{name}.{os.getpid()}.c"
    half_done = folder / f"{name}.{os.getpid()}.so"
    subprocess.run([sys.executable, "-m", "cython", "-3", str(source), "-o", str(c_file)], check=True)
    include = sysconfig.get_path("include")
    compiler = os.environ.get("CC", "gcc")
    subprocess.run([compiler, *FLAGS, f"-I{include}", str(c_file), "-o", str(half_done)], check=True)
    half_done.rename(library)
    c_file.unlink()
    return library


@cache
def load_module(name: str) -> ModuleType:
    """Import `bench/<name>.pyx`, compiled."""
    spec = importlib.util.spec_from_file_location(name, compiled(name))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
