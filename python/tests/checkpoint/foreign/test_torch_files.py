"""``stoker checkpoint import`` and ``export`` of what torch itself writes and reads."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._commands.torch import main

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

COMMANDS_PAGE = Path(__file__).parents[4] / "docs" / "checkpoint-commands.md"


def a_state() -> dict[str, Any]:
    """Of every kind that there is trouble with."""
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(6, 4, generator=generator)
    tied = torch.randn(3, 3, generator=generator)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(base).sum().backward()
    optimizer.step()
    return {
        "model": OrderedDict(
            half=base.to(torch.bfloat16),
            float8=base.to(torch.float8_e4m3fn),
            flags=base > 0,
            zero_dim=torch.tensor(7, dtype=torch.int64),
            empty=torch.empty(0, 5),
            turned=base.t(),
            every_second=base[::2, 1:3],
            odd=torch.tensor([float("nan"), -0.0, float("inf")]),
            complex=torch.randn(3, dtype=torch.complex128, generator=generator),
            tied=tied,
            tied_again=tied,
        ),
        "optimizer": optimizer.state_dict(),
        "step": 12,
        "big": 2**70,
        "names": ["a", ("b", None, True)],
        "raw": b"\x00\xff",
        "lr": 1e-3,
    }


def same(left: Any, right: Any) -> bool:
    """To the bit, types included."""
    if isinstance(left, torch.Tensor):
        return (
            isinstance(right, torch.Tensor)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.contiguous().view(-1).view(torch.uint8).tolist()
            == right.contiguous().view(-1).view(torch.uint8).tolist()
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def run_import(folder: Path, source: Path, *more: str) -> int:
    return main(["import", "--step=5", *more, "--", str(folder), str(source)])


def save_dcp(state: dict[str, Any], folder: Path) -> Path:
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save(state, checkpoint_id=folder, no_dist=True)
    return folder


def test_a_pt_file_comes_back_to_the_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = a_state()
    torch.save(state, tmp_path / "old.pt")
    assert run_import(tmp_path / "run", tmp_path / "old.pt", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["name"], report["step"], report["generation"]) == ("step-000000000005", 5, 1)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        trees: dict[str, Any] = {name: None for name in state if name != "step"}
        done = saver.restore(**trees, step_=None)
    assert done == 5
    assert done.extra == {"imported_from": "old.pt"}
    found = dict(done.trees)
    found["step"] = found.pop("step_")
    assert same(found, {**state, "model": dict(state["model"])})
    assert found["model"]["tied"] is not None
    names = list(stoker.load(tmp_path / "run"))
    stored = [
        name
        for name, *_ in stoker._native.OpenCheckpoint(
            os.fsencode(tmp_path / "run" / "latest")
        ).tensors()
    ]
    assert "model.tied" in stored
    assert "model.tied_again" not in stored, "stored once"
    assert "model.tied_again" in names


def test_the_old_format_of_torch_is_read_too(tmp_path: Path) -> None:
    weights = {"w": torch.arange(5.0)}
    torch.save(weights, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert run_import(tmp_path / "run", tmp_path / "old.bin", "--as=model") == 0
    assert stoker.load(tmp_path / "run")["model.w"][...].tolist() == [0, 1, 2, 3, 4]


class Evil:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_code_in_a_pt_file_is_not_run_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = tmp_path / "touched"
    torch.save({"w": torch.zeros(2), "x": Evil(touched)}, tmp_path / "evil.pt")
    assert run_import(tmp_path / "run", tmp_path / "evil.pt") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"stoker checkpoint import: {tmp_path / 'evil.pt'}: refused, nothing")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil(touched)))
    assert run_import(tmp_path / "run", tmp_path / "plain.pt") == 1
    assert not touched.exists()
    assert not (tmp_path / "run").exists()


def test_what_is_no_state_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"a": [{"b": torch.eye(3).to_sparse()}]}, tmp_path / "sparse.pt")
    assert run_import(tmp_path / "run", tmp_path / "sparse.pt") == 1
    assert "state['a'][0]['b']: object of type Tensor can't be saved" in capsys.readouterr().err
    (tmp_path / "cut.pt").write_bytes((tmp_path / "sparse.pt").read_bytes()[:-40])
    assert run_import(tmp_path / "run", tmp_path / "cut.pt") == 1
    assert "cut.pt: no file of torch.save()" in capsys.readouterr().err
    for junk, words in ((b"just some text in a file", "not a pickle"), (b"", "ends too soon")):
        (tmp_path / "junk.pt").write_bytes(junk)
        assert run_import(tmp_path / "run", tmp_path / "junk.pt") == 1
        assert words in capsys.readouterr().err
    assert run_import(tmp_path / "run", tmp_path / "none.pt") == 1
    assert "none.pt" in capsys.readouterr().err


def test_a_distributed_checkpoint_comes_back_to_the_bit(tmp_path: Path) -> None:
    state = a_state()
    save_dcp(state, tmp_path / "dcp")
    assert run_import(tmp_path / "run", tmp_path / "dcp", "--as=state") == 0
    with stoker.Checkpointer(tmp_path / "run") as saver:
        found = saver.restore(state=None)
    assert found is not None
    # As torch converts it: numbers that were keys have become strings when it was saved. Those of
    # an optimizer's parameters are numbers again here, else it would not find its moments.
    convert = pytest.importorskip("torch.distributed.checkpoint.format_utils")
    convert.dcp_to_torch_save(tmp_path / "dcp", tmp_path / "dcp.pt")
    theirs = torch.load(tmp_path / "dcp.pt", weights_only=False)
    moments = theirs["optimizer"]["state"]
    theirs["optimizer"]["state"] = {int(key): part for key, part in moments.items()}
    assert same(found.trees["state"], theirs)
    assert same(found.trees["state"]["optimizer"], state["optimizer"])
    assert same(found.trees["state"]["model"], dict(state["model"]))


def test_a_trusted_file_that_is_refused_can_be_saved_from_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the program of docs/checkpoint-commands.md."""
    state = {
        "model": {"w": torch.ones(2)},
        "best": np.float64(0.5),
        "arguments": argparse.Namespace(lr=0.1),
        "numpy": np.random.get_state(),
    }
    torch.save(state, tmp_path / "old.pt")
    assert run_import(tmp_path / "run", tmp_path / "old.pt") == 1
    line = capsys.readouterr().err
    assert "torch.load(path, weights_only=False), and save what it has: saver.save(step, " in line
    monkeypatch.chdir(tmp_path)
    [program] = re.findall(r"```python\n(.*?)```", COMMANDS_PAGE.read_text(), re.DOTALL)
    exec(textwrap.dedent(program), {"stoker": stoker, "torch": torch})
    with stoker.Checkpointer("run/checkpoints") as saver:
        model = {"w": torch.zeros(2)}
        done = saver.restore(model=model, best=None, arguments=None, numpy=None)
    assert done == 40000
    assert model["w"].tolist() == [1, 1]
    assert done.trees["best"] == 0.5
    assert done.trees["arguments"] == argparse.Namespace(lr=0.1)
    np.random.set_state(done.trees["numpy"])


