"""A bucket of a Ceph gateway on loopback, for comparisons."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).parents[2]
CEPH = ROOT / "tests" / "servers" / "ceph.sh"


@contextlib.contextmanager
def ceph(folder: Path) -> Iterator[None]:
    """Runs a cluster whose endpoint, keys and bucket are in the environment meanwhile."""
    subprocess.run([CEPH, "start", folder], check=True)
    before = dict(os.environ)
    try:
        for line in (folder / "s3.env").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            os.environ[name] = value
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        subprocess.run([CEPH, "stop", folder], check=True)


def name() -> str:
    """Returns the name of the bucket."""
    return os.environ["BUCKET"]


def presigned(key: str, expires_s: int = 86400) -> str:
    """Returns a URL with which anybody may get the object (SigV4 in the query)."""
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    endpoint, region = os.environ["AWS_ENDPOINT_URL"], os.environ["AWS_REGION"]
    host = endpoint.partition("://")[2]
    path = quote(f"/{os.environ['BUCKET']}/{key}")
    scope = f"{day}/{region}/s3/aws4_request"
    query = "&".join(
        f"{name}={quote(value, safe='')}"
        for name, value in (
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", f"{os.environ['AWS_ACCESS_KEY_ID']}/{scope}"),
            ("X-Amz-Date", stamp),
            ("X-Amz-Expires", str(expires_s)),
            ("X-Amz-SignedHeaders", "host"),
        )
    )
    canonical = f"GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signing = f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (day, region, "s3", "aws4_request"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    signature = hmac.digest(signing, text.encode(), "sha256").hex()
    return f"{endpoint}{path}?{query}&X-Amz-Signature={signature}"
