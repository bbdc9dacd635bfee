"""Keys: read from where the user put them, refused where they do not belong, confirmed before they go anywhere.

A target file may have been written by somebody else, so it only names a variable and an address. That this key may go
to that address is said outside it: beside the variable, in the user's own trust list, on the command line, or at the
terminal. No message here quotes a key; a malformed one is described by position.
"""

from __future__ import annotations

import contextlib
import ntpath
import os
import posixpath
import re
import secrets
import stat
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TextIO
from urllib.parse import urlsplit

import tomli

from relay_audit.errors import KeyRefused, OriginUnconfirmed, StoreError, TargetError, UsageError
from relay_audit.target import is_loopback, normalise_address, origin_of

Shell = Literal["powershell", "cmd", "bash", "zsh", "fish"]
Confirmed = Literal["loopback", "environment", "trust_list", "flag", "terminal"]
KeyShapes = Mapping[str, tuple[Iterable[str], Iterable[str]]]
"""Vendor → (patterns of its own keys, its own hosts)."""

SHORTEST = 8
TRUST_LIST = "trusted_origins.toml"
"""In the user's configuration folder: `origins = ["https://relay.example"]`."""
SALT_BYTES = 32
_LARGEST_FILE = 8192
_ZERO_WIDTH = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u200e\u200f")
_QUOTES = frozenset("\"'`“”‘’«»「」『』")
_LINES: dict[str, str] = {
    "powershell": '$env:{name} = "{value}"',
    "cmd": "set {name}={value}",
    "bash": "export {name}='{value}'",
    "zsh": "export {name}='{value}'",
    "fish": "set -gx {name} '{value}'",
}
_KINDS = {
    "line_break": "a line break",
    "space": "a space",
    "zero_width": "an invisible character",
    "full_width": "a full-width character",
    "quote": "a quotation mark",
    "bearer_prefix": "the word Bearer, which is not part of a key",
    "control": "a control character",
    "non_ascii": "a character that is not plain ASCII",
}


def detect_shell(environ: Mapping[str, str]) -> Shell:
    """The shell the user most likely sits in; only to print a line that works there."""
    names = {name.upper(): value for name, value in environ.items()}
    windows = names.get("OS") == "Windows_NT" or "COMSPEC" in names
    shell = names.get("SHELL", "")
    if windows and not (shell or "MSYSTEM" in names):
        # Both shells see PSModulePath; only PowerShell puts the user's own folder into it.
        modules = names.get("PSMODULEPATH", "").lower()
        return "powershell" if "\\users\\" in modules or "documents" in modules else "cmd"
    if "PSMODULEPATH" in names and not windows:
        return "powershell"
    called = ntpath.basename(posixpath.basename(shell)).removesuffix(".exe")
    return "fish" if called == "fish" else "zsh" if called == "zsh" else "bash"


def line_for(shell: str, name: str, value: str) -> str:
    """The one line that sets a variable in that shell."""
    return _LINES.get(shell, _LINES["bash"]).format(name=name, value=value)


def read_key(variable: str, environ: Mapping[str, str], shell: str | None = None) -> str:
    """A key out of the environment. Raises `KeyRefused` where it is missing or malformed."""
    value = environ.get(variable, "")
    if value:
        return check_key(value, variable)
    line = line_for(shell or detect_shell(environ), variable, "<the key>")
    raise KeyRefused(
        f"the environment variable {variable} is not set",
        next_step=f"{line}   (or --key-prompt, which reads it unseen)",
        details=_needs(
            variable,
            "the key is read from this variable and from nowhere else",
            {
                "zh-CN": f"请把密钥放进环境变量 {variable}（不要写进文件或对话），然后再运行一次。",
                "en": f"Please put the key into the environment variable {variable}, not into a file or this chat, "
                "and run again.",
            },
            line,
        ),
    )


def read_key_file(path: str | Path, stdin: TextIO) -> str:
    """A key from a file only its owner can read, or from standard input (`-`); a final line break is not part of it."""
    if str(path) == "-":
        text, where = stdin.read(_LARGEST_FILE + 1), "standard input"
    else:
        text, where = _private_text(Path(path)), "the key file"
    text = text.removesuffix("\n").removesuffix("\r")
    if not 0 < len(text) <= _LARGEST_FILE:
        raise KeyRefused(
            f"{where} is {'too long' if text else 'empty'}", next_step="it holds the key alone, on one line"
        )
    return check_key(text, where)


