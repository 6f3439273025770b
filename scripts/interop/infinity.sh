#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The backend of Grafana's Infinity data source, built from its Go module outside this project's, asks the
# collector of `waymark lab demo --console` each query of docs/how-to/grafana.md: each must give rows, and columns of
# the types that the page says.
#
# Where the module proxy does not have it, INFINITY_SOURCES names a directory with clones of
# grafana-infinity-datasource and infinity-libs, both of github.com/grafana.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh

plugin=github.com/grafana/grafana-infinity-datasource
commit=683f8833617ccb36fcb37ccc759b6103a09e7c68 # version 3.11.1
libraries=github.com/grafana/infinity-libs/lib/go
work=$PWD/build/interop/infinity
sources=$(mktemp -d "${TMPDIR:-/tmp}/waymark-infinity-XXXXXX")
demo='' log=$work/demo.log

clean() {
	if [ -n "$demo" ]; then
		kill -INT "$demo" 2>/dev/null || true
		wait "$demo" || true
	fi
	rm -rf "$sources"
}
trap clean EXIT

fail() {
	echo "infinity.sh: $*" >&2
	exit 1
}

# of_clones copies the plug-in from a clone, and its libraries at the versions that it needs.
of_clones() {
	local library version
	mkdir "$sources/plugin"
	git -C "$INFINITY_SOURCES/grafana-infinity-datasource" archive "$commit" | tar -x -C "$sources/plugin"
	go mod edit -require "$plugin@v0.0.0" -replace "$plugin=$sources/plugin"
	# What its libraries need of each other is older, and replaced as well.
	while read -r library version; do
		mkdir -p "$sources/$library"
		git -C "$INFINITY_SOURCES/infinity-libs" archive "lib/go/$library/$version" "lib/go/$library" |
			tar -x -C "$sources/$library" --strip-components=3
		go mod edit -replace "$libraries/$library=$sources/$library"
	done < <(sed -n "s#^\t$libraries/\([a-z]*\) \(v[^ ]*\).*#\1 \2#p" "$sources/plugin/go.mod")
	cp "$sources/plugin/go.sum" .
}

build() {
	export GOWORK=off GOFLAGS=''
	cd "$work" || exit 1 # the condition that calls this switches -e off
	rm -f go.mod go.sum
	cp "$OLDPWD/scripts/interop/testdata/infinity/main.go" .
	go mod init infinity
	if [ -n "${INFINITY_SOURCES:-}" ]; then of_clones; else go get "$plugin@$commit"; fi
	go build -trimpath -mod=mod -o infinity .
}

mkdir -p "$work"
if ! (build) >"$work.log" 2>&1; then
	if grep -qE ': (403|404|410) |no such host|i/o timeout|connection refused' "$work.log"; then
		skip "Infinity's backend asks nothing, because its Go module cannot be fetched here"
		exit 0
	fi
	fail "Infinity's backend cannot be built: $(tail -n5 "$work.log")"
fi

need ip=iproute2
programs
bin/waymark lab demo --console --port 0 --move 20s --name "wmi$$" >"$log" 2>&1 &
demo=$!
wait_for 120 grep -q 'Ctrl-C removes' "$log" || fail "the network is not there: $(tail -n3 "$log")"
address=$(grep -o -m1 'http://\[::1\]:[0-9]*' "$log")
"$work/infinity" docs/how-to/grafana.md "$address" 240 source=::/0 flow=gold 2>"$work/questions.log" ||
	fail "$(tail -n1 "$work/questions.log"); the questions are in $work/questions.log"
