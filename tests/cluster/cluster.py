"""A Ceph cluster of tests/servers/ceph.sh, what is done to its daemons, and what is read back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "servers" / "ceph.sh"
OSDS = 3
LIMIT_S = 120.0  # for whatever the cluster is to do by itself


def wait_for(what: str, is_so: Callable[[], Any]) -> Any:
    """Returns what `is_so` returns as soon as it is true."""
    end = time.monotonic() + LIMIT_S
    while not (found := is_so()):
        assert time.monotonic() < end, f"{what}: not within {LIMIT_S} s"
        time.sleep(0.1)
    return found


class Cluster:
    """Three OSDs on files, two copies of everything."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        subprocess.run([SCRIPT, "start-cluster", directory], check=True)
        lines = (directory / "s3.env").read_text().splitlines()
        self.values = dict(line.split("=", 1) for line in lines)
        self.bucket = self.values["BUCKET"]
        wait_for("all placement groups are clean", self.is_clean)

    def stop(self) -> None:
        """Ends all daemons and removes their files."""
        subprocess.run([SCRIPT, "stop", self.directory], check=True)

    def environment(self) -> dict[str, str]:
        """What programs need to use the gateway."""
        return {name: value for name, value in self.values.items() if name.startswith("AWS_")}

    def ceph(self, *words: str) -> str:
        """Returns what a command of ceph prints."""
        command = ["ceph", "-c", str(self.directory / "ceph.conf"), "--name", "client.admin"]
        done = subprocess.run([*command, *words], check=True, capture_output=True, text=True)
        return done.stdout

    def _json(self, *words: str) -> Any:
        return json.loads(self.ceph(*words, "--format", "json"))

    def is_clean(self) -> bool:
        """Whether every object has both of its copies, and all daemons are there."""
        status = self._json("status")
        states = {group["state_name"] for group in status["pgmap"].get("pgs_by_state", [])}
        return status["osdmap"]["num_up_osds"] == OSDS and states == {"active+clean"}

    def is_up(self, osd: int) -> bool:
        """Whether the monitor takes the OSD for alive."""
        return bool(self._json("osd", "dump")["osds"][osd]["up"])

    def _pid(self, name: str) -> int:
        return int((self.directory / "run" / f"{name}.pid").read_text())

    def signal_osd(self, osd: int, number: signal.Signals) -> None:
        """Sends a signal to the process of an OSD."""
        os.kill(self._pid(f"osd.{osd}"), number)

    def start_osd(self, osd: int) -> None:
        """Starts an OSD that was killed, with what is on its disk."""
        conf = str(self.directory / "ceph.conf")
        subprocess.run(["ceph-osd", "-c", conf, "-i", str(osd)], check=True, capture_output=True)

    def fail_sockets(self, one_in: int) -> None:
        """Lets one in so many messages of the OSDs end its connection; 0: none."""
        self.ceph("tell", "osd.*", "config", "set", "ms_inject_socket_failures", str(one_in))

    @contextlib.contextmanager
    def mounted(self, name: str) -> Iterator[Path]:
        """A mount of CephFS through FUSE, as another machine has it."""
        place = self.directory / name
        place.mkdir()
        subprocess.run(
            [
                "ceph-fuse",
                *("-c", str(self.directory / "ceph.conf"), "--name", f"client.{name}"),
                f"--pid-file={self.directory}/run/{name}.pid",
                str(place),
            ],
            check=True,
            capture_output=True,
        )
        try:
            yield place
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)

    def unfinished_uploads(self) -> list[str]:
        """The keys of uploads in parts that were begun and neither completed nor aborted."""
        done = subprocess.run(
            [
                "radosgw-admin",
                *("-c", str(self.directory / "ceph.conf"), "--name", "client.rgw"),
                *("bucket", "list", "--bucket", self.bucket, "--max-entries", "1000000"),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        names = [entry["name"] for entry in json.loads(done.stdout)]
        return [name for name in names if name.startswith("_multipart_") or name.endswith(".meta")]