def check_key(value: str, where: str) -> str:
    """The key as it is, or `KeyRefused` with the position and kind of the first thing that cannot be part of one."""
    flaw = _flaw(value)
    if flaw is not None:
        index, kind = flaw
        raise KeyRefused(
            f"{where} is not usable as a key: character {index + 1} of {len(value)} is {_KINDS[kind]}",
            next_step="copy the key again, alone and whole",
            details={"position": {"index": index, "kind": kind}},
        )
    if len(value) < SHORTEST:
        raise KeyRefused(
            f"{where} is not usable as a key: {len(value)} characters, at least {SHORTEST} are needed",
            next_step="copy the key again, alone and whole",
            details={"position": {"index": len(value), "kind": "too_short"}},
        )
    return value


def guard_shape(key: str, origin: str, key_shapes: KeyShapes, allow_host: str | None = None) -> None:
    """Raises `KeyRefused` where an official vendor's key would go to a host that is not that vendor's."""
    if is_loopback(origin) or _is_allowed(origin, allow_host):
        return
    host = _host(origin)
    vendors = [name for name, (patterns, _) in key_shapes.items() if any(re.match(p, key) for p in patterns)]
    at_home = any(host == own or host.endswith(f".{own}") for name in vendors for own in key_shapes[name][1])
    if vendors and not at_home:
        raise KeyRefused(
            f"this key has the shape of an official key of {vendors[0]}, and {host} is not a host of {vendors[0]}",
            next_step="if it was pasted here by mistake, revoke it at the vendor and use the relay's own key; "
            f"if it is meant: --allow-official-key-to {host}",
            details={"vendor": vendors[0], "host": host},
        )


def guard_same(
    relay_key: str, official_key: str, relay_origin: str = "", allow_host: str | None = None, official_origin: str = ""
) -> None:
    """Raises `KeyRefused` where the relay would be handed the very key of the official side. One origin on both sides is
    the vendor held against itself: its key stays at home."""
    if relay_key != official_key or is_loopback(relay_origin) or _is_allowed(relay_origin, allow_host):
        return
    if relay_origin and relay_origin == official_origin:
        return
    host = _host(relay_origin)
    raise KeyRefused(
        "the relay's key and the official key are the same",
        next_step="give the relay the key that the relay issued; revoke an official key that a relay ever saw"
        + (f"; if it is meant: --allow-official-key-to {host}" if host else ""),
        details={"host": host},
    )


def confirm_origin(
    variable: str,
    origin: str,
    environ: Mapping[str, str],
    trust_list: set[str],
    allowed: set[str],
    ask: Callable[[str], bool] | None = None,
) -> Confirmed:
    """Who outside the target file says that this key may go there. Raises `OriginUnconfirmed`, before any socket.

    A `NAME_ORIGIN` that names another address is a refusal, whatever the other sources say: it is the user's own
    sentence about this very key.
    """
    origin = _origin(origin)
    if is_loopback(origin):
        return "loopback"
    beside = environ.get(f"{variable}_ORIGIN", "").strip()
    if beside:
        _agree(variable, beside, origin)
        return "environment"
    if origin in {_origin(known) for known in trust_list}:
        return "trust_list"
    if origin in {_origin(known) for known in allowed}:
        return "flag"
    if ask is not None and ask(f"Send the key in {variable} to {origin}?"):
        return "terminal"
    raise _unconfirmed(variable, origin, environ)


def read_trust_list(path: Path) -> set[str]:
    """The user's own list of addresses, as origins. No file is an empty list; an odd one is `UsageError`."""
    try:
        raw = path.read_bytes()
        open_to_all = os.name == "posix" and path.stat().st_mode & stat.S_IWOTH
    except FileNotFoundError:
        return set()
    except OSError:
        raise UsageError(f"{path} cannot be read", next_step="make it a readable file, or remove it") from None
    if open_to_all:
        raise UsageError(f"anybody may write to {path}", next_step=f"chmod 600 {path}, after reading what it says")
    try:
        table = tomli.loads(raw.decode("utf-8-sig"))
        origins = table.get("origins", [])
        if set(table) - {"origins"} or not isinstance(origins, list) or not all(isinstance(o, str) for o in origins):
            raise ValueError
        return {_origin(entry) for entry in origins}
    except (ValueError, UsageError):
        raise UsageError(
            f"{path} is not a list of addresses", next_step='it holds one line: origins = ["https://relay.example"]'
        ) from None


