"""Manifests from anywhere: whatever they say ends in a clean error, and nothing is touched."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._checkpoint.state import nodes as _checkpoint_nodes
from stoker._checkpoint.tensors.memory import UnsupportedValueError, new_array, new_tensor

_REFUSED = (stoker.CorruptError, ValueError)
_STEP = "step-000000000001"


def checksum(text: bytes, folder: Path) -> str:
    """XXH3-128, which Python lacks: a checkpoint has it of each of its tensors."""
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, state={"t": np.frombuffer(text, np.uint8)})
    native = stoker._native.OpenCheckpoint(bytes(folder / _STEP))
    digest: str = native.digests(["state.t"])["state.t"]
    return digest


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes a manifest and seals it again."""
    manifest = folder / _STEP / "manifest.json"
    document = json.loads(manifest.read_text())
    del document["xxh3_128"]
    change(document)
    body = json.dumps(document, ensure_ascii=False)[:-1].encode() + b",\n"
    seal = checksum(
        body, folder.parent / f"{folder.name}-sums-{len(list(folder.parent.iterdir()))}"
    )
    manifest.chmod(0o644)
    manifest.write_bytes(body + f'"xxh3_128": "{seal}"}}\n'.encode())


def set_state(folder: Path, state: Any, **shapes: list[int]) -> None:
    def change(document: dict[str, Any]) -> None:
        document["state"] = state
        for tensor in document["tensors"]:
            tensor["shape"] = shapes.get(tensor["name"].removeprefix("state."), tensor["shape"])

    rewrite(folder, change)