def test_a_distributed_checkpoints_pickles_run_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = tmp_path / "touched"
    good = save_dcp({"w": torch.zeros(3), "n": [1, 2]}, tmp_path / "good")
    shutil.copytree(good, tmp_path / "evil")
    (tmp_path / "evil" / ".metadata").write_bytes(pickle.dumps(Evil(touched)))
    assert run_import(tmp_path / "run", tmp_path / "evil") == 1
    assert "refused, nothing in it was run" in capsys.readouterr().err
    # A value that is no tensor is a pickle as well.
    save_dcp({"w": torch.zeros(3), "x": Evil(touched)}, tmp_path / "value")
    touched.unlink(missing_ok=True)
    assert run_import(tmp_path / "run", tmp_path / "value") == 1
    line = capsys.readouterr().err
    assert "x: refused, nothing in it was run" in line
    assert "not an allowed global" in line
    # Names that lead elsewhere.
    metadata = pickle.loads((good / ".metadata").read_bytes())
    for info in metadata.storage_data.values():
        info.relative_path = "../" + info.relative_path
    (tmp_path / "evil" / ".metadata").write_bytes(pickle.dumps(metadata))
    assert run_import(tmp_path / "run", tmp_path / "evil") == 1
    assert "outside of its directory" in capsys.readouterr().err
    (tmp_path / "evil" / ".metadata").write_bytes(b"\x80\x04]")
    assert run_import(tmp_path / "run", tmp_path / "evil") == 1
    (tmp_path / "evil" / ".metadata").unlink()
    assert run_import(tmp_path / "run", tmp_path / "evil") == 1
    assert not touched.exists()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cbuiltins\ngetattr\n(ctorch\nSize\nV__class__\ntR.",
        b"cbuiltins\neval\n(V1\ntR.",
        b"ctorch\nload\n.",
        b"cos\nsystem\n(Vtrue\ntR.",
    ],
)
def test_metadata_has_no_way_to_other_code(
    tmp_path: Path, program: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dcp").mkdir()
    (tmp_path / "dcp" / ".metadata").write_bytes(program)
    assert run_import(tmp_path / "run", tmp_path / "dcp") == 1
    assert "refused, nothing in it was run" in capsys.readouterr().err


def export(checkpoint: Path, out: Path, *more: str) -> int:
    return main(["export", *more, "--", str(checkpoint), str(out)])


def test_an_exported_pt_is_the_state_that_was_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = a_state()
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, state=state, numpy={"a": np.arange(3), "s": np.float32(2.5)}).wait()
    out = tmp_path / "out.pt"
    assert export(tmp_path / "run" / "latest", out, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["size_bytes"] == out.stat().st_size
    found = torch.load(out, weights_only=True)
    assert same(found["state"], {**state, "model": dict(state["model"])})
    assert found["numpy"]["s"] == 2.5
    assert found["numpy"]["a"].tolist() == [0, 1, 2]
    assert (
        found["state"]["model"]["tied"].data_ptr()
        == found["state"]["model"]["tied_again"].data_ptr()
    )
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    assert (tmp_path / "out.pt.sha256").read_text() == f"{digest}  out.pt\n"
    # It replaces nothing.
    assert export(tmp_path / "run" / "latest", out) == 1
    assert "already exists" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.pt", "out.pt.sha256", "run"]


def test_an_exported_folder_is_what_torch_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = a_state()
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, **{key: item for key, item in state.items() if key != "step"}).wait()
    out = tmp_path / "out"
    assert export(tmp_path / "run" / "latest", out, "--dcp", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert {Path(file).name for file in report["files"]} == {".metadata", "__0_0.distcp"}
    assert report["size_bytes"] == sum(Path(file).stat().st_size for file in report["files"])
    found = a_state()
    del found["step"]
    for tensor in found["model"].values():
        tensor.zero_()
    found["lr"], found["names"] = 0.0, []
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    checkpoint.load(found, checkpoint_id=out, no_dist=True)
    del state["step"]
    assert same(found["model"], state["model"])
    assert same(found["optimizer"], state["optimizer"])
    assert (found["lr"], found["names"]) == (state["lr"], state["names"])
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    # It replaces nothing, comes back, and is whole or not there.
    assert export(tmp_path / "run" / "latest", out, "--dcp") == 1
    assert "already exists" in capsys.readouterr().err
    assert run_import(tmp_path / "again", out, "--as=state") == 0
    assert same(stoker.load(tmp_path / "again").read()["state"]["model"], dict(state["model"]))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "out", "run"]


