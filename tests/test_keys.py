"""Where a key may come from, and where it may go."""

from __future__ import annotations

import io
import os
import stat
import threading

import pytest

from relay_audit import keys
from relay_audit.errors import KeyRefused, OriginUnconfirmed, StoreError, UsageError

KEY = "sk-Q7vX2mP9LtR4wZc8NbY1kHs6"
RELAY = "https://relay.example"
SHAPES = {
    "anthropic": ([r"sk-ant-"], ["api.anthropic.com"]),
    "openai": ([r"sk-proj-"], ["openai.com"]),
    "google": ([r"AIza"], ["googleapis.com"]),
}
OFFICIAL_KEY = "sk-ant-api03-Q7vX2mP9LtR4wZc8"
MACHINE_MODULES = r"C:\Program Files\WindowsPowerShell\Modules;C:\WINDOWS\system32\WindowsPowerShell\v1.0\Modules"


@pytest.mark.parametrize(
    ("environ", "shell", "line"),
    [
        ({"SHELL": "/bin/bash"}, "bash", "export RELAY_KEY='<the key>'"),
        ({"SHELL": "/usr/bin/zsh"}, "zsh", "export RELAY_KEY='<the key>'"),
        ({"SHELL": "/opt/homebrew/bin/fish"}, "fish", "set -gx RELAY_KEY '<the key>'"),
        ({}, "bash", "export RELAY_KEY='<the key>'"),
        (
            {"ComSpec": r"C:\cmd.exe", "PSModulePath": MACHINE_MODULES, "PROMPT": "$P$G"},
            "cmd",
            "set RELAY_KEY=<the key>",
        ),
        (
            {"ComSpec": r"C:\cmd.exe", "PSModulePath": rf"C:\Users\me\Documents\PowerShell\Modules;{MACHINE_MODULES}"},
            "powershell",
            '$env:RELAY_KEY = "<the key>"',
        ),
        ({"OS": "Windows_NT", "SHELL": "/usr/bin/bash", "MSYSTEM": "MINGW64"}, "bash", "export RELAY_KEY='<the key>'"),
        ({"SHELL": "/bin/bash", "PSModulePath": "/home/me/.local/share/powershell/Modules"}, "powershell", "$env:"),
    ],
)
def test_a_missing_key_prints_the_line_for_this_shell(environ, shell, line):
    assert keys.detect_shell(environ) == shell
    with pytest.raises(KeyRefused) as refused:
        keys.read_key("RELAY_KEY", environ, None)
    assert refused.value.next_step.startswith(line)
    [need] = refused.value.details["needs"]
    assert need["field"] == "RELAY_KEY"
    assert need["example"].startswith(line)
    assert set(need["ask"]) == {"zh-CN", "en"}
    assert need["why"]


def test_the_shell_can_be_named_and_an_empty_variable_is_a_missing_one():
    with pytest.raises(KeyRefused, match="not set") as refused:
        keys.read_key("RELAY_KEY", {"RELAY_KEY": "", "SHELL": "/bin/bash"}, "cmd")
    assert refused.value.next_step.startswith("set RELAY_KEY=")
    assert keys.read_key("RELAY_KEY", {"RELAY_KEY": KEY}, None) == KEY


