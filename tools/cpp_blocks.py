"""Makes a C++ program of the blocks of a page, or runs that program.

    cpp_blocks.py PAGE SOURCE       writes the program
    cpp_blocks.py --run PROGRAM     makes the data that the page reads, and runs it there

The blocks of each section ("## ...") are one function that returns a stoker::Status; its includes
go to the top. A block with a main() of its own is a program, which is run as well.
"""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SAMPLES, PER_SHARD = 1000, 250


def functions_of(page: str) -> tuple[set[str], list[tuple[str, str]]]:
    """Returns the includes, and name and code of each function in the page's order."""
    includes: set[str] = set()
    functions: list[tuple[str, str]] = []
    for number, section in enumerate(re.split(r"^## ", page, flags=re.MULTILINE)[1:]):
        body = ""
        for block in re.findall(r"```cpp\n(.*?)```", section, re.DOTALL):
            includes |= set(re.findall(r"^#include .*$", block, re.MULTILINE))
            code = re.sub(r"^#include .*\n", "", block, flags=re.MULTILINE)
            if "int main(" in code:
                name = f"program_{number}"
                code = code.rstrip().removesuffix("}") + "return 0;\n}"  # as the real main() does
                functions.append((f"{name}::main() != 0", f"namespace {name} {{\n{code}\n}}\n"))
            else:
                body += code
        if body:
            name = f"section_{number}"
            code = f"stoker::Status {name}() {{\n{body}return {{}};\n}}\n"
            functions.append((f'failed("{section.splitlines()[0]}", {name}())', code))
    return includes, functions


def program_of(page: str) -> str:
    """Returns the source of the program."""
    includes, functions = functions_of(page)
    own = {f"#include <{name}>" for name in ("algorithm", "cstdio", "string", "stoker/status.h")}
    calls = "".join(f"  if ({call}) return 1;\n" for call, _ in functions)
    return (
        "\n".join(sorted(includes | own))
        + "\n\n"
        + "\n".join(code for _, code in functions)
        + "\nbool failed(const char* section, const stoker::Status& status) {\n"
        "  if (!status.ok())\n"
        '    std::fprintf(stderr, "%s: %s\\n", section, std::string(status.message()).c_str());\n'
        "  return !status.ok();\n}\n"
        f"\nint main() {{\n{calls}}}\n"
    )


def npy_of(descr: str, shape: tuple[int, ...], elements: bytes) -> bytes:
    """Returns a .npy file: this runs without NumPy."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + elements


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    """Writes files of these names."""
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def write_data(folder: Path) -> None:
    """Makes the directories that the page reads."""
    for first in range(0, SAMPLES, PER_SHARD):
        members: dict[str, bytes] = {}
        for i in range(first, first + PER_SHARD):
            members[f"{i:04}.jpg"] = b"\xff\xd8" + bytes([i % 256]) * (20 + i % 50)
            members[f"{i:04}.cls"] = str(i % 10).encode()
            members[f"{i:04}.json"] = json.dumps({"w": i / 2}).encode()
            members[f"{i:04}.x.npy"] = npy_of("<f4", (8,), struct.pack("<8f", *[float(i)] * 8))
        write_tar(folder / "shards" / f"shard-{first:04}.tar", members)
    words = {f"{i:04}.cls": b"six" if i == 6 else str(i).encode() for i in range(12)}
    write_tar(folder / "damaged" / "words.tar", words)
    (folder / "tokens").mkdir()
    for number, count in enumerate((700, 90, 50)):
        tokens = struct.pack(f"<{count}H", *range(count))
        (folder / "tokens" / f"{number}.npy").write_bytes(npy_of("<u2", (count,), tokens))


def main() -> int:
    """Writes the program, or runs it."""
    if sys.argv[1] == "--run":
        with tempfile.TemporaryDirectory() as name:
            write_data(Path(name))
            return subprocess.run([Path(sys.argv[2]).resolve()], cwd=name, check=False).returncode
    page, source = map(Path, sys.argv[1:])
    source.write_text(program_of(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
