"""No written form of a key survives; what only looks like one does."""

from __future__ import annotations

import base64
import copy
import hashlib
import itertools
import json
import pickle
import string
import time
import traceback
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_audit.errors import AddressRefused
from relay_audit.redaction import DROPPED, Redactor, Secret

ORIGIN = "https://relay.example"
SALT = b"s" * 32
KEY = "sk-Q7vX2mP9_LtR4-wZc8NbY1kHs6DfJ3gUa5"
MARKER = "[redacted:key]"
LETTERS = string.ascii_letters + string.digits
LOOK = settings(max_examples=200, deadline=None)

keys = st.text(LETTERS + "-_", min_size=20, max_size=60).map("sk-".__add__)
around = st.text(st.sampled_from(LETTERS + " .,:;/+=-_\"'\\%&<>\n\t中文。"), max_size=40)
pairs = st.tuples(around, around)


def redactor_for(*values: str) -> Redactor:
    return Redactor([Secret(value, name="RELAY_KEY", origin=ORIGIN) for value in values], SALT)


def windows(text: str, size: int = 12) -> list[str]:
    return [text[at : at + size] for at in range(len(text) - size + 1)]


def shows(data: bytes, key: str, size: int = 12) -> bool:
    return any(window.encode() in data for window in windows(key, size))


def percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def json_escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


ENCODINGS = {
    "plain": lambda t: t,
    "hex": lambda t: t.encode().hex(),
    "HEX": lambda t: t.encode().hex().upper(),
    "percent": percent,
    "percent_lower": lambda t: percent(t).lower(),
    "percent_twice": lambda t: percent(t).replace("%", "%25"),
    "json": json_escaped,
    "json_in_json": lambda t: json_escaped(t).replace("\\", "\\\\"),
    "x_escape": lambda t: "".join(f"\\x{ord(c):02x}" for c in t),
    "html_decimal": lambda t: "".join(f"&#{ord(c)};" for c in t),
    "html_hex": lambda t: "".join(f"&#x{ord(c):X};" for c in t),
    "html_twice": lambda t: "".join(f"&amp;#{ord(c)};" for c in t),
    "html_named": lambda t: t.replace("_", "&lowbar;").replace("-", "&hyphen;"),
    "three_layers": lambda t: percent(json_escaped("".join(f"&#{ord(c)};" for c in t))),
    "reversed": lambda t: t[::-1],
    "mixed": lambda t: "".join((c, percent(c), json_escaped(c), f"&#{ord(c)};")[i % 4] for i, c in enumerate(t)),
    "folded": lambda t: t[:9] + "\r\n \t" + t[9:],
}


@LOOK
@given(keys, pairs, st.sampled_from(sorted(ENCODINGS)), st.data())
def test_no_escape_hides_a_window(key, pair, encoding, data):
    low = data.draw(st.integers(0, len(key) - 12))
    high = data.draw(st.integers(low + 12, len(key)))
    hidden = ENCODINGS[encoding](key[low:high])
    message = f"{pair[0]} {hidden} {pair[1]}".encode()
    cleaned = redactor_for(key).clean(message)
    assert cleaned.own >= 1
    assert redactor_for(key).shows_own(message)
    assert not redactor_for(key).shows_own(cleaned.raw)
    assert hidden.encode() not in cleaned.raw
    if encoding not in ("mixed", "folded"):
        assert not any(ENCODINGS[encoding](window).encode() in cleaned.raw for window in windows(key))
    assert not shows(cleaned.raw, key)


