"""What `run` shows of a job: its events as lines for people, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from maestro_lsp.cli.terminal import Terminal, clean
from maestro_lsp.display import told_event

Event = Mapping[str, Any]


class View(Protocol):
    """How a run is shown."""

    def event(self, event: Event) -> None:
        """Show a stored event."""
        ...

    def live(self, job_id: str, kind: str, body: Mapping[str, Any]) -> None:
        """Show something that streams."""
        ...


class JsonView:
    """Each event as one line, as in ``maestro/event``."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seq: dict[str, int] = {}

    def event(self, event: Event) -> None:
        """Print a stored event."""
        self._seq[event["jobId"]] = event["seq"]
        self._terminal.json(told_event(dict(event), self._terminal.text))

    def live(self, job_id: str, kind: str, body: Mapping[str, Any]) -> None:
        """Print a live event; it carries the ``seq`` of the last stored one."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._terminal.json(
            {"jobId": job_id, "seq": self._seq.get(job_id, 0), "at": at, "kind": kind, **body}
        )


class TextView:
    """Progress as lines, the model's text as it comes."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._open_line = False
        self._streamed = False
        self._lines: Mapping[str, Callable[[Event], None]] = {
            "status": self._status,
            "movement": self._movement,
            "text": self._text,
            "tool_call": self._tool_call,
            "tool_result": self._tool_result,
            "transition": self._transition,
            "decision": self._decision,
            "cache": self._cache,
            "context": self._context,
            "piece": self._piece,
            "comment": self._comment,
        }

    def event(self, event: Event) -> None:
        """Show a stored event; kinds without a line of their own are for the record only."""
        show = self._lines.get(event["kind"])
        if show is not None:
            show(told_event(dict(event), self._terminal.text))

    def live(self, job_id: str, kind: str, body: Mapping[str, Any]) -> None:
        """Show what streams: the model's text, the output of commands."""
        if "full" in body and self._streamed:
            self._show("  ↻", self._terminal.text("cli.run.begins_anew"), "yellow")
        delta = clean(str(body.get("delta", "")))
        if not delta or kind not in ("text", "tool_output"):
            return
        self._terminal.part(delta if kind == "text" else self._terminal.styled(delta, "dim"))
        self._streamed = self._streamed or kind == "text"
        self._open_line = not delta.endswith("\n")

    def end_line(self) -> None:
        """Begin a new line if something stands on this one."""
        if self._open_line:
            self._terminal.line()
            self._open_line = False

    def _show(self, mark: str, text: str, *styles: str) -> None:
        self.end_line()
        line = f"{mark} {' '.join(clean(text).split())}"
        self._terminal.line(self._terminal.styled(line, *styles) if styles else line)

    def _status(self, event: Event) -> None:
        self.end_line()
        if event["to"] == "queued" and event.get("reason") == "recovered":
            self._show("↻", self._terminal.text("cli.run.recovered"), "yellow")
        elif event["to"] == "queued" and event.get("reason") == "rate_limited":
            self._show("…", self._terminal.text("cli.run.rate_limited"), "yellow")

    def _movement(self, event: Event) -> None:
        visit = event.get("visit", 1)
        key = "cli.run.movement" if visit == 1 else "cli.run.movement_again"
        self._show("▸", self._terminal.text(key, name=event["name"], visit=visit), "bold")
        if event.get("forced"):
            self._show(" ", self._terminal.text("cli.run.forced"), "yellow")

    def _text(self, event: Event) -> None:
        self.end_line()
        if not self._streamed:
            self._terminal.line(clean(str(event.get("full", ""))))
        self._streamed = False

    def _tool_call(self, event: Event) -> None:
        self._show("  ·", str(event.get("title") or event["tool"]), "dim")

    def _tool_result(self, event: Event) -> None:
        ok = event["ok"]
        seconds = event.get("seconds") or 0
        took = f" ({seconds:.1f} s)" if seconds >= 0.5 else ""
        self._show("  ✓" if ok else "  ✗", f"{event['brief']}{took}", "green" if ok else "red")

    def _transition(self, event: Event) -> None:
        self._show("→", f"{event['to']}: {event.get('summary', '')}", "cyan")

    def _decision(self, event: Event) -> None:
        key = f"cli.decision.{event['decision']}"
        note = f": {event['note']}" if event.get("note") else ""
        self._show("  ·", self._terminal.text(key, by=event.get("by", "")) + note, "dim")

    def _cache(self, event: Event) -> None:
        values = {name: event[name] for name in ("pct", "reused", "total")}
        self._show("  ·", self._terminal.text("cli.run.cache", **values), "dim")

    def _context(self, event: Event) -> None:
        ratio = round(100 * float(event.get("ratio", 0)))
        self._show("  !", self._terminal.text(f"cli.run.context.{event['action']}", ratio=ratio), "yellow")

    def _piece(self, event: Event) -> None:
        style = "yellow" if "failure" in event else "dim"
        key = f"chosen.{event.get('failure') or event['by']}"
        self._show("  ·", self._terminal.text(key, piece=event["piece"]), style)

    def _comment(self, event: Event) -> None:
        self._show(
            "  ·", self._terminal.text("cli.run.comment", author=event["author"], text=event["text"]), "dim"
        )
