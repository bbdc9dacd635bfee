"""A media file makes this machine ask nobody: counted on a server that such files point to."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading

import pytest
from cryptography.x509.oid import AuthorityInformationAccessOID

from relay_audit.assess.provenance import judge
from relay_audit.catalog import load_knowledge
from relay_audit.media.examine import examine
from tests.media import material as m
from tests.media.test_media_matrix import TODAY

UNLOCKED = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from pathlib import Path
from relay_audit.media import native
native.SETTINGS["verify"] |= {"remote_manifest_fetch": True, "ocsp_fetch": True}
native.SETTINGS["core"].pop("allowed_network_hosts")
print(native.integrity(Path(sys.argv[2]))["state"])
"""


@pytest.fixture
def server():
    """A loopback server that answers 404 and counts."""
    hits: list[str] = []

    class Counting(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            hits.append(self.path)
            self.send_error(404)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}", hits
        served.shutdown()


@pytest.fixture
def pointing(server, tmp_path):
    """Files whose credentials, or whose certificate, name the server."""
    url, _ = server
    above = m.authority("Demo Official CA")
    oids = (AuthorityInformationAccessOID.OCSP, AuthorityInformationAccessOID.CA_ISSUERS)
    asking = m.chain(above, urls=[(oid, f"{url}/certificate") for oid in oids])
    remote = [
        m.sign(m.plain(kind), tmp_path / f"remote.{kind}", m.chain(above), remote=f"{url}/remote.c2pa")
        for kind in ("mp4", "jpg", "png")
    ]
    return [*remote, m.sign(m.plain(), tmp_path / "certificate.mp4", asking)]


def test_nobody_is_asked(server, pointing):
    facts = [examine(path) for path in pointing]
    assert server[1] == []
    assert [one.integrity.state for one in facts] == ["remote", "remote", "remote", "read"]
    for one in facts[:3]:
        found = judge(one, load_knowledge(), (), "seedance", TODAY)
        assert found.findings[0].params == {"reason": "remote_manifest"}


def test_without_the_locks_the_server_is_asked(server, pointing):
    """The count above can fail: these are files that ask."""
    for path in (pointing[0], pointing[-1]):
        before = len(server[1])
        subprocess.run(
            [sys.executable, "-c", UNLOCKED, json.dumps([p for p in sys.path if p]), str(path)], check=True, env={}
        )
        assert len(server[1]) > before, path.name
