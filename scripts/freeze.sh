#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes test/compatibility/testdata/VERSION: the configurations of the examples, what this
# version makes of them, and a record of every kind. Later versions must load them.
set -euo pipefail
cd "$(dirname "$0")/.."

into=test/compatibility/testdata/$(<VERSION)
if [ -d "$into" ]; then
	echo "freeze: $into exists; what a version wrote never changes" >&2
	exit 1
fi
mkdir -p "$into/config" "$into/shown"
cp examples/*.yaml "$into/config/"
cp internal/record/testdata/records.jsonl "$into/"
for file in "$into"/config/*.yaml; do
	go run ./cmd/waymark config show "$file" >"$into/shown/${file##*/}"
done
echo "freeze: wrote $into"
