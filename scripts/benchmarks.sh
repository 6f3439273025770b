#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: benchmarks.sh [NAME...]
#
# Runs benchmarks in full (all of them, or the named ones), saves their results in
# bench/results, and writes docs/benchmarks.md and its pages from all results. These are
# of one machine and one commit: named benchmarks are refused while there are results of
# others, unless OTHERS=remove is in the environment, and results of others are removed
# when new ones are there. After a failure the other benchmarks still run; an interruption
# keeps the finished results.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."

# Results name the version, so it must be that of this tree.
tree=$(scripts/version.sh)
for program in waymark waymark-bench; do
	built=$("bin/$program" version)
	if [ "$built" != "$program $tree" ]; then
		echo "benchmarks: bin/$program is '$built', and this tree is $tree; run: make build" >&2
		exit 1
	fi
done

# foreign lists results of other machines or commits, apart from those of the named benchmarks.
foreign() {
	local file
	for file in $(bin/waymark-bench foreign bench/results/*.json); do
		[[ " $* " == *" $(basename "$file" .json) "* ]] || echo "$file"
	done
}

remove=${OTHERS:-}
if [ $# -eq 0 ]; then
	mapfile -t names < <(bin/waymark-bench list | awk '{ print $1 }')
	set -- "${names[@]}"
	remove=remove
fi
others=$(foreign "$@")
if [ -n "$others" ] && [ "$remove" != remove ]; then
	echo "benchmarks: these results are of another machine or commit, and would share tables with $*:" $others >&2
	echo "benchmarks: record all with: make benchmarks, or remove these with: make benchmarks OTHERS=remove NAMES='$*'" >&2
	exit 1
fi
mkdir -p bench/results docs/benchmarks
new=$(mktemp)
recorded=()
failed=()

report() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	if [ ${#recorded[@]} -eq 0 ]; then
		echo "benchmarks: there are no new results; all stays as it was" >&2
	else
		others=$(foreign)
		if [ -n "$others" ]; then
			echo "benchmarks: removed, of another machine or commit:" $others >&2
			rm -f $others
		fi
		rm -f docs/benchmarks/*.svg # those that the pages show are drawn again
		if bin/waymark-bench report --pages docs/benchmarks bench/results/*.json >"$new"; then
			cp "$new" docs/benchmarks.md
		else
			status=1
		fi
	fi
	rm -f "$new"
	if [ ${#failed[@]} -gt 0 ]; then
		echo "benchmarks: these failed: ${failed[*]}" >&2
		[ "$status" -ne 0 ] || status=1
	fi
	exit "$status"
}
trap report EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for name in "$@"; do
	status=0
	bin/waymark-bench run "$name" --json >"$new" || status=$?
	if [ "$status" -eq 130 ]; then # 130 means interrupted
		exit "$status"
	elif [ "$status" -ne 0 ]; then
		cat "$new" >&2 # with --json, the error is there
		failed+=("$name")
		continue
	fi
	cp "$new" "bench/results/$name.json"
	recorded+=("$name")
done
