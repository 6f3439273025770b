#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: benchmarks.sh [NAME...]
#
# Runs benchmarks in earnest (all of them, or those that are named), keeps their
# results in bench/results, and writes docs/benchmarks.md and its figures from
# all results that are there.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
	mapfile -t names < <(bin/waymark bench list | awk '{ print $1 }')
	set -- "${names[@]}"
fi
mkdir -p bench/results docs/benchmarks
new=$(mktemp)
trap 'rm -f "$new"' EXIT
for name in "$@"; do
	# A run that fails leaves the last one's result.
	bin/waymark bench run "$name" --json >"$new"
	cp "$new" "bench/results/$name.json"
done
bin/waymark bench report --figures docs/benchmarks bench/results/*.json >"$new"
cp "$new" docs/benchmarks.md
