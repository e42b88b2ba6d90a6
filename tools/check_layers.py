"""Checks the tree against layers.toml: which layer may include which.

Fails, with file and line, if

* a file under src/ or python/src/ includes a layer that its own is not granted,
* a file in a room (a folder inside a layer) includes a room that its own is not granted; the same
  for imports between the folders of a Python package that has grants under [packages],
* the grants form a cycle, or name a layer or a room that does not exist,
* a folder under src/ is missing from layers.toml,
* a folder under src/, python/ or tests/ is crowded: it has sources of more than IDEAS_MAX names,
  where a header and its source count once, and is not excepted under [crowded] in layers.toml,
* the DEPS of a stoker_layer() are not the grants of that layer,
* a public header includes anything but the C++ library and other public headers,
* a public header belongs to no layer, and so would not be installed.
"""

from __future__ import annotations

import argparse
import graphlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib
    except ModuleNotFoundError:
        sys.exit("check_layers: Python 3.10 has no TOML reader; pip install tomli, or use 3.11")

Grants = Mapping[str, list[str]]

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
IMPORT = re.compile(r"\s*(?:from|import)\s+([\w.]+)")
LAYER_CALL = re.compile(r"stoker_layer\(\s*(\w+)(.*?)\)", re.DOTALL)
IDEAS_MAX = 25  # a list of names that one can still read at a glance
KEYWORDS = {"PUBLIC_HEADERS", "SOURCES", "DEPS", "LIBRARIES"}


