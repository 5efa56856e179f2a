"""The options under which well-known programs only read, and the programs that run other programs. Data for
``engine.core.command``.

A program with a row here is listed only with options of its row, spelt out: abbreviations and unknown options
are not listed (``sandbox-and-faults.md`` §3.1, CVE-2025-64755 class). Left out on purpose is whatever writes,
runs a program, follows links, or reads a list of file names from a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What a program may be given. ``short`` letters take no value, ``valued`` ones do, attached or as the
    next word.

    ``exact`` words begin with one dash and stand whole (``find -name``); ``numbers`` allows ``-5``;
    ``operands`` is the most words that are no options; ``script`` must match the first operand whole;
    ``veto`` must match no word. Programs without getopt have ``attached=False``: there a letter with a value
    ends its word.
    """

    short: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    numbers: bool = False
    operands: int | None = None
    attached: bool = True
    script: re.Pattern[str] | None = None
    veto: re.Pattern[str] | None = None


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONTEXT = "after-context before-context context max-count color colour regexp "
_GIT_DIFF = (
    "patch no-patch stat numstat shortstat dirstat summary name-only name-status raw unified word-diff "
    "word-diff-regex color no-color color-words color-moved minimal patience histogram diff-algorithm "
    "find-renames find-copies no-renames diff-filter check full-index binary abbrev no-abbrev "
    "ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines function-context exit-code "
    "quiet no-ext-diff no-textconv no-prefix relative text reverse pickaxe-all pickaxe-regex "
)
_GIT_LOG = _GIT_DIFF + (
    "oneline graph decorate no-decorate all branches tags remotes format pretty abbrev-commit "
    "no-abbrev-commit since until after before author committer grep all-match invert-grep "
    "regexp-ignore-case extended-regexp fixed-strings follow merges no-merges first-parent date max-count "
    "skip topo-order date-order author-date-order left-right cherry-pick cherry-mark root boundary no-walk "
    "source simplify-by-decoration full-history ancestry-path no-notes "
)
# `%G…` in a format runs gpg, which the repository's config may name.
_NO_GPG = re.compile(r"%G")

_SED_ADDRESS = r"(?:\d+|\$)"
_SED_SUBSTITUTE = r"s([/|,#:])(?:(?!\1).)*\1(?:(?!\1).)*\1[gpiI\d]*"
_SED_SCRIPT = re.compile(
    rf"(?:{_SED_ADDRESS}(?:, ?{_SED_ADDRESS})?)?(?:!?[pdq=]|{_SED_SUBSTITUTE})|"
    rf"(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?[pdq=]; ?){{1,20}}(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?[pdq=])?"
)

_DEFAULT_PROGRAMS = _words("ls pwd wc head tail cat file stat du sort uniq cut diff cmp tree jq grep rg")
_DEFAULT_GIT = _words("status log diff show blame")
DEFAULT_LIST: frozenset[tuple[str, ...]] = frozenset(
    [*((name,) for name in _DEFAULT_PROGRAMS), *(("git", name) for name in _DEFAULT_GIT)]
)
"""``default_list`` of ``policy.yaml``."""

