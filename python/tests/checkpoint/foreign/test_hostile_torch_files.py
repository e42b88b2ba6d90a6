"""Files of torch that were made to do harm: an import runs nothing and follows no link."""

from __future__ import annotations

import os
import pathlib
import pickle
import shutil
import struct
import warnings
from pathlib import Path
from typing import Any

import pytest

from stoker._checkpoint.foreign.dcp_metadata import RefusedPickleError, parse_metadata
from stoker._commands.torch import main

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")

META = "torch.distributed.checkpoint.metadata"
FILES = "torch.distributed.checkpoint.filesystem"


def run_import(folder: Path, source: Path) -> int:
    return main(["import", "--step=5", "--", str(folder), str(source)])


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A distributed checkpoint as torch writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {"w": torch.arange(6.0).reshape(2, 3), "n": [1, 2]}
        dcp.save(state, checkpoint_id=tmp_path / "good", no_dist=True)
    return tmp_path / "good"


def changed(good: Path, change: Any) -> Path:
    """A copy, with metadata that ``change`` was done to."""
    place = good.with_name("changed")
    shutil.copytree(good, place)
    metadata = pickle.loads((good / ".metadata").read_bytes())
    change(metadata)
    (place / ".metadata").write_bytes(pickle.dumps(metadata))
    return place


def word(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def named(module: str, name: str) -> bytes:
    """STACK_GLOBAL."""
    return word(module) + word(name) + b"\x93"


def program(*parts: bytes) -> bytes:
    return b"\x80\x04" + b"".join(parts) + b"."


PATH = named("pathlib", "PosixPath")
INDEX = named(META, "MetadataIndex")
# (None, {"name": "x"}): the state that BUILD sets as attributes.
SLOTS = b"N}" + word("name") + word("x") + b"s\x86"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(program(PATH, SLOTS, b"b"), id="BUILD on pathlib's class"),
        pytest.param(program(named(META, "Metadata"), SLOTS, b"b"), id="BUILD on a class of DCP"),
        pytest.param(
            program(named(FILES, "_StorageInfo"), SLOTS, b"b"), id="BUILD on _StorageInfo"
        ),
        pytest.param(program(named("torch", "Size"), SLOTS, b"b"), id="BUILD on torch.Size"),
        pytest.param(program(named("torch", "float32"), SLOTS, b"b"), id="BUILD on a dtype"),
        pytest.param(
            program(named("torch.serialization", "_get_layout"), SLOTS, b"b"), id="BUILD a function"
        ),
        pytest.param(program(INDEX, b")\x81", SLOTS, b"b"), id="BUILD with slots"),
        pytest.param(
            program(INDEX, b")\x81}", word("__class__"), b"Nsb"), id="BUILD of what is no field"
        ),
        pytest.param(program(b"}", SLOTS, b"b"), id="BUILD on a dict"),
        pytest.param(program(PATH, b")\x81"), id="NEWOBJ of a path"),
        pytest.param(program(INDEX, b"K\x01\x85\x81"), id="NEWOBJ with arguments"),
        pytest.param(program(INDEX, b"}}\x92"), id="NEWOBJ_EX"),
        pytest.param(program(INDEX, b")R"), id="REDUCE of a class of DCP"),
        pytest.param(program(word("x"), b")R"), id="REDUCE of a string"),
        pytest.param(program(named("collections", "OrderedDict"), b"]\x85R"), id="OrderedDict"),
        pytest.param(
            program(named("builtins", "getattr"), PATH, word("home"), b"\x86R"), id="getattr"
        ),
        pytest.param(
            program(named("builtins", "getattr"), INDEX, word("__init__"), b"\x86R"),
            id="getattr of a class of DCP",
        ),
        pytest.param(program(named(META, "Metadata.__init__")), id="a dotted name"),
        pytest.param(program(named(META, "os")), id="a module within a module"),
        pytest.param(program(named("torch", "float32.__class__")), id="a dotted dtype"),
        pytest.param(program(named("torch", "load")), id="torch.load"),
        pytest.param(program(named("builtins", "eval")), id="eval"),
        pytest.param(b"(ios\nsystem\n.", id="INST"),
        pytest.param(b"(" + b"cpathlib\nPosixPath\no.", id="OBJ"),
        pytest.param(b"\x80\x02\x82\x01.", id="EXT1"),
        pytest.param(b"\x80\x02\x83\x01\x00.", id="EXT2"),
        pytest.param(b"\x80\x02\x84\x01\x00\x00\x00.", id="EXT4"),
        pytest.param(b"Pid\n.", id="PERSID"),
        pytest.param(b"\x80\x04" + word("id") + b"Q.", id="BINPERSID"),
        pytest.param(b"\x80\x05\x97.", id="NEXT_BUFFER"),
        pytest.param(program(b"\x8f(K\x01\x90"), id="a set"),
        pytest.param(program(b"})", b"Ns"), id="a tuple as a key"),
        pytest.param(program(INDEX, b"K\x01K\x02s"), id="SETITEM on a class"),
        pytest.param(program(PATH, b"K\x01a"), id="APPEND to a class"),
    ],
)
def test_metadata_can_call_and_change_nothing(data: bytes) -> None:
    before = [dict(vars(kind)) for kind in (pathlib.PosixPath, dcp.metadata.Metadata)]
    with pytest.raises(RefusedPickleError):
        parse_metadata(data)
    assert before == [dict(vars(kind)) for kind in (pathlib.PosixPath, dcp.metadata.Metadata)]


