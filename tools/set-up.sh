#!/bin/sh
# Sets up .venv in the current directory: an environment, the packages of a lock file, and this project.
#
#   sh tools/set-up.sh constraints/server.txt [PYTHON]
#
# Without PYTHON, the newest Python that the project is tested with is taken, else a newer one (CPython 3.11+).
# A Debian `python3` can make no environment with pip by itself (that takes python3-venv), so the other ways
# are tried too: virtualenv, or an environment without pip that the Python's own pip fills from the lock file.
set -eu

lock=$1
named=${2:-}
log=.venv/install.log
here=$(pwd -P)

fail() {
    echo "payaccept: $*" >&2
    exit 1
}

is_usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11) or sys.implementation.name != "cpython")' \
        >/dev/null 2>&1
}

can_import() { # can_import PYTHON MODULE...
    python=$1
    shift
    for module in "$@"; do
        "$python" -c "import $module" >/dev/null 2>&1 || return 1
    done
}

# Exactly the pinned files, none built here: a build would fetch what is not pinned.
install_lock() { # install_lock PYTHON [PIP OPTION...]
    python=$1
    shift
    "$python" -m pip "$@" install --disable-pip-version-check --no-input --progress-bar off \
        --require-hashes --only-binary :all: -r "$lock"
}

make_environment() { # make_environment PYTHON: by the first way that works
    if can_import "$1" venv ensurepip && "$1" -m venv --clear .venv; then return; fi
    if can_import "$1" virtualenv && "$1" -m virtualenv --clear .venv; then return; fi
    can_import "$1" venv pip && "$1" -m venv --clear --without-pip .venv &&
        install_lock "$1" --python .venv/bin/python
}

# An environment knows where it was made: when the checkout has been moved, it has to be made anew.
is_ours() {
    [ "$(cat .venv/made-in 2>/dev/null)" = "$here" ] && is_usable .venv/bin/python && can_import .venv/bin/python pip
}

make_with_best() { # make_with_best PYTHON...
    best=
    said=
    for python in "$@"; do
        is_usable "$python" || continue
        best=${best:-$python}
        echo "Setting up .venv with $("$python" -V): this takes up to a minute, once." >&2
        if said=$(make_environment "$python" 2>&1); then return; fi
        rm -rf .venv
    done
    [ -n "$best" ] || fail "Python 3.11 or newer is needed: install one, or name one with make PYTHON=..."
    said=$(printf '%s' "$said" | tail -n 1)
    fail "$best cannot make a virtual environment${said:+ ($said)}:" \
        "install its venv module (on Debian: apt install python3-venv)"
}

if ! is_ours; then
    if [ -n "$named" ]; then
        make_with_best "$named"
    else
        make_with_best python3.13 python3.12 python3.11 python3.14 python3
    fi
    printf '%s\n' "$here" >.venv/made-in
fi

if ! {
    install_lock .venv/bin/python &&
        .venv/bin/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation --editable .
} >"$log" 2>&1; then
    tail -n 25 "$log" >&2
    fail "the set-up failed; all that was said is in $log"
fi