@LOOK
@given(
    keys, st.binary(max_size=7), st.binary(max_size=7), st.sampled_from([base64.b64encode, base64.urlsafe_b64encode])
)
def test_base64_at_every_alignment_padded_or_not(key, before, after, encode):
    written = encode(before + key.encode() + after)
    for text in (written, written.rstrip(b"="), b"\n".join(written[at : at + 20] for at in range(0, len(written), 20))):
        cleaned = redactor_for(key).clean(b'{"token": "' + text + b'"}')
        assert cleaned.own == 1
        left = cleaned.raw.removeprefix(b'{"token": "').removesuffix(b'"}')
        for piece in left.split(MARKER.encode()):
            for cut in range(4):
                tail = piece[cut:].replace(b"\n", b"").rstrip(b"=")
                tail = tail[: len(tail) // 4 * 4]
                assert not shows(base64.urlsafe_b64decode(tail.translate(bytes.maketrans(b"+/", b"-_"))), key)


@LOOK
@given(keys, st.data())
def test_base64_and_hex_of_any_window(key, data):
    low = data.draw(st.integers(0, len(key) - 12))
    window = key[low : low + 12].encode()
    text = base64.b64encode(b"?" * data.draw(st.integers(0, 2)) + window + b"?")
    assert redactor_for(key).clean(text).own == 1
    assert redactor_for(key).clean(window.hex().encode()).own == 1


@LOOK
@given(keys, pairs, st.sampled_from(["utf-16-le", "utf-16-be", "utf-16"]))
def test_utf_16(key, pair, codec):
    cleaned = redactor_for(key).clean((pair[0] + key + pair[1]).encode(codec))
    assert cleaned.own >= 1
    assert not shows(cleaned.raw.replace(b"\0", b""), key)


def test_utf_16_around_another_encoding_and_around_a_split_key():
    redactor = redactor_for(KEY)
    assert redactor.clean(percent(KEY).encode("utf-16-le")).own == 1
    cleaned = redactor.clean(json.dumps([{"t": KEY[:9]}, {"t": KEY[9:20]}, {"t": KEY[20:]}]).encode("utf-16-be"))
    assert cleaned.own == 3
    assert KEY[9:20].encode() not in cleaned.raw.replace(b"\0", b"")


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_both_alphabets_of_base64(encode):
    key = "sk-aa?bb~cc>dd?ee~ff>gg?"
    assert set(base64.b64encode(key.encode()).decode()) & set("+/")
    for lead in range(3):
        assert redactor_for(key).clean(encode(b"." * lead + key.encode())).own == 1


def split(text: str, cuts: list[int]) -> list[str]:
    return [text[low:high] for low, high in itertools.pairwise([0, *sorted(cuts), len(text)])]


def delta(text: str) -> str:
    document = {"index": 0, "delta": {"type": "text_delta", "text": text}}
    return f"event: content_block_delta\ndata: {json.dumps(document)}\n\n"


def texts_of(stream: str) -> str:
    documents = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: {")]
    return "".join(document["delta"]["text"] for document in documents)


@LOOK
@given(keys, st.lists(st.integers(1, 22), min_size=1, max_size=3), around)
def test_a_key_split_over_stream_events(key, cuts, lead):
    pieces = split(lead + " " + key, [len(lead) + 1 + cut for cut in cuts])
    stream = "".join(delta(piece) for piece in pieces)
    cleaned = redactor_for(key).clean(stream.encode())
    assert cleaned.own >= 1
    assert not shows(texts_of(cleaned.raw.decode()).encode(), key)
    assert "text_delta" in cleaned.raw.decode()


@LOOK
@given(keys, st.lists(st.integers(1, 22), min_size=1, max_size=3))
def test_a_key_split_over_json_strings_and_plain_data_lines(key, cuts):
    pieces = split(key, cuts)
    redactor = redactor_for(key)
    named = {"a": pieces, "b": {f"part{number}": piece for number, piece in enumerate(pieces)}}
    cleaned = json.loads(redactor.clean(json.dumps(named).encode()).raw)
    assert not shows("".join(cleaned["a"]).encode(), key)
    assert not shows("".join(cleaned["b"].values()).encode(), key)
    lines = redactor.clean("".join(f"data: {piece}\n\n" for piece in pieces).encode()).raw
    assert not shows(lines.replace(b"data: ", b"").replace(b"\n", b""), key)


def test_a_split_key_in_nested_json_of_a_tool_call():
    stream = "".join(
        "data: " + json.dumps({"delta": {"type": "input_json_delta", "partial_json": piece}}) + "\n\n"
        for piece in ('{"comm', 'and": "echo ' + KEY[:7], KEY[7:30], KEY[30:] + '"}')
    )
    cleaned = redactor_for(KEY).clean(stream.encode())
    assert cleaned.own == 3
    assert KEY[7:30].encode() not in cleaned.raw
    assert b'echo [redacted:key]"' in cleaned.raw


@LOOK
@given(keys, st.lists(st.integers(1, 22), min_size=1, max_size=3))
def test_a_key_split_over_header_folds_and_headers(key, cuts):
    pieces = split(key, cuts)
    redactor = redactor_for(key)
    folded = redactor.clean_headers([("x-echo", "\r\n ".join(pieces))], outgoing=False)
    assert folded == (("x-echo", MARKER),)
    spread = redactor.inspect_headers([(f"x-part-{n}", piece) for n, piece in enumerate(pieces)], outgoing=False)
    assert spread.own >= 1
    assert not shows("".join(value for _, value in spread.headers).encode(), key)


@LOOK
@given(keys, pairs)
def test_json_stays_json(key, pair):
    document = {"text": f"{pair[0]}\n{key}\n{pair[1]}", "list": [1, None, key]}
    cleaned = json.loads(redactor_for(key).clean(json.dumps(document).encode()).raw)
    assert cleaned["list"] == [1, None, MARKER]
    assert MARKER in cleaned["text"]


def test_half_an_escape_is_not_left_behind():
    key = "sk-aaan" + "0123456789abcdefghij"
    cleaned = redactor_for(key).clean(json.dumps({"text": "line\n" + key[7:]}).encode())
    assert json.loads(cleaned.raw) == {"text": f"line{MARKER}"}


@LOOK
@given(st.binary(max_size=200), keys)
def test_any_bytes_pass_and_cleaning_twice_changes_nothing(raw, key):
    redactor = redactor_for(key)
    once = redactor.clean(raw + b"{" + key.encode() + b"}").raw
    assert redactor.clean(once).raw == once


def test_the_case_of_letters_does_not_hide_a_key():
    cleaned = redactor_for(KEY).clean(f"X-{KEY.upper()}".encode())
    assert cleaned == type(cleaned)(b"X-[redacted:key]", 1, ())


def test_eleven_characters_are_no_window_and_twelve_are():
    redactor = redactor_for(KEY)
    assert redactor.clean(KEY[:11].encode()).own == 0
    assert redactor.clean(KEY[5:17].encode()).raw == b"[redacted:key]"
    assert redactor_for("abcd5678").clean(b"x abcd5678 y abcd567").raw == b"x [redacted:key] y abcd567"


def test_the_marker_never_holds_the_key():
    assert redactor_for("redacted:key").clean(b"redacted:key").raw == b"[*]"


BENIGN = [
    "msg_01XFDUDYJgAACzvnptvVoYEL", "req_011CXyFycD5zWXTLnkLdXmCb", "toolu_01A09q90qw90lq917835lq9",
    "msg_bdrk_er2hevp3kltzds335kiev73amxxstt3go2joi3x3egl7vkircylq", "toolu_vrtx_01FVcwNij5LVEeuHy8jV34S5",
    "chatcmpl-9lnJM4Cu2pXlrjd8dkJsqO5xwHtBS", "resp_0e43f2340229131f016a513fd83808819280e0015a42a56ba2",
    "chatcmpl-1b853bd2-b065-41bf-a336-fd07da175604", "9cb6b0dcfd4075dc-SEA", "tooluse_Z4oIdWzp6MUkuN99WX3jLk",
    "5090c862-4fea-4b2e-a356-e85b495945ff", "20260808063129123456789a1b2c3d4Xy7Kp2Qz",
    "container_011Cak4H46GFTKY78TtpxcHd",
    "gen-1736892109-Bw6T8Zz8t3IlUpRWImy8", "202603130502478edacc33fd1444be", "PwGzacKDPOmtz7IPmcKhqAM",
    "task-force-of-20-people-and-risk-2026-assessment", "sk-toggleable__content-fitted-label", "sk-abc1****wxyz",
    "Bearer authentication is required", 'Bearer realm="https://auth.example/token1234567890"', "invalid x-api-key",
    "claude-sonnet-5-5-20260929",
    "EvYJCmMIDRgCKkA" + base64.b64encode(hashlib.sha512(b"signature").digest() * 20).decode(),
    "gAAAAA" + base64.urlsafe_b64encode(hashlib.sha512(b"reasoning").digest() * 20).decode(),
    r"C:\new\sk folder\%TEMP% & more &copy; 100%25",
    '{"error":{"type":"<nil>","message":"max_tokens: 9999999 > 64000"}}',
]  # fmt: skip


@pytest.mark.parametrize("text", BENIGN, ids=range(len(BENIGN)))
def test_what_only_looks_secret_stays(text):
    redactor = redactor_for(KEY, "sk-ant-api03-" + LETTERS + "-AA")
    for raw in (text, json.dumps({"id": text, "signature": text, "other": json.dumps({"request_id": text})})):
        cleaned = redactor.clean(raw.encode())
        assert (cleaned.raw, cleaned.own, cleaned.foreign) == (raw.encode(), 0, ())


@LOOK
@given(
    st.sampled_from(["msg_01", "req_01", "toolu_01", "chatcmpl-", "resp_", "20260808063129123456789"]),
    st.text(LETTERS, min_size=16, max_size=48),
)
def test_ids_stay_also_when_a_stream_repeats_them(prefix, rest):
    event = (
        f"data: {json.dumps({'id': prefix + rest, 'object': 'chat.completion.chunk', 'delta': {'text': 'on-'}})}\n\n"
    )
    cleaned = redactor_for(KEY).clean((event * 3).encode())
    assert cleaned.raw == (event * 3).encode()
    assert cleaned.foreign == ()


FOREIGN = {
    "anthropic_key": "sk-ant-api03-" + LETTERS[5:40] + "-_AA",
    "openai_key": "sk-proj-" + LETTERS[8:50],
    "sk_key": "sk-" + LETTERS[20:60],
    "google_key": "AIza" + LETTERS[3:38],
    "aws_key": "AKIA" + "ABCDEFGH23456789",
    "relay_service_key": "cr_" + hashlib.sha256(b"1").hexdigest(),
    "github_token": "ghp_" + LETTERS[:36],
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc/+=\n-----END RSA PRIVATE KEY-----",
    "bearer": "a1b2c3d4e5f6a7b8c9d0",
}


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_other_peoples_secrets_are_kept_as_kind_and_hash(kind):
    secret = FOREIGN[kind]
    text = f"upstream said:\n{'Bearer ' if kind == 'bearer' else ''}{secret}\nand no more"
    for raw in (text, json.dumps({"error": {"message": text}}), json.dumps({"outer": json.dumps({"message": text})})):
        cleaned = redactor_for(KEY).clean(raw.encode())
        name, _, digest = cleaned.foreign[0].partition(":")
        assert (name, len(digest), cleaned.own) == (kind, 8, 0)
        assert f"[redacted:{kind}:{digest}]" in cleaned.raw.decode()
        assert not any(shows(cleaned.raw, line) for line in secret.splitlines() if not line.startswith("-----"))
        assert b"and no more" in cleaned.raw
    if kind != "private_key":
        assert cleaned.foreign == (f"{kind}:{hashlib.sha256(secret.encode()).hexdigest()[:8]}",)


def test_a_foreign_secret_is_read_whole_below_its_escapes():
    secret = FOREIGN["openai_key"]
    digest = hashlib.sha256(secret.encode()).hexdigest()[:8]
    written = secret[:30] + percent(secret[30:33]) + secret[33:]
    cleaned = redactor_for(KEY).clean(f"key={written}".encode())
    assert cleaned.raw == f"key=[redacted:openai_key:{digest}]".encode()


def test_values_of_different_names_are_not_one_foreign_secret():
    raw = b'{"prefix": "sk-", "model": "Claude-sonnet-5-5-20260929-latest"}'
    assert redactor_for(KEY).clean(raw).raw == raw


def test_a_foreign_secret_split_over_stream_events_is_named_once():
    secret = FOREIGN["anthropic_key"]
    stream = "".join(f"data: {json.dumps({'text': part})}\n\n" for part in ("see ", secret[:20], secret[20:], " there"))
    cleaned = redactor_for(KEY).clean(stream.encode())
    assert len(cleaned.foreign) == 1
    assert cleaned.foreign[0].startswith("anthropic_key:")
    assert secret[20:].encode() not in cleaned.raw
    assert b'" there"' in cleaned.raw


def test_the_public_prefix_of_our_key_does_not_make_anothers_key_ours():
    ours, theirs = "sk-ant-api03-" + LETTERS[:40], "sk-ant-api03-" + hashlib.sha256(b"theirs").hexdigest()
    cleaned = redactor_for(ours).clean(theirs.encode())
    assert cleaned.own == 0
    assert cleaned.foreign == (f"anthropic_key:{hashlib.sha256(theirs.encode()).hexdigest()[:8]}",)
    assert not shows(cleaned.raw, theirs)
    assert redactor_for(ours).clean(b"keys begin with sk-ant-api03- there").own == 0


def test_our_own_key_is_never_reported_as_foreign():
    for text in (KEY, f"Bearer {KEY}", f"{KEY}-17", json.dumps({"a": f"\n{KEY}"})):
        cleaned = redactor_for(KEY).clean(text.encode())
        assert (cleaned.own, cleaned.foreign) == (1, ())
        assert not shows(cleaned.raw, KEY)


def test_accounts_are_hashed_with_the_workspace_salt():
    redactor = redactor_for(KEY)
    alice, number = redactor.account("alice"), redactor.account("812")
    row = {"user_id": 812, "username": "alice", "token_name": "", "ip": None, "quota": 1200, "request_id": "2026"}
    written = json.loads(redactor.clean(json.dumps({"data": [row]}).encode()).raw)["data"][0]
    assert written == {**row, "user_id": number, "username": alice}
    assert redactor.clean_json({"data": [row]}) == {"data": [written]}
    assert len(alice) == len("[account:]") + 10
    assert alice != Redactor([], b"t" * 32).account("alice")


def test_accounts_inside_json_inside_json_and_cut_bodies():
    redactor = redactor_for(KEY)
    inner = json.dumps({"channel_name": "east", "user_id": 5, "frt": 8})
    cleaned = json.loads(redactor.clean(json.dumps({"other": inner}).encode()).raw)
    assert json.loads(cleaned["other"]) == {
        "channel_name": redactor.account("east"), "user_id": redactor.account("5"), "frt": 8,
    }  # fmt: skip
    assert (
        redactor.clean(b'{"email": "someone@mail.exam').raw
        == b'{"email": "' + redactor.account("someone@mail.exam").encode()
    )
    assert redactor.clean_text('{"ip": "\\u0031.2"}') == f'{{"ip": "{redactor.account("1.2")}"}}'
    once = redactor.clean_text('{"email": "a@b.example"}')
    assert redactor.clean_text(once) == once


def test_headers():
    redactor = redactor_for(KEY)
    sent = [("Authorization", f"Bearer {KEY}"), ("x-api-key", KEY), ("accept-language", "en")]
    assert redactor.inspect_headers(sent, outgoing=True).own == 0
    assert redactor.clean_headers(sent, outgoing=True) == (
        ("Authorization", MARKER), ("x-api-key", MARKER), ("accept-language", "en"),
    )  # fmt: skip
    received = [
        ("Set-Cookie", "session=eyJ0"), ("anthropic-organization-id", "0b1c"),
        ("request-id", "req_011CXyFycD5zWXTLnkLdXmCb"),
        ("x-debug", f"key={KEY}"), ("x-up", FOREIGN["sk_key"]), ("empty", ""),
    ]  # fmt: skip
    seen = redactor.inspect_headers(received, outgoing=False)
    assert seen.headers[:4] == (
        ("Set-Cookie", DROPPED), ("anthropic-organization-id", redactor.account("0b1c")), received[2],
        ("x-debug", f"key={MARKER}"),
    )  # fmt: skip
    assert seen.headers[5] == ("empty", "")
    assert seen.own == 1
    assert seen.foreign == (f"sk_key:{hashlib.sha256(FOREIGN['sk_key'].encode()).hexdigest()[:8]}",)
    assert seen.headers[4][1] == f"[redacted:{seen.foreign[0]}]"
    assert redactor.inspect_headers([(f"x-{KEY}", "1")], outgoing=False).headers == ((f"x-{MARKER}", "1"),)


def test_every_key_of_a_run_is_taken_out():
    """The relay's and the vendor's, in whichever order they were given."""
    other = "sk-" + hashlib.sha256(b"other").hexdigest()[:40]
    for redactor in (redactor_for(KEY, other), redactor_for(other, KEY)):
        for key in (KEY, other):
            cleaned = redactor.clean(f"<{key}>".encode())
            assert (cleaned.raw.decode(), cleaned.own, cleaned.foreign) == (f"<{MARKER}>", 1, ())
            assert redactor.shows_own(key.encode())
            assert redactor.holds_own(key.encode())


def test_what_stands_behind_a_key_in_a_header_stays():
    fields = [("a", "1"), ("x-debug", f"key={KEY}&more=1"), ("b", "2")]
    seen = redactor_for(KEY).inspect_headers(fields, outgoing=False)
    assert seen.headers == (("a", "1"), ("x-debug", f"key={MARKER}&more=1"), ("b", "2"))
    assert seen.own == 1


def test_an_account_with_a_bare_tab_and_an_escape_is_the_account_that_it_names():
    redactor = redactor_for(KEY)
    cleaned = redactor.clean(b'{"username": "a\t\\u0062"}')
    assert cleaned.raw.decode() == f'{{"username": "{redactor.account("a" + chr(9) + "b")}"}}'


def test_json_values_names_and_fragments():
    redactor = redactor_for(KEY)
    untouched = {"a": (1, 2.5, None, True), "b": "中文 and \ud800"}
    assert redactor.clean_json(untouched) is untouched
    assert redactor.clean_json({KEY: [KEY, {"deep": f"<{KEY}>"}]}) == {MARKER: [MARKER, {"deep": f"<{MARKER}>"}]}
    assert not shows("".join(redactor.clean_json([KEY[:15], KEY[15:]])).encode(), KEY)
    digits = "123456789012345"
    assert redactor_for(digits).clean_json({"n": int(digits)}) == MARKER


def test_a_secret_shows_itself_to_nobody():
    secret = Secret(KEY, name="RELAY_KEY", origin=ORIGIN)
    for text in (
        repr(secret),
        str(secret),
        f"{secret:>40}",
        f"{secret!r}",
        f"{secret}",
        json.dumps([secret], default=str),
    ):
        assert not shows(text.encode(), KEY, 6)
        assert "RELAY_KEY" in text
    assert not hasattr(secret, "__dict__")
    assert copy.copy(secret) is secret
    assert copy.deepcopy({"s": secret})["s"] is secret
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError):
            pickle.dumps(secret, protocol)
    with pytest.raises(TypeError):
        pickle.dumps(redactor_for(KEY))
    with pytest.raises(AttributeError):
        secret.origin = "https://evil.example"
    assert not shows(repr(redactor_for(KEY)).encode(), KEY, 6)


def test_a_secret_goes_to_its_own_origin_only():
    secret = Secret(KEY, name="RELAY_KEY", origin=ORIGIN)
    assert secret.reveal_for(ORIGIN) == KEY
    for other in (
        "https://evil.example",
        "https://relay.example:8443",
        "http://relay.example",
        "https://relay.example.evil",
        "",
    ):
        with pytest.raises(AddressRefused) as refused:
            secret.reveal_for(other)
        assert refused.value.exit_code == 2
        assert not shows("".join(traceback.format_exception(refused.value)).encode(), KEY, 6)


def test_fingerprints_tell_keys_apart_and_workspaces_too():
    first, again = (Secret(KEY, name=name, origin=ORIGIN) for name in ("A", "B"))
    other = Secret(KEY + "x", name="A", origin=ORIGIN)
    assert first.fingerprint(SALT) == again.fingerprint(SALT)
    assert len({first.fingerprint(SALT), other.fingerprint(SALT), first.fingerprint(b"t" * 32)}) == 3
    assert len(first.fingerprint(SALT)) == 12


LONG = {
    "text": "plain words of a long answer " * 70_000,
    "stream": ('data: {"type":"text_delta","delta":{"text":"word\\n"}}\n\n') * 38_000,
    "escapes": "\\n%25&amp;" * 200_000,
    "quotes": '"' + '\\"' * 1_000_000,
    "backslashes": "\\" * 2_000_000,
    "near_misses": f"{KEY[:11]}?" * 160_000,
    "account": '"user_id"' + " " * 2_000_000,
    "blocks": "-----BEGIN PRIVATE KEY " * 85_000,
}


@pytest.mark.parametrize(
    "shape", ["stream", *(pytest.param(n, marks=pytest.mark.deep) for n in sorted(LONG) if n != "stream")]
)
def test_two_megabytes_take_a_moment_and_hostile_shapes_not_much_more(shape):
    redactor, raw = redactor_for(KEY, FOREIGN["anthropic_key"]), LONG[shape].encode()
    began = time.process_time()
    cleaned = redactor.clean(raw)
    assert time.process_time() - began < 5
    assert cleaned.raw == raw


def test_a_key_in_bytes_that_are_no_text_is_seen_as_it_is_written():
    """What a kept film is searched for, piece by piece as it comes: letters of either case, and the plain encodings."""
    redactor = redactor_for(KEY)
    around = bytes(range(256)) * 4
    written = [form.encode() for form in (KEY, KEY.upper(), KEY[:-1], KEY[3:])]
    written += [KEY.encode("utf-16-le"), KEY.encode("utf-16-be"), KEY.encode().hex().encode(), KEY[::-1].encode()]
    written += [base64.b64encode(b"x" * lead + KEY.encode()) for lead in range(3)]
    for form in written:
        assert redactor.holds_own(around + form + around)
    assert not redactor.holds_own(around)
    assert not redactor.holds_own(around + KEY[:6].encode() + around)


def test_text_that_is_no_text_comes_back_as_far_as_it_goes():
    """Half a surrogate pair is what a broken JSON string decodes to; an account may hold one too."""
    redactor = redactor_for(KEY)
    assert redactor.clean_text("caf\ud800é") == "caf\ud800é"
    assert redactor.account("\ud800") != redactor.account("\ud801")
    assert redactor.account("a\ud800").startswith("[account:")


def test_a_key_beside_values_that_json_does_not_know():
    """An amount and a moment are written as text where something had to be taken out, and stay themselves elsewhere."""
    redactor = redactor_for(KEY)
    plain = {"at": Decimal("1.50")}
    assert redactor.clean_json(plain) is plain
    cleaned = redactor.clean_json({"at": Decimal("1.50"), "said": KEY})
    assert cleaned["at"] == "1.50"
    assert KEY not in cleaned["said"]


def test_a_secret_is_printed_in_a_column_like_any_word():
    secret = Secret(KEY, name="K", origin="https://a.example:443")
    assert f"{secret:>14}" == "    <secret K>"


@pytest.mark.parametrize("first", sorted(set(FOREIGN) - {"bearer"}))
def test_one_foreign_secret_before_another_is_named_apart(first):
    """What one shape has claimed is no claim on what stands before or behind it."""
    second = "aws_key" if first != "aws_key" else "jwt"
    cleaned = redactor_for(KEY).clean(f"{FOREIGN[first]}\n{FOREIGN[second]}\n".encode())
    assert {found.split(":")[0] for found in cleaned.foreign} == {first, second}
    assert not shows(cleaned.raw, FOREIGN[second])


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Secret(KEY, name="RELAY_KEY", origin=ORIGIN), "a secret cannot be pickled"),
        (redactor_for(KEY), "a redactor cannot be pickled"),
    ],
)
def test_what_holds_a_key_says_why_it_cannot_be_kept(one, words):
    with pytest.raises(TypeError, match=f"^{words}$"):
        pickle.dumps(one)


