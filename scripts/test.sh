#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: test.sh TIMEOUT RACE-PATTERN...
#
# Runs every static check and every Go test once: the packages that match a
# RACE-PATTERN under the race detector, the others without cgo, like the shipped
# binary. The collector, whose database needs cgo, is run with it. Its packages that
# open no database are run under the race detector, which takes some seconds; it does
# not see the database, in which the others spend their time. Two lists of packages run
# at the same time, because many tests wait more than they compute. With more at once,
# tests that bound an agent's reaction time would fail. The collector's packages, one
# by one, go to the list that has ended.
# The checks bound no time: at the lowest priority, they take the CPU time that the
# tests leave. A test that fails while others run is run twice again, alone (verdict.sh).
# WAYMARK_PROGRAM is the built program, which some tests run.
set -euo pipefail
cd "$(dirname "$0")/.."

timeout=$1
shift

all=$(go list work)
race=$(go list "$@" 2>/dev/null || true)
collector=$(grep '/collector/' <<<"$all" | grep -vxF "$race")
# Its tests wait for blocks to end, beside those that compute.
waiting=$(grep '/test/e2e/measure$' <<<"$all")
checked=$(grep '/scripts/check$' <<<"$all")
rest=$(comm -23 <(sort <<<"$all") <(sort <<<"$race"$'\n'"$collector"$'\n'"$waiting"$'\n'"$checked"))
# the longest first
long='/(test/e2e/(forward|directexport)|bench/experiments|internal/datapath|collector/internal/(store|browsertest|api))$'
collector=$(
	grep -E "$long" <<<"$collector" | sort -r
	grep -vE "$long" <<<"$collector"
)
rest=$(
	grep -E "$long" <<<"$rest" | sort -r
	grep -E '/test/e2e/' <<<"$rest" | grep -vE "$long"
	grep -vE "/test/e2e/|$long" <<<"$rest"
)

log=$(mktemp)
other=$(mktemp)
checks=$(mktemp)
taken=$(mktemp -d)
checking=
trap 'rm -rf "$log" "$other" "$checks" "$taken"; [ -z "$checking" ] || kill -- "-$checking" 2>/dev/null || true' EXIT
status=0
# With autogroups (sched(7)), the priority of a session decides, not that of its processes.
setsid nice -n 19 bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec scripts/check.sh' >"$checks" 2>&1 &
checking=$!
# rest_of_collector tests the packages of the collector that the other list has not taken.
rest_of_collector() {
	local package status=0
	for package in $collector; do
		mkdir "$taken/${package//\//_}" 2>/dev/null || continue
		CGO_ENABLED=1 go test -vet=off -count=1 -timeout "$timeout" "$package" || status=1
	done
	return $status
}
# shellcheck disable=SC2086 # one word per package
{
	failed=0
	CGO_ENABLED=1 go test -vet=off -count=1 -p 1 -timeout "$timeout" -race $race || failed=1
	CGO_ENABLED=0 go test -vet=off -count=1 -p 1 -parallel 2 -timeout "$timeout" $waiting || failed=1
	rest_of_collector || failed=1
	exit $failed
} >"$log" 2>&1 &
racing=$!
# The checks run that test.
# shellcheck disable=SC2086
{
	failed=0
	CGO_ENABLED=0 go test -vet=off -count=1 -p 2 -parallel 2 -skip '^TestInstructions$' -timeout "$timeout" $rest || failed=1
	rest_of_collector || failed=1
	exit $failed
} 2>&1 | tee "$other" || status=1
wait "$racing" || status=1
cat "$log"
sound=0
wait "$checking" || sound=1
checking=
cat "$checks"
[ $sound = 0 ] || exit 1
scripts/verdict.sh "$status" "$timeout" "$race"$'\n'"$waiting"$'\n'"$rest"$'\n'"$collector" "$race" "$collector" "$log" "$other"
