"""User data that an encoder leaves in the first picture of an H.264 or H.265 stream."""

from __future__ import annotations

import re
import uuid

USER_DATA = 5
"""Payload type of unregistered user data."""
H264_SEI, H265_SEI = (6,), (39, 40)
MAX_MESSAGES = 32
_MACHINE = re.compile(
    r"(?:^|\s)(?:threads|lookahead_threads|sliced_threads|frame-threads|numa-pools|me_range|cpuid|wpp|pools|input-res|total-frames)=\S*"
)
"""Settings that speak of the machine or the picture's size, not of the recipe."""
_X26X = re.compile(r"(x26[45]) (?:\(build \d+\) )?- (.+?)(?: - H\.26[45]/.*?)?(?: - options: ?(.*))?$", re.DOTALL)


def user_data(sample: bytes, length_size: int, *, hevc: bool) -> list[tuple[str, bytes]]:
    """UUID and payload of every unregistered message of one picture; what is cut short is left out."""
    found: list[tuple[str, bytes]] = []
    at = 0
    while at + length_size < len(sample) and len(found) < MAX_MESSAGES:
        length = int.from_bytes(sample[at : at + length_size], "big")
        unit = sample[at + length_size : at + length_size + length]
        at += length_size + length
        if not unit or length == 0:
            break
        kind, header = ((unit[0] >> 1) & 63, 2) if hevc else (unit[0] & 31, 1)
        if kind in (H265_SEI if hevc else H264_SEI):
            found += _messages(unit[header:].replace(b"\0\0\3", b"\0\0"))
    return found


def _messages(raw: bytes) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    at = 0
    while at + 2 <= len(raw) and raw[at] != 0x80 and len(found) < MAX_MESSAGES:
        kind, at = _number(raw, at)
        size, at = _number(raw, at)
        payload = raw[at : at + size]
        at += size
        if kind == USER_DATA and len(payload) >= 16:
            found.append((str(uuid.UUID(bytes=payload[:16])), payload[16:]))
    return found


def _number(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    while at < len(raw) and raw[at] == 0xFF:
        value, at = value + 255, at + 1
    return (value + raw[at], at + 1) if at < len(raw) else (value, at)


def library_and_settings(payloads: list[bytes]) -> tuple[str, str]:
    """The x264 or x265 line, cut into what it is and how it was told to encode; both empty without one."""
    for payload in payloads:
        text = payload.split(b"\0")[0].decode("utf-8", "replace").strip()
        if match := _X26X.match(text):
            return f"{match[1]} - {match[2]}", masked(match[3] or "")
    return "", ""


def masked(settings: str) -> str:
    """Settings in one form, whoever printed them, without those of the machine."""
    plain = re.sub(r"\s*/\s*", " ", settings)
    return " ".join(_MACHINE.sub("", plain).split())[:2000]