def test_an_account_in_bytes_that_are_no_text_is_hashed_as_far_as_it_can_be_read():
    redactor = redactor_for(KEY)
    cleaned = redactor.clean(b'{"user_id": "\xff\xfe12"}')
    assert cleaned.raw.decode() == f'{{"user_id": "{redactor.account(chr(0xFFFD) * 2 + "12")}"}}'


def test_an_address_that_is_not_the_key_s_own_is_told_with_both_and_what_to_do():
    with pytest.raises(AddressRefused) as refused:
        Secret(KEY, name="RELAY_KEY", origin=ORIGIN).reveal_for("https://other.example")
    assert str(refused.value).startswith(
        f"the key of RELAY_KEY belongs to {ORIGIN} and is not sent to https://other.example"
    )
    assert refused.value.next_step == "give each side its own key and address"


def test_a_stranger_s_secret_before_our_own_key_is_still_a_stranger_s():
    cleaned = redactor_for(KEY).clean(f"{FOREIGN['aws_key']} and {KEY}\n{FOREIGN['jwt']}".encode())
    assert ({found.split(":")[0] for found in cleaned.foreign}, cleaned.own) == ({"aws_key", "jwt"}, 1)
    assert cleaned.raw.startswith(b"[redacted:aws_key:")
    assert cleaned.raw.count(MARKER.encode()) == 1
