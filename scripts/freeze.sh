#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes test/compatibility/testdata/VERSION: the configurations of the examples and of the packages,
# what this version makes of them, a record of every kind, messages of IPFIX with the records that
# this version's collector makes of them, and the names of metrics, warnings, outcomes, commands with
# their exit codes, settings and keys of the APIs. Later versions must load, or still have, them.
set -euo pipefail
cd "$(dirname "$0")/.."

into=test/compatibility/testdata/$(<VERSION)
if [ -d "$into" ]; then
	echo "freeze: $into exists; what a version wrote never changes" >&2
	exit 1
fi
mkdir -p "$into/config" "$into/shown" "$into/collector"
cp examples/*.yaml packaging/config/node.yaml "$into/config/"
cp packaging/config/collector.yaml "$into/collector/"
cp internal/record/testdata/records.jsonl internal/collect/testdata/collected.jsonl "$into/"
# In the order in which the collector's test reads them; 000a is the version of IPFIX.
grep -h '^000a' internal/sink/ipfixsink/testdata/options.txt internal/record/testdata/ipfix.txt >"$into/ipfix.txt"
for file in "$into"/config/*.yaml; do
	go run ./cmd/waymark config show "$file" >"$into/shown/${file##*/}"
done
CGO_ENABLED=1 go run ./collector/cmd/waymark-collector --json config show "$into/collector/collector.yaml" >"$into/collector/shown.json"
go test -count=1 -run TestNames ./test/compatibility -freeze "$PWD/$into/names"
echo "freeze: wrote $into"
