"""stoker.pack() with a tokenizer: documents in, Megatron tokens out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._pack.importers import documents, text

WORDS = [f"w{i}" for i in range(200)]
EOD = 1

Files = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A tokenizer.json of whole words that, if it were let, would cut, fill and add tokens."""
    made = make_tokenizer({"<unk>": 0, "<eod>": EOD, **{w: i + 2 for i, w in enumerate(WORDS)}})
    path = tmp_path / "tokenizer.json"
    path.write_text(made)
    return path


def make_tokenizer(vocabulary: dict[str, int]) -> str:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<eod> $A", special_tokens=[("<eod>", vocabulary["<eod>"])]
    )
    made.enable_truncation(max_length=4)
    made.enable_padding(length=16)
    return str(made.to_str())


def document(i: int) -> tuple[str, list[int]]:
    numbers = [(i * 7 + k) % 200 for k in range(i % 23 + 1)]
    return " ".join(WORDS[n] for n in numbers), [*(n + 2 for n in numbers), EOD]


def write_jsonl(path: Path, count: int = 90) -> Path:
    lines = [json.dumps({"text": document(i)[0], "id": i}) for i in range(count)]
    path.write_text("\n".join([*lines[:30], "", "  \t", *lines[30:]]) + "\n")
    return path


def tokens_of(folder: Path) -> list[list[int]]:
    ds = stoker.Dataset(folder, verify="full")
    assert ds.format == "megatron"
    return [sample["tokens"].tolist() for sample in ds]


