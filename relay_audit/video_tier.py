"""Which films a target asks for: `[video]` and `[[video.tiers]]`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from relay_audit.words import Frozen


class VideoTier(Frozen):
    resolution: str
    seconds: int = Field(gt=0)


class Video(Frozen):
    """Tiers are ordered one by one, cheapest first; none means the lowest alone. `route` is the relay's: the vendor's own,
    `/v1/video/generations` or `/v1/videos`. `profile` is what the films should be; empty: by the model's name."""

    tiers: tuple[VideoTier, ...] = ()
    route: Literal["auto", "native", "generations", "videos"] = "auto"
    profile: str = ""
