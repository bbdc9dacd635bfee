"""A simulated vendor and simulated relays in front of it: one knob per fault, standard library only, no network.

`World` answers in process, `serve` on loopback ports; `SCENARIOS` is the truth table's left-hand side. The lab behaves
as recorded facts say; what is known only from reading a relay program's source says so where it is written.
"""

from relay_audit.lab.gpt_scenarios import DIALECTS, Dialect, scenarios_in
from relay_audit.lab.knobs import Knobs
from relay_audit.lab.scenario import Scenario
from relay_audit.lab.scenarios import SCENARIOS
from relay_audit.lab.server import Served, serve, serve_world
from relay_audit.lab.video_scenarios import VIDEO_SCENARIOS, VideoScenario
from relay_audit.lab.video_world import VideoWorld
from relay_audit.lab.wire import HttpAnswer, HttpRequest
from relay_audit.lab.world import Arrival, World

__all__ = [
    "DIALECTS",
    "SCENARIOS",
    "VIDEO_SCENARIOS",
    "Arrival",
    "Dialect",
    "HttpAnswer",
    "HttpRequest",
    "Knobs",
    "Scenario",
    "Served",
    "VideoScenario",
    "VideoWorld",
    "World",
    "scenarios_in",
    "serve",
    "serve_world",
]  # fmt: skip