def read_all(folder: Path) -> None:
    """As an export does."""
    loaded = stoker.load(folder)
    for name in loaded:
        loaded[name][...]
    np.asarray(loaded.state["state"]["a"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with stoker.Checkpointer(tmp_path / "c") as saver:
        saver.save(1, state={"w": np.arange(24, dtype=np.uint8), "e": np.zeros((0, 4), np.uint8)})
    return tmp_path / "c"


def test_a_manifest_that_is_sealed_again_is_read(folder: Path) -> None:
    set_state(folder, [{"state": {"a": {"!array": ["state.w", "<i8"]}}}], w=[3, 8])
    done = stoker.Checkpointer(folder).restore(state=None)
    assert done is not None
    assert done.trees["state"]["a"].tolist() == np.arange(24, dtype=np.uint8).view("<i8").tolist()
    assert stoker.load(folder).state["state"]["a"][1] == done.trees["state"]["a"][1]


_ELEMENTS = [
    *(
        "<i8",
        "<V0",
        "|V0",
        "O",
        "|O",
        "|O8",
        "<U999999999",
        "<U3",
        "i4,i4",
        "{'a': 'i4'}",
        "<M8[x]",
    ),
    *("<m8[999999999999ns]", "<f2", ">f3", "=u1", "|u1 ", "", "<S2000000000", "|S24", "<c16", "V"),
    *("<i8\0", "ä", "float64", "M8", "<U18446744073709551615", "(1000000000,)<i8", "<M8[as]"),
]


@pytest.mark.parametrize("element", _ELEMENTS)
def test_hostile_types_of_elements_are_refused(folder: Path, element: str) -> None:
    """Types that ask for other bytes than are stored wrote past the end of the memory."""
    for name in ("w", "e"):
        for tag in ("!array", "!torch"):
            set_state(folder, [{"state": {"a": {tag: [f"state.{name}", element]}}}])
            if name == "w" and (tag, element) == ("!array", "|S24"):
                continue  # which is right
            with stoker.Checkpointer(folder) as saver:
                with pytest.raises(_REFUSED):
                    saver.restore(state=None)
                into = {"a": np.full(4, 7, np.uint8)}
                with pytest.raises(_REFUSED):
                    saver.restore(state=into)
                assert into["a"].tolist() == [7] * 4
            with pytest.raises(_REFUSED):
                read_all(folder)


@pytest.mark.parametrize("element", _ELEMENTS)
def test_hostile_types_are_refused_without_the_native_check_too(element: str) -> None:
    for shape in ((24,), (0, 4), (2**62, 0), (2**40, 2**40, 0)):
        for make in (new_array, new_tensor):
            try:
                made = make("U8", shape, element)
            except UnsupportedValueError:
                continue
            assert made.nbytes <= 24  # there is such an array, as small as the tensor


def test_shapes_that_no_array_has_are_refused(folder: Path) -> None:
    for tag in ("!tensor", "!torch"):
        set_state(folder, [{"state": {"a": {tag: "state.e"}}}], e=[2**40, 2**40, 0])
        with stoker.Checkpointer(folder) as saver, pytest.raises(_REFUSED):
            saver.restore(state=None)
        with pytest.raises(_REFUSED):
            stoker.load(folder)["state.e"][...]


@pytest.mark.parametrize("shift", [0, 1])
def test_tensors_that_share_bytes_are_refused(tmp_path: Path, shift: int) -> None:
    """A small checkpoint must not restore, or be exported, as any number of large tensors."""
    folder, size = tmp_path / "c", 1 << 16
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, state={"w": np.ones(size, np.uint8)})

    def change(document: dict[str, Any]) -> None:
        (only,) = document["tensors"]
        del only["digest"]
        begin = only["begin_bytes"]
        document["tensors"] = [
            {**only, "name": f"w{i}", "shape": [size - i * shift], "begin_bytes": begin + i * shift}
            for i in range(100)
        ]
        document["state"] = [{"state": {f"w{i}": {"!tensor": f"w{i}"} for i in range(100)}}]

    rewrite(folder, change)
    with stoker.Checkpointer(folder) as saver, pytest.raises(stoker.CorruptError, match="overlap"):
        saver.restore(state=None)
    with pytest.raises(stoker.CorruptError, match="overlap"):
        stoker.load(folder / _STEP)


_TREES: list[Any] = [
    *(None, 5, "x", [1], [], {"!tuple": []}, {"!dict": [["state", 1], ["state", 2]]}),
    *({"!dict": [[1, "one"]]}, {"!counter": {"!dict": [[5, 2]]}}),
    *({"state": {"!new": 1}}, {"state": {"!new": {"a": [1]}}}, {"state": {"!tensor": "state.q"}}),
    *({"state": {"!set": [{"!tensor": "state.w"}]}}, {"state": {"!set": [[1]]}}),
    *({"state": {"!dict": [[{"!tensor": "state.w"}, 1]]}}, {"state": {"!dict": [[[], 1]]}}),
    *({"state": {"!dict": {"a": 1}}}, {"state": {"!dict": [1, 2]}}, {"state": {"!tuple": "ab"}}),
    *({"state": {"!counter": [1]}}, {"state": {"!counter": {"!counter": {}}}}),
    *({"state": {"!ordered_dict": None}}, {"state": {"!default_dict": {}}}),
    *({"state": {"!default_dict": ["eval", {}]}}, {"state": {"!default_dict": [[], {}]}}),
    *({"state": {"!default_dict": ["os.system", {}]}}, {"state": {"!default_dict": [1, {}]}}),
    *({"state": {"!namespace": {"!dict": [[1, 2]]}}}, {"state": {"!namespace": []}}),
    *({"state": {"!path": 5}}, {"state": {"!path": "a\0b"}}, {"state": {"!pure_path": None}}),
    *({"state": {"!torch_dtype": "load"}}, {"state": {"!torch_dtype": "__dict__"}}),
    *({"state": {"!torch_dtype": ["float32"]}}, {"state": {"!torch_dtype": "nn.Module"}}),
    *({"state": {"!torch_device": "no_such:1"}}, {"state": {"!torch_device": "cuda:99999999"}}),
    *({"state": {"!torch_size": [-1]}}, {"state": {"!torch_size": [2**70]}}),
    *({"state": {"!torch_size": "ab"}}, {"state": {"!numpy_dtype": "O"}}),
    *({"state": {"!numpy_dtype": "i4,i4"}}, {"state": {"!numpy_dtype": "<U999999999"}}),
    *({"state": {"!int": "0x10"}}, {"state": {"!int": "9" * 5000}}, {"state": {"!int": 5}}),
    *({"state": {"!float": []}}, {"state": {"!bytes": "?"}}, {"state": {"!bytes": 7}}),
    *({"state": {"!complex": [1.0, 2.0, 3.0]}}, {"state": {"!complex": [{"!int": "1"}, 0.0]}}),
    *({"state": {"!scalar": {"!torch": "state.w"}}}, {"state": {"!scalar": "state.w"}}),
    *({"state": {"!slice": {"!slice": {"!tensor": "state.w"}}}}, {"state": {"!slice": None}}),
    *({"state": {"!bytes_io": {"!torch": "state.w"}}}, {"state": {"!bytes_io": "state.w"}}),
    *({"state": {"!bytes_io": {"!scalar": {"!tensor": "state.w"}}}}, {"state": {"!bytes_io": []}}),
    *({"state": {"!trainable": None}}, {"state": {"!trainable": {"base": "", "state": 5}}}),
    *({"state": {"!trainable": {"base": 5, "state": {}}}}, {"state": {"!trainable": {}}}),
    *({"state": {"!flattened": None}}, {"state": {"!flattened": {"tensors": {}}}}),
    {"state": {"!flattened": {"tensors": {}, "context": 1, "dtype": "int8", "shape": [1]}}},
    {"state": {"!flattened": {"tensors": {"a": 1}, "context": 1, "dtype": "x", "shape": 3}}},
]


@pytest.mark.parametrize("tree", _TREES, ids=lambda tree: json.dumps(tree)[:60])
def test_hostile_trees_are_refused(folder: Path, tree: Any) -> None:
    set_state(folder, [tree])
    with stoker.Checkpointer(folder) as saver, pytest.raises(_REFUSED):
        saver.restore(state=None)
    with contextlib.suppress(*_REFUSED):  # looking is not using: some of it can be shown
        stoker.load(folder)


def test_an_extra_with_a_tensor_is_refused(folder: Path) -> None:
    for extra in ({"!tensor": "state.w"}, [{"!array": ["state.w", "|O8"]}]):
        rewrite(folder, lambda document, extra=extra: document.update(extra=extra))  # type: ignore[misc]
        with stoker.Checkpointer(folder) as saver, pytest.raises(stoker.CorruptError):
            saver.restore()
        with pytest.raises(stoker.CorruptError, match=r"extra: .*a tensor where none can be"):
            stoker.load(folder)


def test_an_unknown_tag_says_so() -> None:
    with pytest.raises(ValueError, match="the tag !new is unknown: a later version") as raised:
        _checkpoint_nodes.decode_tree('{"a": {"!new": 5}}', "state", "manifest.json")
    assert not isinstance(raised.value, stoker.CorruptError), "no reason to take an older one"


def test_elements_of_an_unknown_type_say_so() -> None:
    text = '{"a": {"!elements": [{"!slice": {"!torch": "w"}}, "%s"]}}'
    node = _checkpoint_nodes.decode_tree(text % "uint4", "state", "manifest.json")["a"]
    assert (node.name, node.is_slice, node.element) == ("w", True, "torch.uint4")
    with pytest.raises(ValueError, match="elements of type uint9 are unknown: a later") as raised:
        _checkpoint_nodes.decode_tree(text % "uint9", "state", "manifest.json")
    assert not isinstance(raised.value, stoker.CorruptError)
    for bad in ('{"!tensor": "w"}, "uint4"', '{"!torch": ["w", "<c16"]}, "uint4"', '3, "uint4"'):
        with pytest.raises(stoker.CorruptError, match="no state tree"):
            _checkpoint_nodes.decode_tree(f'{{"!elements": [{bad}]}}', "state", "manifest.json")


@pytest.mark.parametrize(
    "node",
    [
        *({"!array": ["model.weight", "<i8"]}, {"!torch": ["model.weight", "<i8"]}),
        *({"!torch": ["optimizer.state.model.weight.exp_avg", "<c16"]}, {"!torch": "model.nope"}),
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("fresh", [True, False])
def test_a_model_and_its_optimizer_are_safe(tmp_path: Path, node: Any, fresh: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def make() -> tuple[Any, Any]:
        model = torch.nn.Linear(3, 5)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(model: Any, optimizer: Any) -> None:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()

    model, optimizer = make()
    step(model, optimizer)
    with stoker.Checkpointer(tmp_path / "c") as saver:
        saver.save(1, model=model, optimizer=optimizer)

    def change(document: dict[str, Any]) -> None:
        state = document["state"][0]["optimizer"]["state"]
        state["model.weight"]["exp_avg"] = node

    rewrite(tmp_path / "c", change)
    if fresh:
        model, optimizer = make()
    before = model.weight.detach().clone()
    with stoker.Checkpointer(tmp_path / "c") as saver, pytest.raises(_REFUSED):
        saver.restore(model=model, optimizer=optimizer)
    assert torch.equal(model.weight, before)
