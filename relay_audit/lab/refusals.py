"""What the Messages API refuses, in its words and its order of reporting.

The texts and the order are a third party's direct observations of the official API (2026-08-30/31, one model), plus
recordings; see each table. Where an unknown model and the output limit stand in the order is not established.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from relay_audit.lab.models import MODELS, Model

Check = Callable[[Any], str]
"""A field's value to its complaint, or an empty text."""


@dataclass(frozen=True)
class Refusal:
    status: int
    kind: str
    message: str


def _invalid(message: str) -> Refusal:
    return Refusal(400, "invalid_request_error", message)


def _typed(kind: type | tuple[type, ...], complaint: str) -> Check:
    def check(value: Any) -> str:  # noqa: ANN401
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        return "" if right else f": {complaint}"

    return check


def _between(low: float, high: float) -> Check:
    number = _typed((int, float), "Input should be a valid number")

    def check(value: Any) -> str:  # noqa: ANN401
        return number(value) or ("" if low <= value <= high else f": range: {low:g}..{high:g}")

    return check


def _one_of(options: tuple[str, ...], complaint: str) -> Check:
    return lambda value: "" if value in options else f": {complaint}"


def _list_of_text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, list):
        return ": Input should be a valid array"
    bad = next((i for i, item in enumerate(value) if not isinstance(item, str)), None)
    return "" if bad is None else f".{bad}: Input should be a valid string"


def _max_tokens(value: Any) -> str:  # noqa: ANN401
    return _typed(int, "Input should be a valid integer")(value) or (
        ": must be greater than or equal to 0" if value < 0 else ""
    )


def _metadata(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, dict):
        return ": Input does not match the expected shape."
    extra = next((key for key in value if key != "user_id"), "")
    if extra:
        return f".{extra}: Extra inputs are not permitted"
    return "" if isinstance(value.get("user_id", ""), str) else ".user_id: Input should be a valid string"