PROGRAMS: dict[tuple[str, ...], Options] = {
    ("ls",): Options(
        short="1aAlhrRtSdFisgGonpqcuxXvQBbfkmC",
        long=_words(
            "all almost-all color human-readable recursive reverse sort time format classify directory "
            "inode size full-time group-directories-first time-style si numeric-uid-gid file-type"
        ),
    ),
    ("pwd",): Options(short="LP"),
    ("wc",): Options(short="cmlLw", long=_words("bytes chars lines words max-line-length total")),
    ("head",): Options(
        short="qvz", valued="cn", long=_words("bytes lines quiet silent verbose"), numbers=True
    ),
    ("tail",): Options(
        short="qvz", valued="cn", long=_words("bytes lines quiet silent verbose"), numbers=True
    ),
    ("cat",): Options(
        short="AbeEnstTuv",
        long=_words("show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"),
    ),
    ("file",): Options(
        short="bikhrN0", long=_words("brief mime mime-type mime-encoding keep-going no-dereference")
    ),
    ("stat",): Options(short="ft", valued="c", long=_words("format printf file-system terse")),
    ("du",): Options(
        short="abchkmsSx0",
        valued="dt",
        long=_words(
            "all apparent-size bytes total human-readable max-depth summarize one-file-system exclude si "
            "threshold"
        ),
    ),
    ("sort",): Options(
        short="bdfgiMhnRrVcCmsuz",
        valued="ktS",
        long=_words(
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort month-sort "
            "human-numeric-sort numeric-sort random-sort reverse version-sort sort check merge key "
            "field-separator stable unique zero-terminated buffer-size parallel"
        ),
    ),
    ("uniq",): Options(
        short="cdDuiz",
        valued="fsw",
        long=_words(
            "count repeated all-repeated unique ignore-case skip-fields skip-chars check-chars group "
            "zero-terminated"
        ),
        operands=1,
    ),
    ("cut",): Options(
        short="nsz",
        valued="bcdf",
        long=_words(
            "bytes characters delimiter fields only-delimited complement output-delimiter zero-terminated"
        ),
    ),
    ("diff",): Options(
        short="abBcdEiNnpqrstTuwyZ",
        valued="CUWIx",
        long=_words(
            "brief recursive unified context side-by-side ignore-all-space ignore-space-change ignore-case "
            "ignore-blank-lines new-file text minimal exclude width suppress-common-lines "
            "report-identical-files strip-trailing-cr color no-dereference label"
        ),
    ),
    ("cmp",): Options(
        short="bls", valued="in", long=_words("print-bytes verbose silent quiet bytes ignore-initial")
    ),
    ("tree",): Options(
        short="adfipshugDtrvcnJXCS",
        valued="LPI",
        long=_words(
            "dirsfirst filesfirst noreport du prune filelimit charset sort si inodes device gitignore "
            "matchdirs ignore-case timefmt"
        ),
        attached=False,
    ),
    ("jq",): Options(
        short="nrjacCMSesR",
        long=_words(
            "null-input raw-output join-output ascii-output compact-output color-output monochrome-output "
            "sort-keys exit-status slurp raw-input tab indent arg argjson args jsonargs seq stream"
        ),
        attached=False,
        # A program may look at the environment and load modules.
        veto=re.compile(r"\$(?:ENV|__)|(?<![.\w])(?:env|import|include)\b"),
    ),
    ("grep",): Options(
        short="EFGPivwxclLnoqshHrabTzZUI",
        valued="ABCem",
        long=_words(
            _CONTEXT + "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case "
            "invert-match word-regexp line-regexp count files-with-matches files-without-match "
            "line-number only-matching quiet silent no-messages no-filename with-filename recursive "
            "include exclude exclude-dir text binary-files null byte-offset initial-tab"
        ),
        numbers=True,
    ),
    ("rg",): Options(
        short="niSswxvcloUFNHIaqP0p",
        valued="egtTABCmMrj",
        long=_words(
            _CONTEXT
            + "line-number no-line-number ignore-case smart-case case-sensitive word-regexp line-regexp "
            "invert-match count count-matches files files-with-matches files-without-match only-matching "
            "multiline multiline-dotall fixed-strings glob iglob type type-not type-list max-depth "
            "max-filesize no-heading heading colors column no-filename with-filename json sort sortr "
            "stats trim vimgrep passthru replace pcre2 null no-messages threads max-columns crlf quiet "
            "text no-config"
        ),
    ),
    ("git", "status"): Options(
        short="sbvz",
        valued="u",
        long=_words(
            "short branch porcelain untracked-files ignored long show-stash ahead-behind no-ahead-behind "
            "no-renames renames find-renames verbose no-column"
        ),
    ),
    ("git", "log"): Options(
        short="puszwbiEFgmt",
        valued="nUSGLMCl",
        long=_words(_GIT_LOG),
        numbers=True,
        veto=_NO_GPG,
    ),
    ("git", "diff"): Options(
        short="puszwbRaW",
        valued="USGMCl",
        long=_words(_GIT_DIFF + "cached staged merge-base ours theirs base"),
        veto=_NO_GPG,
    ),
    ("git", "show"): Options(
        short="puszwbW", valued="nUSGLMC", long=_words(_GIT_LOG), numbers=True, veto=_NO_GPG
    ),
    ("git", "blame"): Options(
        short="seltfnpwbk",
        valued="LMC",
        long=_words(
            "line-porcelain porcelain date since show-name show-number show-email root reverse first-parent "
            "abbrev minimal color-lines"
        ),
    ),
    # Not in the default list: how these may be used where a piece's `allowed_commands` names them.
    ("find",): Options(
        exact=_words(
            "-P -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -maxdepth "
            "-mindepth -size -mtime -mmin -atime -amin -ctime -cmin -newer -empty -not -o -or -a -and "
            "-print -print0 -printf -prune -perm -user -group -depth -mount -xdev -quit -executable "
            "-readable -writable -true -false -daystart -links -inum -samefile -ls"
        ),
        numbers=True,
        attached=False,
    ),
    ("sed",): Options(
        short="nErsuz",
        long=_words("quiet silent regexp-extended separate unbuffered null-data posix sandbox"),
        script=_SED_SCRIPT,
    ),
    ("tar",): Options(
        short="ctxvzjkp",
        valued="f",
        long=_words("list create extract file gzip bzip2 verbose exclude strip-components keep-old-files"),
        # A first word of letters alone would be options in the old style (`tar xIf PROGRAM …`).
        script=re.compile(r".*[^A-Za-z].*"),
    ),
    ("man",): Options(short="fkwa", long=_words("whatis apropos where all")),
}
"""Program (or git subcommand) to the options it may be given."""

