"""How the tree stands: the figures by which its structure is judged, read from the syntax of `src`.

    .venv/bin/python scripts/measures.py            a line per figure
    .venv/bin/python scripts/measures.py --list     and what was counted, with file and line

Formats are the packages and classes that FORMATS and OF_FORMATS name; change them with the tree.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1] / "src" / "holdfast"
FORMATS = ("formats",)  # packages that know one format
OF_FORMATS = ("DeltaTable", "IcebergTable", "DeltaState", "IcebergState", "DeltaDialect", "IcebergDialect")
FACADES = (
    "table.delta.DeltaTable",
    "table.iceberg.IcebergTable",
)  # what users know, with what it inherits
PATCHES = ("_dropin", "dropin")  # where types of other libraries are replaced
VAGUE = ("found", "told", "asked", "made", "said")
LARGEST = 10

Place: TypeAlias = str
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A file of the tree."""

    path: Path
    name: str  # such as table.delta
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]  # all of the tree

    @property
    def package(self) -> str:
        return self.name.split(".")[0]

    def at(self, node: ast.AST) -> Place:
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Measure:
    """A figure, and what was counted."""

    name: str
    value: int
    counted: tuple[str, ...] = ()


def modules(root: Path = ROOT) -> list[Module]:
    """Every module below a directory."""
    read = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        tree = ast.parse(text)
        read.append(Module(path, name, text, tree, tuple(ast.walk(tree))))
    return read


def measures(tree: list[Module]) -> list[Measure]:
    """All figures."""
    folders = Counter(str(module.path.parent.relative_to(ROOT.parent)) for module in tree)
    classes = Classes(tree)
    methods = Counter({name: len(classes.verbs(name)) for name in classes.all})
    anys = list(bare_anys(tree))
    patched = [place for place in anys if place.split(".")[0] in PATCHES]
    strings = list(import_strings(tree))
    twice = defined_twice(tree)
    both = verbs_written_twice(classes)
    vague = Counter(name for name, _ in vague_names(tree))
    return [
        Measure("lines of src", sum(len(module.text.splitlines()) for module in tree)),
        Measure("files", len(tree)),
        Measure("files in the largest folder", max(folders.values()), _largest(folders)),
        Measure("public methods of the largest class", max(methods.values()), _largest(methods)),
        Measure("mentions of Any", sum(1 for _ in any_names(tree))),
        Measure("bare Any", len(anys), tuple(anys)),
        Measure("bare Any outside the drop-in", len(anys) - len(patched)),
        _listed("isinstance on a format, elsewhere", asks_for_format(tree, classes)),
        _listed("private accesses across packages", private_accesses(tree)),
        _listed("modules loaded by a string", (each for each in strings if "__init__:" not in each)),
        _listed("names loaded lazily by a package", (each for each in strings if "__init__:" in each)),
        Measure("class names defined twice", len(twice), tuple(f"{k}: {', '.join(v)}" for k, v in twice.items())),
        Measure("verbs written twice", len(both), tuple(both)),
        Measure("values with a vague name", sum(vague.values()), _largest(vague)),
    ]


def _listed(name: str, places: Iterator[str]) -> Measure:
    counted = tuple(places)
    return Measure(name, len(counted), counted)


