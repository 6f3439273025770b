#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: compare.sh COMMIT [--rounds N] NAME...
#
# Compares an older commit with this tree: builds its waymark-bench, and runs each named
# benchmark with both programs in turns (waymark-bench compare), and prints what changed.
# Run it as root on an otherwise idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
	echo "compare: $1; usage: scripts/compare.sh COMMIT [--rounds N] NAME..." >&2
	exit 2
}

[ $# -ge 2 ] || usage "COMMIT or NAME is missing"
old=$(git rev-parse --short=7 "$1^{commit}") || usage "there is no commit $1"
shift
rounds=()
if [ "$1" = --rounds ]; then
	[ $# -ge 3 ] || usage "--rounds needs a number, and a benchmark after it"
	rounds=(--rounds "$2")
	shift 2
fi

tree=$(scripts/version.sh)
built=$(bin/waymark-bench version)
if [ "$built" != "waymark-bench $tree" ]; then
	echo "compare: bin/waymark-bench is '$built', and this tree is $tree; run: make build" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/tree" "$old"
echo "compare: building waymark-bench of $old" >&2
(cd "$work/tree" && CGO_ENABLED=0 go build -buildvcs=false \
	-ldflags "-X github.com/waymark-net/waymark/internal/commandline.commit=$old" -o "$work/waymark-bench" ./bench/cmd/waymark-bench)

for name in "$@"; do
	bin/waymark-bench compare --old "$work/waymark-bench" "${rounds[@]}" "$name"
done
