"""Tar archives of every dialect, and ways to damage them that a random byte would rarely find."""

from __future__ import annotations

from random import Random

BLOCK = 512
NAME, MODE, SIZE, MTIME, CHECKSUM, TYPE, MAGIC, PREFIX = 0, 100, 124, 136, 148, 156, 257, 345
USTAR, GNU, V7 = b"ustar\x0000", b"ustar  \x00", b"\x00" * 8

SIZES = (
    b"00000000000\0", b"00000000001\0", b"00000001000\0", b"00000002000 ", b"       1000 ",
    b"1000\0       ", b"1000 \0\0\0\0\0\0\0", b"1000        ", b"\0" + b"0000001000\0",
    b"77777777777\0", b"777777777777", b"-0000000001\0", b"+0000000001\0", b"0o000001000\0",
    b"0000_001000\0", b"0000 001000\0", b"1000\0001000\0\0\0", b"00000000009\0", b" " * 12,
    b"\0" * 12, b"\x80" + bytes(10) + b"\x07", b"\x80" + bytes(9) + b"\x02\0",
    b"\x80" + b"\xff" * 11, b"\x80\0\0\0" + b"\xff" * 8, b"\x81" + bytes(11), b"\xff" * 12,
    b"\xff" * 10 + b"\xfe\0", b"\t0000001000\0", b"00000001000x",
)  # fmt: skip
NAMES = (
    b"", b"/abs.txt", b"../up.txt", b"a/../b.txt", b"a/..", b"..", b"./a.txt", b"a//b.txt", b"dir/",
    b"dir.txt/", b"a.txt\0hidden", b"\xff\xfe.txt", b"new\nline.txt", b"__meta__/a.txt", b"a..b",
    b"n" * 100, b" a.txt ", b"a\\b.txt",
)  # fmt: skip
KEYWORDS = (
    b"path", b"size", b" path", b"\tsize", b"mtime", b"comment", b"GNU.sparse.size",
    b"GNU.sparse.major", b"GNU.sparse.map", b"hdrcharset", b"linkpath", b"uid", b"SCHILY.realsize",
)  # fmt: skip
VALUES = (
    b"", b"0", b"7", b"512", b"600", b"0512", b"+512", b" 512", b"-1", b"512 ", b"5_1_2", b"1e2",
    b"18446744073709551615", b"99999999999999999999999", b"other.txt", b"../x", b"/x.txt", b"d/",
    b"BINARY", b"a\0b", b"\xff.txt", b"1.5", b"0,10",
)  # fmt: skip
FLAGS = b"\x000123456789LKxgXSVMDNA "


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def fix_checksum(block: bytearray) -> None:
    block[CHECKSUM : CHECKSUM + 8] = b" " * 8
    block[CHECKSUM : CHECKSUM + 8] = b"%06o\0 " % sum(block)


def header(
    name: bytes, size: int | bytes, flag: bytes = b"0", magic: bytes = USTAR, prefix: bytes = b""
) -> bytes:
    block = bytearray(BLOCK)
    block[NAME : NAME + len(name)] = name
    for at in (MODE, 108, 116):
        block[at : at + 8] = b"0000644\0"
    block[SIZE : SIZE + 12] = size if isinstance(size, bytes) else b"%011o\0" % size
    block[MTIME : MTIME + 12] = b"14000000000\0"
    block[TYPE : TYPE + 1] = flag
    block[MAGIC : MAGIC + 8] = magic
    block[PREFIX : PREFIX + len(prefix)] = prefix
    fix_checksum(block)
    return bytes(block)


def pax_record(keyword: bytes, value: bytes) -> bytes:
    rest = len(keyword) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, keyword, value)


def extension(flag: bytes, body: bytes) -> bytes:
    return header(b"././@PaxHeader", len(body), flag) + pad(body)