def test_a_registered_extension_is_not_called() -> None:
    import copyreg

    copyreg.add_extension("os", "getcwd", 0x7A)
    try:
        assert pickle.loads(b"\x80\x02\x82\x7a)R.") == str(Path.cwd())  # and now it is cached
        with pytest.raises(RefusedPickleError):
            parse_metadata(b"\x80\x02\x82\x7a)R.")
    finally:
        copyreg.remove_extension("os", "getcwd", 0x7A)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        program(b"N"),
        program(b"}"),
        program(named(META, "Metadata"), b")\x81"),
        program(named("torch", "Size"), word("ab"), b"\x85R"),
        b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",  # a frame of an exbibyte
        b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b".",  # such a string
        program(b"0"),
        program(b"h\x05"),
    ],
)
def test_what_is_no_metadata_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_metadata(data)


def test_any_changed_byte_is_metadata_or_a_value_error(good: Path) -> None:
    data = (good / ".metadata").read_bytes()
    refused = 0
    for at in range(len(data)):
        for byte in (0, ord("."), data[at] ^ 1, 0xFF):
            try:
                parse_metadata(data[:at] + bytes([byte]) + data[at + 1 :])
            except ValueError:
                refused += 1
    assert refused > len(data)


def test_a_key_whose_hash_would_take_for_ever_is_refused() -> None:
    doubled = b")" + b"2\x86" * 80  # a tuple of two that are the same, and so on
    with pytest.raises(RefusedPickleError):
        parse_metadata(program(b"}", doubled, b"Ns"))
    key = INDEX + b")\x81}" + word("fqn") + doubled + b"sb"
    with pytest.raises(RefusedPickleError):
        parse_metadata(program(b"}", key, b"Ns"))


def test_the_file_name_check_cannot_be_talked_out_of(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # As it was done: the pickle first gives pathlib's class a "name" that agrees with anything.
    metadata = pickle.loads((good / ".metadata").read_bytes())
    for info in metadata.storage_data.values():
        info.relative_path = "../good/" + info.relative_path
    evil = b"\x80\x04" + PATH + SLOTS + b"b0" + pickle.dumps(metadata, 4)[2:]
    (good / ".metadata").write_bytes(evil)
    assert run_import(good.parent / "run", good) == 1
    assert "refused, nothing in it was run" in capsys.readouterr().err
    assert "name" not in vars(pathlib.PosixPath)
    (good / ".metadata").write_bytes(pickle.dumps(metadata))
    assert run_import(good.parent / "run", good) == 1
    assert "outside of its directory" in capsys.readouterr().err


def test_a_path_in_the_metadata_is_read_as_its_text(good: Path) -> None:
    def change(metadata: Any) -> None:
        metadata.storage_meta.checkpoint_id = Path("/some/where")

    place = changed(good, change)
    assert parse_metadata((place / ".metadata").read_bytes()).storage_meta.checkpoint_id == (
        "/some/where"
    )
    assert run_import(good.parent / "run", place) == 0


def test_linked_data_and_metadata_are_not_followed(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data,) = good.glob("*.distcp")
    elsewhere = good.parent / "elsewhere"
    for path in (data, good / ".metadata"):
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        assert run_import(good.parent / "run", good) == 1
        err = capsys.readouterr().err
        assert str(path) in err
        assert "a symbolic link, which is not followed" in err
        path.unlink()
        elsewhere.rename(path)
    link = good.parent / "link"
    link.symlink_to(good)  # the directory itself is what the user names
    assert run_import(good.parent / "run", link) == 0


def test_fifos_and_folders_are_refused_at_once(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data,) = good.glob("*.distcp")
    for path in (data, good / ".metadata"):
        saved = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        assert run_import(good.parent / "run", good) == 1
        assert "not a regular file" in capsys.readouterr().err
        path.unlink()
        path.mkdir()
        assert run_import(good.parent / "run", good) == 1
        assert "Is a directory" in capsys.readouterr().err
        path.rmdir()
        path.write_bytes(saved)
    os.mkfifo(good.parent / "x.pt")
    assert run_import(good.parent / "run", good.parent / "x.pt") == 1
    assert "not a regular file" in capsys.readouterr().err
    assert not (good.parent / "run").exists()


def test_files_are_as_long_as_the_metadata_says(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data,) = good.glob("*.distcp")
    data.write_bytes(data.read_bytes()[:-1])
    assert run_import(good.parent / "run", good) == 1
    assert f"{data}, offset {data.stat().st_size}: it ends there" in capsys.readouterr().err
    data.unlink()
    assert run_import(good.parent / "run", good) == 1
    assert str(data) in capsys.readouterr().err


def test_a_tensor_is_no_larger_than_what_is_stored_of_it(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def grow(metadata: Any) -> None:
        metadata.state_dict_metadata["w"].size = torch.Size([1 << 50])

    assert run_import(good.parent / "run", changed(good, grow)) == 1
    assert "w is larger than what is stored of it" in capsys.readouterr().err


def test_an_export_writes_through_no_link(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_import(tmp_path / "run", good) == 0
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / "out.pt.staged-guessed").symlink_to(victim)
    run = ["export", "--only=state.w", "--", str(tmp_path / "run" / "latest")]
    assert main([*run, str(tmp_path / "out.pt")]) == 1
    assert "File exists" in capsys.readouterr().err
    (tmp_path / "out.pt").symlink_to(victim)
    assert main([*run, str(tmp_path / "out.pt")]) == 1
    assert victim.read_text() == "precious"
    # Nor is anything at the name of the sums replaced.
    (tmp_path / "two.pt.sha256").symlink_to(victim)
    assert main([*run, str(tmp_path / "two.pt")]) == 1
    assert victim.read_text() == "precious"
    assert not (tmp_path / "two.pt").exists()
