#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the version of the programs: that of the file VERSION at its tag, and otherwise with
# the date and the hash of the commit after it, as in 0.1.0+20261128.abcdef123456. Works in a
# shallow clone; without git, the commit is unknown. What benchmarks.sh writes is not part of
# the programs and does not make the version dirty, so that benchmarks can run one after another.
set -euo pipefail
cd "$(dirname "$0")/.."

# A root shell may build a checkout that belongs to another user.
git() { command git -c safe.directory='*' "$@" 2>/dev/null; }

version=$(<VERSION)
# Sources without git may lie within the repository of something else.
if [ "$(git rev-parse --show-toplevel)" != "$(pwd -P)" ] ||
	! commit=$(git log -1 --format=%cd.%h --date=format:%Y%m%d --abbrev=12); then
	echo "$version+unknown"
elif [ -n "$(git status --porcelain --untracked-files=no -- . ':!bench/results' ':!docs/benchmarks' ':!docs/benchmarks.md')" ]; then
	echo "$version+$commit-dirty"
elif [ -z "$(git tag --points-at HEAD --list "v$version")" ]; then
	echo "$version+$commit"
else
	echo "$version"
fi
