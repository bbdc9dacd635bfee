"""Who vouches for an archive: a signature and a third party's date, made, checked offline, and refused where they do not hold."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay_audit.archive import stamping
from relay_audit.archive.contents import contents
from relay_audit.archive.seals import Trust, check_archive_seals, check_run_seals, seals_of, stamped
from relay_audit.archive.signing import NAMESPACE, SealRefused, key_of, sign, signer
from relay_audit.archive.zipped import open_archive, write_archive
from relay_audit.cli.main import app
from relay_audit.clock import SystemClock
from relay_audit.errors import Unfinished, UsageError
from relay_audit.events import Draft
from relay_audit.manifest import SIGNATURE, TIME_STAMP
from relay_audit.store import Store
from tests.archive.authority import DAY, NOW, REJECTED, Authority, listening, request_for
from tests.archive.runs import kept

with_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here")


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path))
    monkeypatch.setenv("RELAY_AUDIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return kept("surplus", tmp_path)


def cli(*arguments: str, exit_code: int = 0) -> dict:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert getattr(done.exception, "exit_code", None) == exit_code, repr(done.exception)
        return {"refused": str(done.exception)}
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout.splitlines()[-1])


def keys(folder: Path, *names: str) -> None:
    for name in names:
        call = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(call, check=True)


def told(result: dict) -> set[str]:
    return {note["code"] for note in result["notes"]}


def wrong(result: dict) -> list[str]:
    return [problem["code"] for problem in result["problems"]]


@pytest.mark.deep
@with_ssh
def test_signed_and_dated_then_checked_offline(run, tmp_path):
    keys(tmp_path, "mine")
    (tmp_path / "signers").write_text(f"buyer@example.org {(tmp_path / 'mine.pub').read_text()}", encoding="utf-8")
    authority = Authority()
    ca = str(authority.write_root(tmp_path))
    with listening(lambda body: (200, authority.stamp(body))) as (url, seen):
        made = cli("export", run.name, "-o", "a.zip", "--timestamp", url, "--sign", str(tmp_path / "mine"))
    assert made["seals"] == [TIME_STAMP, SIGNATURE]
    assert len(seen) == 1
    head, body = seen[0].split(b"\n\n", 1)
    assert bytes.fromhex(made["evidence_head"]) in body
    assert len(body) < 80, "a hash, a random number, and nothing else"
    assert run.name.encode() not in seen[0]
    assert b"authorization" not in head.lower()

    checked = cli("verify", "a.zip", "--tsa-ca", ca, "--allowed-signers", str(tmp_path / "signers"))
    assert told(checked) == {"signed", "stamped"}
    text = " ".join(note["text"] for note in checked["notes"])
    assert "buyer@example.org" in text
    assert NOW.isoformat() in text
    assert told(cli("verify", "a.zip")) == {"signature_unchecked", "stamp_unchecked"}
    assert told(cli("verify", run.name, "--tsa-ca", ca)) == {"stamped", "signature_kept"}
    assert "refused" in cli("verify", run.name, "--allowed-signers", str(tmp_path / "signers"), exit_code=2)

    cli("export", run.name, "--for", "vendor", "-o", "v.zip")
    vendor = cli("verify", "v.zip", "--tsa-ca", ca)
    assert (told(vendor), vendor["edition"]) == ({"stamped"}, "vendor"), "the date is of the head, which both share"


@pytest.mark.deep
@with_ssh
def test_what_was_sealed_is_taken_in_with_its_seals(run, tmp_path, monkeypatch):
    keys(tmp_path, "mine")
    authority = Authority()
    with listening(lambda body: (200, authority.stamp(body))) as (url, _):
        cli("export", run.name, "-o", "a.zip", "--timestamp", url, "--sign", str(tmp_path / "mine"))
    monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path / "elsewhere"))
    cli("import", "a.zip")
    ca = str(authority.write_root(tmp_path))
    assert told(cli("verify", run.name, "--tsa-ca", ca)) == {"stamped", "signature_kept"}
    cli("export", run.name, "-o", "b.zip")
    assert told(cli("verify", "b.zip", "--tsa-ca", ca)) == {"stamped"}
    assert wrong(cli("verify", "b.zip", "--allowed-signers", str(ca), exit_code=1)) == ["signature_missing"]


@pytest.mark.deep
def test_a_stranger_checks_both_without_us(run, tmp_path):
    """With the two programs that every system has: their formats are those of the standards."""
    if not (shutil.which("openssl") and shutil.which("ssh-keygen")):
        pytest.skip("no openssl, or no ssh-keygen here")
    keys(tmp_path, "mine")
    (tmp_path / "signers").write_text(f"buyer {(tmp_path / 'mine.pub').read_text()}", encoding="utf-8")
    authority = Authority()
    with listening(lambda body: (200, authority.stamp(body))) as (url, _):
        made = cli("export", run.name, "-o", "a.zip", "--timestamp", url, "--sign", str(tmp_path / "mine"))
    shutil.unpack_archive("a.zip", tmp_path / "out")
    out, ca = tmp_path / "out", str(authority.write_root(tmp_path))
    dated = ["openssl", "ts", "-verify", "-digest", made["evidence_head"], "-in", str(out / TIME_STAMP), "-CAfile", ca,
             "-attime", str(int(NOW.timestamp()))]  # fmt: skip
    assert subprocess.run(dated, capture_output=True, check=False).returncode == 0
    signed = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "buyer", "-n", "relay-audit-archive",
              "-s", str(out / SIGNATURE)]  # fmt: skip
    manifest = (out / "manifest.json").read_bytes()
    assert subprocess.run(signed, input=manifest, capture_output=True, check=False).returncode == 0


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def test_a_date_that_does_not_hold_is_refused_and_an_old_one_holds(run, tmp_path):
    """Another hash, another key, a certificate that had ended by then, one not for dates, altered bytes, garbage. One that
    has ended since is what every old stamp has."""
    with Store.open(run) as store:
        packed, head = contents(store, "full"), store.head()
    authority, asked = Authority(), request_for(head)
    good, ended, other = authority.stamp(asked), Authority(valid_until=NOW - DAY), Authority(for_stamps=False)
    imprint = good.find(bytes.fromhex(head))
    cases = [
        (good, authority, ""),
        (Authority(valid_until=NOW + DAY).stamp(asked), Authority(), "not_signed"),
        (authority.stamp(asked, imprint=b"x" * 32), authority, "other_hash"),
        (ended.stamp(asked), ended, "not_signed"),
        (other.stamp(asked), other, "not_signed"),
        (flipped(good, imprint + 3), authority, "other_hash"),
        (flipped(good, len(good) - 4), authority, "not_signed"),
        (flipped(good, good.find(b"20261130") + 9), authority, "not_signed"),
        (REJECTED, authority, "unreadable"),
        (b"nonsense", authority, "unreadable"),
    ]
    for raw, whose, word in cases:
        path = tmp_path / "case.zip"
        write_archive(packed, path, {TIME_STAMP: raw})
        with open_archive(path) as archive:
            found = check_archive_seals(archive, head, Trust(authorities=whose.write_root(tmp_path)))
            bare = check_archive_seals(archive, head, Trust())
        assert [p.params["what"] for p in found.problems] == ([word] if word else [])
        assert [n.code for n in found.notes] == ([] if word else ["stamped"])
        assert bool(bare.problems) == (word in ("other_hash", "unreadable")), "told without anybody's certificates"
        assert [n.code for n in bare.notes] == ([] if bare.problems else ["stamp_unchecked"])
    since = Authority(valid_until=NOW + DAY)
    write_archive(packed, tmp_path / "old.zip", {TIME_STAMP: since.stamp(asked), SIGNATURE: b"no signature"})
    with open_archive(tmp_path / "old.zip") as archive:
        found = check_archive_seals(archive, head, Trust(authorities=since.write_root(tmp_path)))
        with pytest.raises(UsageError, match="no PEM certificates"):
            check_archive_seals(archive, head, Trust(authorities=tmp_path / "old.zip"))
    assert [n.code for n in found.notes if n.code != "signature_unchecked"] == ["stamped"]
    assert [p.code for p in found.problems] == (["signature"] if shutil.which("ssh-keygen") else [])


@pytest.mark.parametrize(
    "answer",
    [
        lambda a, body: (500, a.stamp(body)),
        lambda a, body: (200, REJECTED),
        lambda a, body: (200, b""),
        lambda a, body: (200, a.stamp(body, imprint=b"x" * 32)),
        lambda a, body: (200, a.stamp(body, nonce=1)),
        lambda a, body: (200, a.stamp(body) + b"\0" * (70 << 10)),
    ],
    ids=["error", "rejected", "empty", "another hash", "an old answer", "too large"],
)
def test_an_authority_that_gives_no_stamp_is_asked_once_and_leaves_nothing(run, answer):
    authority = Authority()
    with Store.open(run) as store, listening(lambda body: answer(authority, body)) as (url, seen):
        with pytest.raises(Unfinished, match="no archive was written"):
            stamped(store, url, SystemClock())
        assert len(seen) == 1, "asked once"
        assert not [e for e in store.events() if e.type == "stamp.recorded"]


@pytest.mark.parametrize(
    "url",
    [
        "http://tsa.example/tsr",
        "https://key@tsa.example/",
        "ftp://tsa.example",
        "tsa.example",
        "https://10.0.0.1/",
        "http://[::1",
    ],
)
def test_an_address_is_refused_before_any_socket(run, url):
    with Store.open(run) as store, pytest.raises(UsageError) as told_so:
        stamped(store, url, SystemClock())
    assert "key" not in told_so.value.message, "no key goes there"


def test_a_date_is_kept_with_the_run_and_goes_into_each_of_its_archives(run, tmp_path):
    """One request, which carries the hash of the end and a random number; then the run is dated, whoever exports it."""
    authority = Authority()
    with Store.open(run) as store:
        with listening(lambda body: (200, authority.stamp(body))) as (url, seen):
            draft = stamped(store, url, SystemClock())
        head, body = seen[0].split(b"\n\n", 1)
        assert len(seen) == 1
        assert bytes.fromhex(store.head()) in body
        assert len(body) < 80, "a hash, a random number, and nothing else"
        assert not {b"authorization", b"x-api-key", b"cookie"} & {
            line.split(b":")[0] for line in head.lower().splitlines()
        }
        store.append_all([draft], ts=NOW)
        assert set(seals_of(store, "0" * 64)) == {TIME_STAMP}
        ca = authority.write_root(tmp_path)
        assert [n.code for n in check_run_seals(store, Trust(authorities=ca)).notes] == ["stamped"]
        other = Authority().write_root(tmp_path)
        assert [p.code for p in check_run_seals(store, Trust(authorities=other)).problems] == ["time_stamp"]
        with pytest.raises(UsageError, match="not over a run"):
            check_run_seals(store, Trust(signers=ca))


def test_a_run_without_an_end_has_nothing_to_date(tmp_path):
    with Store.open(kept("waiting", tmp_path)) as store, pytest.raises(UsageError, match="over the end of a run"):
        stamped(store, "http://127.0.0.1:9/", SystemClock())


def test_without_the_extra_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setattr(stamping, "library", None)
    with Store.open(run) as store:
        with pytest.raises(UsageError, match="extra") as told_so:
            stamped(store, "http://127.0.0.1:9/", SystemClock())
        assert "[timestamp]" in told_so.value.next_step
        store.append_all([Draft("stamp.recorded", {"kind": "timestamp"}, "human", store.put_blob(b"whatever"))], ts=NOW)
        assert [n.code for n in check_run_seals(store, Trust()).notes] == ["stamp_unchecked"]
        with pytest.raises(UsageError, match="extra"):
            check_run_seals(store, Trust(authorities=tmp_path / "x.pem"))


@with_ssh
def test_a_signature_that_does_not_hold_is_refused(tmp_path):
    """Over another archive, by a key that is in no list, for another purpose, altered; and a key that cannot sign."""
    keys(tmp_path, "mine", "other")
    (tmp_path / "signers").write_text(f"buyer {(tmp_path / 'mine.pub').read_text()}", encoding="utf-8")
    raw = b"a manifest"

    def made(key: str, over: bytes = raw, namespace: str = NAMESPACE) -> bytes:
        call = ["ssh-keygen", "-Y", "sign", "-f", str(tmp_path / key), "-n", namespace]
        return subprocess.run(call, input=over, capture_output=True, check=True).stdout

    assert signer(raw, sign(raw, tmp_path / "mine"), tmp_path / "signers") == "buyer"
    assert key_of(raw, made("other")).startswith("SHA256:")
    cases = [
        made("mine", b"another manifest"),
        made("mine", namespace="git"),
        b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n",
        b"\0" * 50,
    ]
    for signature in (made("other"), *cases):
        with pytest.raises(SealRefused):
            signer(raw, signature, tmp_path / "signers")
    for signature in cases:
        with pytest.raises(SealRefused):
            key_of(raw, signature)
    (tmp_path / "text").write_text("no key", encoding="utf-8")
    for key in ("text", "nowhere"):
        with pytest.raises(UsageError):
            sign(raw, tmp_path / key)
