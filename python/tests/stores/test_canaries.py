"""Secrets that somebody has set, in everything that Stoker prints, returns, raises and writes."""

from __future__ import annotations

import logging
import pickle
import re
import subprocess
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import stoker

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_PASSWORD = "canary-password"
_QUERY = "canary-signature"
_TOKEN = "canary-session-token"
_WRONG = "canary-wrong-secret"
_CANARY = re.compile(r"canary-|testsecret")


class _Refusing(BaseHTTPRequestHandler):
    """Answers as S3 does to a wrong signature, which repeats the headers that were signed."""

    def parse_request(self) -> bool:
        """Answers whatever the method is."""
        if super().parse_request():
            self.refuse()
        return False

    def refuse(self) -> None:
        """Says no."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = (
            "<Error><Code>SignatureDoesNotMatch</Code><Message>The signature is wrong.</Message>"
            f"<CanonicalRequest>{self.headers}</CanonicalRequest></Error>"
        ).encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_request(self, *_: object) -> None:
        """Is silent: what pytest captures is Stoker's own."""


@pytest.fixture
def refusing() -> Iterator[str]:
    """Host and port of a server on this machine that refuses everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Seen:
    """All that was seen, under a name of where."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def add(self, where: str, *values: object) -> None:
        """Keeps the text and the representation of values."""
        for value in values:
            self.texts.append((where, f"{value}\n{value!r}"))

    def ran(self, done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
        """Keeps what a command has printed; not its words, which the user wrote."""
        self.add(f"{done.args[1]} ...", done.stdout, done.stderr)
        return done

    def raised(self, where: str, call: Callable[[], object]) -> None:
        """Keeps what a call raises, which it must."""
        with pytest.raises((OSError, ValueError, stoker.CorruptError)) as caught:
            call()
        error: BaseException | None = caught.value
        while error is not None:
            self.add(where, error, *traceback.format_exception_only(error), vars(error))
            error = error.__cause__ or error.__context__

    def files(self, folder: Path) -> None:
        """Keeps names and contents of all files."""
        for path in folder.rglob("*"):
            content = path.read_bytes().decode("latin-1") if path.is_file() else ""
            self.texts.append((f"file {path.name}", f"{path}\n{content}"))

    def check(self) -> None:
        """Fails with each place that has a secret."""
        found = [(where, text) for where, text in self.texts if _CANARY.search(text)]
        assert not found, found


@pytest.fixture
def seen(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[Seen]:
    """Collects; then also looks at log records, warnings, and what this process has printed."""
    all_of_it = Seen()
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield all_of_it
    all_of_it.add("warnings", *(warning.message for warning in told))
    all_of_it.add("logs", caplog.text, *(vars(record) for record in caplog.records))
    all_of_it.add("printed", *capfd.readouterr())
    all_of_it.check()


def test_secrets_that_work_are_nowhere(
    bucket: str, shards: Path, tmp_path: Path, stoker_command: Run, seen: Seen
) -> None:
    folder = tmp_path / "nvme"
    stage = ("stage", f"{bucket}/train", "--cache", folder, "--cache-size", "64MiB")
    for words in (
        ("cp", shards, f"{bucket}/train", "--json"),
        ("index", f"{bucket}/train", "--json"),
        ("ls", f"{bucket}/train", "--json"),
        ("stats", f"{bucket}/train", "--json"),
        ("cat", f"{bucket}/train", "s001"),
        ("stream", f"{bucket}/train", "--batch-size", "8", "--json"),
        ("verify", f"{bucket}/train", "--json"),
        ("convert", f"{bucket}/train", f"{bucket}/mds", "--format", "mds", "--json"),
        (*stage, "--json"),
        ("cache", "ls", folder, "--json"),
    ):
        done = seen.ran(stoker_command(*words))
        assert done.returncode == 0, done.stderr
    seen.ran(stoker_command("doctor", "--json"))  # whether there are problems is its own affair
    cache = stoker.Cache(folder, "64MiB")
    dataset = stoker.Dataset(f"{bucket}/train", cache=cache)
    seen.add("dataset", dataset, dataset.shards, dataset[0], pickle.dumps(dataset), vars(dataset))
    loader = stoker.Loader(dataset, batch_size=4)
    for batch in loader:
        seen.add("batch", batch)
    seen.add("loader", loader, loader.stats(), loader.state_dict(), vars(loader))
    seen.add("cache", cache, cache.stats(), cache.trouble, vars(cache))
    seen.add("profile", stoker.profile(loader, batches=3))
    seen.files(tmp_path)


@pytest.mark.parametrize("case", ["secret", "token", "server", "bucket", "key", "proxy", "address"])
def test_secrets_are_in_no_error(
    case: str,
    bucket: str,
    shards: Path,
    tmp_path: Path,
    stoker_command: Run,
    refusing: str,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = f"{bucket}/train"
    if case == "secret":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", _WRONG)
    elif case == "token":
        monkeypatch.setenv("AWS_SESSION_TOKEN", _TOKEN)
    elif case == "server":
        monkeypatch.setenv("AWS_SESSION_TOKEN", _TOKEN)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{refusing}")
    elif case == "bucket":
        uri = "s3://there-is-no-such-bucket/train"
    elif case == "proxy":
        monkeypatch.setenv("http_proxy", f"http://user:{_PASSWORD}@{refusing}")
    elif case == "address":
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:{_PASSWORD}@{refusing}")
    else:
        assert case == "key"  # nothing is there
    refuse_all(uri, shards, tmp_path, stoker_command, seen)


@pytest.mark.parametrize(
    "uri",
    [
        f"https://user:{_PASSWORD}@127.0.0.1:1/train",
        f"http://user:{_PASSWORD}@127.0.0.1:1/a-{{000..001}}.tar",
        f"s3://AKID:{_PASSWORD}@bucket/train",
        f"s3://AKID:{_PASSWORD}/with-a-slash@bucket/train",
        f"ftp://user:{_PASSWORD}@127.0.0.1:1/train",
        f"memory://user:{_PASSWORD}@127.0.0.1:1/train",
        f"file://user:{_PASSWORD}@host/train",
        f"https://127.0.0.1:1/a.tar?X-Amz-Signature={_QUERY}",
        f"https://127.0.0.1:1/a.tar#{_QUERY}",
        f"pipe:curl -u user:{_PASSWORD} https://127.0.0.1:1/a.tar",
    ],
)
def test_secrets_in_a_uri_are_in_no_error(
    uri: str, bucket: str, shards: Path, tmp_path: Path, stoker_command: Run, seen: Seen
) -> None:
    refuse_all(uri, shards, tmp_path, stoker_command, seen)


@pytest.mark.parametrize(
    "endpoint", [f"user:{_PASSWORD}@127.0.0.1:1", f"http://127.0.0.1:1/?token={_QUERY}"]
)
def test_secrets_in_an_endpoint_that_is_no_url_are_in_no_error(
    endpoint: str,
    bucket: str,
    shards: Path,
    tmp_path: Path,
    stoker_command: Run,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    refuse_all(bucket, shards, tmp_path, stoker_command, seen)


def refuse_all(uri: str, shards: Path, folder: Path, stoker_command: Run, seen: Seen) -> None:
    """Does what fails with the URI, and keeps what was said about it."""
    cache = ("--cache", folder / "nvme", "--cache-size", "64MiB")
    for words in (
        ("ls", uri, "--json"),
        ("stats", uri, "--json"),
        ("stream", uri, "--json"),
        ("verify", uri, "--json"),
        ("index", uri),
        ("cat", uri, "s001"),
        ("stage", uri, *cache),
        ("cp", uri, folder / "copy", "--json"),
        ("convert", uri, folder / "mds", "--format", "mds"),
    ):
        done = seen.ran(stoker_command(*words))
        assert done.returncode in (1, 2), done.stdout
        assert done.stderr or done.stdout
    seen.raised("Dataset", lambda: stoker.Dataset(uri))
    seen.raised("Loader", lambda: stoker.Loader(uri, batch_size=4))
    cached = stoker.Cache(folder / "nvme", "64MiB")
    seen.raised("Dataset", lambda: stoker.Dataset(uri, cache=cached))
    seen.add("cache", cached, cached.stats(), cached.trouble)
    seen.files(folder)
