"""What was read out of one media file, and what a buyer pinned from an original of their own: facts only."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from relay_audit.words import Frozen

Kind = Literal["mp4", "jpeg", "png", "webp", "matroska", "other"]
IntegrityState = Literal["read", "absent", "remote", "unsupported", "unreadable", "not_checked"]
SignerState = Literal["read", "absent", "unreadable", "not_checked"]


class Certificate(Frozen):
    """One certificate of a chain. Names and serial number are chosen by whoever issued it; the two hashes are not."""

    sha256: str
    """Of the certificate as it stands in the file (DER)."""
    spki_sha256: str
    """Of its public key alone: stays when a certificate is renewed with the same key."""
    subject: str = ""
    issuer: str = ""
    organisation: str = ""
    organisation_id: str = ""
    """organizationIdentifier, OID 2.5.4.97."""
    not_before: dt.datetime
    not_after: dt.datetime


class Signer(Frozen):
    """The active signature, re-verified by ourselves under the one chain that it carries."""

    label: str
    """The active manifest's."""
    algorithm: str
    chain: tuple[Certificate, ...] = Field(min_length=1)
    """Leaf first."""
    linked: bool
    """Whether each certificate was really issued by the next one, and the issuers may issue."""
    public_root: bool | None
    """Whether the last one was issued by a public root of this machine's list; None without a list."""
    generator: str = ""
    """What the claim says made it."""
    model: str = ""
    """The model that the signed claim names; as true as whoever signed it."""
    ingredients: tuple[str, ...] = ()
    """SHA-256 of the leaves of earlier manifests in the same store: what was signed before."""

    @property
    def leaf(self) -> Certificate:
        return self.chain[0]

    @property
    def issuing_key(self) -> str:
        """SHA-256 of the key that issued the leaf; empty where the chain does not show it."""
        return self.chain[1].spki_sha256 if len(self.chain) > 1 and self.linked else ""


class Integrity(Frozen):
    """What the C2PA library said of the active manifest. Codes, never its summary word."""

    state: IntegrityState
    success: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()
    label: str = ""
    serial: str = ""
    """Of the leaf the library read, decimal: says only whether two parsers speak of the same certificate."""
    signed_at: dt.datetime | None = None
    """Of a time stamp that the library accepted."""
    detail: str = ""
    """Why there is nothing to read; the library's words about a stranger's file."""


class Encoder(Frozen):
    """What made the stream and what wrote the file around it."""

    library: str = ""
    """As it stands in the video stream (`x264 - core 164 r3108`)."""
    settings: str = ""
    """Encoder settings without those that depend on the machine or the picture's size."""
    seis: tuple[str, ...] = ()
    """Unregistered user data in the first picture: UUID, and the text behind it where it is one."""
    compressors: tuple[str, ...] = ()
    codecs: tuple[str, ...] = ()
    application: str = ""
    """What wrote the container (`Lavf60.16.100`)."""
    brands: str = ""
    handlers: tuple[str, ...] = ()
    tree: str = ""
    """SHA-256 of the ordered box paths, without uuid, free and skip boxes."""

    @property
    def stream(self) -> tuple[str, str, tuple[str, ...]]:
        """What a new container leaves as it was, and a new encoding does not."""
        return (self.library, self.settings, self.seis)

    @property
    def container(self) -> tuple[str, str, tuple[str, ...], str]:
        return (self.application, self.brands, self.handlers, self.tree)

    @property
    def known(self) -> bool:
        return bool(self.library or self.settings or self.seis)


class Label(Frozen):
    """A mark that the content was generated (GB 45438-2025). Unsigned: anybody can add or remove it."""

    carrier: str
    """`mdta`, `xmp`, `png_text`, `exif`, `matroska`, …"""
    label: str = ""
    """1 generated, 2 possibly, 3 suspected."""
    producer: str = ""


class Workflow(Frozen):
    """A ComfyUI workflow in the metadata. Its prompts and paths are not kept."""

    carrier: str
    nodes: int
    models: tuple[str, ...] = ()
    """File names of model weights that it loads."""


class MediaFacts(Frozen):
    """One file, as far as it could be read."""

    name: str
    """The file's own name, without its folders."""
    sha256: str
    size: int
    """Bytes."""
    kind: Kind = "other"
    refused: str = ""
    """Why the file's boxes were not followed to their end; no native parser saw it then."""
    fragment: bool = False
    """One part of a fragmented MP4: its hashes can only be checked together with the other parts."""
    integrity: Integrity = Integrity(state="not_checked")
    signer_state: SignerState = "not_checked"
    signer: Signer | None = None
    truncated: bool = False
    """A JPEG without its end mark: what is missing was never there, or did not arrive."""
    signer_detail: str = ""
    serial: str = ""
    """Of our own leaf, decimal."""
    encoder: Encoder = Encoder()
    width: int = 0
    height: int = 0
    """Of the first video track or the image, in pixels; 0 where it was not read."""
    seconds: float = 0.0
    """Of the film, by its own header; 0 where it was not read."""
    labels: tuple[Label, ...] = ()
    workflows: tuple[Workflow, ...] = ()
    libraries: dict[str, str] = Field(default_factory=dict)
    """Name → version of what read the file; a missing one is not there."""

    @property
    def no_film(self) -> bool:
        """Whether this is surely something else: a page, an archive, a picture. What could not be read may be one."""
        return self.refused in ("no_media", "empty_file") or self.kind in ("jpeg", "png", "webp")


class MediaReading(Frozen):
    """What became of one delivered film: where it came from, and what was read out of it."""

    at: dt.datetime
    step: str
    """The order it belongs to."""
    exchange: str = ""
    """The download; empty where nothing was asked for."""
    hosts: tuple[str, ...] = ()
    """Whose addresses were followed, the one that delivered last."""
    route: Literal["", "link", "relay_content"] = ""
    """By an address in the task's answer, or by the relay's own route for the bytes."""
    needs_key: bool = False
    """The address delivered only to the key's owner."""
    status: int | None = None
    content_type: str = ""
    failure: str = ""
    """Our word for why there is no file: no_link, link_refused, not_delivered, too_large, key_echoed, …"""
    file: MediaFacts | None = None


class Pin(Frozen):
    """An original that the buyer got from the official API: the only way to know a vendor who publishes nothing."""

    profile: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$")
    file_sha256: str
    pinned: dt.date
    integrity_checked: bool
    """Whether the hash over the content was checked when it was pinned."""
    signer: Certificate | None = None
    """None for originals that carry no credentials."""
    issuing_key: str = ""
    encoder: Encoder = Encoder()
    label: str = ""
    """The producer named by its label; `-` for a label without one; empty without a label."""
    superseded: dt.date | None = None
    """Since when a newer certificate stands in its place; files signed before still match it."""

    @property
    def id(self) -> str:
        return f"{self.profile}.{self.file_sha256}"
