"""Made the archives of this folder, once, with webdataset 1.0.2, GNU tar 1.34 and Python 3.11.

python make_golden.py       # needs webdataset and GNU tar; the bytes differ in times and owners
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path

import webdataset

HERE = Path(__file__).parent
DEEP = "/".join(["deep"] * 30)

with webdataset.TarWriter(str(HERE / "webdataset.tar")) as writer:
    writer.write({"__key__": "a", "txt": "one", "cls": 1, "seg.bin": b"\x00\x01"})
    writer.write({"__key__": "dir/b", "json": {"x": 2}, "txt": "two"})
    writer.write({"__key__": f"{DEEP}/c", "txt": "three"})

with tempfile.TemporaryDirectory() as scratch:
    root = Path(scratch)
    for name in ("a.cls", "a.txt", "dir/b.txt", f"{DEEP}/c.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name[-5:])
    short = ["a.cls", "a.txt", "dir", "dir/b.txt"]
    for style in ("gnu", "pax", "ustar", "v7"):
        names = short if style == "v7" else [*short, f"{DEEP}/c.txt"]
        options = [f"--format={style}", "--owner=0", "--group=0", "--mtime=@0", "--no-recursion"]
        shard = HERE / f"gnu_tar_{style}.tar"
        subprocess.run(["tar", *options, "-c", "-f", shard, *names], cwd=root, check=True)
    for style in ("gnu", "pax"):
        options = [f"--format={style}", "--label=a label", "--owner=0", "--group=0", "--mtime=@0"]
        shard = HERE / f"gnu_tar_{style}_label.tar"
        subprocess.run(["tar", *options, "-c", "-f", shard, *short[:2]], cwd=root, check=True)
    with tarfile.open(HERE / "python_gnu.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("a.cls", "a.txt", f"{DEEP}/c.txt"):
            tar.add(root / name, name)
