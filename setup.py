"""How EmberMQ is built: plain Python, of which the hot modules are also compiled by Cython.

A module takes part by having a `.pxd` beside its `.py` (the same source then runs interpreted and compiled);
a `.pyx` is always compiled (a `.py` of the same name is its interpreted twin). Nothing is listed by hand.
Everything else about the package is in pyproject.toml.

    EMBERMQ_COMPILE=auto      compile; without a compiler, or when that fails, install interpreted (default)
    EMBERMQ_COMPILE=require   compile or fail
    EMBERMQ_COMPILE=off       install interpreted
    EMBERMQ_CFLAGS="..."      further flags for the C compiler

It is all or nothing: compiled modules use each other's C types, so a half compiled package could not be
imported. Building again compiles only what changed (`build/` holds the C files and objects).
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("src")
PACKAGE = SOURCE / "embermq"
# What Cython would otherwise repeat in every module (its function type, the parsing of keywords, ...) is
# compiled once, in a module of its own: a third less work for the C compiler.
SHARED = "embermq.cython_utility"
COMPILE_FLAGS = [
    # -O3 makes nothing faster here and takes a sixth longer to compile; -O1 costs a fifth of the throughput.
    "-O2",
    "-g0",
    # Cython's name for what runs once, at import, and is a tenth of the code: not worth optimising.
    "-DCYTHON_SMALL_CODE=__attribute__((cold, optimize(0)))",
    "-w",  # nobody wrote this C, so nobody could heed a warning about it
]
DIRECTIVES = {
    "language_level": "3",
    # The .pxd types a module. Annotations are for mypy: what they promise is not enforced at run time.
    "annotation_typing": False,
    # Nobody pickles a queue. A class that is to be pickled says how (__reduce__), for both modes.
    "auto_pickle": False,
}


def compile_mode() -> str:
    mode = os.environ.get("EMBERMQ_COMPILE", "auto") or "auto"
    if mode not in ("auto", "require", "off"):
        raise SystemExit(f"EMBERMQ_COMPILE is {mode!r}; it must be auto, require or off")
    return mode


def compilable_sources() -> list[Path]:
    """Every .pyx, and every .py with a .pxd beside it. A .py that is the twin of a .pyx stays interpreted."""
    kernels = list(PACKAGE.rglob("*.pyx"))
    pure = (pxd.with_suffix(".py") for pxd in PACKAGE.rglob("*.pxd") if not pxd.with_suffix(".pyx").exists())
    return sorted([*kernels, *(source for source in pure if source.exists())])


def extension(source: Path) -> Extension:
    name = ".".join(source.relative_to(SOURCE).with_suffix("").parts)
    flags = COMPILE_FLAGS + shlex.split(os.environ.get("EMBERMQ_CFLAGS", ""))
    return Extension(name, [str(source)], extra_compile_args=flags)


def extensions() -> list[Extension]:
    shared = SOURCE / (SHARED.replace(".", "/") + ".c")
    return [extension(source) for source in (shared, *compilable_sources())]


def processors() -> int:
    """How many this process may use, which in a container can be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warn(reason: str) -> None:
    print(
        f"warning: EmberMQ is installed INTERPRETED (works the same, several times slower): {reason}",
        file=sys.stderr,
    )


class NoCompiler(Exception):
    """There is none, or it cannot compile for this Python."""


class Progress:
    """How far the build is: one line that is written over on a terminal, a few lines elsewhere."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        self.lock = threading.Lock()  # modules are compiled side by side
        self.on_terminal = sys.stderr.isatty()

    def show(self, what: str) -> None:
        text = f"EmberMQ: {what} ({self.done} of {self.count} modules; all in about a minute)"
        begin, end = ("\r\x1b[K", "") if self.on_terminal else ("", "\n")
        print(begin + text, end=end, file=sys.stderr, flush=True)

    def count_one(self) -> None:
        with self.lock:
            self.done += 1
            if self.on_terminal or self.done % 20 == 0:
                self.show("compiling")

    def end(self) -> None:
        if self.on_terminal:
            print(file=sys.stderr)


class CompileHotModules(build_ext):
    """Translate with Cython, compile with what the platform offers, fall back as EMBERMQ_COMPILE says."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = processors()

    def run(self) -> None:
        mode = compile_mode()
        inplace = self.inplace  # the base class changes it under way
        if mode == "off":
            self.extensions = []
        else:
            try:
                self.check_compiler()
                super().run()
            except Exception as error:
                if mode == "require":
                    raise
                self.remove_built()
                self.extensions = []
                self.tag_wheel_pure()
                warn(str(error) if isinstance(error, NoCompiler) else f"{type(error).__name__}: {error}")
        if inplace:
            self.sweep_source_tree()

    def check_compiler(self) -> None:
        """Say in one line what is missing, instead of in a page of compiler output."""
        import Cython  # noqa: F401
        from setuptools._distutils.ccompiler import new_compiler
        from setuptools._distutils.sysconfig import customize_compiler

        compiler = new_compiler()
        customize_compiler(compiler)
        with tempfile.TemporaryDirectory() as directory:
            probe = Path(directory, "probe.c")
            probe.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n")
            try:
                compiler.compile(
                    [str(probe)], output_dir=directory, include_dirs=[sysconfig.get_path("include")]
                )
            except Exception as error:
                raise NoCompiler("no working C compiler with Python's header files was found") from error

    def build_extensions(self) -> None:
        from Cython.Build import cythonize

        self.progress = Progress(len(self.extensions))
        self.progress.show("translating to C")
        # The C files go to build/, so that src/ holds only what people wrote.
        translated = cythonize(
            [Extension(ext.name, list(ext.sources)) for ext in self.extensions],
            build_dir="build/cython",
            quiet=True,
            nthreads=processors(),
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
        )
        by_name = {ext.name: ext for ext in translated}
        for ext in self.extensions:
            ext.sources = by_name[ext.name].sources
        # The largest first, so that no processor is left with a long one when the others have finished.
        self.extensions.sort(key=lambda ext: -Path(ext.sources[0]).stat().st_size)
        self.progress.show("compiling")
        super().build_extensions()
        self.progress.end()

    def build_extension(self, ext: Extension) -> None:
        super().build_extension(ext)
        self.progress.count_one()

    def remove_built(self) -> None:
        for ext in self.extensions:
            Path(self.build_lib, self.get_ext_filename(ext.name)).unlink(missing_ok=True)

    def tag_wheel_pure(self) -> None:
        """A wheel without compiled modules runs on every machine: py3-none-any."""
        wheel = self.distribution.get_command_obj("bdist_wheel", create=False)
        if wheel is not None:
            wheel.root_is_pure = True

    def sweep_source_tree(self) -> None:
        """Remove extensions nobody builds any more: Python would prefer them to the .py beside them."""
        wanted = {(SOURCE / self.get_ext_filename(ext.name)).resolve() for ext in self.extensions}
        for found in PACKAGE.rglob("*" + sysconfig.get_config_var("EXT_SUFFIX")):
            if found.resolve() not in wanted:
                found.unlink()


if __name__ == "__main__":
    setup(
        ext_modules=extensions() if compile_mode() != "off" else [],
        cmdclass={"build_ext": CompileHotModules},
    )
