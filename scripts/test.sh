#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: test.sh TIMEOUT RACE-PATTERN...
#
# Runs every Go test once: the packages that match a RACE-PATTERN under the
# race detector, the others as the shipped binary is built, without cgo.
set -euo pipefail
cd "$(dirname "$0")/.."

timeout=$1
shift

all=$(go list ./...)
race=$(go list "$@" 2>/dev/null || true)
rest=$(comm -23 <(sort <<<"$all") <(sort <<<"$race"))
# the longest first, since packages are tested two at a time
rest=$(grep -E '/(test/e2e/.*|bench)$' <<<"$rest" | sort -r; grep -vE '/(test/e2e/.*|bench)$' <<<"$rest")

status=0
if [ -n "$race" ]; then
	# shellcheck disable=SC2086 # one word per package
	CGO_ENABLED=1 go test -count=1 -timeout "$timeout" -race $race || status=1
fi
# shellcheck disable=SC2086
CGO_ENABLED=0 go test -count=1 -parallel 4 -timeout "$timeout" $rest || status=1
exit $status
