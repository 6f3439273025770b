#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the version of the programs: the release tag if there is one, otherwise
# the commit's date and hash. Works in a shallow clone and without git. Files that
# benchmarks.sh and compare.sh write are not part of the programs and do not make the version
# dirty, so that benchmarks can run one after another.
set -euo pipefail
cd "$(dirname "$0")/.."

# A root shell may build a checkout that belongs to another user.
git() { command git -c safe.directory='*' "$@" 2>/dev/null; }

if ! git rev-parse --verify -q HEAD >/dev/null; then
	echo unknown
	exit 0
fi
if ! version=$(git describe --tags --match 'v[0-9]*'); then
	version=v0.0.0-$(git log -1 --format=%cd-%h --date=format:%Y%m%d --abbrev=12)
fi
if [ -n "$(git status --porcelain --untracked-files=no -- . ':!bench/results' ':!bench/comparisons' ':!docs/benchmarks' ':!docs/benchmarks.md')" ]; then
	version+=-dirty
fi
echo "$version"
