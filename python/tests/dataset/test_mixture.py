"""stoker.Mixture: several datasets in one order."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


@pytest.fixture
def parts(tmp_path: Path, write_tar: Any) -> list[stoker.Dataset]:
    """Three datasets of 100, 40 and 7 samples; cls tells them apart."""
    made = []
    for name, count, base in (("a", 100, 0), ("b", 40, 1000), ("c", 7, 2000)):
        samples = {f"{name}{i:03}": {"cls": b"%d" % (base + i)} for i in range(count)}
        made.append(stoker.Dataset(write_tar(tmp_path / f"{name}.tar", samples)))
    return made


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"global_batch_size": 8, "fields": {"cls": int}, "torch": False}
    return stoker.Loader(data, **({"seed": 4} | settings | options))


def numbers(loader: Any) -> list[int]:
    return [n for batch in loader for n in batch["cls"].tolist()]


def test_parts_may_be_paths_as_a_loaders_data_may(shards: Path) -> None:
    data = stoker.Dataset(shards)
    expected = stoker.Mixture([(data, 0.5), (data, 0.5)]).fingerprint
    files = sorted(shards.glob("*.tar"))
    assert stoker.Mixture([(shards, 0.5), (str(shards), 0.5)]).fingerprint == expected
    assert stoker.Mixture([(files, 0.5), (data, 0.5)]).fingerprint == expected


def test_parts_of_a_mixture_are_refused_with_what_to_do_instead(shards: Path) -> None:
    mix = stoker.Mixture([(shards, 1.0)])
    with pytest.raises(TypeError, match="select in the datasets, then mix them"):
        mix.select([1, 2])
    with pytest.raises(TypeError, match="split the datasets, then mix them"):
        mix.split([0.5, 0.5])


def test_shares_are_as_asked_for(parts: list[stoker.Dataset]) -> None:
    mix = stoker.Mixture([(parts[0], 7), (parts[1], 2), (parts[2], 1)], epoch_samples=4096)
    assert len(mix) == 4096
    assert mix.shares == (0.7, 0.2, 0.1)
    seen = Counter(n // 1000 for n in numbers(load(mix, epochs=16)))
    total = sum(seen.values())
    assert total == 65536
    assert [round(seen[d] / total, 4) for d in range(3)] == [0.7, 0.2, 0.1]


def test_each_dataset_is_gone_through_before_it_begins_again(parts: list[stoker.Dataset]) -> None:
    mix = stoker.Mixture([(parts[0], 0.5), (parts[2], 0.5)], epoch_samples=4000)
    seen = numbers(load(mix))
    small = [n for n in seen if n >= 2000]
    # Uses inside one cycle of slots come in any order, so whole rounds are seen in counts only.
    counts = Counter(small)
    assert max(counts.values()) - min(counts.values()) <= max(3, len(small) // 7)
    assert set(small) == set(range(2000, 2007))


def test_an_epoch_is_the_sum_unless_said(parts: list[stoker.Dataset]) -> None:
    mix = stoker.Mixture([(parts[0], 1), (parts[1], 1)])
    assert len(mix) == 140
    assert len(load(mix)) == 17
    first, second = numbers(loader := load(mix)), numbers(loader)
    assert first != second


def test_any_cut_is_resumed_on_any_number_of_ranks(parts: list[stoker.Dataset]) -> None:
    mix = stoker.Mixture([(parts[0], 0.6), (parts[1][5:], 0.3), (parts[2], 0.1)])
    whole = [(b["cls"].tolist(), b.cursor) for b in load(mix, epochs=2)]
    for cut in range(0, len(whole) - 1, 4):
        for size in (1, 2, 4):
            ranks = [load(mix, epochs=2, rank=r, world_size=size) for r in range(size)]
            for loader in ranks:
                loader.load_state_dict(whole[cut][1])
            seen = [[n for p in ps for n in p["cls"].tolist()] for ps in zip(*ranks, strict=True)]
            assert seen == [batch for batch, _ in whole[cut + 1 :]]


def test_other_parts_or_weights_are_another_run(parts: list[stoker.Dataset]) -> None:
    mix = stoker.Mixture([(parts[0], 0.6), (parts[1], 0.4)])
    state = load(mix).state_dict()
    load(stoker.Mixture([(parts[0], 6), (parts[1], 4)])).load_state_dict(state)
    for other in (
        stoker.Mixture([(parts[0], 0.5), (parts[1], 0.5)]),
        stoker.Mixture([(parts[1], 0.4), (parts[0], 0.6)]),
    ):
        with pytest.raises(stoker.CursorMismatch, match="fingerprint"):
            load(other).load_state_dict(state)
    with pytest.raises(stoker.CursorMismatch, match="epoch_samples"):
        load(stoker.Mixture([(parts[0], 0.6), (parts[1], 0.4)], epoch_samples=99)).load_state_dict(
            state
        )


def test_it_is_a_map_style_dataset(parts: list[stoker.Dataset]) -> None:
    mix = stoker.Mixture([(parts[0], 0.5), (parts[1], 0.5)])
    assert mix[3] == mix[3]
    assert mix[-1]["__key__"] == mix[139]["__key__"]
    assert [s["__key__"] for s in mix.__getitems__([3, 0])] == [
        mix[3]["__key__"],
        mix[0]["__key__"],
    ]
    assert len(list(mix)) == 140
    off = load(mix, shuffle="off", seed=0)
    assert [s["cls"] for s in mix] == numbers(off)
    with pytest.raises(IndexError, match="sample 140 of a dataset of 140"):
        mix[140]
    again = pickle.loads(pickle.dumps(mix))
    assert again.fingerprint == mix.fingerprint
    assert again[7]["__key__"] == mix[7]["__key__"]
    assert "epoch_samples=140" in repr(mix)


def test_tokens_mix_with_tokens(tmp_path: Path) -> None:
    for name, base in (("a", 0), ("b", 10_000)):
        np.save(tmp_path / f"{name}.npy", np.arange(base, base + 1024, dtype=np.int32))
    a, b = (stoker.Tokens(tmp_path / f"{name}.npy", window=16) for name in "ab")
    batch = next(iter(stoker.Loader(stoker.Mixture([(a, 1), (b, 1)]), batch_size=32, torch=False)))
    assert batch["tokens"].shape == (32, 16)
    assert {int(n) // 10_000 for n in batch["tokens"][:, 0]} == {0, 1}
    other = stoker.Tokens(tmp_path / "b.npy", window=8)
    with pytest.raises(ValueError, match="window is 8 in dataset 1 and 16 in dataset 0"):
        stoker.Mixture([(a, 1), (other, 1)])


def test_tokens_that_are_cut_in_other_ways_do_not_mix(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(64, dtype=np.int32))
    np.save(tmp_path / "b.npy", np.arange(64, dtype=np.uint16))
    packs, filled = (stoker.Tokens(tmp_path / "a.npy", pack=5, pad=pad) for pad in (0, 9))
    narrow, wide = (stoker.Tokens(tmp_path / "b.npy", pack=5, dtype=d) for d in (None, "int64"))
    with pytest.raises(ValueError, match="pad is 9 in dataset 1 and 0 in dataset 0"):
        stoker.Mixture([(packs, 1), (filled, 1)])
    with pytest.raises(ValueError, match=r"dtype is 'uint16' in dataset 1 .*give each of them"):
        stoker.Mixture([(packs, 1), (narrow, 1)])
    with pytest.raises(ValueError, match="dtype is 'int64' in dataset 1"):
        stoker.Mixture([(narrow, 1), (wide, 1)])
    windows = [stoker.Tokens(tmp_path / "a.npy", window=8, extra=n) for n in (0, 1)]
    with pytest.raises(ValueError, match="extra is 1 in dataset 1"):
        stoker.Mixture([(one, 1) for one in windows])


def test_a_mixture_of_one_is_shuffled_by_blocks(parts: list[stoker.Dataset]) -> None:
    loader = stoker.Loader(
        stoker.Mixture([(parts[0], 1)]), batch_size=4, shuffle="block", tail="keep", torch=False
    )
    keys = [key for batch in loader for key in batch["__key__"]]
    assert len(keys) == len(parts[0])
    assert set(keys) <= set(parts[0].keys())


def test_what_cannot_be_mixed_is_refused(parts: list[stoker.Dataset], tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.arange(64))
    tokens = stoker.Tokens(tmp_path / "t.npy", window=8)
    with pytest.raises(ValueError, match="not of both"):
        stoker.Mixture([(parts[0], 1), (tokens, 1)])
    with pytest.raises(TypeError, match="a mixture is one of Datasets, not of int"):
        stoker.Mixture([(3, 1)])  # type: ignore[list-item]
    for weight in (0, -1, float("nan"), 1e-9):
        with pytest.raises(ValueError, match="dataset 1"):
            stoker.Mixture([(parts[0], 1), (parts[1], weight)])
    with pytest.raises(ValueError, match="no datasets"):
        stoker.Mixture([])
    with pytest.raises(ValueError, match="epoch_samples=0"):
        stoker.Mixture([(parts[0], 1)], epoch_samples=0)
    with pytest.raises(ValueError, match="order of its own"):
        load(stoker.Mixture([(parts[0], 1)]), order=[0])


def test_a_loader_widens_tokens_of_several_stored_types(tmp_path: Path) -> None:
    paths = []
    for base, name in ((0, "uint16"), (100_000, "int32"), (2**40, "int64"), (-90, "int8")):
        np.save(tmp_path / f"{name}.npy", np.arange(base, base + 64).astype(name))
        paths.append(tmp_path / f"{name}.npy")
    with pytest.raises(ValueError, match=r'stored as int32 and uint16: give each .*dtype="int64"'):
        stoker.Mixture([(stoker.Tokens(path, window=8), 1.0) for path in paths])
    wide = stoker.Mixture([(stoker.Tokens(p, window=8, dtype="int64"), 1.0) for p in paths])
    loader = stoker.Loader(wide, batch_size=5, shuffle=False, torch=False)
    seen = np.concatenate([batch["tokens"].copy() for batch in loader])
    assert seen.dtype == np.int64
    assert (seen == np.stack([wide[i]["tokens"] for i in range(len(seen))])).all()
    assert {row[0] // 1000 for row in seen} == {0, 100, 2**40 // 1000, -1}


def test_a_loader_widens_packs_of_several_stored_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for base, name in ((1, "uint16"), (100_000, "int32")):
        documents = [base + np.arange(n, dtype=name) for n in rng.integers(2, 9, 30)]
        stoker.ingest(({"tokens": one} for one in documents), tmp_path / name, format="tokens")
    parts = [stoker.Tokens(tmp_path / n, pack=16, dtype="int64") for n in ("uint16", "int32")]
    mix = stoker.Mixture([(part, 1.0) for part in parts])
    names = ("tokens", "position_ids", "document_ids")
    rows = [
        [batch[name][i].tolist() for name in names]
        for batch in stoker.Loader(mix, batch_size=3, shuffle=False, torch=False)
        for i in range(len(batch["tokens"]))
    ]
    assert rows == [[mix[i][name].tolist() for name in names] for i in range(len(rows))]
    assert {row[0][0] >= 100_000 for row in rows} == {False, True}


def test_numbers_as_text_are_not_read_as_the_plain_elements_of_another_dataset(
    tmp_path: Path, write_tar: Any
) -> None:
    plain = {f"a{i}": {"year": np.int32(70000 + i).tobytes()} for i in range(8)}
    text = {f"b{i}": {"year": b"199%d" % i} for i in range(8)}
    parts = [
        stoker.Dataset(write_tar(tmp_path / f"{name}.tar", samples))
        for name, samples in (("plain", plain), ("text", text))
    ]
    mix = stoker.Mixture([(part, 1.0) for part in parts])
    with pytest.raises(ValueError, match=r'dataset 1 .*"year": it has text.*stoker.Array\("int32"'):
        next(iter(load(mix, fields={"year": np.int32})))
    with pytest.raises(ValueError, match="year"):
        next(iter(load(stoker.Mixture([(p, 1.0) for p in parts[::-1]]), fields={"year": np.int32})))


@pytest.mark.parametrize("weight", [True, "1", b"1", None])
def test_a_weight_is_a_number(shards: Path, weight: Any) -> None:
    with pytest.raises(TypeError, match="a weight is a number"):
        stoker.Mixture([(shards, weight), (shards, 1)])
