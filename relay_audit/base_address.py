"""The root of an interface, out of what people paste, and the address of a request below it. Pure."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

from relay_audit.errors import KeyRefused, TargetError

VERSIONS = ("/v1beta", "/v1")
PASTED_PATHS = (
    "/v1/chat/completions", "/v1/messages/count_tokens", "/v1/messages", "/v1/responses/input_tokens", "/v1/responses",
    "/api/v3/contents/generations/tasks", "/v1/videos", "/v1/video/generations",
    "/v1/models", "/v1beta/models", "/chat/completions", *VERSIONS,
)  # fmt: skip
VERSION = re.compile(r"/v\d+(?:beta\d*)?$")
"""How an API root ends that has its version in it: what clients of OpenAI's format are given as their base address."""
TEXTS = re.compile(r"/v1(?=/(?:chat/completions|messages|responses|models)(?:/|$|\?))")
"""Paths that lie directly below such a root, whatever its version."""
FILMS = "/api/v3"
"""Volcengine Ark's root, below which relays keep more than Ark's own paths."""
AROUND = "`'\"<>()，。、,;“”‘’「」『』《》【】"
"""What stands around an address that was copied out of a chat."""
HOST = re.compile(r"[\w-]+(?:\.[\w-]+)*\.?|[0-9a-f:.]*:[0-9a-f:.]*")
"""Labels (of any script) or an IPv6 address."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def normalise_address(pasted: str) -> str:
    """An API root out of what people paste: `…/v1/messages`, spaces, full-width characters, a missing scheme.

    Plain http is refused except to loopback. Raises `TargetError`.
    """
    text = unicodedata.normalize("NFKC", pasted)
    text = "".join(c for c in text if not c.isspace() and unicodedata.category(c) not in ("Cf", "Cc"))
    text = text.strip(AROUND).replace("。", ".")
    if "://" not in text:
        text = ("http://" if text.split(":")[0].split("/")[0] in LOOPBACK else "https://") + text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise TargetError(
            "base_url is not an address", next_step="give it as https://host or https://host/path"
        ) from None
    host = (parts.hostname or "").lower()
    if not HOST.fullmatch(host) or parts.scheme not in ("http", "https"):
        raise TargetError("base_url is not an address", next_step="give it as https://host or https://host/path")
    if parts.username or parts.password:
        raise KeyRefused("base_url holds a user name or password", next_step="take it out; keys are named by variable")
    if parts.query or parts.fragment:
        raise TargetError("base_url has a query or fragment", next_step="give only the address, up to the path")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise TargetError(
            "plain http would send the key in clear text", next_step="use https:// (http only to loopback)"
        )
    path = parts.path.rstrip("/")
    tail = next((tail for tail in PASTED_PATHS if path.endswith(tail)), "")
    shorter = path.removesuffix(tail)
    if tail in VERSIONS and VERSION.search(shorter) and not shorter.endswith(tail):
        shorter = path  # a gateway's own `/v2` in front of the interface's `/v1`: both belong to the address
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{shorter}"


def origin_of(address: str) -> str:
    """`scheme://host:port` with the default port left out: what a key is bound to."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{name}" + (f":{parts.port}" if parts.port and parts.port != default else "")


def is_loopback(address: str) -> bool:
    return (urlsplit(address).hostname or "") in LOOPBACK


def below(root: str, path: str) -> str:
    """The address of a request: its path behind the API root, without what the root holds already.

    A root whose last part is a version (`/api/paas/v4`, `/api/v3`) stands where the path says `/v1`, as it does for every
    client whose base address it is: `…/api/paas/v4/chat/completions` (recorded z.ai traffic), never `…/v4/v1/chat/…`.
    """
    root = root.rstrip("/")
    if not VERSION.search(root):
        return root + path
    if root.endswith(FILMS) and not TEXTS.match(path):
        return root.removesuffix(FILMS) + path
    return root + TEXTS.sub("", path)
