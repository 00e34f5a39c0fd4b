"""`ship`: this package as a zip for workers that have only Python, pyarrow and PySpark."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What an executor needs of embermq: the client and the wire. Everything there runs uncompiled too.
NEEDED = ("errors.py", "client", "wire")


def bundle(directory: str | Path | None = None) -> Path:
    """A zip of this package and of the client library, as plain Python; where it is."""
    import embermq
    import pyspark_embermq

    target = Path(directory or tempfile.mkdtemp(prefix="embermq-")) / "pyspark_embermq.zip"
    library, source = Path(embermq.__file__).parent, Path(pyspark_embermq.__file__).parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(library / "__init__.py", "embermq/__init__.py")
        for name in NEEDED:
            for path in sorted([library / name] if name.endswith(".py") else (library / name).rglob("*.py")):
                archive.write(path, Path("embermq") / path.relative_to(library))
        for path in sorted(source.rglob("*.py")):
            archive.write(path, Path("pyspark_embermq") / path.relative_to(source))
    return target


def ship(spark: SparkSession) -> Path:
    """Send the package to the workers of this session, and register the source; call it once."""
    from pyspark_embermq.data_source import AMQPDataSource

    archive = bundle()
    spark.addArtifacts(str(archive), pyfile=True)
    spark.dataSource.register(AMQPDataSource)
    return archive
