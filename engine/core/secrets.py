"""Names that policy looks at (protected and secret-looking files), and secrets in text.

Names are folded before they are compared (compatibility forms, letter case, invisible characters, trailing
dots and spaces, NTFS streams and 8.3 short names), because the file system or the editor may fold them too:
``.GIT/hooks`` is ``.git/hooks`` on many disks. Secret-looking names are refused without a question, so the
list is short: keys, not source code about keys.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

import regex

from engine.core.tooling import PathClass

REDACTED = "[redacted]"

_IGNORABLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}]")
_SHORT_NAME = re.compile(r"\.?(git|vscode|idea|cursor|claude|maestr[a-z]*|husky|devcon[a-z]*)~\d+")
_SHORT_NAMES = {"maestr": "maestro", "devcon": "devcontainer"}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Folders that git, editors and agents read commands from, and files that shells, direnv and editors run or
# obey when a folder is opened.
_PROTECTED_FOLDERS = _names(
    ".git .hg .svn .jj .vscode .vscode-server .idea .fleet .zed .cursor .windsurf .claude .codex .gemini "
    ".husky .githooks .devcontainer .maestro"
)
_PROTECTED_FILES = _names(
    ".git .mcp.json .gitmodules .gitconfig .nvim.lua .nvimrc .exrc .vimrc .lvimrc .dir-locals.el "
    ".dir-locals-2.el .ripgreprc .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv "
    ".zprofile .zlogin .inputrc .devcontainer.json"
)
_PROTECTED_ENDINGS = (".code-workspace", ".sublime-project")

_SECRET_FOLDERS = _names(".aws .ssh .gnupg .azure .kube .docker .password-store")
_SECRET_FILES = _names(
    ".envrc .netrc _netrc .npmrc .pypirc .pgpass .my.cnf .htpasswd .git-credentials .dockercfg .vault-token "
    ".secrets kubeconfig credentials"
)
_SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".p8", ".ppk", ".jks", ".keystore", ".kdbx", ".env")
_EXAMPLE_ENDINGS = (".example", ".sample", ".template", ".tpl", ".dist", ".defaults", ".schema")
_SECRET_NAME = re.compile(
    r"\.env(?![a-z]).*"
    r"|id_(?:rsa|dsa|ecdsa|ed25519|xmss)(?![a-z0-9]).*(?<!\.pub)"
    r"|\.?(?:credentials?|secrets?)\.(?:json|ya?ml|toml|ini|cfg|conf|csv|xml|txt|db|enc|properties|plist)"
    r"|(?:.{1,64}[-_.])?service[-_]?account.{0,64}\.json"
)


def fold(name: str) -> str:
    """A file name as the most lenient file system or editor would compare it."""
    plain = unicodedata.normalize("NFKC", _IGNORABLE.sub("", unicodedata.normalize("NFKC", name))).casefold()
    stream = plain.split(":", 1)[0].rstrip(" .")
    if short := _SHORT_NAME.fullmatch(stream):
        return "." + _SHORT_NAMES.get(short[1], short[1])
    return stream if stream or not plain else plain.rstrip(" ")


def is_secret_path(parts: Iterable[str]) -> bool:
    """Whether a path usually holds secrets: by its last part (``.env``, ``id_rsa``, ``*.pem``, …), or by a
    folder on the way (``.ssh``, ``.aws``, …).

    ``.env.example`` and its kind, public keys and source files such as ``credentials.py`` are not.
    """
    folded = [fold(part) for part in parts if part]
    return any(part in _SECRET_FOLDERS for part in folded) or (bool(folded) and _is_secret_file(folded[-1]))


def _is_secret_file(folded: str) -> bool:
    if folded.endswith(_EXAMPLE_ENDINGS):
        return False
    return (
        folded in _SECRET_FILES
        or folded.endswith(_SECRET_ENDINGS)
        or _SECRET_NAME.fullmatch(folded) is not None
    )


def is_git_path(parts: Iterable[str]) -> bool:
    """Whether the path is git's own folder (or the ``.git`` file of a worktree), or lies in one, at any
    depth.
    """
    return any(fold(part) == ".git" for part in parts)


def is_task_record(parts: tuple[str, ...], task_id: str | None = None) -> bool:
    """Whether the path lies in a task folder but is not in the ``input/`` or ``output/`` of a task (of
    ``task_id``, if given).
    """
    folded = tuple(fold(part) for part in parts)
    if folded[:2] != (".maestro", "tasks"):
        return False
    foreign = task_id is not None and len(parts) > 2 and parts[2] != task_id
    return foreign or len(parts) < 5 or parts[3] not in ("input", "output")


def path_class(parts: tuple[str, ...], *, settings: Collection[str] = ()) -> PathClass:
    """Where a path lies, by its workspace-relative parts alone (``("src", "a.py")``; ``()`` is the root).

    Links, hard links and the real location are the caller's to find: what it knows better it says itself.
    ``settings`` are further protected names. Secret beats protected; ``..`` and absolute parts are outside.
    """
    if any(part == ".." or "/" in part or "\0" in part for part in parts):
        return PathClass.OUTSIDE
    if is_secret_path(parts):
        return PathClass.SECRET
    folded = tuple(fold(part) for part in parts)
    inner = folded[2:] if folded[:2] == (".maestro", "tasks") else folded
    if any(part in _PROTECTED_FOLDERS for part in inner) or _is_protected_file(inner, settings):
        return PathClass.PROTECTED
    return PathClass.TASK if inner is not folded else PathClass.WORKSPACE


def _is_protected_file(folded: tuple[str, ...], settings: Collection[str]) -> bool:
    if not folded:
        return False
    name = folded[-1]
    # A folder `pieces` at the root may be one that `pieces_dirs` names, and a piece says what an agent may
    # do.
    piece = len(folded) > 1 and folded[0] == "pieces" and name.endswith((".yaml", ".yml"))
    return piece or name in _PROTECTED_FILES or name in settings or name.endswith(_PROTECTED_ENDINGS)


def completes_bare_repository(siblings: Iterable[str], name: str) -> bool:
    """Whether writing ``name`` into a folder with these ``siblings`` makes the folder a bare git
    repository, whose config runs code.
    """
    return {"head", "objects", "refs", "config"} <= {fold(sibling) for sibling in (*siblings, name)} and fold(
        name
    ) in (
        "head",
        "config",
        "commondir",
    )


# Every pattern is linear: a fixed start that a look-behind pins to the start of a run, then one bounded or
# possessive run.
_TOKENS = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?!-----)[A-Za-z0-9+/=\s\\:,-]){40,}(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]{0,80}[0-9])[A-Za-z0-9_-]{16,}+",
        r"(?<![A-Za-z0-9])(?:gh[opusr]_[A-Za-z0-9]{30,}+|github_pat_[A-Za-z0-9_]{22,}+|glpat-[A-Za-z0-9_-]{20,}+)",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])",
        r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{35}(?![A-Za-z0-9_-])",
        r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}+",
        r"(?<![A-Za-z0-9])(?:hf|npm)_(?=[A-Za-z]{0,40}[0-9])[A-Za-z0-9]{30,}+",
        r"(?<![A-Za-z0-9_-])pypi-[A-Za-z0-9_-]{50,}+",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+",
    )
)
_AFTER = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(\bauthorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:bearer|basic|token)[ \t]{1,3})"
        r"([^\s\"',;]{4,}+)",
        r"(\b(?:x-)?api-key[\"']?[ \t]{0,3}:[ \t]{0,3}[\"']?)([^\s\"',;]{8,}+)",
        r"(\bbearer[ \t]{1,3})((?=[a-z._~+/=-]{0,200}[0-9])[a-z0-9._~+/=-]{12,}+)",
        r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,15}://[^\s/@:\"']{0,128}:)([^\s/\"']{1,256}(?=@))",
    )
)
_SHORTEST_KNOWN = 6


def redact(text: str, known: Collection[str] = ()) -> str:
    """``text`` with secrets replaced by ``[redacted]``: the exact ``known`` values, and what is shaped like a
    token.

    Known values also count percent-encoded and with JSON escapes; one shorter than 6 characters is left
    alone, for it would shred the text. Shapes: keys of well-known services, JWTs, ``Authorization`` headers,
    bearer tokens, passwords in URLs, private key blocks. Applying it twice changes nothing more.
    """
    text = mask(text, known)
    for pattern in _TOKENS:
        text = pattern.sub(REDACTED, text)
    for pattern in _AFTER:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def mask(text: str, known: Collection[str]) -> str:
    """``text`` with the exact ``known`` values replaced, and nothing that merely looks like a secret."""
    for value in sorted({form for secret in known for form in _forms(secret)}, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return text


def _forms(secret: str) -> tuple[str, ...]:
    if len(secret) < _SHORTEST_KNOWN or secret in REDACTED:
        return ()
    percent = "".join(
        char
        if re.fullmatch(r"[A-Za-z0-9_.~-]", char)
        else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))
        for char in secret
    )
    return secret, percent, secret.replace("\\", "\\\\").replace('"', '\\"')
