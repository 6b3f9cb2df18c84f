#!/bin/sh
# Makes the virtual environment .venv in the current directory, unless a working one is there already.
#
#   sh tools/make-venv.sh [PYTHON]
#
# Without PYTHON, the newest Python that the project is tested with is taken, else a newer one (CPython 3.11+).
# A Debian `python3` can make no environment with pip by itself (that takes python3-venv), so the other ways
# are tried too: virtualenv, or an environment without pip that the Python's own pip fills from the lock.
set -eu

fail() {
    echo "payaccept: $*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11) or sys.implementation.name != "cpython")' >/dev/null 2>&1
}

can() { # can PYTHON MODULE...: are the modules there?
    python=$1
    shift
    for module in "$@"; do
        "$python" -c "import $module" >/dev/null 2>&1 || return 1
    done
}

# An environment knows where it was made: after a move of the checkout it has to be made anew.
here=$(pwd -P)
if [ "$(cat .venv/made-in 2>/dev/null)" = "$here" ] && is_new_enough .venv/bin/python && can .venv/bin/python pip; then
    exit 0
fi

make_venv() { # make_venv PYTHON: by the first way that works
    rm -rf .venv
    log=$(mktemp)
    {
        { can "$1" venv ensurepip && "$1" -m venv .venv; } ||
            { can "$1" virtualenv && "$1" -m virtualenv --quiet .venv; } ||
            { can "$1" venv pip && "$1" -m venv --clear --without-pip .venv &&
                "$1" -m pip --quiet --python .venv/bin/python install --require-hashes -r constraints/server.txt; }
    } >"$log" 2>&1 && made=yes || made=no
    if [ "$made" = no ]; then
        reason=$(grep -v '^ *$' "$log" | tail -n 1)
        rm -rf .venv "$log"
        return 1
    fi
    rm -f "$log"
}

named=${1:-}
if [ -n "$named" ]; then
    set -- "$named"
else
    set -- python3.13 python3.12 python3.11 python3.14 python3
fi
found=
reason=
for python in "$@"; do
    is_new_enough "$python" || continue
    found=$python
    if make_venv "$python"; then
        printf '%s\n' "$here" >.venv/made-in
        echo "Made .venv with $(.venv/bin/python -V)."
        exit 0
    fi
done

[ -n "$found" ] || fail "Python 3.11 or newer is needed, and ${named:-python3} is not that: install one, or name it with make PYTHON=..."
fail "$found can make no virtual environment: install its venv module (Debian, Ubuntu: apt install python3-venv)${reason:+ [$reason]}"
