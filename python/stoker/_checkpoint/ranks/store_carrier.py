"""The thread that carries the messages of ranks to torch.distributed's store."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from stoker import _native

# torch prints nothing and never waits if a name is missing here, unlike get() and wait().
_MISSING = b"-"
_NAME = "torch.distributed's store"
_FOUND_BYTES_MAX = 32 << 20  # that one request returns; the core asks again
_JOIN_SECONDS = 2.0
_CONNECT_SECONDS = 10.0


class StoreCarrier:
    """Carries messages until ``close``, and longer for sessions that last longer.

    It uses a connection of its own where torch can make one. It also keeps the store of the
    job alive: on rank 0 that may be the server itself, which
    ``torch.distributed.destroy_process_group()`` would end while other ranks still use it. If the
    store fails, for example because its server has ended, all requests fail at once with that
    reason; torch does not connect again.

    Attributes:
        native: What the core asks.
    """

    def __init__(self, store: Any) -> None:
        self.native = _native.MessageCarrier(_NAME)
        self._probed: concurrent.futures.Future[str] = concurrent.futures.Future()
        self._process = os.getpid()
        # The thread does not refer to this object, and a forked child never frees the store, whose
        # threads it does not have.
        self._thread = threading.Thread(
            target=_carry,
            args=(store, self.native, self._probed),
            name="stoker-messages",
            daemon=True,
        )
        self._thread.start()

    def why_unusable(self, timeout: float) -> str:
        """Returns why this kind of store cannot carry messages; empty if it can.

        Raises:
            TimeoutError: The store does not answer.
        """
        try:
            return self._probed.result(timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"{_NAME} did not answer in time") from None

    def close(self) -> None:
        """Lets go of the store, once no session uses it. Does nothing in a forked child."""
        if os.getpid() != self._process:
            return
        self.native.close()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def end(self) -> None:
        """Ends the thread after ``close``, and fails what still waits for messages.

        A thread that is in a call of torch when the interpreter ends would abort the process.
        """
        self.native.fail("the program has ended, or dropped its Checkpointer")
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)


def _carry(
    store: Any, carrier: _native.MessageCarrier, probed: concurrent.futures.Future[str]
) -> None:
    link = store
    try:
        # Another thread may wait in the store for minutes, and a connection serves one call at a
        # time.
        _check_server(store)
        with contextlib.suppress(AttributeError, NotImplementedError, RuntimeError):
            link = store.clone()
        why = _probe(link)
        probed.set_result(why)
        if why:
            return
        while (request := carrier.next()) is not None:
            verb, names, text = request
            carrier.answer(_VERBS[verb](link, names, text))
            del request, names, text  # may be large
    except BaseException as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        carrier.fail(f"{_NAME} has failed: {reason}")
        if not probed.done():
            probed.set_result("")
    finally:
        carrier.close()


def _check_server(store: Any) -> None:
    """Raises if nothing listens where the store connects to: torch would try for minutes."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host, port = getattr(store, "host", None), getattr(store, "port", None)
    if not isinstance(host, str) or not isinstance(port, int):
        return
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        raise
    except (OSError, LookupError, ValueError):
        return  # torch may know better


def _probe(store: Any) -> str:
    """Returns why the store lacks what is needed; empty if it does not.

    Stores of torch itself have everything. Raises if it cannot be reached.
    """
    name = f"stoker/probe-{os.urandom(8).hex()}"
    lost = getattr(sys.modules["torch.distributed"], "DistError", ())
    try:
        if _find(store, [name], b"") or _claim(store, [name], b"1") != [b"1"]:
            return "compare_set() does not work as documented"
        _put(store, [name], b"\xff2")
        if _find(store, [name], b"") != [b"\xff2"] or _check(store, [name], b"") != [name.encode()]:
            return "set() or check() do not work as documented"
        _remove(store, [name], b"")
        return "delete_key() does not delete" if _find(store, [name], b"") else ""
    except lost:
        raise
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return str(error).partition("\n")[0] or type(error).__name__


def _put(store: Any, names: list[str], text: bytes) -> list[bytes]:
    store.set(names[0], text)
    return []


def _claim(store: Any, names: list[str], text: bytes) -> list[bytes]:
    return [store.compare_set(names[0], b"", text)]


def _retire(store: Any, names: list[str], text: bytes) -> list[bytes]:
    if store.compare_set(names[0], text, _MISSING) == _MISSING:
        store.delete_key(names[0])
    return []


def _find(store: Any, names: list[str], _: bytes) -> list[bytes]:
    texts: list[bytes] = []
    size_bytes = 0
    for name in names:
        text = store.compare_set(name, _MISSING, _MISSING)  # changes nothing
        if text == _MISSING:
            break
        texts.append(text)
        size_bytes += len(text)
        if size_bytes >= _FOUND_BYTES_MAX:
            break
    return texts


def _check(store: Any, names: list[str], _: bytes) -> list[bytes]:
    return [name.encode() for name in names if store.check([name])]


def _remove(store: Any, names: list[str], _: bytes) -> list[bytes]:
    for name in names:
        store.delete_key(name)
    return []


_VERBS: dict[str, Callable[[Any, list[str], bytes], list[bytes]]] = {
    "put": _put,
    "claim": _claim,
    "retire": _retire,
    "find": _find,
    "check": _check,
    "remove": _remove,
}
