#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the version to stamp: the release tag where there is one, otherwise
# the commit's date and hash. Works in a shallow clone and without git. What
# benchmarks.sh writes is not in the program, and does not make it dirty: one
# benchmark may be run after another.
set -euo pipefail
cd "$(dirname "$0")/.."

# A root shell may build a checkout that belongs to somebody else.
git() { command git -c safe.directory='*' "$@" 2>/dev/null; }

if ! git rev-parse --verify -q HEAD >/dev/null; then
	echo unknown
	exit 0
fi
if ! version=$(git describe --tags --match 'v[0-9]*'); then
	version=v0.0.0-$(git log -1 --format=%cd-%h --date=format:%Y%m%d --abbrev=12)
fi
if [ -n "$(git status --porcelain --untracked-files=no -- . ':!bench/results' ':!docs/benchmarks' ':!docs/benchmarks.md')" ]; then
	version+=-dirty
fi
echo "$version"
