"""The outer forms of new-api's own answers: which shape an error takes where, in the caller's language."""

from __future__ import annotations

from relay_audit.lab.wire import Headers, HttpAnswer, HttpRequest, json_answer

PAGE = b'<!doctype html><html><head><title>Lab Relay</title></head><body><div id="root"></div></body></html>'

TEXTS: dict[str, tuple[str, str]] = {
    "invalid_token": ("无效的令牌", "Invalid token"),
    "no_token": ("未提供令牌", "Token not provided"),
    "no_channel": (
        "分组 {group} 下模型 {model} 无可用渠道（distributor）",
        "No available channel for model {model} under group {group} (distributor)",
    ),
    "bad_request": ("无效的请求，{reason}", "Invalid request, {reason}"),
    "short": (
        "预扣费额度失败, 用户剩余额度: {left}, 需要预扣费额度: {need}",
        "预扣费额度失败, 用户剩余额度: {left}, 需要预扣费额度: {need}",
    ),
}
"""Chinese and English; the text of a failed reserve was only ever seen in Chinese."""


def words(request: HttpRequest, name: str, **values: str) -> str:
    """A text in the language the caller accepts; Chinese where it says nothing."""
    chinese, english = TEXTS[name]
    return (english if request.header("accept-language").lower().startswith("en") else chinese).format(**values)


def openai_shape(status: int, message: str, request_id: str, headers: Headers, code: str = "") -> HttpAnswer:
    """Errors before routing (token, group, channel) have this shape on every path, also on `/v1/messages`."""
    error = {"message": f"{message} (request id: {request_id})", "type": "new_api_error", "code": code}
    return json_answer(status, {"error": error}, headers)


def claude_shape(
    status: int, message: str, request_id: str, headers: Headers, kind: str = "new_api_error"
) -> HttpAnswer:
    """Errors after routing on the Claude path. An upstream's error gets the type `<nil>`: it is read from the OpenAI
    `code`, which a Claude error does not have (source-derived)."""
    error = {"type": kind, "message": f"{message} (request id: {request_id})"}
    return json_answer(status, {"type": "error", "error": error}, headers)


def wrapped_in_chinese(status: int, body: bytes, headers: Headers) -> HttpAnswer:
    """hubrelay's way: status 502, the upstream's answer as text inside a Chinese sentence."""
    message = f"全部 1 个渠道都失败，最后一个错误：HTTP {status}: {body.decode()}"
    return json_answer(502, {"type": "error", "error": {"type": "api_error", "message": message}}, headers)


def invalid_url(request: HttpRequest, headers: Headers) -> HttpAnswer:
    message = f"Invalid URL ({request.method} {request.route})"
    return json_answer(
        404, {"error": {"message": message, "type": "invalid_request_error", "param": "", "code": ""}}, headers
    )


def dashboard_error(message: str, headers: Headers, status: int = 200) -> HttpAnswer:
    """Panel routes often refuse with status 200."""
    return json_answer(status, {"success": False, "message": message}, headers)


def web_app(headers: Headers = ()) -> HttpAnswer:
    """Any path outside `/v1` and `/api` is the program's web app."""
    return HttpAnswer(200, (("content-type", "text/html; charset=utf-8"), *headers), PAGE)
