"""stoker.load and the import say what is no checkpoint, and what to do with it."""

from __future__ import annotations

import collections
import zipfile
from pathlib import Path

import numpy as np
import pytest

import stoker


def test_load_says_that_there_are_no_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    missing = tmp_path / "none"
    for path in (missing, missing / "latest", missing / "step-000000000005"):
        with pytest.raises(
            FileNotFoundError, match=f"^no checkpoints in {missing}: there is no such directory$"
        ):
            stoker.load(path)
    for path in (tmp_path / "empty", tmp_path / "empty" / "latest"):
        with pytest.raises(FileNotFoundError, match=f"^no checkpoints in {tmp_path}/empty$"):
            stoker.load(path)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, state={"n": 1})
    with pytest.raises(
        FileNotFoundError, match=f"^no checkpoint step-000000000005 in {tmp_path}/run$"
    ):
        stoker.load(tmp_path / "run" / "step-000000000005")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.npy", b"\x93NUMPY\x01\0" + bytes(200), "a NumPy array: numpy.load"),
        ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(200), "an HDF5 file"),
        ("a.gguf", b"GGUF\x03\0\0\0" + bytes(200), "a GGUF file"),
        ("a.parquet", b"PAR1" + bytes(200), "a Parquet file"),
        (
            "a.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
            "a pointer of Git LFS",
        ),
        ("a.safetensors", b"<!DOCTYPE html><html></html>", "a web page"),
        ("a.safetensors.gz", b"\x1f\x8b\x08\0" + bytes(20), "compressed with gzip"),
        ("a.tar", bytes(257) + b"ustar\x0000" + bytes(300), "a tar archive"),
        ("a.pkl", b"\x80\x04\x95" + bytes(20), "a pickle, which is not read"),
        ("a.onnx", b"\x08\x07\x12\x07pytorch" + bytes(20), "an ONNX model"),
        ("a.zip", b"PK\x03\x04" + bytes(50), "a zip archive that is cut off"),
    ],
)
def test_a_well_known_file_is_told_as_what_it_is(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name}: it is {words}") as caught:
        stoker.load(tmp_path / name)
    assert not isinstance(caught.value, stoker.CorruptError)


def test_a_file_of_torch_is_told_with_the_command_that_imports_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for name, is_zip in (("new.pt", True), ("old.pt", False), ("renamed.safetensors", True)):
        path = tmp_path / name
        torch.save({"w": torch.zeros(3)}, path, _use_new_zipfile_serialization=is_zip)
        words = rf"it is a file of torch.save\(\): `stoker checkpoint import DIR {path} --step N`"
        with pytest.raises(ValueError, match=words):
            stoker.load(path)
    np.savez(tmp_path / "a.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match=r"a file of numpy\.savez\(\)"):
        stoker.load(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "script.pt", "w") as archive:
        for member in ("script/data.pkl", "script/constants.pkl", "script/code/x.py"):
            archive.writestr(member, "")
    with pytest.raises(ValueError, match="a TorchScript archive"):
        stoker.load(tmp_path / "script.pt")
    (tmp_path / "dcp").mkdir()
    (tmp_path / "dcp" / ".metadata").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a distributed checkpoint of torch: `stoker check"):
        stoker.load(tmp_path / "dcp")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="a directory with safetensors files"):
        stoker.load(tmp_path / "hf" / "latest")


def test_the_keys_of_an_imported_file_are_trees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    command = pytest.importorskip("stoker._commands.torch")
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch.save({**whole, "step": 40, "step_": 41}, tmp_path / "old.pt")
    torch.save(collections.OrderedDict(model.state_dict()), tmp_path / "weights.pt")
    for step, (name, more) in enumerate((("old.pt", []), ("weights.pt", []), ("old.pt", ["one"]))):
        words = [f"--as={tree}" for tree in more]
        arguments = ["import", f"--step={step}", *words, str(tmp_path / "c"), str(tmp_path / name)]
        assert command.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "`latest` points to it now"
    assert lines[1] == "trees: model, optimizer, epoch, step__ (was step), step_"
    assert lines[4] == "trees: state"
    assert lines[7] == "trees: one"
    again = torch.nn.Linear(3, 2)
    other = torch.optim.AdamW(again.parameters())
    with stoker.Checkpointer(tmp_path / "c") as saver:
        done = saver.restore(0, model=again, optimizer=other, epoch=None, step__=None, partial=True)
        assert done is not None
        assert (done.trees["epoch"], done.trees["step__"]) == (3, 40)
        for mine, theirs in zip(again.parameters(), model.parameters(), strict=True):
            assert torch.equal(mine, theirs)
        assert other.state_dict()["state"][0]["step"] == 1
        assert saver.restore(1, state=again) == 1
        assert set(saver.restore(2, one=None).trees["one"]) == {*whole, "step", "step_"}  # type: ignore[union-attr]
