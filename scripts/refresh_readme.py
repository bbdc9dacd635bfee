"""The parts of both README files that come from the program: the help text and the exit codes.

`python scripts/refresh_readme.py` says what differs (exit 1), `--write` writes it. A test fails when a file differs.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from unittest import mock

from relay_audit.cli.main import main as program
from relay_audit.errors import EXIT_CODES, EXIT_PRECEDENCE

ROOT = Path(__file__).resolve().parent.parent
FILES = ("README.md", "README.zh-CN.md")
CHINESE = {
    0: "没有达到 --fail-on 级别的问题",
    1: "有达到 --fail-on 级别的不一致",
    2: "用法或配置有误",
    3: "等待批准；此后没有花过钱",
    4: "已计划但没做完（连不上、预算不够、有请求未确认），或结论为“无法判断”",
    5: "已取消",
    6: "报告被泄漏检查拦下，没有写出文件",
    70: "程序内部错误",
    130: "被中断",
}
WINS = {
    "README.md": "When several apply, the first of these: ",
    "README.zh-CN.md": "同时满足几条时，取最先出现的一个：",
}


def help_text() -> str:
    """What `relay-audit --help` prints on a terminal of 80 columns."""
    said = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["relay-audit", "--help"]),
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        contextlib.redirect_stdout(said),
        contextlib.suppress(SystemExit),
    ):
        program()
    return said.getvalue().strip("\n")


def exit_codes(file: str) -> str:
    texts = EXIT_CODES if file == "README.md" else CHINESE
    head = ("code", "meaning") if file == "README.md" else ("退出码", "含义")
    rows = [head, ("---", "---"), *((str(code), texts[code]) for code in EXIT_CODES)]
    order = " > ".join(map(str, EXIT_PRECEDENCE))
    return "\n".join(f"| {one} | {two} |" for one, two in rows) + f"\n\n{WINS[file]}{order}"


def current(file: str) -> str:
    """The file as it lies, its generated parts replaced."""
    parts = {"help": f"```text\n{help_text()}\n```", "exit codes": exit_codes(file)}
    text = (ROOT / file).read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        whole = f"{begin}\n\n{part}\n\n{end}"
        before, after = text.partition(begin), text.partition(end)
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{file} has no single place for {name}")
        text = before[0] + whole + after[2]
    return text


def differing() -> list[str]:
    return [file for file in FILES if (ROOT / file).read_text(encoding="utf-8") != current(file)]


def main(arguments: list[str]) -> int:
    changed = differing()
    for file in changed:
        print(file)
        if "--write" in arguments:
            (ROOT / file).write_text(current(file), encoding="utf-8", newline="\n")
    return 1 if changed and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
