"""`relay-audit media` and `relay-audit pin`: what they print, remember and refuse, and how they end."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from relay_audit.cli.main import main
from relay_audit.media import examine, pins
from relay_audit.media_facts import Encoder, Pin
from tests.media import material as m

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "data" / "c2pa" / "fixtures"


@pytest.fixture
def relay_audit(monkeypatch, capsys):
    def run(*words) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["relay-audit", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out or said.err

    return run


@pytest.fixture
def media_json(relay_audit):
    def run(*words) -> tuple[int, list[dict]]:
        code, out = relay_audit("media", "--json", *words)
        return code, json.loads(out)["files"]

    return run


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    above = m.authority("Demo Official CA")
    by = {"official": m.chain(above), "renewed": m.chain(above), "spoof": m.chain(m.authority("Totally Legit CA"))}
    return {name: m.sign(m.plain(), folder / f"{name}.mp4", chain) for name, chain in by.items()}


def codes(row: dict) -> list[str]:
    return [finding["code"] for finding in row["findings"]]


def test_pin_then_media(relay_audit, media_json, films, own_home):
    assert media_json(films["official"], "--profile", "seedance")[0] == 4
    code, out = relay_audit("pin", films["official"], "--profile", "seedance", "--json")
    said = json.loads(out)
    assert (code, said["pinned"], said["integrity"]) == (0, "seedance", "holds")
    assert "made by this model" in said["notes"][0] or "这个模型" in said["notes"][0]
    assert Path(said["pins"]).is_relative_to(own_home)
    code, rows = media_json(films["official"], films["spoof"], "--profile", "seedance")
    assert code == 1
    assert [codes(row) for row in rows] == [["media.signer_matches"], ["media.signer_spoofed"]]
    assert rows[0]["signer"]["leaf_sha256"] == said["leaf_sha256"]
    assert set(rows[0]["findings"][0]["texts"]) == {"zh-CN", "en"}
    assert rows[0]["libraries"]["c2pa-python"]
    assert relay_audit("media", films["official"], "--profile", "seedance")[0] == 0
    assert media_json(films["spoof"], "--profile", "seedance", "--fail-on", "critical")[0] == 0


def test_rotate(relay_audit, media_json, films):
    relay_audit("pin", films["official"], "--profile", "seedance")
    code, rows = media_json(films["renewed"], "--profile", "seedance")
    assert (code, codes(rows[0])) == (4, ["media.signer_unknown"])
    assert media_json(films["renewed"], "--profile", "seedance", "--allow-inconclusive")[0] == 0
    code, out = relay_audit("pin", films["renewed"], "--profile", "seedance", "--json")
    assert (code, "--rotate" in json.loads(out)["next_step"]) == (2, True)
    assert relay_audit("pin", films["renewed"], "--profile", "seedance", "--rotate")[0] == 0
    assert media_json(films["renewed"], films["official"], "--profile", "seedance")[0] == 0
    assert relay_audit("pin", films["renewed"], "--profile", "seedance")[0] == 0  # again: nothing changes


def test_what_is_not_pinned(relay_audit, films, tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(films["official"].read_bytes() + b"\0")
    for words in (
        ("pin", broken, "--profile", "seedance"),
        ("pin", films["official"], "--profile", "Not a name"),
        ("pin", tmp_path / "absent.mp4", "--profile", "seedance"),
        ("media", tmp_path / "absent.mp4"),
        ("media", films["official"], "--profile", "seedence"),
        ("media", films["official"], "--fail-on", "sometimes"),
    ):
        assert relay_audit(*words)[0] == 2, words


def test_a_profile_of_ones_own(relay_audit, media_json):
    assert relay_audit("pin", m.plain(), "--profile", "my-vendor")[0] == 0
    code, rows = media_json(m.DATA / "reencoded.mp4", "--profile", "my-vendor")
    assert (code, codes(rows[0])) == (0, ["media.repackaged"])
    assert rows[0]["findings"][0]["params"]["kind"] == "re_encoded"
    assert media_json(m.DATA / "reencoded.mp4", "--profile", "my-vendor", "--fail-on", "low")[0] == 1
    assert codes(media_json(m.DATA / "remuxed.mp4", "--profile", "my-vendor")[1][0]) == ["media.no_credentials"]
    relay_audit("pin", m.DATA / "labelled.mp4", "--profile", "wan")
    assert codes(media_json(m.DATA / "labelled.mp4", "--profile", "wan")[1][0]) == ["media.no_credentials"]
    assert "media.label_mismatch" in codes(media_json(m.DATA / "remuxed.mp4", "--profile", "wan")[1][0])


def test_a_workflow_keeps_its_prompts(relay_audit, media_json):
    code, rows = media_json(m.DATA / "workflow.mp4")
    assert (code, codes(rows[0])[0]) == (1, "media.self_hosted_pipeline")
    for words in (("media", m.DATA / "workflow.mp4"), ("media", m.DATA / "workflow.mp4", "--json")):
        assert "private wish" not in relay_audit(*words)[1]


def test_one_file_that_cannot_be_read_hides_no_other(relay_audit, tmp_path):
    gone = tmp_path / "gone.mp4"
    code, out = relay_audit("media", gone, m.plain(), "--json")
    said = json.loads(out)
    assert code == 2, "a wrong name among the files comes before what the others show"
    assert [row["untrusted_file"] for row in said["files"]] == [m.plain().name]
    (lost,) = said["not_read"]
    assert lost["message"].startswith("gone.mp4 cannot be read")
    assert set(lost["text"]) == {"zh-CN", "en"}
    code, out = relay_audit("media", gone, gone, "--json")
    assert (code, json.loads(out)["error"]) == (2, "usage"), "where none can be read, that is the answer"


def test_a_name_full_of_control_characters_is_shown_and_not_emitted(relay_audit, tmp_path):
    odd = tmp_path / "a\x1b[31m\n.mp4"
    odd.write_bytes(m.plain().read_bytes())
    for words in (("media", odd), ("media", odd, "--json")):
        assert "\x1b" not in relay_audit(*words)[1]


@pytest.mark.parametrize("missing", ["c2pa", "pymediainfo"])
def test_without_the_extra(relay_audit, media_json, films, monkeypatch, missing):
    relay_audit("pin", films["official"], "--profile", "seedance")
    program = f"import sys; sys.modules[{missing!r}] = None; {examine.PROGRAM}"
    monkeypatch.setattr(examine, "PROGRAM", program)
    code, rows = media_json(films["official"], "--profile", "seedance")
    if missing == "pymediainfo":
        assert (code, codes(rows[0])) == (0, ["media.signer_matches"])
        return
    finding = rows[0]["findings"][0]
    assert (code, finding["code"], finding["outcome"], finding["params"]["signer"]) == (
        4,
        "media.not_checked",
        "not_run",
        "pinned",
    )
    assert "pip install" in finding["texts"]["en"]["claim"]
    code, out = relay_audit("pin", films["renewed"], "--profile", "new", "--json")
    assert (code, json.loads(out)["integrity"]) == (0, "not_checked")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.abort()", "parser_died"),
        ("import sys; sys.exit(3)", "parser_died"),
        ("import time; time.sleep(60)", "out_of_time"),
        ("print('{broken')", "parser_died"),
    ],
)
def test_a_child_that_dies_is_a_fact(monkeypatch, program, reason):
    monkeypatch.setattr(examine, "PROGRAM", program)
    facts = examine.examine(m.plain(), seconds=1)
    assert (facts.refused, facts.integrity.state) == (reason, "unreadable")


def test_what_was_read_before_a_native_parser_dies_stays(monkeypatch, films):
    """The signer was read before; the file is not judged, and nobody accused."""
    killing = "import relay_audit.media.native as n, os, time; n.integrity = lambda path: time.sleep(1) or os.abort(); "
    monkeypatch.setattr(examine, "PROGRAM", examine.PROGRAM.replace("from pathlib", f"{killing}from pathlib"))
    facts = examine.examine(films["official"])
    assert (facts.integrity.state, facts.integrity.detail, facts.signer_state) == ("unreadable", "parser_died", "read")


def test_the_child_knows_no_key_of_ours(monkeypatch):
    monkeypatch.setenv("RELAY_KEY", "sk-canary-value")
    telling = "import os, json; print(json.dumps({'refused': {'reason': ' '.join(os.environ)}})); "
    monkeypatch.setattr(examine, "PROGRAM", telling)
    assert "RELAY_KEY" not in examine.examine(m.plain()).refused


def test_pins_come_back_as_they_were(tmp_path):
    odd = Encoder(
        library='a "quoted" \\ line', settings="tab\there \u007f", seis=("x y",), handlers=("vide|名前 \u0001",)
    )
    one = Pin(profile="p", file_sha256="a" * 64, pinned="2026-11-30", integrity_checked=False, encoder=odd, label="-")
    path = tmp_path / "config" / "pins.toml"
    pins.write_pins(path, (one, one.model_copy(update={"profile": "q", "superseded": one.pinned})))
    assert pins.read_pins(path)[0] == one
    assert pins.read_pins(path)[1].superseded == one.pinned
    assert len(tomllib.loads(path.read_text(encoding="utf-8"))["pins"]) == 2
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no files of others beside this checkout")
@pytest.mark.parametrize(
    ("name", "code", "exit_code", "params"),
    [
        ("C.jpg", "media.signer_spoofed", 1, {"why": "test_certificate"}),
        ("video1.mp4", "media.signer_spoofed", 1, {"why": "test_certificate"}),
        ("dashinit.mp4", "media.unreadable", 4, {"reason": "lone_fragment"}),
        ("nested_moov_1000.mp4", "media.unreadable", 4, {"reason": "too_deep"}),
        ("libpng-test_with_url.png", "media.unreadable", 4, {"reason": "remote_manifest"}),
    ],
)
def test_files_that_nobody_here_wrote(media_json, name, code, exit_code, params):
    ended, rows = media_json(FIXTURES / name)
    assert (ended, codes(rows[0])) == (exit_code, [code])
    assert params.items() <= rows[0]["findings"][0]["params"].items()
