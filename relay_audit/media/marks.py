"""Marks in metadata: the label of generated content in every carrier, and ComfyUI workflows, nothing private kept."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from relay_audit.media.contents import MAX_TEXT, Text

LABEL_KEYS = ("label", "contentproducer", "produceid")
WEIGHTS = re.compile(r"([^\\/\"\s][^\\/\"]{0,200}?\.(?:safetensors|gguf|ckpt|pth?|bin|onnx))$", re.IGNORECASE)
MAX_MODELS = 20
MAX_VALUES = 20_000
_XMP_LABEL = re.compile(r"""<?\w*:AIGC(?:\s*=\s*(?:"([^"]*)"|'([^']*)')|[^>]*>(.*?)</\w*:AIGC>)""", re.DOTALL)


def labels(texts: Iterable[Text]) -> list[dict[str, str]]:
    """Labels after GB 45438-2025, one for each place that carries one, as `media_facts.Label`."""
    found: list[dict[str, str]] = []
    for text in texts:
        for value, named in _candidates(text):
            label = _label(text.carrier, value, named=named)
            if label is not None and label not in found:
                found.append(label)
    return found


def _candidates(text: Text) -> Iterator[tuple[str, bool]]:
    """A value that may be a label, and whether its key says so."""
    if text.carrier == "xmp":
        for match in _XMP_LABEL.finditer(text.value):
            yield html.unescape(next(group for group in match.groups() if group is not None)), True
    else:
        yield text.value, text.key.upper() == "AIGC"


def _label(carrier: str, value: str, *, named: bool) -> dict[str, str] | None:
    table = _json(value)
    if isinstance(table, dict) and isinstance(inner := table.get("AIGC"), dict | str):
        table, named = (inner if isinstance(inner, dict) else _json(inner)), True
    if not isinstance(table, dict):
        return {"carrier": carrier} if named and value.strip() else None
    fields = {str(key).lower(): item for key, item in table.items()}
    if not named and not all(key in fields for key in LABEL_KEYS[:2]):
        return None
    producer = fields.get("contentproducer") or fields.get("serviceprovider") or ""
    return {"carrier": carrier, "label": _short(fields.get("label", "")), "producer": _short(producer)}


def workflows(texts: Iterable[Text]) -> list[dict[str, Any]]:
    """ComfyUI's prompt and workflow graphs: how many nodes, which weights. Prompts and paths stay where they are."""
    found: list[dict[str, Any]] = []
    for text in texts:
        value = re.sub(r"^\s*(?:prompt|workflow)\s*:\s*(?=\{)", "", text.value, flags=re.IGNORECASE)
        table = _json(value)
        graphs = [table]
        if isinstance(table, dict):
            graphs += [
                _json(part) if isinstance(part, str) else part
                for key in ("prompt", "workflow")
                if (part := table.get(key))
            ]
        for graph in graphs:
            if nodes := _nodes(graph):
                workflow = {"carrier": text.carrier, "nodes": nodes, "models": _models(graph)}
                if workflow not in found:
                    found.append(workflow)
    return found


def _nodes(graph: Any) -> int:  # noqa: ANN401  any JSON value
    """The number of nodes of something that is a ComfyUI graph, else 0."""
    if not isinstance(graph, dict):
        return 0
    called = [node for node in graph.values() if isinstance(node, dict) and "class_type" in node and "inputs" in node]
    if called:
        return len(called)
    nodes = graph.get("nodes")
    if isinstance(nodes, list) and nodes and ("links" in graph or "last_node_id" in graph):
        return len(nodes)
    return 0


def _models(graph: Any) -> list[str]:  # noqa: ANN401
    names: dict[str, None] = {}
    pending: list[Any] = [graph]
    for _ in range(MAX_VALUES):
        if not pending or len(names) >= MAX_MODELS:
            break
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and len(item) < 400 and (match := WEIGHTS.search(item)):
            names[match[1]] = None
    return sorted(names)


def _json(text: str) -> Any:  # noqa: ANN401
    stripped = text.strip().strip("\0")
    if not stripped.startswith("{") or len(stripped) > MAX_TEXT:
        return None
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        return None


def _short(value: Any) -> str:  # noqa: ANN401
    return str(value)[:120] if isinstance(value, str | int) else ""
