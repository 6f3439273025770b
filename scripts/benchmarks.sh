#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: benchmarks.sh [NAME...]
#
# Runs benchmarks in full (all of them, or the named ones), saves their results in
# bench/results, and writes docs/benchmarks.md and its figures from all results.
# After a failure the others still run; an interruption keeps the finished
# results.
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

if [ $# -eq 0 ]; then
	mapfile -t names < <(bin/waymark-bench list | awk '{ print $1 }')
	set -- "${names[@]}"
fi
mkdir -p bench/results docs/benchmarks
new=$(mktemp)
failed=()

report() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	if ! compgen -G 'bench/results/*.json' >/dev/null; then
		echo "benchmarks: there are no results to report" >&2
	elif bin/waymark-bench report --figures docs/benchmarks bench/results/*.json bench/comparisons/*.json >"$new"; then
		cp "$new" docs/benchmarks.md
	else
		status=1
	fi
	rm -f "$new"
	if [ ${#failed[@]} -gt 0 ]; then
		echo "benchmarks: these failed, and their last results stay: ${failed[*]}" >&2
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
done