def test_jsonl_becomes_a_sequence_for_each_line(tmp_path: Path, tokenizer: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl")
    report = stoker.pack(source, tmp_path / "out", tokenizer=str(tokenizer), eod=EOD,
                         samples_per_shard=20)  # fmt: skip
    assert (report.sample_count, report.shard_count) == (90, 5)
    assert tokens_of(tmp_path / "out") == [document(i)[1] for i in range(90)]
    assert stoker.Dataset(tmp_path / "out")[0]["tokens"].dtype == np.uint16


def test_text_is_a_document_for_each_file_or_line(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    names = ["b.txt", "a.txt", "sub/c.txt"]
    for i, name in enumerate(names):
        (tmp_path / "in" / name).write_text(f"w{i} w{i}\r\nw9\n\n")
    (tmp_path / "in" / "other.md").write_text("w7")
    options: dict[str, Any] = {"tokenizer": tokenizer, "eod": EOD}
    stoker.pack(tmp_path / "in", tmp_path / "files", **options)
    assert tokens_of(tmp_path / "files") == [
        [3, 3, 11, EOD], [2, 2, 11, EOD], [4, 4, 11, EOD]
    ]  # fmt: skip
    stoker.pack(tmp_path / "in", tmp_path / "lines", lines=True, **options)
    assert tokens_of(tmp_path / "lines") == [
        [3, 3, EOD], [11, EOD], [2, 2, EOD], [11, EOD], [4, 4, EOD], [11, EOD]
    ]  # fmt: skip


def test_tasks_restarts_and_shuffling_change_no_document(
    tmp_path: Path, tokenizer: Path, visible_files: Files, pack_until_killed: Callable[..., None]
) -> None:
    source = write_jsonl(tmp_path / "a.jsonl")
    options: dict[str, Any] = {"tokenizer": str(tokenizer), "eod": EOD, "samples_per_shard": 20}
    stoker.pack(source, tmp_path / "one", **options)
    whole = visible_files(tmp_path / "one")
    for i in range(3):
        stoker.pack(source, tmp_path / "two", task=(i, 3), **options)
    stoker.merge_pack(tmp_path / "two")
    assert visible_files(tmp_path / "two") == whole
    pack_until_killed(55, source, tmp_path / "three", **options)
    assert "manifest.json" not in visible_files(tmp_path / "three")
    assert stoker.pack(source, tmp_path / "three", **options).shards_found == 2
    assert visible_files(tmp_path / "three") == whole
    stoker.pack(source, tmp_path / "four", shuffle_seed=9, **options)
    shuffled = tokens_of(tmp_path / "four")
    ordered = [document(i)[1] for i in range(90)]
    assert shuffled != ordered
    assert sorted(shuffled) == sorted(ordered)


@pytest.mark.parametrize(("entries", "dtype"), [(65_536, np.uint16), (65_537, np.int32)])
def test_the_dtype_follows_the_vocabulary(tmp_path: Path, entries: int, dtype: Any) -> None:
    vocabulary = {"<unk>": 0, "<eod>": EOD, "last": entries - 1}  # with holes: ids count
    (tmp_path / "t.json").write_text(make_tokenizer(vocabulary))
    (tmp_path / "a.txt").write_text("last")
    stoker.pack(tmp_path / "a.txt", tmp_path / "out", tokenizer=tmp_path / "t.json", eod=EOD)
    sample = stoker.Dataset(tmp_path / "out")[0]
    assert sample["tokens"].dtype == dtype
    assert sample["tokens"].tolist() == [entries - 1, EOD]


def test_empty_documents_are_their_end_alone_and_are_counted(
    tmp_path: Path, tokenizer: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": "w0"}\n{"text": "   "}\n')
    options: dict[str, Any] = {"tokenizer": str(tokenizer), "eod": EOD}
    stoker.pack(tmp_path / "a.jsonl", tmp_path / "out", **options)
    assert tokens_of(tmp_path / "out") == [[EOD], [2, EOD], [EOD]]
    rows = text.TokenRows(str(tmp_path / "a.jsonl"), tokenizer=str(tokenizer), eod=EOD)
    assert rows.notes() == []
    assert len(list(rows.read(range(3)))) == 1
    assert rows.notes() == ["empty documents, which are token 1 alone: 2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "w1"}\n\n{"text": "w\xff"}\n', r"a\.jsonl: line 3: not UTF-8"),
        (b'{"text": "w1"}\n{"text": 7}\n', "line 2: no text in a field 'text'"),
        (b'{"body": "w1"}\n', "line 1: no text in a field 'text'; there is text in 'body': name"),
        (b'["w1"]\n', "line 1: no text in a field 'text'"),
        (b'{"text": "w1"\n', "line 1: not JSON"),
        (b"[" * 100_000 + b"\n", "line 1: not JSON"),
        (b'{"text": "\\ud800"}\n', "line 1: cannot be tokenized"),
    ],
)
def test_bad_lines_are_corrupt_and_numbered(
    tmp_path: Path, tokenizer: Path, content: bytes, message: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(stoker.CorruptError, match=message):
        stoker.pack(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=str(tokenizer), eod=EOD)


def test_bad_text_is_corrupt_and_a_mark_at_its_begin_is_none(
    tmp_path: Path, tokenizer: Path
) -> None:
    options: dict[str, Any] = {"tokenizer": str(tokenizer), "eod": EOD, "lines": True}
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfw1\nw2 \xc3(\n")
    with pytest.raises(stoker.CorruptError, match=r"a\.txt: line 2: not UTF-8: byte 3"):
        stoker.pack(tmp_path / "a.txt", tmp_path / "out", **options)
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfw1\nw2")
    stoker.pack(tmp_path / "a.txt", tmp_path / "out", **options)
    assert tokens_of(tmp_path / "out") == [[3, EOD], [4, EOD]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eod": None}, r"eod \(--eod\) is missing"),
        ({"eod": 202}, "eod 202: no token of this vocabulary, which has 202"),
        ({"eod": -1}, "eod -1: no token"),
        ({"format": "tar"}, "a tokenizer makes tokens, not tar"),
        ({"kind": "parquet"}, "tokenizer: for text and jsonl, not for parquet"),
        ({"columns": ["a"]}, "text has no option columns"),
        ({"tokenizer": "README"}, "README"),
    ],
)
def test_options_are_checked(
    tmp_path: Path, tokenizer: Path, options: dict[str, Any], message: str
) -> None:
    source = write_jsonl(tmp_path / "a.jsonl")
    given: dict[str, Any] = {"tokenizer": str(tokenizer), "eod": EOD, **options}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        stoker.pack(source, tmp_path / "out", **given)


def test_sources_without_text_are_named(tmp_path: Path, tokenizer: Path) -> None:
    options: dict[str, Any] = {"tokenizer": str(tokenizer), "eod": EOD}
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.jsonl").write_text("\n \n")
    for name in ("empty", "blank.jsonl"):
        with pytest.raises(ValueError, match=f"{name}: no text in it"):
            stoker.pack(tmp_path / name, tmp_path / "out", **options)
    with pytest.raises(ValueError, match="text is packed through a tokenizer"):
        stoker.pack(tmp_path / "empty", tmp_path / "out", kind="text")
    (tmp_path / "empty" / "a.txt").write_text("w1")
    write_jsonl(tmp_path / "empty" / "a.jsonl")
    with pytest.raises(ValueError, match="holds both"):
        stoker.pack(tmp_path / "empty", tmp_path / "out", **options)
    stoker.pack(tmp_path / "empty", tmp_path / "out", kind="jsonl", **options)
    assert len(tokens_of(tmp_path / "out")) == 90
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match=r"bad\.json: not a tokenizer\.json"):
        stoker.pack(
            tmp_path / "blank.jsonl", tmp_path / "x", tokenizer=tmp_path / "bad.json", eod=1
        )


def test_ids_beyond_the_vocabulary_are_an_error(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "a.txt").write_text("w1")
    rows = text.TokenRows(str(tmp_path / "a.txt"), tokenizer=str(tokenizer), eod=EOD)

    class Wrong:
        ids = (5, 70_000)

    rows._encode = lambda *_: [Wrong()]  # type: ignore[method-assign]
    with pytest.raises(stoker.CorruptError, match=r"a\.txt: token 70000 of 202"):
        next(rows.read(range(1)))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_lines_are_found_whatever_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    content = b"\n\nab\n \t\r\nc\r\n\xc3\xa4\n\n  d  \nlast"
    (tmp_path / "a.txt").write_bytes(content)
    monkeypatch.setattr(documents, "_BLOCK_BYTES", block)
    begins, sizes = documents.scan_lines(tmp_path / "a.txt")
    found = [content[b : b + s] for b, s in zip(begins, sizes, strict=True)]
    assert found == [b"ab", b"c\r", b"\xc3\xa4", b"  d  ", b"last"]


def test_linked_folders_of_text_are_followed_but_not_in_circles(
    tmp_path: Path, tokenizer: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "b.txt").write_text("w1")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("w0")
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "in" / "round").symlink_to(tmp_path / "in")
    stoker.pack(tmp_path / "in", tmp_path / "out", tokenizer=str(tokenizer), eod=EOD)
    assert tokens_of(tmp_path / "out") == [[2, EOD], [3, EOD]]


def test_files_that_are_no_documents_are_named(tmp_path: Path, tokenizer: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for name in ("a.txt", "b.TXT", "c.md", ".hidden.txt"):
        (texts / name).write_text("a")
    with pytest.warns(UserWarning, match=r"left out: \.hidden\.txt, b\.TXT, c\.md: "):
        report = stoker.pack(texts, tmp_path / "out", tokenizer=tokenizer, eod=1)
    assert report.sample_count == 1


def test_an_empty_first_document_is_counted_once(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": "a"}\n')
    with pytest.warns(UserWarning, match="which are token 1 alone: 1$"):
        stoker.pack(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tokenizer, eod=1)


def test_a_line_for_the_tokenizer_has_each_key_once(tmp_path: Path, tokenizer: Path) -> None:
    lines = ['{"text": "a"}', '{"text": "b", "n": {"k": 1, "k": 2}}', '{"text": "a", "text": "b"}']
    source = tmp_path / "a.jsonl"
    for last in (1, 2):
        source.write_text("\n".join([lines[0], lines[last]]))
        with pytest.raises(stoker.CorruptError, match=r"a\.jsonl: line 2: .*more than once"):
            stoker.pack(source, tmp_path / "out", tokenizer=tokenizer, eod=EOD)