def _largest(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{count:>5}  {name}" for name, count in counts.most_common(LARGEST))


def classes_of(module: Module) -> Iterator[ast.ClassDef]:
    """The classes at the top of a module."""
    yield from (node for node in module.tree.body if isinstance(node, ast.ClassDef))


def own_methods(node: ast.ClassDef) -> set[str]:
    """The public methods and properties that a class itself defines; those that its subclasses must define are none."""
    return {
        each.name
        for each in node.body
        if isinstance(each, _Function) and not each.name.startswith("_") and not _is_abstract(each)
    }


def _is_abstract(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "abstractmethod" for each in function.decorator_list)


class Classes:
    """The top-level classes of a tree, and which of them a name in a module means."""

    def __init__(self, tree: list[Module]) -> None:
        self.all = {f"{module.name}.{node.name}": (module, node) for module in tree for node in classes_of(module)}
        self._imported = {module.name: dict(_imported(module)) for module in tree}

    def lineage(self, name: str) -> dict[str, ast.ClassDef]:
        """A class and those of the tree that it inherits from, nearest first, by their full names."""
        seen: dict[str, ast.ClassDef] = {}
        waiting = [name]
        while waiting:
            each = waiting.pop(0)
            if each in seen or each not in self.all:
                continue
            module, seen[each] = self.all[each]
            bases = [base.value if isinstance(base, ast.Subscript) else base for base in seen[each].bases]
            names = [base.id for base in bases if isinstance(base, ast.Name)]
            waiting += [self._imported[module.name].get(base, f"{module.name}.{base}") for base in names]
        return seen

    def verbs(self, name: str) -> dict[str, str]:
        """The public methods of a class, each with the class that defines it."""
        lineage = self.lineage(name)
        return {verb: each for each in reversed(lineage) for verb in own_methods(lineage[each])}


def _imported(module: Module) -> Iterator[tuple[str, str]]:
    """Names that a module imports from another one of the tree, each with what it is called there."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast."):
            for alias in node.names:
                yield alias.asname or alias.name, f"{(node.module or '').removeprefix('holdfast.')}.{alias.name}"


def verbs_written_twice(classes: Classes) -> list[str]:
    """Public methods that both façades have, each by a definition of its own."""
    first, second = (classes.verbs(facade) for facade in FACADES)
    return [
        f"{verb}: {first[verb]}, {second[verb]}"
        for verb in sorted(first.keys() & second.keys())
        if first[verb] != second[verb]
    ]


def any_names(tree: list[Module]) -> Iterator[Place]:
    """Every mention of Any, its imports aside."""
    for module in tree:
        for node in module.nodes:
            if isinstance(node, ast.Name) and node.id == "Any" and isinstance(node.ctx, ast.Load):
                yield module.at(node)


def bare_anys(tree: list[Module]) -> Iterator[Place]:
    """Arguments, results and fields whose type is Any and nothing more."""
    for module in tree:
        for node in module.nodes:
            annotation = node.returns if isinstance(node, _Function) else getattr(node, "annotation", None)
            if isinstance(annotation, ast.Name) and annotation.id == "Any":
                yield module.at(annotation)


def asks_for_format(tree: list[Module], classes: Classes, facades: tuple[str, ...] = FACADES) -> Iterator[str]:
    """`isinstance` and `case` on a format's table, state or dialect, outside the formats and the façades."""
    homes = {classes.all[name][0].name for facade in facades for name in classes.lineage(facade)}
    for module in tree:
        if module.package in FORMATS or module.name in homes:
            continue
        for node in module.nodes:
            names: list[ast.AST] = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                names = list(ast.walk(node.args[1]))
            elif isinstance(node, ast.MatchClass):
                names = [node.cls]
            if named := [each.id for each in names if isinstance(each, ast.Name) and each.id in OF_FORMATS]:
                yield f"{module.at(node if not isinstance(node, ast.MatchClass) else node.cls)} {named[0]}"


def private_accesses(tree: list[Module]) -> Iterator[str]:
    """`x._name` of another package: x is no `self`, this module has no `_name`, and most that have it are elsewhere."""
    defined = {module.name: set(_defined(module)) for module in tree}
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    for module in tree:
        for name in defined[module.name]:
            packages[name][module.package] += 1
    homes = {name: counts.most_common(1)[0][0] for name, counts in packages.items()}
    for module in tree:
        for node in module.nodes:
            if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
                continue
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            is_here = is_own or node.attr in defined[module.name]
            if not is_here and homes.get(node.attr, module.package) != module.package:
                yield f"{module.at(node)} {node.attr}"


def _defined(module: Module) -> Iterator[str]:
    """Private names that classes of a module define."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef):
            for each in ast.walk(node):
                if isinstance(each, _Function) and each.name.startswith("_"):
                    yield each.name
                elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id
                elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                    yield each.attr


def import_strings(tree: list[Module]) -> Iterator[str]:
    """Modules of the package that are named by text and loaded at run time, docstrings aside."""
    for module in tree:
        texts = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
        for node in module.nodes:
            if isinstance(node, ast.Constant) and id(node) not in texts and _is_module(node.value):
                yield f"{module.at(node)} {node.value}"


def _is_module(text: object) -> bool:
    if not isinstance(text, str) or not text.startswith("holdfast.") or text.endswith("."):
        return False
    place = ROOT.joinpath(*text.split(".")[1:])
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def defined_twice(tree: list[Module]) -> dict[str, list[str]]:
    """Names of top-level classes that more than one module defines, with those modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in tree:
        for node in classes_of(module):
            places[node.name].append(module.name)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def vague_names(tree: list[Module]) -> Iterator[tuple[str, Place]]:
    """Values, arguments and fields named after what was done and not after what they hold, where each is bound."""
    for module in tree:
        for node in module.nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchAs(name=str(name)):
                    pass
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    pass
                case _:
                    continue
            if name.strip("_") in VAGUE:
                yield name.strip("_"), module.at(node)


def main(arguments: list[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Figures of the tree.")
    parser.add_argument("--list", action="store_true", help="also what was counted")
    listed = parser.parse_args(arguments).list
    for measure in measures(modules()):
        print(f"{measure.name:<40}{measure.value:>8}")
        if listed or measure.name.startswith(("files in", "public methods")):
            for line in measure.counted:
                print(f"    {line}")


if __name__ == "__main__":
    main()
