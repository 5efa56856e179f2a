"""The workspace on disk: where a path lies, reading and writing below it, and what is said about it."""

from engine.workspace.contents import Contents
from engine.workspace.disk import (
    Content,
    atomic_write,
    bytes_hash,
    changed,
    create_file,
    file_hash,
    folder_of,
    is_temporary,
    open_regular,
    read_content,
    remove_temporaries,
    require_replaceable,
)
from engine.workspace.facts import TaskFiles, find_program, git_branch, list_task_files, refuse_workspace
from engine.workspace.git import open_repository
from engine.workspace.git_changes import differences
from engine.workspace.paths import (
    Place,
    Refused,
    behind_protected_link,
    is_inside,
    require_writable,
    resolve,
    task_root,
)

__all__ = [
    "Content",
    "Contents",
    "Place",
    "Refused",
    "TaskFiles",
    "atomic_write",
    "behind_protected_link",
    "bytes_hash",
    "changed",
    "create_file",
    "differences",
    "file_hash",
    "find_program",
    "folder_of",
    "git_branch",
    "is_inside",
    "is_temporary",
    "list_task_files",
    "open_regular",
    "open_repository",
    "read_content",
    "refuse_workspace",
    "remove_temporaries",
    "require_replaceable",
    "require_writable",
    "resolve",
    "task_root",
]