def test_a_folder_that_cannot_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, state={"w": torch.zeros(3)})
    out = tmp_path / "out"
    out.mkdir()

    def write_durable(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stoker.io, "write_durable", write_durable)
    assert main(["export", "--dcp", "--", str(tmp_path / "run" / "latest"), str(out / "a")]) == 1
    assert list(out.iterdir()) == []


def test_exported_tensors_are_chosen_and_renamed(tmp_path: Path) -> None:
    state = a_state()
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, state=state).wait()
    out = tmp_path / "out.pth"
    prefix = "state.model."
    assert export(tmp_path / "run" / "latest", out, f"--only={prefix}h", f"--strip={prefix}") == 0
    assert same(torch.load(out, weights_only=True), {"half": state["model"]["half"]})
    assert export(tmp_path / "run" / "latest", tmp_path / "none.pt", "--only=nothing") == 2


def test_the_sums_of_an_export_come_after_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums alone would be those of another file that is put there."""
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, state={"w": torch.zeros(3)})
    out = tmp_path / "out"
    out.mkdir()
    seen: list[list[str]] = []

    def write_durable(*_: Any) -> None:
        seen.append([path.name for path in out.iterdir()])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stoker.io, "write_durable", write_durable)
    assert main(["export", "--", str(tmp_path / "run" / "latest"), str(out / "a.pt")]) == 1
    assert seen == [["a.pt"]]
    assert list(out.iterdir()) == [], "nothing is left of an export that failed"


def test_a_damaged_checkpoint_exports_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, state={"w": torch.zeros(100)}).wait()
    path = tmp_path / "run" / "step-000000000001" / "rank-00000.safetensors"
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert export(tmp_path / "run" / "latest", tmp_path / "out.pt") == 1
    assert "rank-00000.safetensors, offset 0" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_without_torch_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"")
    program = (
        "import sys; sys.modules['torch'] = None; from stoker._commands.torch import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    for words in (
        ["import", "--step=1", "--", str(tmp_path / "run"), str(tmp_path / "x.pt")],
        ["export", "--", str(tmp_path / "run"), str(tmp_path / "y.pt")],
    ):
        command = [sys.executable, "-c", program, *words]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 1
        assert "has no torch: install it there, or let STOKER_PYTHON name" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
