"""What servers say about their context and their slots. Pure: takes parsed bodies, understands what it can,
else None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_CONTEXT_FIELDS = (
    "loaded_context_length",  # LM Studio, /api/v0
    "max_model_len",  # vLLM, SGLang
    "context_length",  # OpenRouter and others
    "context_window",  # Groq
    "max_context_length",
)
_META_FIELDS = ("n_ctx", "n_ctx_train")


def props_context(props: object) -> int | None:
    """llama-server's ``/props``: the context of one slot, which is what a request has."""
    settings = _get(props, "default_generation_settings")
    return _positive(_get(settings, "n_ctx")) or _positive(_get(props, "n_ctx"))


def props_slots(props: object) -> int | None:
    """llama-server's ``/props``: how many requests it works on at once."""
    return _positive(_get(props, "total_slots"))


def model_ids(models: object) -> tuple[str, ...]:
    """The ids in ``/v1/models``."""
    return tuple(str(entry["id"]) for entry in _entries(models) if isinstance(entry.get("id"), str))


def models_context(models: object, model: str) -> int | None:
    """The context limit in a list of models: of ours, or of the only one there is."""
    entries = _entries(models)
    chosen = [entry for entry in entries if entry.get("id") == model] or (
        entries if len(entries) == 1 else []
    )
    for entry in chosen:
        fields = [entry.get(name) for name in _CONTEXT_FIELDS]
        fields += [_get(entry.get("meta"), name) for name in _META_FIELDS]
        fields.append(_get(entry.get("top_provider"), "context_length"))
        limit = next(filter(None, map(_positive, fields)), None)
        if limit is not None:
            return limit
    return None


def ollama_context(running: object, shown: object, model: str) -> int | None:
    """Ollama's real limit: of the loaded model (``/api/ps``), else ``num_ctx`` of its file (``/api/show``).

    The length that the model was trained with is not taken: Ollama loads less and cuts longer prompts without
    a word.
    """
    names = {model, f"{model}:latest"}
    loaded = _get(running, "models")
    for entry in loaded if isinstance(loaded, Sequence) and not isinstance(loaded, str) else ():
        if _get(entry, "name") in names or _get(entry, "model") in names:
            limit = _positive(_get(entry, "context_length"))
            if limit is not None:
                return limit
    parameters = _get(shown, "parameters")
    found = re.search(r"(?m)^\s*num_ctx\s+(\d+)", parameters) if isinstance(parameters, str) else None
    return _positive(int(found[1])) if found else None


def _entries(models: object) -> list[Mapping[str, Any]]:
    data = models if isinstance(models, list) else _get(models, "data")
    return [entry for entry in data if isinstance(entry, Mapping)] if isinstance(data, list) else []


def _get(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
