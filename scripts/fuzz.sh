#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: fuzz.sh FUZZTIME PACKETS WAYS
#
# Runs every fuzz target for FUZZTIME, one after the other, then the agreement
# test between the BPF programs and the reference node with PACKETS packets, and
# compares fast forwarding with the kernel's in WAYS configurations.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzztime=$1
packets=$2
ways=$3
ran=0

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz PACKAGE TARGET. Go before 1.27 may report the end of the fuzz time as an
# error (go.dev/issue/75804), without an input; the target is then run again.
fuzz() {
	local try
	for try in 1 2 3; do
		go test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" "$1" </dev/null | tee "$log" && return
		grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input' "$log" || return
		echo "fuzz: $2 ended because its time was up, not with an error ($try)"
	done
	return 1
}

packages=$(go list -f '{{.ImportPath}} {{.Dir}}' work)
while read -r -u 3 package dir; do
	# Skip packages without a target: compiling their tests takes long.
	grep -qs '^func Fuzz' "$dir"/*_test.go || continue
	targets=$(go test -list '^Fuzz' "$package" | grep '^Fuzz')
	for target in $targets; do
		echo "fuzz: $package $target for $fuzztime"
		fuzz "$package" "$target"
		ran=$((ran + 1))
	done
done 3<<<"$packages"

if [ "$ran" -eq 0 ]; then
	echo "fuzz: found no fuzz target; every decoder of network bytes must have one" >&2
	exit 1
fi
echo "fuzz: ran $ran targets"

agreement=$(go test -list Agreement ./internal/datapath)
if ! grep -q '^Test' <<<"$agreement"; then
	echo "fuzz: internal/datapath has no agreement test" >&2
	exit 1
fi
echo "fuzz: agreement of $packets packets"
WAYMARK_AGREEMENT_PACKETS=$packets go test -count=1 -timeout 2h -run Agreement ./internal/datapath

random=$(go test -list RandomWays ./test/e2e/forward)
if ! grep -q '^Test' <<<"$random"; then
	echo "fuzz: test/e2e/forward has no random comparison with the kernel" >&2
	exit 1
fi
echo "fuzz: $ways configurations of a router"
WAYMARK_WAYS=$ways go test -count=1 -timeout 4h -v -run RandomWays ./test/e2e/forward
