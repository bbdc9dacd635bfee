"""What OpenAI's two APIs say of single fields: types, floors, known words, and what a model that reasons does not take.

Texts and order as a third party observed them on the official API (2026-08-30, gpt-5.6-terra); only fields
that an audit sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Fault(NamedTuple):
    message: str
    param: str
    code: str | None


Check = Callable[[str, Any], Fault | None]
TYPES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    dict: "an object",
}


def _type(kind: type | tuple[type, ...], expected: str) -> Check:
    def check(name: str, value: Any) -> Fault | None:  # noqa: ANN401
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return None
        text = f"Invalid type for '{name}': expected {expected}, but got {TYPES.get(type(value), 'an object')} instead."
        return Fault(text, name, "invalid_type")

    return check


def _word(*known: str) -> Check:
    def check(name: str, value: Any) -> Fault | None:  # noqa: ANN401
        listed = ", ".join(f"'{word}'" for word in known[:-1]) + f", and '{known[-1]}'"
        bad = None if value in known else f"Invalid value: '{value}'. Supported values are: {listed}."
        return Fault(bad, name, "invalid_value") if bad else None

    return check


def _n(name: str, value: Any) -> Fault | None:  # noqa: ANN401
    if wrong := _type(int, "an integer")(name, value):
        return wrong
    if value >= 1:
        return None
    text = f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {value} instead."
    return Fault(text, name, "integer_below_min_value")


def _format(name: str, value: Any) -> Fault | None:  # noqa: ANN401
    if wrong := _type(dict, "an object")(name, value):
        return wrong
    if "type" not in value:
        return Fault(f"Missing required parameter: '{name}.type'.", f"{name}.type", "missing_required_parameter")
    return _word("json_object", "json_schema", "text")(f"{name}.type", value["type"])


def _roles(name: str, value: Any) -> Fault | None:  # noqa: ANN401
    if wrong := _type(list, "an array of objects")(name, value):
        return wrong
    known = _word("system", "assistant", "user", "function", "tool", "developer")
    found = [known(f"{name}[{i}].role", turn.get("role")) for i, turn in enumerate(value) if isinstance(turn, dict)]
    return next((fault for fault in found if fault), None)


def _effort(name: str, value: Any) -> Fault | None:  # noqa: ANN401
    if wrong := _type(dict, "an object")(name, value):
        return wrong
    known = _word("none", "minimal", "low", "medium", "high", "xhigh", "max")
    return known(f"{name}.effort", value["effort"]) if "effort" in value else None


DECIMAL = _type((int, float), "a decimal")
TIERS = _word("auto", "default", "fast", "flex", "priority")
FIELDS: dict[str, dict[str, Check]] = {
    "openai_chat": {
        "messages": _roles, "n": _n, "temperature": DECIMAL, "response_format": _format, "service_tier": TIERS,
        "store": _type(bool, "a boolean"),
    },
    "openai_responses": {
        "input": _type((str, list), "one of a string or array of input items"), "text": _type(dict, "an object"),
        "temperature": DECIMAL, "reasoning": _effort, "truncation": _word("auto", "disabled"), "service_tier": TIERS,
        "store": _type(bool, "a boolean"),
    },
}  # fmt: skip
"""By API, in the order in which faults are reported."""


def field_fault(body: dict[str, Any], dialect: str, *, reasons: bool) -> Fault | None:
    """The first complaint about a field, whatever the model; then what a model that reasons does not take."""
    for name, check in FIELDS[dialect].items():
        if body.get(name) is not None and (fault := check(name, body[name])):
            return fault
    if isinstance(earlier := body.get("previous_response_id"), str):
        text = f"Previous response with id '{earlier}' not found."
        return Fault(text, "previous_response_id", "previous_response_not_found")
    return _beyond(body, dialect) if reasons else None


def _beyond(body: dict[str, Any], dialect: str) -> Fault | None:
    if dialect == "openai_responses":
        asked = body.get("top_logprobs") is not None
        return (
            Fault("logprobs are not supported with reasoning models.", "top_logprobs", "unsupported_parameter")
            if asked
            else None
        )
    for name in ("stop", "logprobs"):
        if body.get(name):
            return Fault(
                f"Unsupported parameter: '{name}' is not supported with this model.", name, "unsupported_parameter"
            )
    if body.get("temperature", 1) != 1:
        text = f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. "
        return Fault(f"{text}Only the default (1) value is supported.", "temperature", "unsupported_value")
    return None