def some_member(random: Random, number: int) -> bytes:
    size = random.choice((0, 1, 7, 511, 512, 513, 700, 1024))
    data = pad(bytes(random.choices(b"abc0123 =\n", k=size)))
    name = b"s%d.%s" % (number // 2, random.choice((b"txt", b"jpg", b"seg.png")))
    deep = b"d/" * 70 + name
    match random.randrange(12):
        case 0:
            return header(name, size, b"\0", V7) + data
        case 1:
            return header(name, size, magic=GNU) + data
        case 2:
            return extension(b"L", deep + b"\0") + header(deep[:100], size, magic=GNU) + data
        case 3:
            return header(name, size, prefix=b"p/" * 20 + b"q") + data
        case 4:
            return extension(b"x", pax_record(b"mtime", b"17.5")) + header(name, size) + data
        case 5:
            return extension(b"x", pax_record(b"path", deep)) + header(name, size) + data
        case 6:
            records = pax_record(b"size", b"%d" % size) + pax_record(b"uname", b"me")
            return extension(b"x", records) + header(name, 0) + data
        case 7:
            base256 = b"\x80" + bytes(3) + size.to_bytes(8, "big")
            return header(name, base256, magic=GNU) + data
        case 8:
            return header(b"dir/", 0, random.choice((b"5", b"\0")), V7) + header(name, size) + data
        case 9:
            return extension(b"g", pax_record(b"comment", b"x")) + header(name, size) + data
        case 10:
            return header(name, size, b"7") + data
        case _:
            return header(name, size) + data


def some_archive(random: Random) -> bytearray:
    members = b"".join(some_member(random, i) for i in range(random.randint(1, 5)))
    return bytearray(members + bytes(BLOCK * random.choice((0, 1, 2, 2, 2, 4))))


def headers_of(archive: bytearray) -> list[int]:
    """Offsets of blocks that look like headers, those inside data too."""
    return [
        at
        for at in range(0, len(archive) - BLOCK + 1, BLOCK)
        if archive[at + CHECKSUM + 6 : at + CHECKSUM + 8] == b"\0 "
    ]


def put(archive: bytearray, at: int, field: int, width: int, value: bytes, random: Random) -> None:
    archive[at + field : at + field + width] = value[:width].ljust(width, b"\0")
    refresh(archive, at, random)


def refresh(archive: bytearray, at: int, random: Random) -> None:
    if random.random() < 0.97:
        block = archive[at : at + BLOCK]
        fix_checksum(block)
        archive[at : at + BLOCK] = block


def edit_pax(archive: bytearray, at: int, random: Random) -> None:
    """Rewrites the body of an x or g header, or damages one byte of it."""
    size = int(bytes(archive[at + SIZE : at + SIZE + 11]), 8)
    body = bytearray(archive[at + BLOCK : at + BLOCK + size])
    declared: int | None = None
    match random.randrange(7):
        case 0 if body:
            body[random.randrange(len(body))] = random.choice(b"0123456789 =\n\0xp")
        case 1:
            body += pax_record(random.choice(KEYWORDS), random.choice(VALUES))
        case 2:
            body = bytearray(pax_record(random.choice(KEYWORDS), random.choice(VALUES)))
        case 3:
            body = bytearray(b"0") + body
        case 4:
            body = body[: random.randrange(len(body) + 1)]
        case 5:  # a record in the padding
            declared = len(body)
            body += pax_record(b"path", b"smuggled.txt")
        case _:
            body = body * 2
    if declared is None:
        declared = len(body) if random.random() < 0.8 else size
    body = bytearray(pad(bytes(body)))
    archive[at + BLOCK : at + BLOCK + -(-size // BLOCK) * BLOCK] = body
    put(archive, at, SIZE, 12, b"%011o\0" % declared, random)


def mutate(archive: bytearray, random: Random) -> None:
    found = headers_of(archive)
    if not found:
        return
    at = random.choice(found)
    blocks = len(archive) // BLOCK
    match random.randrange(14):
        case 0:
            archive[at + random.randrange(BLOCK)] ^= 1 << random.randrange(8)
            refresh(archive, at, random)
        case 1:
            put(archive, at, SIZE, 12, random.choice(SIZES), random)
        case 2:
            put(archive, at, TYPE, 1, bytes((random.choice(FLAGS),)), random)
        case 3:
            put(archive, at, NAME, 100, random.choice(NAMES), random)
        case 4:
            del archive[random.randrange(len(archive)) :]
        case 5:
            del archive[random.randrange(blocks + 1) * BLOCK :]
        case 6:
            one, other = random.choice(found), random.randrange(blocks) * BLOCK
            block = archive[one : one + BLOCK]
            archive[one : one + BLOCK] = archive[other : other + BLOCK]
            archive[other : other + BLOCK] = block
        case 7:
            archive[at:at] = random.choice((bytes(BLOCK), archive[at : at + BLOCK]))
        case 8:
            del archive[at : at + BLOCK]
        case 9:
            magic = random.choice((USTAR, GNU, V7, b"ustar\0\0\0", b"ustar\x0001", b"USTAR\x0000"))
            put(archive, at, MAGIC, 8, magic, random)
        case 10:
            put(archive, at, PREFIX, 155, random.choice((b"p", b"/", b"..", b"p/q", b"")), random)
        case 11:
            field = random.choice(((MODE, 8), (108, 8), (116, 8), (MTIME, 12), (329, 8), (337, 8)))
            put(archive, at, *field, random.choice(SIZES)[-field[1] :], random)
        case _:
            pax = [h for h in found if archive[h + TYPE] in b"xg"]
            size = bytes(archive[pax[0] + SIZE : pax[0] + SIZE + 11]) if pax else b""
            if size and not size.strip(b"01234567") and int(size, 8) < len(archive):
                edit_pax(archive, pax[0], random)


def mutated_archives(count: int, seed: int) -> list[bytes]:
    random = Random(seed)
    archives = []
    for _ in range(count):
        archive = some_archive(random)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            mutate(archive, random)
        archives.append(bytes(archive))
    return archives