@pytest.mark.parametrize(
    ("value", "index", "kind"),
    [
        (KEY + "\n", len(KEY), "line_break"),
        (KEY[:9] + "\r\n" + KEY[9:], 9, "line_break"),
        (" " + KEY, 0, "space"),
        (KEY + "\u00a0", len(KEY), "space"),
        (KEY[:5] + "\u200b" + KEY[5:], 5, "zero_width"),
        ("\ufeff" + KEY, 0, "zero_width"),
        (KEY[:4] + "Ａ" + KEY[4:], 4, "full_width"),
        (KEY[:4] + "\u3000" + KEY[4:], 4, "full_width"),
        (f'"{KEY}"', 0, "quote"),
        (f"{KEY}”", len(KEY), "quote"),
        (f"Bearer {KEY}", 0, "bearer_prefix"),
        (f"bearer: {KEY}", 0, "bearer_prefix"),
        (KEY[:6] + "é" + KEY[6:], 6, "non_ascii"),
        (KEY[:6] + "\x1b" + KEY[6:], 6, "control"),
        ("sk-1234", 7, "too_short"),
    ],
)
def test_a_malformed_key_is_described_by_position_only(value, index, kind):
    with pytest.raises(KeyRefused) as refused:
        keys.read_key("RELAY_KEY", {"RELAY_KEY": value}, None)
    error = refused.value
    assert error.details == {"position": {"index": index, "kind": kind}}
    assert error.exit_code == 2
    said = f"{error.message} {error.next_step} {error.details}"
    assert not any(
        value[at : at + 4] in said for at in range(len(value) - 3) if value[at : at + 4].lower() not in "bearer "
    )
    if kind != "too_short":
        assert f"character {index + 1} of {len(value)}" in error.message


def test_a_word_that_begins_like_bearer_is_a_key():
    assert keys.check_key("bearerkey-1234", "RELAY_KEY") == "bearerkey-1234"


def test_a_key_file_is_private_and_its_last_line_break_is_not_the_key(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY + "\r\n", newline="")
    path.chmod(0o600)
    assert keys.read_key_file(path, io.StringIO()) == KEY
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(KeyRefused) as refused:
            keys.read_key_file(path, io.StringIO())
        assert refused.value.next_step == f"chmod 600 {path}"


@pytest.mark.parametrize("content", [b"", b"\n", KEY.encode() + b"\n\n", KEY.encode("utf-16"), b"k" * 9000, b"a key\n"])
def test_odd_key_files_are_refused(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyRefused) as refused:
        keys.read_key_file(str(path), io.StringIO())
    assert KEY not in str(refused.value)
    assert refused.value.next_step