def _system(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return ""
    if not isinstance(value, list):
        return ": Input should be a valid array"
    bad = next((i for i, item in enumerate(value) if not isinstance(item, dict)), None)
    return "" if bad is None else f".{bad}: Input does not match the expected shape."


def _tools(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, list):
        return ": Input should be a valid array"
    bad = next((i for i, item in enumerate(value) if not isinstance(item, dict)), None)
    return "" if bad is None else f".{bad}: Input should be an object"


def _messages(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, list):
        return ": Input should be a valid array"
    if not value:
        return ": at least one message is required"
    return next((complaint for i, turn in enumerate(value) if (complaint := _turn(i, turn))), "")


def _turn(index: int, turn: Any) -> str:  # noqa: ANN401
    here = f".{index}"
    if not isinstance(turn, dict):
        return f"{here}: Input should be an object"
    if "role" not in turn:
        return f"{here}.role: Field required"
    if turn["role"] not in ("user", "assistant", "system"):
        return f': Unexpected role "{turn["role"]}". Allowed roles are "user" or "assistant"'
    if "content" not in turn:
        return f"{here}.content: Field required"
    if complaint := _blocks(turn["content"]):
        return f"{here}.content{complaint}"
    extra = next((key for key in turn if key not in ("role", "content")), "")
    return f"{here}.{extra}: Extra inputs are not permitted" if extra else ""


def _blocks(content: Any) -> str:  # noqa: ANN401
    if isinstance(content, str):
        return ""
    if not isinstance(content, list):
        return ": Input should be a valid array"
    for i, block in enumerate(content):
        if not isinstance(block, dict):
            return f".{i}: Input should be an object"
        if "type" not in block:
            return f".{i}.type: Field required"
    return ""


_OBJECT = _typed(dict, "Input should be an object")
_SHAPE = _typed(dict, "Input does not match the expected shape.")
FIELDS: dict[str, Check] = {
    "tool_choice": _OBJECT,
    "tools": _tools,
    "messages": _messages,
    "system": _system,
    "thinking": _OBJECT,
    "output_config": _SHAPE,
    "cache_control": _OBJECT,
    "max_tokens": _max_tokens,
    "metadata": _metadata,
    "stop_sequences": _list_of_text,
    "temperature": _between(0, 1),
    "service_tier": _one_of(("auto", "standard_only"), "Input should be 'auto' or 'standard_only'"),
    "top_k": _typed(int, "Input should be a valid integer"),
    "top_p": _between(0, 1),
    "stream": _typed(bool, "Input should be a valid boolean"),
    "container": lambda value: (
        "" if isinstance(value, str) else ".ContainerParams: Input does not match the expected shape."
    ),
    "inference_geo": lambda value: (
        _typed(str, "Input should be a valid string")(value)
        or _one_of(("global", "us"), "must be one of ['global', 'us']")(value)
    ),
}
"""Known fields without a beta header, in the order they are reported; `model` comes before all of them."""
_BETA_FIELDS = ("mcp_servers", "context_management", "speed", "output_format")


def refuse(body: dict[str, Any], *, counting: bool, beta: bool) -> Refusal | None:
    """The one complaint the API would make about a body, or None. `beta`: some `anthropic-beta` header came with it."""
    if complaint := _model(body):
        return _invalid(complaint)
    required = ("messages",) if counting else ("messages", "max_tokens")
    for name, check in FIELDS.items():
        if name not in body:
            if name in required:
                return _invalid(f"{name}: Field required")
        elif complaint := check(body[name]):
            return _invalid(name + complaint)
    allowed = {"model", *FIELDS, *(_BETA_FIELDS if beta else ())}
    if extra := next((key for key in body if key not in allowed), ""):
        return _invalid(f"{extra}: Extra inputs are not permitted")
    if complaint := _conversation(body["messages"]):
        return _invalid(complaint)
    if "container" in body:
        return _invalid("container: Container identifier can only be provided when using the code execution tool")
    model = MODELS.get(body["model"])
    if model is None:
        return Refusal(404, "not_found_error", f"model: {body['model']}")
    complaint = _by_model(body, model) or _tools_missing(body)
    return _invalid(complaint) if complaint else None


def _model(body: dict[str, Any]) -> str:
    if "model" not in body:
        return "model: Field required"
    if not isinstance(body["model"], str):
        return "model: Input should be a valid string"
    return "" if body["model"] else "model: String should have at least 1 character"


_DIRECTIVE = "the directive-only form (content: [] with output_config) is accepted at any position"


def _conversation(turns: list[dict[str, Any]]) -> str:
    roles = [turn["role"] for turn in turns]
    for i, turn in enumerate(turns):
        if turn["role"] == "system":
            if complaint := _system_turn(i, turn, roles):
                return complaint
        elif turn["role"] == "user" and not turn["content"] and not _merged(i, turns):
            return f"messages.{i}: user messages must have non-empty content"
    return ""


def _system_turn(index: int, turn: dict[str, Any], roles: list[str]) -> str:
    if not turn["content"]:
        return f"messages.{index}: system content must contain at least one block"
    if isinstance(turn["content"], str) and not turn["content"].strip():
        return f"messages.{index}: system text blocks must contain non-whitespace text"
    if index == 0:
        return f"messages.0: use the top-level 'system' parameter for the initial system prompt; {_DIRECTIVE}"
    if index + 1 < len(roles) and roles[index + 1] == "user":
        return f"messages.{index}: role 'system' must precede an 'assistant' message or end the array; {_DIRECTIVE}"
    return ""


def _merged(index: int, turns: list[dict[str, Any]]) -> bool:
    """Turns of one role are merged; an empty one beside a full one is no empty turn."""
    beside = [turns[i] for i in (index - 1, index + 1) if 0 <= i < len(turns)]
    return any(turn["role"] == "user" and turn["content"] for turn in beside)


def _tools_missing(body: dict[str, Any]) -> str:
    """Where this stands in the order of reporting is not established."""
    kind = (body.get("tool_choice") or {}).get("type", "none")
    asked = kind != "none" and not body.get("tools")
    return "tool_choice may only be specified while providing tools" if asked else ""


_MAXIMUM = "which is the maximum allowed number of output tokens for"


def _by_model(body: dict[str, Any], model: Model) -> str:
    limit = body.get("max_tokens", 0)
    if limit > model.max_output:
        return f"max_tokens: {limit} > {model.max_output}, {_MAXIMUM} {model.name}"
    thinking = (body.get("thinking") or {}).get("type")
    if model.strict:
        return _by_strict_model(body, thinking, model.takes)
    return "adaptive thinking is not supported on this model" if thinking == "adaptive" else ""


def _by_strict_model(body: dict[str, Any], thinking: object, takes: frozenset[str]) -> str:
    if thinking in ("enabled", "disabled") and thinking not in takes:
        return (
            f'"thinking.type.{thinking}" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool") and "forced_tool" not in takes:
        return 'tool_choice: type "tool" and "any" are not supported for this model.'
    changed = [name for name in ("temperature", "top_p") if body.get(name, 1) != 1 and "sampling" not in takes]
    if deprecated := next(iter(changed), ""):
        return f"`{deprecated}` is deprecated for this model."
    last = body["messages"][-1]
    if last["role"] == "assistant" and last["content"]:
        return "This model does not support assistant message prefill. The conversation must end with a user message."
    return ""
