"""Which modules of this installation are compiled?

A module can be compiled when a `.pxd` lies beside its `.py`, or when it is a `.pyx`; setup.py decides by the
same rule. Whether it *is* compiled is asked of Python's own finder, so the answer is what an import would
load. "mixed" means a broken installation: setup.py compiles all of them or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader, PathFinder
from pathlib import Path
from typing import Literal

Mode = Literal["compiled", "interpreted", "mixed"]


@dataclass(frozen=True)
class BuildInfo:
    """The modules that could be compiled, sorted into those that are and those that are not."""

    compiled: tuple[str, ...]
    interpreted: tuple[str, ...]

    @property
    def mode(self) -> Mode:
        if not self.compiled:
            return "interpreted"
        return "mixed" if self.interpreted else "compiled"


def version_text(version: str) -> str:
    """For people: "EmberMQ 0.1.0 (compiled)"."""
    return f"EmberMQ {version} ({build_info().mode})"


def build_info() -> BuildInfo:
    """Look at the package's own directory; imports nothing."""
    package = Path(__file__).parent
    compiled: list[str] = []
    interpreted: list[str] = []
    for source in _compilable_sources(package):
        name = ".".join([package.name, *source.relative_to(package).with_suffix("").parts])
        spec = PathFinder.find_spec(name, [str(source.parent)])
        is_compiled = spec is not None and isinstance(spec.loader, ExtensionFileLoader)
        (compiled if is_compiled else interpreted).append(name)
    return BuildInfo(tuple(compiled), tuple(interpreted))


def _compilable_sources(package: Path) -> list[Path]:
    kernels = list(package.rglob("*.pyx"))
    pure = (pxd.with_suffix(".py") for pxd in package.rglob("*.pxd") if not pxd.with_suffix(".pyx").exists())
    return sorted([*kernels, *(source for source in pure if source.exists())])


if __name__ == "__main__":
    info = build_info()
    print(info.mode)
    for module in info.compiled:
        print(f"  compiled     {module}")
    for module in info.interpreted:
        print(f"  interpreted  {module}")
