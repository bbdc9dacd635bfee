"""What OpenAI's two APIs refuse, in their words: keys, required fields, floors, what a reasoning model does not take.

The texts and the order are a third party's direct observations of the official API (2026-08-30, one model).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from relay_audit.lab.gpt_fields import field_fault
from relay_audit.lab.gpt_models import GPT_MODELS

Format = Literal["openai_chat", "openai_responses"]
CHAT_KEYS = frozenset({
    "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stream",
    "stream_options", "stop", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs",
    "user", "seed", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort",
    "service_tier", "store", "metadata", "prediction", "functions", "function_call", "verbosity", "prompt_cache_key",
    "prompt_cache_retention", "safety_identifier", "moderation",
})  # fmt: skip
RESPONSES_KEYS = frozenset({
    "model", "input", "instructions", "max_output_tokens", "temperature", "top_p", "stream", "stream_options",
    "store", "metadata", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "truncation", "include",
    "previous_response_id", "conversation", "prompt", "background", "service_tier", "user", "prompt_cache_key",
    "prompt_cache_retention", "safety_identifier", "top_logprobs", "max_tool_calls", "context_management",
    "moderation", "presence_penalty", "frequency_penalty",
})  # fmt: skip
FLOOR = 16


@dataclass(frozen=True)
class Complaint:
    status: int
    message: str
    param: str | None
    code: str | None

    @property
    def body(self) -> dict[str, Any]:
        error = {"message": self.message, "type": "invalid_request_error", "param": self.param, "code": self.code}
        return {"error": error}


def refuse(body: dict[str, Any], dialect: Format, *, counting: bool = False) -> Complaint | None:
    """The one complaint the API would make about a body, or None."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return _no_model(dialect)
    known = CHAT_KEYS if dialect == "openai_chat" else RESPONSES_KEYS
    if extra := next((key for key in body if key not in known), ""):
        return Complaint(400, f"Unknown parameter: '{extra}'.", extra, "unknown_parameter")
    text = "messages" if dialect == "openai_chat" else "input"
    if not body.get(text) and not counting:
        return Complaint(400, f"Missing required parameter: '{text}'.", text, "missing_required_parameter")
    if model not in GPT_MODELS and model not in {row.display_name for row in GPT_MODELS.values()}:
        return _unknown(model, dialect)
    reasons = any(row.strict for row in GPT_MODELS.values() if model in (row.name, row.display_name))
    if (fault := field_fault(body, dialect, reasons=reasons)) is not None:
        return Complaint(400, fault.message, fault.param, fault.code)
    return _limits(body, dialect, model)


def _no_model(dialect: Format) -> Complaint:
    if dialect == "openai_chat":
        return Complaint(400, "you must provide a model parameter", None, None)
    return Complaint(400, "Missing required parameter: 'model'.", "model", "missing_required_parameter")


def _unknown(model: str, dialect: Format) -> Complaint:
    if dialect == "openai_chat":
        text = f"The model `{model}` does not exist or you do not have access to it."
        return Complaint(404, text, None, "model_not_found")
    return Complaint(400, f"The requested model '{model}' does not exist.", "model", "model_not_found")


def _limits(body: dict[str, Any], dialect: Format, name: str) -> Complaint | None:
    model = next(row for row in GPT_MODELS.values() if name in (row.name, row.display_name))
    if model.strict and (named := _by_name(body, dialect, name)):
        return named
    if dialect == "openai_responses":
        limit = body.get("max_output_tokens")
        if isinstance(limit, int) and limit < FLOOR:
            wanted = f"Expected a value >= {FLOOR}, but got {limit} instead."
            text = f"Invalid 'max_output_tokens': integer below minimum value. {wanted}"
            return Complaint(400, text, "max_output_tokens", "integer_below_min_value")
    elif model.strict and "max_tokens" in body:
        text = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return Complaint(400, text, "max_tokens", "unsupported_parameter")
    elif (
        not model.strict
        and (limit := body.get("max_completion_tokens") or body.get("max_tokens") or 0) > model.max_output
    ):
        text = (
            f"max_tokens is too large: {limit}. This model supports at most {model.max_output} completion tokens, "
            f"whereas you provided {limit}."
        )
        return Complaint(400, text, "max_tokens", "invalid_value")
    if model.strict and body.get("temperature", 1) != 1:
        text = "Unsupported parameter: 'temperature' is not supported with this model."
        return Complaint(400, text, "temperature", None)
    return None


def _by_name(body: dict[str, Any], dialect: Format, name: str) -> Complaint | None:
    """What a model that reasons refuses by its own name: an effort it has not, and on Chat tools together with an effort."""
    if dialect == "openai_responses":
        effort = (body.get("reasoning") or {}).get("effort")
        known = "Supported values are: 'none', 'low', 'medium', 'high', 'xhigh', and 'max'."
        text = f"Unsupported value: '{effort}' is not supported with the '{name}' model. {known}"
        return Complaint(400, text, "reasoning.effort", "unsupported_value") if effort == "minimal" else None
    if not body.get("tools") or body.get("reasoning_effort", "none") == "none":
        return None
    advice = "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    text = f"Function tools with reasoning_effort are not supported for {name} in /v1/chat/completions. {advice}"
    return Complaint(400, text, "reasoning_effort", None)
