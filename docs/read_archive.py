"""Reads an archive of relay-audit with nothing of relay-audit: python3 read_archive.py ARCHIVE [--figures]

Checks every digest and every link of the chain, then works out again, from the recorded requests and answers alone, what
a report's figures rest on. Exit 0 where all fits, else 1. Python 3.9+; nothing is written. Seals: durable_run.md"""

import hashlib
import json
import statistics
import sys
import zipfile
from decimal import Decimal

sha = lambda raw: hashlib.sha256(raw).hexdigest()  # noqa: E731


def at(value, pointer):
    """JSON Pointer; None where it leads nowhere."""
    for name in pointer.split("/")[1:]:
        if isinstance(value, list):
            value = value[int(name)] if name.isdigit() and int(name) < len(value) else None
        else:
            value = value.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(value, dict) else None
    return value


def read(exchange, pointer):
    """A value out of an answer; out of a stream, as its last message has it."""
    body = (exchange["response"] or {}).get("body", "")
    for text in [line[5:] for line in body.splitlines() if line.startswith("data:")][::-1] or [body]:
        try:
            answer = json.loads(text)
        except ValueError:
            continue
        for value in (at(answer, pointer), at(answer, "/message" + pointer)):
            if value is not None:
                return value
    return None


def walk(lines, wrong):
    """The events, the last hash and the evidence head; each link is computed again. Left-out events are their hashes."""
    last, head, events = "0" * 64, "", []
    for seq, line in enumerate(lines, start=1):
        rest = {key: value for key, value in line.items() if key != "hash"}
        raw = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        fits = line["seq"] == seq
        if "left_out" not in line:
            fits = fits and line["prev"] == last and line["hash"] == sha(raw.encode("utf-8", "backslashreplace"))
            events.append(line)
        wrong += [] if fits else [f"event {seq}"]
        last = line["hash"]
        head = last if line.get("type") in ("run.completed", "run.failed", "run.cancelled") else head
    return events, last, head


def rows_of(sent, pack, charges):
    """One row per exchange: when, to whom, what was answered, billed, counted by the vendor, and charged."""
    usage, counter = pack["usage"], (pack["counter"] or {}).get("read", "")
    parts = usage["input"] + [usage[k] for k in ("cache_read", "cache_creation") if not usage["input_includes_cache"]]
    for x in sent:
        names = {f"count.{when}.{x['step']}" for when in ("quote", "before", "after")}
        counts = [read(other, counter) for other in sent if other["step"] in names]
        billed = [n for n in (read(x, p) for p in parts if p) if isinstance(n, int)] if x["side"] == "relay" else []
        yield {
            **{key: x[key] for key in ("id", "sent_at", "side", "step", "delivery", "connection")},
            "status": (x["response"] or {}).get("status"), "answer_id": read(x, pack["answer"]["id"]),
            "billed": sum(billed) if billed else None, "counted": counts, "output": read(x, usage["output"]),
            "difference": sum(billed) - counts[0] if billed and counts else None, "charge": str(charges.get(x["id"], "")),
        }  # fmt: skip


def main(path, figures):
    file, wrong = zipfile.ZipFile(path), []
    load = lambda name: json.loads(file.read(name))  # noqa: E731
    manifest = load("manifest.json")
    wanted = {p["name"]: p["sha256"] for p in manifest["parts"]}
    wanted.update({f"blobs/{b['sha256']}": b["sha256"] for b in manifest["blobs"]})
    wrong += [name for name, digest in wanted.items() if sha(file.read(name)) != digest]
    events, last, head = walk([json.loads(line) for line in file.read("events.ndjson").splitlines()], wrong)
    wrong += [] if (last, head) == (manifest["last_hash"], manifest["evidence_head"]) else ["the end of the chain"]
    refs = {kind: [e["payload_ref"] for e in events if e["type"] == kind] for kind in {e["type"] for e in events}}
    sent = [load(f"blobs/{ref}") for ref in refs.get("exchange.recorded", []) if f"blobs/{ref}" in wanted]
    charges = {e["payload"]["exchange"]: Decimal(e["payload"]["amount"]) for e in events if "amount" in e["payload"]}
    derived = {name[8:-5]: load(name) for name in wanted if name.startswith("derived/")}  # of the vendor's edition
    pack = derived["pack"] if derived else load(f"blobs/{refs['run.created'][0]}")["pack"]
    rows = list(rows_of(sorted(sent, key=lambda x: x["id"]), pack, charges))
    gaps = [row["difference"] for row in rows if row["difference"] is not None]
    spread = {"least": min(gaps), "middle": statistics.median(gaps), "most": max(gaps)} if gaps else {}
    spread |= {f"times_at_{n}": f"{1 + Decimal(spread['middle']) / n:.3f}" for n in (1_000, 10_000, 100_000) if gaps}
    result = {**{key: manifest[key] for key in ("run_id", "edition", "events", "left_out", "proves")}, "wrong": wrong}
    result |= {"evidence_head": head, "manifest_digest": sha(file.read("manifest.json")), "difference": spread}
    result |= {"requests": sum(x["delivery"] != "not_sent" for x in sent), "compared": len(gaps)}
    result |= {"charged": str(sum(charges.values(), Decimal(0)))}
    sys.stdout.write(json.dumps({**result, **({"exchanges": rows, **derived} if figures else {})}, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--figures" in sys.argv))
