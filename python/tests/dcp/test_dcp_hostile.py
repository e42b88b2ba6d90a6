"""DcpReader and DcpWriter among enemies: manifests, links, other writers, odd states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stoker
from fork_server import ForkedPython

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")
from stoker._checkpoint.foreign.dcp_items import leaves_of, tree_node, with_lists  # noqa: E402
from stoker._checkpoint.state.nodes import decode_node  # noqa: E402
from stoker.torch import DcpReader, DcpWriter  # noqa: E402

sys.path.append(str(Path(__file__).parents[2].parent / "tools"))
from json_mutations import Mutations, seal, xxh3_128  # noqa: E402

_COUNT = int(os.environ.get("STOKER_MUTATIONS", "200"))
_STEP = "step-000000000001"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def save(state: dict[str, Any], path: Path) -> None:
    dcp.save(state, checkpoint_id=path, storage_writer=DcpWriter(path))


def load_all(path: Path) -> dict[str, Any]:
    loader = pytest.importorskip("torch.distributed.checkpoint.state_dict_loader")
    found: dict[str, Any] = loader._load_state_dict_from_keys(
        checkpoint_id=path, storage_reader=DcpReader(path)
    )
    return found


def error_of(call: Any, *given: Any) -> BaseException:
    with pytest.raises(dcp.CheckpointException) as raised:
        call(*given)
    ((error, _),) = raised.value.failures.values()
    assert isinstance(error, BaseException)
    return error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    state = {
        "model": {
            "w": torch.arange(24.0),
            "e": torch.zeros(0, 4),
            "c": torch.ones(2).to(torch.cfloat),
        },
        "list": [torch.ones(2), 5, {"x": (1, 2.5)}],
        "pair": (torch.ones(2), b"x", float("nan")),
        "lr": 0.1,
    }
    save(state, tmp_path / "c" / "step-1")
    return tmp_path / "c"


def document_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / _STEP / "manifest.json").read_text())
    del found["xxh3_128"]
    return found


def rewrite(folder: Path, document: Any) -> None:
    try:
        xxh3_128(b"")
    except OSError:
        pytest.skip("libxxhash is not installed")
    manifest = folder / _STEP / "manifest.json"
    manifest.unlink()
    manifest.write_bytes(seal(document))
    (folder / ".catalog").unlink(missing_ok=True)


def test_any_changed_manifest_loads_or_is_an_error(folder: Path) -> None:
    document = document_of(folder)
    rewrite(folder, document)
    load_all(folder / "1")
    mutations, worked, failures = Mutations(document, seed=5), 0, []
    for number in range(_COUNT):
        what, changed = mutations.make(number)
        rewrite(folder, changed)
        try:
            load_all(folder / "1")
            worked += 1
        except dcp.CheckpointException as raised:
            ((error, _),) = raised.failures.values()
            # torch's own words for a list of which an item is empty
            is_theirs = isinstance(error, RuntimeError) and "Missing key" in str(error)
            if not (is_theirs or isinstance(error, (stoker.CorruptError, ValueError, OSError))):
                failures.append(f"{number}: {what}: {error!r}")
    assert not failures, "\n".join(failures[:20])
    assert 0 < worked < _COUNT


def test_no_list_is_as_long_as_a_manifest_says(folder: Path) -> None:
    document = document_of(folder)
    document["state"] = [{"list": {"[0]": 1, "[999999999]": 2}}]
    rewrite(folder, document)
    error = error_of(load_all, folder / "1")
    assert isinstance(error, stoker.CorruptError)
    assert "an item of a list that has not so many" in str(error)
    assert stoker.load(folder).state == {"list": {"0": 1, "999999999": 2}}


@pytest.mark.parametrize(
    ("node", "what"),
    [
        ({"!torch": "model.w"}, "is not stored whole"),
        ({"!slice": {"!torch": "model.w"}}, "model.w is larger than all files"),
    ],
)
def test_no_memory_is_taken_for_a_tensor_that_is_not_there(
    folder: Path, node: Any, what: str
) -> None:
    document = document_of(folder)
    (one,) = (tensor for tensor in document["tensors"] if tensor["name"] == "model.w")
    one |= {"global_shape": [2**40], "offsets": [0]}
    document["state"] = [{"model": {"w": node}}]
    rewrite(folder, document)
    error = error_of(load_all, folder / "1")
    assert isinstance(error, stoker.CorruptError)
    assert what in str(error)
    with pytest.raises(stoker.CorruptError, match=what):
        stoker.load(folder / "1").read()


@pytest.mark.parametrize("state", [[[1]], [{"!set": []}], [3], ["model"], []])
def test_a_state_that_is_no_tree_is_an_error(folder: Path, state: Any) -> None:
    document = document_of(folder)
    document["state"] = state
    rewrite(folder, document)
    error = error_of(load_all, folder / "1")
    assert isinstance(error, stoker.CorruptError if state else ValueError)


def test_links_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("step-1", "step-000000000002", "best"):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere" / name)
    error = error_of(save, {"n": 1}, tmp_path / "run" / "step-1")
    assert isinstance(error, FileExistsError)
    with pytest.raises(dcp.CheckpointException):
        save({"n": 1}, tmp_path / "run" / "step-2")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    "state",
    [
        {"\ud800": 1},
        {"a": {"\ud800": torch.ones(1)}},
        {"n": "\ud800"},
        {"q": torch.eye(2).to_sparse()},
        {"m": torch.ones(2, device="meta")},
        {"range": range(3)},
    ],
)
def test_what_cannot_be_saved_is_an_error_before_anything_is_written(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    error = error_of(save, state, tmp_path / "1")
    assert isinstance(error, (TypeError, ValueError)), repr(error)
    assert not list(tmp_path.glob("step-*"))


def test_a_state_is_not_deeper_than_a_reader_reads(tmp_path: Path) -> None:
    state: dict[str, Any] = {"w": torch.ones(1)}
    for _ in range(40):
        state = {"x": state}
    save(state, tmp_path / "1")
    assert load_all(tmp_path / "1").keys() == {"x"}
    for _ in range(40):
        state = {"x": state}
    assert "nested too deep" in str(error_of(save, state, tmp_path / "2"))


def test_an_empty_state_is_saved_as_torch_saves_it(tmp_path: Path) -> None:
    save({}, tmp_path / "1")
    assert load_all(tmp_path / "1") == {}


def test_keys_that_look_like_those_of_lists_stay_keys() -> None:
    paths: dict[str, Any] = {
        ".".join(map(str, path)): path
        for path in (("a", 0), ("a", 1), ("b", "[0]"), ("b", "[[1]]"), ("c", "0"), ("!", "x"))
    }
    for is_all in (True, False):
        nodes = {name: {"leaf": name} for name in paths}
        node = tree_node(nodes, paths, is_all=is_all)
        decoded = decode_node(node, True)
        assert set(with_lists(decoded)) == {"a", "b", "c", "!"}
        assert with_lists(decoded)["a"] == [{"leaf": "a.0"}, {"leaf": "a.1"}]
        assert list(with_lists(decoded)["b"]) == ["[0]", "[[1]]"]
        found = leaves_of([decoded], "paths")
        assert {path[:-1] for path, _ in found.values()} == set(paths.values())


_WRITER = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed.checkpoint as dcp
from stoker.torch import DcpWriter

for n in range(4):
    where = f"{sys.argv[1]}/step-{n}"
    state = {"w": torch.full((1000,), float(sys.argv[2])), "who": sys.argv[2]}
    dcp.save(state, checkpoint_id=where, storage_writer=DcpWriter(where))
"""


def test_two_writers_of_one_step_take_turns_and_never_mix(tmp_path: Path) -> None:
    writers = [
        ForkedPython(
            [sys.executable, "-c", _WRITER, tmp_path, who], torch=True, stderr=subprocess.PIPE
        )
        for who in "12"
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    for n in range(4):
        found = load_all(tmp_path / f"step-{n}")
        assert found["w"].tolist() == [float(found["who"])] * 1000