def workspace_salt(state_dir: Path) -> bytes:
    """The workspace's own salt, made once and never exported. Two processes that come first get the same one."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = state_dir / "salt"
    if not path.exists():
        _publish(state_dir, path)
    salt = path.read_bytes()
    if len(salt) != SALT_BYTES:
        raise StoreError(
            f"{path} is damaged", next_step="remove it; accounts of earlier runs can then not be compared with new ones"
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return salt


def _publish(folder: Path, path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=folder, prefix=".salt-")  # 0600 from the start
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(SALT_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)  # unlike a rename this never replaces another's salt
    except OSError:  # a file system without hard links
        if not path.exists():
            Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _private_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise KeyRefused(f"{path} is not a file", next_step="name a file, or - for standard input")
            if os.name == "posix" and facts.st_mode & 0o077:
                raise KeyRefused(f"others may read {path}", next_step=f"chmod 600 {path}")
            return file.read(_LARGEST_FILE + 1).decode("utf-8")
    except OSError:
        raise KeyRefused(f"{path} cannot be read", next_step="name a readable file, or - for standard input") from None
    except UnicodeDecodeError:
        raise KeyRefused(f"{path} is not UTF-8 text", next_step="save it as UTF-8: the key alone on one line") from None


def _flaw(value: str) -> tuple[int, str] | None:
    if re.match(r"bearer\b[\s:]", value, re.IGNORECASE):
        return 0, "bearer_prefix"
    return next(((index, kind) for index, c in enumerate(value) if (kind := _kind(c))), None)


def _kind(character: str) -> str:
    if character in "\r\n\u2028\u2029\v\f\x85":
        return "line_break"
    if character in _ZERO_WIDTH:
        return "zero_width"
    if character in _QUOTES:
        return "quote"
    if character.isspace():
        return "full_width" if character == "\u3000" else "space"
    if unicodedata.category(character).startswith("C"):
        return "control"
    if not character.isascii():
        return "full_width" if unicodedata.east_asian_width(character) == "F" else "non_ascii"
    return ""


def _origin(address: str) -> str:
    return origin_of(normalise_address(address))


def _host(address: str) -> str:
    return (urlsplit(address).hostname or "") if "://" in address else address.split("/")[0].split(":")[0].lower()


def _is_allowed(origin: str, allow_host: str | None) -> bool:
    return bool(allow_host) and _host(origin) == _host((allow_host or "").strip())


def _agree(variable: str, beside: str, origin: str) -> None:
    try:
        named = _origin(beside)
    except (TargetError, KeyRefused):
        raise OriginUnconfirmed(
            f"{variable}_ORIGIN is not an address",
            next_step=f"set it to where {variable} may go, such as https://relay.example",
        ) from None
    if named != origin:
        raise OriginUnconfirmed(
            f"{variable}_ORIGIN says that this key belongs to {named}, but the target file would send it to {origin}",
            next_step=f"if the target file is wrong, correct it; if the key is for {origin}, change {variable}_ORIGIN; "
            "until they agree the key goes nowhere",
            details={"named": named, "origin": origin},
        )


def _unconfirmed(variable: str, origin: str, environ: Mapping[str, str]) -> OriginUnconfirmed:
    line = line_for(detect_shell(environ), f"{variable}_ORIGIN", origin)
    ways = [line, f"--allow-origin {origin}", f'{TRUST_LIST}: origins = ["{origin}"]']
    return OriginUnconfirmed(
        f"nobody outside the target file has said that the key in {variable} may go to {origin}",
        next_step=f"if it may, one of: {ways[0]}   |   {ways[1]}   |   in your configuration folder, {ways[2]}",
        details={
            "confirm": ways,
            **_needs(
                f"{variable}_ORIGIN",
                "a target file may have been written by somebody else; where a key may go is said outside it",
                {
                    "zh-CN": f"{variable} 里的密钥可以发送到 {origin} 吗？如果可以，请设置 {variable}_ORIGIN。",
                    "en": f"May the key in {variable} be sent to {origin}? If so, please set {variable}_ORIGIN.",
                },
                line,
            ),
        },
    )


def _needs(field: str, why: str, ask: dict[str, str], example: str) -> dict[str, object]:
    return {"needs": [{"field": field, "why": why, "ask": ask, "example": example}]}