def test_missing_files_folders_and_standard_input(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(KeyRefused):
            keys.read_key_file(path, io.StringIO())
    assert keys.read_key_file("-", io.StringIO(KEY + "\n")) == KEY
    with pytest.raises(KeyRefused, match="standard input is empty"):
        keys.read_key_file("-", io.StringIO("\n"))


def test_an_official_key_stays_at_home():
    with pytest.raises(KeyRefused) as refused:
        keys.guard_shape(OFFICIAL_KEY, RELAY, SHAPES, None)
    assert "revoke" in refused.value.next_step
    assert "--allow-official-key-to relay.example" in refused.value.next_step
    assert OFFICIAL_KEY[:10] not in f"{refused.value} {refused.value.next_step} {refused.value.details}"
    for lookalike in ("https://api.anthropic.com.relay.example", "https://api.openai.com"):
        with pytest.raises(KeyRefused):
            keys.guard_shape(OFFICIAL_KEY, lookalike, SHAPES, "other.example")
    with pytest.raises(KeyRefused):
        keys.guard_shape("sk-proj-12345678", "https://notopenai.com", SHAPES, None)


@pytest.mark.parametrize(
    ("key", "origin", "allowed"),
    [
        (OFFICIAL_KEY, "https://api.anthropic.com", None),
        ("sk-proj-12345678", "https://api.openai.com", None),
        (OFFICIAL_KEY, "http://127.0.0.1:8000", None),
        (OFFICIAL_KEY, RELAY, "relay.example"),
        (OFFICIAL_KEY, RELAY + ":8443", "https://Relay.Example/v1"),
        (KEY, RELAY, None),
    ],
)
def test_keys_that_may_go(key, origin, allowed):
    keys.guard_shape(key, origin, SHAPES, allowed)
    assert keys.guard_same(key, "another", origin) is None


def test_the_official_key_is_not_the_relays():
    for arguments in ((RELAY, None), (RELAY, "other.example"), ("", None)):
        with pytest.raises(KeyRefused) as refused:
            keys.guard_same(KEY, KEY, *arguments)
        assert KEY not in f"{refused.value} {refused.value.next_step}"
    assert keys.guard_same(KEY, KEY, "http://localhost:9") is None
    assert keys.guard_same(KEY, KEY, RELAY, "relay.example") is None
    assert keys.guard_same(KEY, KEY + "x", RELAY) is None


def confirm(environ=None, trust=(), allowed=(), ask=None, origin=RELAY):
    return keys.confirm_origin("RELAY_KEY", origin, environ or {}, set(trust), set(allowed), ask)


def test_each_source_outside_the_file_confirms():
    assert confirm(origin="http://127.0.0.1:8000") == "loopback"
    assert confirm({"RELAY_KEY_ORIGIN": RELAY}) == "environment"
    assert confirm({"RELAY_KEY_ORIGIN": "https://Relay.example:443/v1/messages "}) == "environment"
    assert confirm(trust=[RELAY]) == "trust_list"
    assert confirm(allowed=[RELAY + "/v1"]) == "flag"
    asked = []
    assert confirm(ask=lambda question: not asked.append(question)) == "terminal"
    assert asked == [f"Send the key in RELAY_KEY to {RELAY}?"]


@pytest.mark.parametrize(
    "other",
    ["http://127.0.0.1", RELAY + ":8443", "https://relay.example.evil.example", "https://relay.example@evil.example"],
)
def test_a_variable_that_names_another_origin_outweighs_everybody(other):
    with pytest.raises(OriginUnconfirmed) as refused:
        confirm({"RELAY_KEY_ORIGIN": other}, trust=[RELAY], allowed=[RELAY], ask=lambda _: True)
    assert "RELAY_KEY_ORIGIN" in refused.value.message
    assert "nobody" not in refused.value.message
    assert refused.value.exit_code == 2


def test_an_unconfirmed_origin_says_what_would_confirm_it():
    for ask in (None, lambda _: False):
        with pytest.raises(OriginUnconfirmed) as refused:
            confirm({"SHELL": "/bin/zsh", "OTHER_KEY_ORIGIN": RELAY}, trust=["https://a.example"], allowed=[], ask=ask)
        ways = refused.value.details["confirm"]
        assert ways == [
            f"export RELAY_KEY_ORIGIN='{RELAY}'",
            f"--allow-origin {RELAY}",
            f'trusted_origins.toml: origins = ["{RELAY}"]',
        ]
        assert all(way in refused.value.next_step for way in ways)
        assert refused.value.details["needs"][0]["field"] == "RELAY_KEY_ORIGIN"


def test_the_trust_list(tmp_path):
    path = tmp_path / keys.TRUST_LIST
    assert keys.read_trust_list(path) == set()
    path.write_text('origins = ["https://relay.example/v1", "https://B.example:443"]')
    path.chmod(0o600)
    assert keys.read_trust_list(path) == {RELAY, "https://b.example"}
    for text in ("origins = 1", "origins = [1]", "origin = []", "not toml", 'origins = ["http://plain.example"]'):
        path.write_text(text)
        with pytest.raises(UsageError, match="not a list of addresses"):
            keys.read_trust_list(path)
    path.write_text("origins = []")
    path.chmod(0o666)
    with pytest.raises(UsageError, match="anybody may write"):
        keys.read_trust_list(path)


def test_the_salt_is_made_once_and_is_private(tmp_path):
    folder = tmp_path / "state" / "relay-audit"
    salts = []
    together = threading.Barrier(8)

    def first():
        together.wait()
        salts.append(keys.workspace_salt(folder))

    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(salts) == 8
    assert len(set(salts)) == 1
    assert len(salts[0]) == 32
    assert stat.S_IMODE((folder / "salt").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(folder) == ["salt"]  # noqa: PTH208
    assert keys.workspace_salt(tmp_path / "other") != salts[0]


def test_a_salt_that_others_may_read_is_closed_and_a_damaged_one_is_said(tmp_path):
    salt = keys.workspace_salt(tmp_path)
    (tmp_path / "salt").chmod(0o644)
    assert keys.workspace_salt(tmp_path) == salt
    assert stat.S_IMODE((tmp_path / "salt").stat().st_mode) == 0o600
    (tmp_path / "salt").write_bytes(b"short")
    with pytest.raises(StoreError):
        keys.workspace_salt(tmp_path)
