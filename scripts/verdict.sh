#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: verdict.sh STATUS TIMEOUT PACKAGES RACE-PACKAGES CGO-PACKAGES LOG...
#
# Decides whether the tests of PACKAGES passed, by the STATUS and the logs of go test.
# Each package must have a result. A test that failed is run twice again, alone, and must
# pass both times: tests bound how soon something happens, and a machine that is busy with
# other tests is late now and then. Such a test is named at the end of the output, to be
# mended. Nothing is run again if more than three tests failed, or if something else did: a
# build, a panic, a data race, a time limit, a program that was killed, a complaint of the
# kernel.
set -euo pipefail
cd "$(dirname "$0")/.."

status=$1 timeout=$2 packages=$3 race=$4 cgo=$5
shift 5

untested=$(comm -23 <(sort <<<"$packages") <(sed -nE 's/^(ok  |FAIL|\?   )\t([^[:space:]]+).*/\2/p' "$@" | sort -u))
if [ -n "$untested" ]; then
	printf 'test: these packages have no result:\n%s\n' "$untested" >&2
	exit 1
fi
[ "$status" != 0 ] || exit 0

most=3
if grep -hE '^(panic: |fatal error: |FAIL: |WARNING: DATA RACE)|\[(build|setup) failed\]' "$@" >&2; then
	exit 1
fi
# The line of a package follows those of its tests. The line before it is FAIL if the tests ended
# by themselves, and nothing else failed after them.
failed=$(awk '
	FNR == 1 { if (n) print tests[n], "-"; n = 0 }
	/^--- FAIL: / { tests[++n] = $3 }
	/^FAIL\t/ {
		if (!n || last != "FAIL") print $2, "-"
		for (i = 1; i <= n; i++) print $2, tests[i]
		n = 0
	}
	/^(ok  |\?   )\t/ { if (n) print $2, "-"; n = 0 }
	{ last = $0 }
	END { if (n) print tests[n], "-" }
' "$@")
count=$(wc -l <<<"$failed")
if [ -z "$failed" ] || [ "$count" -gt $most ] || grep -q ' -$' <<<"$failed"; then
	printf 'test: failed:\n%s\n' "$failed" >&2
	exit 1
fi
while read -r package test; do
	flags=(-parallel 2)
	CGO_ENABLED=0
	if grep -qxF "$package" <<<"$race"; then
		CGO_ENABLED=1 flags=(-race)
	elif grep -qxF "$package" <<<"$cgo"; then
		CGO_ENABLED=1 flags=()
	fi
	export CGO_ENABLED
	status=0
	out=$(go test -vet=off -count=2 -timeout "$timeout" "${flags[@]}" -run "^$test\$" "$package" </dev/null 2>&1) || status=1
	printf '%s\n' "$out"
	[ $status = 0 ] && ! grep -qF '[no tests to run]' <<<"$out" || exit 1
done <<<"$failed"
printf 'test: these tests failed while others ran, and passed twice when they ran alone:\n%s\n' "$failed" >&2
