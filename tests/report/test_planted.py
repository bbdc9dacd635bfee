"""What must not leave, planted into the final bytes of every format for every reader: refused each time, nothing left behind."""

from __future__ import annotations

import base64
import html
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay_audit.errors import LeakRefused
from relay_audit.redaction import Redactor, Secret
from relay_audit.report.leakguard import check, write_report
from relay_audit.report.render import AUDIENCES, FORMATS, Audience, Format, render, terms_for
from relay_audit.target import Place
from tests.report import samples

KEY = "zq7" + "Hd2Lw9RtPbXnc4VmKsJ0aEyG6uF1oTi8"
"""Of no known shape: only who owns it can tell."""
LINE = "inhouse-zq-line"
OTHER_LINE = "预备线路"
RIVAL = "Orbit Relay"
PERSON = "mei.lin"
GUARD = Redactor([Secret(KEY, name="RELAY_KEY", origin="none")], b"salt")
B64 = [base64.b64encode(b"x" * shift + KEY.encode()).decode()[4 if shift else 0 : -4] for shift in range(3)]

OWN_KEY = {
    "plain": KEY,
    "reversed": KEY[::-1],
    "hex": KEY.encode().hex(),
    "hex_upper": KEY.encode().hex().upper(),
    "base64_0": B64[0],
    "base64_1": B64[1],
    "base64_2": B64[2],
    "base64_url": base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="),
    "percent": "".join(f"%{ord(c):02x}" for c in KEY),
    "json": "".join(f"\\u{ord(c):04x}" for c in KEY),
    "html_decimal": "".join(f"&#{ord(c)};" for c in KEY),
    "html_hex": "".join(f"&#x{ord(c):x};" for c in KEY),
    "window": KEY[5:17],
    "in_words": f"the key was {KEY}.",
    "split_by_tag": f"{KEY[:9]}<mark>{KEY[9:]}</mark>",
    "zero_width": f"{KEY[:9]}\u200b{KEY[9:]}",
    "over_two_lines": f"{KEY[:14]}\n{KEY[14:]}",
    "backslash_x": "".join(f"\\x{ord(c):02x}" for c in KEY),
}
KEY_LIKE = {
    "openai": "sk-" + "proj-Ab3" * 5,
    "anthropic": "sk-ant-api03-" + "Qz9x" * 8,
    "google": "AIza" + "Sy4B" * 9,
    "amazon": "AKIA" + "Q7" * 8,
    "github": "ghp_" + "aB3d" * 9,
    "pool": "cr_" + "a1b2" * 8,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbg",
    "pem": "-----BEGIN RSA PRIVATE KEY-----",
    "bearer": "authorization: Bearer abcdefghijklmnop.qrst",
    "in_address": "https://relay.example/log?key=abcdefghijkl123",
    "escaped": "sk-" + "&#112;roj" + "Ab3d" * 6,
}
NAMES = {
    "line": LINE,
    "line_upper": LINE.upper(),
    "line_marked": "inhouse-<mark>zq</mark>-line",
    "line_entity": "inhouse&#45;zq&#x2d;line",
    "line_json": "inhouse-\\u007aq-line",
    "line_full_width": "ｉｎｈｏｕｓｅ-zq-line",
    "line_percent": "inhouse%2Dzq%2dline",
    "line_zero_width": "inhouse-z\u200bq-line",
    "line_soft_hyphen": "inhouse-z\u00adq-line",
    "line_markdown": "inhouse\\-zq\\-line",
    "line_bold": "inhouse-**zq**-line",
    "line_two_lines": "inhouse-\n  zq-line",
    "line_in_comment": f"<!-- {LINE} -->",
    "line_in_attribute": f'<span title="{LINE}"></span>',
    "line_in_svg": f"<svg><title>{LINE}</title></svg>",
    "line_in_json": f'<script type="application/json">{{"n":"{LINE}"}}</script>',
    "line_in_address": f"https://relay.example/?from={LINE}",
    "second_line": f"这是{OTHER_LINE}二号",
    "rival": f"compared with {RIVAL}",
    "rival_case": "orbit relay",
    "person": f"by {PERSON}",
}
PLACES = {
    "linux_home": "/home/mei/audits",
    "mac_home": "/Users/mei/audits",
    "windows": "C:\\Users\\mei\\audits",
    "windows_json": "C:\\\\Users\\\\mei",
    "wsl": "/mnt/c/Users/mei",
    "root": "see /root/audits",
    "file_address": "file:///srv/x",
    "temporary": "/tmp/relay-audit-1/page.html",  # noqa: S108
    "mac_temporary": "/var/folders/zz/x",
    "tilde": "in ~/audits/x",
    "escaped_slash": "&#x2f;home&#x2f;mei",
}
SCORING = {
    "weight": "weight = 0.35",
    "json_weight": '"weight": 0.7',
    "scoring": "scoring_weight: 3",
    "chinese": "权重：0.4",
}
PUBLIC = {
    "host": "relay.example",
    "host_upper": "RELAY.EXAMPLE",
    "origin": "https://relay.example/v1",
    "group": "官转",
    "address": "192.0.2.7",
    "any_address": "10.1.2.3",
    "address_v6": "2001:db8:85a3:0:0:8a2e:370:7334",
    "request_id": "202611290803050008Xy12ab34",
}
ANYWHERE = {**OWN_KEY, **KEY_LIKE}
OUTWARD = {**NAMES, **PLACES, **SCORING}
WRITTEN: tuple[Format, ...] = tuple(form for form in FORMATS if form not in ("pdf", "png"))


