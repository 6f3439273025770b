#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: again.sh TIMEOUT RACE-PACKAGES CGO-PACKAGES LOG...
#
# Runs each test that failed in the logs of go test twice again, alone, and passes if
# it passes both times. Tests bound how soon something happens, and a machine that is
# busy with the other tests is late now and then. A test that needs this is named at
# the end of the output, to be mended. Nothing is run again if more than three tests
# failed, or if something else did: a build, a panic, a data race, a time limit, a
# program that was killed, a complaint of the kernel.
set -euo pipefail
cd "$(dirname "$0")/.."

timeout=$1 race=$2 cgo=$3
shift 3

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
printf 'test: failed beside other tests, and passed twice alone:\n%s\n' "$failed" >&2
