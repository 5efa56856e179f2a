"""How a command ended, in words that help whoever reads only them. Pure."""

from __future__ import annotations

import signal

_WORDS = {
    126: "found, but not executable: chmod +x it, or give it to its interpreter",
    127: "a command was not found: check its name, or whether it is installed",
}
_SIGNALS = {
    "SIGABRT": "it gave up by itself: a failed assertion or a fault in memory",
    "SIGBUS": "a fault in memory, or a full disk under a mapped file",
    "SIGFPE": "an impossible calculation, such as a division by zero",
    "SIGILL": "an instruction that this processor does not know",
    "SIGKILL": "killed from outside; often memory ran out",
    "SIGPIPE": "whoever read its output had ended",
    "SIGSEGV": "a fault in memory",
    "SIGTRAP": "stopped at a breakpoint or a failed check",
    "SIGXCPU": "it used up its processor time",
    "SIGXFSZ": "a file grew beyond the limit",
}


def exit_words(status: int | None) -> str:
    """``exit status 1``, with what is usually meant by it where bash has a meaning (128 + n: signal n)."""
    words = _WORDS.get(status or 0, "")
    if status is not None and 128 < status < 128 + signal.NSIG:
        name = next((one.name for one in signal.Signals if one == status - 128), f"signal {status - 128}")
        words = f"{name}: {_SIGNALS[name]}" if name in _SIGNALS else name
    return f"exit status {status} ({words})" if words else f"exit status {status}"