def includes(path: Path) -> Iterator[tuple[int, bool, str]]:
    """Yields line number, whether it has angle brackets, and the name, of each include."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] == "<", match[2]


def sources(folder: Path) -> Iterator[Path]:
    """Yields every C++ file below ``folder``, in a stable order."""
    return (path for path in sorted(folder.rglob("*")) if path.suffix in {".h", ".cc"})


def check_grants(grants: Grants, kind: str) -> Iterator[str]:
    """Grants must name known layers, or rooms of one layer, and must not form a cycle."""
    for layer, granted in grants.items():
        for name in granted:
            if name not in grants:
                yield f"layers.toml: {layer} is granted {name}, which is no {kind}"
    try:
        graphlib.TopologicalSorter(grants).prepare()
    except graphlib.CycleError as error:
        yield f"layers.toml: the grants form a cycle: {' -> '.join(error.args[1])}"


def check_includes(root: Path, grants: Grants) -> Iterator[str]:
    """Each file includes its own layer, granted layers, and public headers."""
    folders = [path for path in sorted((root / "src").iterdir()) if path.is_dir()]
    layers = [(path.name, path) for path in folders]
    if (root / "python" / "src").is_dir():
        layers.append(("python", root / "python" / "src"))
    for layer, folder in layers:
        files = list(sources(folder))
        if layer not in grants:
            if files:
                yield f"layers.toml: src/{layer} is not listed"
            continue
        for path in files:
            for number, _, name in includes(path):
                target = name.split("/")[0]
                if target in grants and target != layer and target not in grants[layer]:
                    place = f"{path.relative_to(root)}:{number}"
                    yield f"{place}: {layer} may not include {target}"


def room_of(file: str) -> str:
    """Returns the room of a file, given relative to src/: "order" of "dataset/order/cursor.h"."""
    return "/".join(file.split("/")[1:-1]) or "."


def check_rooms(root: Path, layer: str, grants: Grants) -> Iterator[str]:
    """Within a layer, each file includes only its own and granted rooms."""
    seen: set[str] = set()
    for path in sources(root / "src" / layer):
        room = room_of(path.relative_to(root / "src").as_posix())
        seen.add(room)
        if room not in grants:
            continue
        for number, angled, name in includes(path):
            if angled or name.split("/")[0] != layer or room_of(name) in {room, *grants[room]}:
                continue
            place = f"{path.relative_to(root)}:{number}"
            yield f"{place}: {layer}/{room} may not include {layer}/{room_of(name)}"
    for room in sorted(seen - grants.keys()):
        yield f"layers.toml: src/{layer}/{room} is not listed under [rooms.{layer}]"
    for room in grants:
        if room not in seen:
            yield f"layers.toml: [rooms.{layer}] lists {room}, which has no files"


def check_package(root: Path, package: str, grants: Grants) -> Iterator[str]:
    """Within a Python package, each module imports only from its own and granted folders."""
    dotted = package.removeprefix("python/").replace("/", ".")
    paths = sorted((root / package).rglob("*.py"))
    found = {path.parent.relative_to(root / package).as_posix() for path in paths}
    for path in paths:
        room = path.parent.relative_to(root / package).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = IMPORT.match(line)
            if not match or not f"{match[1]}.".startswith(f"{dotted}."):
                continue
            name = match[1].removeprefix(dotted).removeprefix(".").replace(".", "/")
            other = name if name in found else Path(name).parent.as_posix()
            if room in grants and other not in {room, *grants[room]}:
                place = f"{path.relative_to(root)}:{number}"
                yield f"{place}: {room} may not import from {other} (folders of {package})"
    for room in sorted(found - grants.keys()):
        yield f"layers.toml: {package}/{room} is not listed under [packages]"
    for room in sorted(grants.keys() - found):
        yield f"layers.toml: [packages] lists {package}/{room}, which has no files"


def ideas(folder: Path) -> int:
    """Counts the names of the sources in a folder: a header and its source are one idea."""
    found = (path for path in folder.iterdir() if path.suffix in {".h", ".cc", ".py"})
    return len({path.stem for path in found} - {"__init__"})


def check_crowds(root: Path, limits: Mapping[str, int]) -> Iterator[str]:
    """No folder has too many ideas; ``limits`` has those that may have more, and none else."""
    tops = [root / name for name in ("src", "python", "tests") if (root / name).is_dir()]
    folders = [*tops, *(path for top in tops for path in top.rglob("*") if path.is_dir())]
    counts = {folder.relative_to(root).as_posix(): ideas(folder) for folder in sorted(folders)}
    for folder, count in counts.items():
        if count > limits.get(folder, IDEAS_MAX):
            most = limits.get(folder, IDEAS_MAX)
            yield f"{folder}: {count} ideas, more than {most}; make a folder of some"
    for folder in limits:
        if counts.get(folder, 0) <= IDEAS_MAX:
            yield f"layers.toml: [crowded] lists {folder}, which is not"


def check_public_headers(root: Path, owned: set[str]) -> Iterator[str]:
    """Public headers include only the C++ library and each other, and each belongs to a layer."""
    for path in sources(root / "include"):
        place = path.relative_to(root)
        if place.as_posix() not in owned:
            yield f"{place}: no stoker_layer() lists it under PUBLIC_HEADERS"
        for number, angled, name in includes(path):
            # Headers of the C++ library have neither a folder nor an extension.
            if angled and ("/" in name or "." in name):
                yield f"{place}:{number}: a public header may not include <{name}>"
            if not angled and not name.startswith("stoker/"):
                yield f'{place}:{number}: a public header may not include "{name}"'


def layer_calls(root: Path) -> Iterator[tuple[Path, str, dict[str, list[str]]]]:
    """Yields file, layer and keyword arguments of every stoker_layer() call."""
    for path in sorted((root / "src").rglob("CMakeLists.txt")):
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
        # ${...} contains no parenthesis, so the first ")" ends the call.
        for match in LAYER_CALL.finditer(text):
            arguments: dict[str, list[str]] = {keyword: [] for keyword in KEYWORDS}
            current: list[str] = []
            for word in match[2].split():
                if word in KEYWORDS:
                    current = arguments[word]
                else:
                    current.append(word)
            yield path, match[1], arguments


def check_tree(root: Path) -> list[str]:
    """Returns one line per violation in the tree at ``root``."""
    grants = tomllib.loads((root / "layers.toml").read_text(encoding="utf-8"))
    rooms: Mapping[str, Grants] = grants.pop("rooms", {})
    packages: Mapping[str, Grants] = grants.pop("packages", {})
    limits: Mapping[str, int] = grants.pop("crowded", {})
    errors = [*check_grants(grants, "layer"), *check_includes(root, grants)]
    errors.extend(check_crowds(root, limits))
    for layer in sorted({path.name for path in (root / "src").iterdir()} & grants.keys()):
        inside = rooms.get(layer, {".": []})
        errors.extend([*check_grants(inside, "room"), *check_rooms(root, layer, inside)])
    for package, inside in packages.items():
        errors.extend([*check_grants(inside, "folder"), *check_package(root, package, inside)])
    owned: set[str] = set()
    for path, layer, arguments in layer_calls(root):
        for header in arguments["PUBLIC_HEADERS"]:
            owned.add(header.removeprefix("${PROJECT_SOURCE_DIR}/"))
        if sorted(arguments["DEPS"]) != sorted(grants.get(layer, [])):
            declared, granted = " ".join(arguments["DEPS"]), " ".join(grants.get(layer, []))
            place = path.relative_to(root)
            errors.append(f"{place}: {layer} has DEPS [{declared}], layers.toml says [{granted}]")
    errors.extend(check_public_headers(root, owned))
    return errors


def main() -> int:
    """Checks one tree and prints the violations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    errors = check_tree(parser.parse_args().root.resolve())
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