def documents(form: Format, audience: Audience) -> bytes:
    run = samples.evidence()
    findings = samples.surplus_findings(run)
    verdict = samples.judged(run, findings)
    place = Place(path="audit.toml", line=3)
    return render(run, findings, samples.COVERAGE, verdict, samples.KNOWLEDGE, audience, form, "en", anchor=place)


def forbidden(audience: Audience) -> tuple[str, ...]:
    names = (LINE, OTHER_LINE, RIVAL, PERSON)
    return names + tuple(terms_for(samples.evidence(), samples.KNOWLEDGE).names) if audience == "public" else names


def look(raw: bytes, audience: Audience, name: str) -> None:
    public = (samples.MODEL,) if audience == "public" else (samples.MODEL, "relay.example", "官转")
    check(raw, audience, forbidden(audience), GUARD, name, public_terms=public)


def planted(raw: bytes, form: Format, text: str) -> Iterator[bytes]:
    """In the middle, in a line of its own; as the writer of the format would put it, and as it is."""
    lines = raw.splitlines(keepends=True)
    middle = len(lines) // 2
    written = {"html": html.escape(text), "junit": html.escape(text), "csv": f'"{text}"'}.get(form, text)
    if form in ("json", "sarif"):
        written = json.dumps(text, ensure_ascii=False)
    ways = (text,) if "&" in text else (text, written)  # escaped twice it is shown as it was written
    for way in dict.fromkeys(ways):
        yield b"".join([*lines[max(0, middle - 20) : middle], way.encode() + b"\n", *lines[middle : middle + 20]])


def test_there_are_enough_variants() -> None:
    assert len({**ANYWHERE, **OUTWARD, **PUBLIC}) >= 60


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("form", WRITTEN)
def test_every_variant_is_refused_in_every_format(form: Format, audience: Audience, tmp_path: Path) -> None:
    raw = documents(form, audience)
    look(raw, audience, f"report.{form}")  # as it is, it passes
    wanted = ANYWHERE if audience == "internal" else {**ANYWHERE, **OUTWARD}
    wanted = {**wanted, **PUBLIC} if audience == "public" else wanted
    missed = []
    for name, text in wanted.items():
        for made in planted(raw, form, text):
            try:
                look(made, audience, f"report.{form}")
                write_report(tmp_path / f"report.{form}", made)
                missed.append(name)
            except LeakRefused as refusal:
                said = json.dumps([refusal.message, refusal.next_step, refusal.details], ensure_ascii=False)
                assert not any(secret in said for secret in (KEY, LINE, OTHER_LINE, RIVAL, PERSON, "192.0.2.7")), name
    assert missed == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["line", "plain", "linux_home", "rival"])
def test_a_whole_document_is_looked_through_to_its_end(name: str) -> None:
    raw = documents("html", "vendor")
    text = {**ANYWHERE, **OUTWARD}[name].encode()
    for made in (text + raw, raw + text, raw.replace(b"</title>", b" " + text + b"</title>")):
        with pytest.raises(LeakRefused):
            look(made, "vendor", "report.html")


def test_file_names_and_picture_chunks_are_looked_at_too() -> None:
    for name in (f"{LINE}.html", f"{KEY}.html", "orbit relay.pdf"):
        with pytest.raises(LeakRefused):
            look(documents("text", "vendor"), "vendor", name)
    body = b"Comment\x00" + LINE.encode()
    chunk = struct.pack(">I", len(body)) + b"tEXt" + body + struct.pack(">I", zlib.crc32(b"tEXt" + body))
    picture = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    look(picture, "vendor", "report.png")
    with pytest.raises(LeakRefused):
        look(picture[:8] + chunk + picture[8:], "vendor", "report.png")
