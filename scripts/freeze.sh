#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes test/compatibility/testdata/VERSION: the configurations of the examples, what this
# version makes of them, a record of every kind, and messages of IPFIX with the records that this
# version's collector makes of them. Later versions must load them.
set -euo pipefail
cd "$(dirname "$0")/.."

into=test/compatibility/testdata/$(<VERSION)
if [ -d "$into" ]; then
	echo "freeze: $into exists; what a version wrote never changes" >&2
	exit 1
fi
mkdir -p "$into/config" "$into/shown"
cp examples/*.yaml "$into/config/"
cp internal/record/testdata/records.jsonl internal/collect/testdata/collected.jsonl "$into/"
# In the order in which the collector's test reads them; 000a is the version of IPFIX.
grep -h '^000a' internal/sink/ipfixsink/testdata/options.txt internal/record/testdata/ipfix.txt >"$into/ipfix.txt"
for file in "$into"/config/*.yaml; do
	go run ./cmd/waymark config show "$file" >"$into/shown/${file##*/}"
done
echo "freeze: wrote $into"
