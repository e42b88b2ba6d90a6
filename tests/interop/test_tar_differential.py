"""Where our tar reader accepts an archive, GNU tar and Python's tarfile find the same members.

Parsers that disagree about an archive let bytes past a check. Ten thousand damaged archives go
through all three; what ours refuses, it refuses with a typed error, and nothing else is asked.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tar_mutations import mutated_archives

TOOL = os.environ.get("STOKER_FORMAT_TOOL", "")
COUNT, SEED = 12_000, 20260101

pytestmark = pytest.mark.skipif(not TOOL, reason="STOKER_FORMAT_TOOL names no format_tool")

Member = tuple[bytes, int, int]  # name, offset and size of its data


def ours(archives: list[bytes], *flags: str) -> list[dict[str, Any]]:
    framed = b"".join(struct.pack("<I", len(archive)) + archive for archive in archives)
    done = subprocess.run(
        [TOOL, "members", *flags], input=framed, capture_output=True, check=True, timeout=120
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def members_of(answer: dict[str, Any]) -> list[Member]:
    return [(bytes.fromhex(name), offset, size) for name, offset, size in answer["members"]]


def by_python(archive: bytes) -> list[Member]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:", encoding="utf-8") as tar:
        return [
            (member.name.encode("utf-8", "surrogateescape"), member.offset_data, member.size)
            for member in tar
            if member.isreg()
        ]


def unescape(name: bytes) -> bytes:
    simple = {b"n": b"\n", b"t": b"\t", b"\\": b"\\", b"a": b"\a", b"b": b"\b", b"f": b"\f"}
    simple |= {b"r": b"\r", b"v": b"\v", b" ": b" "}
    return re.sub(
        rb"\\([0-7]{3}|.)",
        lambda m: simple.get(m[1]) or (bytes((int(m[1], 8),)) if len(m[1]) == 3 else m[1]),
        name,
        flags=re.DOTALL,
    )


GNU_LIST = ("tar", "--list", "-v", "-R", "--numeric-owner", "--utc", "--quoting-style=escape")
# Permissions, owner, size, and a time that need not be a date.
GNU_LINE = re.compile(rb"block (\d+): [-C].{9} \S+ +(\d+) (?:-?\d+-\d\d-\d\d \d\d:\d\d|-?\d+) (.*)")


def by_gnu(archive: bytes) -> list[Member]:
    done = subprocess.run(
        [*GNU_LIST, "--file=-"],
        input=archive,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
        timeout=60,
    )
    found = [GNU_LINE.fullmatch(line) for line in done.stdout.splitlines()]
    return [
        (unescape(line[3]), gnu_data_offset(archive, int(line[1])), int(line[2]))
        for line in found
        if line
    ]


def gnu_data_offset(archive: bytes, block: int) -> int:
    """Where the data begins, from the block that GNU tar names: of the header, or of its L."""
    offset = block * 512
    if archive[offset + 156 : offset + 157] == b"L":
        field = archive[offset + 124 : offset + 136]
        is_binary = bool(field[0] & 0x80)  # base-256
        size = int.from_bytes(field[1:], "big") if is_binary else int(field.strip(b"\0 "), 8)
        offset += 512 + -(-size // 512) * 512
    return offset + 512


@pytest.fixture(scope="module")
def archives() -> list[bytes]:
    return mutated_archives(COUNT, SEED)


@pytest.fixture(scope="module")
def answers(archives: list[bytes]) -> list[dict[str, Any]]:
    return ours(archives, "--missing-end")


def test_every_refusal_is_a_typed_error_that_names_the_offset(
    answers: list[dict[str, Any]],
) -> None:
    refused = [answer for answer in answers if "error" in answer]
    assert len(answers) == COUNT
    assert len(refused) > COUNT // 10
    for answer in refused:
        assert answer["error"] in ("corrupt", "unsupported")
        assert re.match(r"offset \d+: .", answer["message"]), answer


def test_where_we_accept_python_finds_the_same_members(
    archives: list[bytes], answers: list[dict[str, Any]]
) -> None:
    accepted = 0
    for number, (archive, answer) in enumerate(zip(archives, answers, strict=True)):
        if "error" in answer or not archive:
            continue
        accepted += 1
        mine = members_of(answer)
        try:
            theirs = by_python(archive)
        except tarfile.TarError as error:
            if not mine and archive[156:157] == b"g":
                continue  # an empty archive with a label, which GNU tar takes and Python does not
            pytest.fail(f"archive {number}: we found {mine}, Python says {error!r}")
        assert mine == theirs, f"archive {number}"
    assert accepted > COUNT // 10


@pytest.mark.skipif(not shutil.which("tar"), reason="no tar")
def test_where_we_accept_gnu_tar_finds_the_same_members(
    archives: list[bytes], answers: list[dict[str, Any]]
) -> None:
    accepted = [i for i, answer in enumerate(answers) if "error" not in answer and archives[i]]
    assert len(accepted) > COUNT // 10
    for number in accepted:
        assert members_of(answers[number]) == by_gnu(archives[number]), f"archive {number}"


def test_an_archive_without_its_end_is_refused_unless_asked_for(
    archives: list[bytes], answers: list[dict[str, Any]]
) -> None:
    strict = ours(archives)
    only_then = 0
    for lenient, answer in zip(answers, strict, strict=True):
        if "error" in answer:
            only_then += "error" not in lenient
            assert "error" in lenient or "no end-of-archive" in answer["message"]
        else:
            assert answer == lenient
    assert only_then > 0