_GIT_LONG = (
    "upload-pack receive-pack exec open-files-in-pager output ext-diff textconv config config-env template "
    "contents exec-path run work-tree git-dir separate-git-dir no-index gpg-sign show-signature smtp-server "
    "sendmail-cmd to-cmd cc-cmd header-cmd remote ext-cmd tool extcmd edit edit-description interactive "
    "paginate recurse-submodules"
)
GIT_REFUSED_LONG: frozenset[str] = _words(_GIT_LONG)
"""Long options of git subcommands without a row that run a program or write where they please; every
abbreviation counts.
"""
GIT_REFUSED_SHORT = "OcxSo"
"""Their short forms, refused anywhere in a word of short options."""
GIT_REFUSED_WORDS: frozenset[str] = _words(
    "foreach run difftool mergetool filter-branch config daemon send-email for-each-repo hook"
)
"""Subcommands, and subcommands of subcommands, that run what they are given."""

INTERPRETERS: frozenset[str] = _words(
    "sh bash dash zsh ksh mksh fish csh tcsh ash pwsh powershell cmd python pythonw pypy ipython perl ruby "
    "irb node nodejs php lua luajit r rscript julia osascript awk gawk mawk nawk tclsh wish expect groovy "
    "scala kotlin kotlinc jshell java elixir iex erl ghci runghc runhaskell ocaml racket guile sbcl clojure "
    "sqlite psql mysql mongosh redis-cli vim vi view nvim emacs ed ex nano gdb lldb bc dc ts-node tsx"
)
"""Programs whose arguments or input are code (version numbers at the end of the name do not count)."""

WRAPPERS: frozenset[tuple[str, ...]] = frozenset(
    (name,)
    for name in _words(
        "env xargs timeout nice nohup setsid stdbuf watch sudo doas su runuser ssh chroot unshare nsenter "
        "bwrap strace ltrace script parallel flock ionice taskset chrt busybox toybox entr npx bunx pnpx "
        "uvx pipx systemd-run at batch crontab nix-shell"
    )
) | frozenset(
    (program, subcommand)
    for program, subcommands in {
        "npm": "exec x",
        "yarn": "dlx exec",
        "pnpm": "exec dlx",
        "bun": "run x",
        "deno": "run eval",
        "uv": "run tool x",
        "poetry": "run",
        "pdm": "run",
        "hatch": "run",
        "rye": "run",
        "pipenv": "run",
        "bundle": "exec",
        "go": "run tool",
        "cargo": "run",
        "swift": "run",
        "dotnet": "run exec",
        "conda": "run",
        "mamba": "run",
        "mise": "exec x",
        "direnv": "exec",
        "nix": "run shell develop",
        "docker": "run exec",
        "podman": "run exec",
        "kubectl": "exec",
        "tox": "exec",
    }.items()
    for subcommand in subcommands.split()
)
"""Programs (with subcommand) that run a program named in their arguments."""

SUBCOMMANDED: frozenset[str] = _words(
    "git npm pnpm yarn bun deno uv poetry pdm hatch rye pipenv pip cargo go dotnet docker podman kubectl "
    "conda mamba mise nix bundle gem gradle mvn swift make just task terraform helm gh glab aws gcloud az "
    "brew apt apt-get systemctl"
)
"""Programs that are many programs: their name alone is no prefix that a rule may have."""

BUILTINS: frozenset[str] = _words(
    # Effects on the shell that runs the rest of the line, or words of its grammar. `echo`, `true`, `false`,
    # `pwd` have none.
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs "
    "disown enable eval exec exit export fc fg getopts hash help history jobs kill let local logout mapfile "
    "popd printf pushd read readarray readonly return set shift shopt source suspend test times trap type "
    "typeset ulimit umask unalias unset wait if then else elif fi for while until do done case esac select "
    "function time coproc in"
)
