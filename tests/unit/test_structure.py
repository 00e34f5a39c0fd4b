"""The shape of the sources: no import cycles, whole objects, short functions, tests that mirror them."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "src"
UNIT_TESTS = REPOSITORY / "tests" / "unit"
FUNCTION_LINES_MAX = 70
# Cycles that exist for type checkers only (`if TYPE_CHECKING`), by room: the most modules in one. A debt:
# these numbers may shrink.
TYPED_CYCLE_MAX = {"store": 2, "broker": 39, "amqp": 15, "net": 2, "client": 5}
# Parts of broker, from the lowest to the highest: none imports a higher one at run time.
BROKER_ORDER = ("message", "queue", "exchange", "vhost", "broker", "restore")
# Modules that types of C tie to those that import them: the .pxd of one imports the other. Any may be first.
TIED = (
    "embermq.broker.queue.features",
    "embermq.broker.queue.expiry",
    "embermq.broker.queue.length_limit",
    "embermq.broker.queue.classic",
    "embermq.broker.queue.level",
    "embermq.broker.turn",
)
# Base classes with a single subclass in another module of their room, and why each is there. A debt as well.
SINGLE_SUBCLASS = {
    "LogWriter": "an interface: the turn is below the storage",
    "TopicMatcher": "a type of exchange by itself: made through a table",
    "Channel": "that of AMQP 0-9-1 by itself: made through its dialect",
}
# Tests below tests/unit that mirror no module, by folder or file, and what they cover instead.
NOT_MIRRORED = {
    "http/api": "the whole management API: every route with every role, any request",
    "store/failing_disk": "the store on disks that fill up, fail, lose their power or return other bytes",
    "store/log_writes": "how a log writes, from Log down to its segments",
    "broker/test_names.py": "names that no short string holds, at every place that takes a name",
    "broker/test_unacked_bytes.py": "the bytes of unacked messages, through queues, requeues and leases",
    "test_rooms.py": "the sources themselves",
    "test_structure.py": "the sources themselves",
    "test_style.py": "the sources themselves",
    "test_schedule.py": "tests/schedule.py",
}


@cache
def trees() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = list(path.relative_to(SOURCES).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = ast.parse(path.read_text())
    return found


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def at_import(node: ast.AST, typed: bool) -> Iterator[ast.AST]:
    """What runs when a module is imported; with `typed` also what only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not typed and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child, typed)


def imports(typed: bool) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees().items():
        for node in at_import(tree, typed):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                while name and name not in trees():
                    name = name.rpartition(".")[0]
                if "." in name and name != module:
                    graph[module].add(name)
    return graph


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, directly or not (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph.get(module, ())):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in list(graph):
        if module not in index:
            visit(module)
    return found


def test_no_module_is_imported_by_what_it_imports() -> None:
    assert cycles(imports(typed=False)) == []


def test_cycles_for_type_checkers_stay_in_their_rooms_and_do_not_grow() -> None:
    for cycle in cycles(imports(typed=True)):
        (only,) = {room(module) for module in cycle}
        assert len(cycle) <= TYPED_CYCLE_MAX.get(only, 0), cycle


def part_of_broker(module: str) -> str:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["embermq", "broker"] and len(parts) > 2 else ""


def test_parts_of_the_broker_import_lower_ones_only() -> None:
    wrong = [
        (module, other)
        for module, others in imports(typed=False).items()
        for other in others
        if part_of_broker(module) in BROKER_ORDER
        and part_of_broker(other) in BROKER_ORDER
        and BROKER_ORDER.index(part_of_broker(module)) < BROKER_ORDER.index(part_of_broker(other))
    ]
    assert wrong == []


@pytest.mark.parametrize("module", TIED)
def test_a_module_may_be_imported_first(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True, timeout=60)


def test_cycles_are_found() -> None:
    graph = {"a.b": {"a.c"}, "a.c": {"a.d"}, "a.d": {"a.b"}, "a.e": {"a.b"}}
    assert cycles(graph) == [["a.b", "a.c", "a.d"]]


def class_bases() -> Iterator[tuple[str, str, str]]:
    """Module, class and each base of it, by name."""
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    yield module, node.name, ast.unparse(base).partition("[")[0].rpartition(".")[2]


def made() -> set[str]:
    """Classes that are called somewhere: these are no bases only."""
    calls = (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}


def test_no_object_is_cut_into_base_classes() -> None:
    """A base class that is nothing by itself and has one subclass in its room is a piece of that."""
    homes = defaultdict(set)
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module)
    subclasses = defaultdict(list)
    for module, name, base in class_bases():
        subclasses[base].append((module, name))
    pieces = []
    for base, found in subclasses.items():
        for home in homes.get(base, ()):
            near = [module for module, _ in found if room(module) == room(home)]
            if len(near) == 1 and near[0] != home and base not in made():
                pieces.append(base)
    assert sorted(set(pieces) - set(SINGLE_SUBCLASS)) == []


def fields_of(module: str, name: str) -> set[str]:
    """The `__slots__` of a class."""
    (found,) = (node for node in trees()[module].body if isinstance(node, ast.ClassDef) and node.name == name)
    (slots,) = (
        node.value
        for node in found.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"
    )
    return set(ast.literal_eval(slots))


def assigned(tree: ast.Module, fields: set[str]) -> Iterator[str]:
    """Assignments to these fields of a level: `level.paged_count += 1`, `entry.level.held = None`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            owner = ast.unparse(node.value).rpartition(".")[2]
            if node.attr in fields and owner in ("level", "low", "high"):
                yield ast.unparse(node)


def test_a_level_alone_assigns_its_fields() -> None:
    home = "embermq.broker.queue.level"
    fields = fields_of(home, "Level")
    found = {
        module: names
        for module, tree in trees().items()
        if module != home and (names := list(assigned(tree, fields)))
    }
    assert found == {}
    assert list(assigned(ast.parse("entry.level.held, self.low.ring_bytes = None, 1"), fields)) == [
        "entry.level.held",
        "self.low.ring_bytes",
    ]


def test_functions_fit_a_screen() -> None:
    """A warning, not a failure: a long table of calls may be right as it is."""
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX and "methods" not in module:
                    warnings.warn(f"{module}.{node.name} has {lines} lines", stacklevel=1)


def mirrored(test: Path) -> bool:
    """Does a test below tests/unit stand where its module stands below src/embermq, bench/ or tools/?"""
    where = test.parent / test.name.removeprefix("test_")
    root = REPOSITORY if where.parts[0] in ("bench", "tools") else SOURCES / "embermq"
    module = root / where
    return (
        module.exists()
        or module.with_suffix(".pyx").exists()
        or (module.with_suffix("") / "__init__.py").exists()
    )


def test_unit_tests_mirror_the_sources() -> None:
    tests = [path.relative_to(UNIT_TESTS) for path in sorted(UNIT_TESTS.rglob("test_*.py"))]
    others = [path for path in tests if not mirrored(path)]
    unknown = [str(path) for path in others if not {str(path), str(path.parent)} & set(NOT_MIRRORED)]
    assert unknown == [], "tests/unit/<room>/test_x.py tests src/embermq/<room>/x.py"
    gone = set(NOT_MIRRORED) - {str(path) for path in others} - {str(path.parent) for path in others}
    assert gone == set(), "these need no exception any more"
