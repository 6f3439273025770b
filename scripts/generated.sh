#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails when a committed generated file differs from what its generator writes
# now. The generators run in a copy, so the checkout does not change.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

if git -c safe.directory='*' rev-parse -q --verify HEAD >/dev/null 2>&1; then
	# git lists a deleted file until its deletion is committed.
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
		while IFS= read -r -d '' file; do
			if [ -e "$file" ]; then printf '%s\0' "$file"; fi
		done | tar -c --null -T - | tar -x -C "$copy"
else
	tar -c --exclude=./bin --exclude=./build . | tar -x -C "$copy"
fi

status=0
# same COMMAND DIRECTORY... runs `make COMMAND` in the copy and compares.
same() {
	local command=$1 directory difference
	shift
	if ! make -s -C "$copy" "$command" >&2; then
		echo "generated: make $command failed" >&2
		status=1
		return
	fi
	for directory in "$@"; do
		if ! difference=$(diff -rq "$directory" "$copy/$directory"); then
			printf '%s\n' "$difference" | sed "s|$copy/|generated: |g" >&2
			echo "generated: $directory is not current; run: make $command" >&2
			status=1
		fi
	done
}

same generate internal/datapath internal/lab/linkloss bench/harness
same docs docs/reference
exit $status
