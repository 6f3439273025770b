#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every query of the dashboards against a Prometheus that scrapes three agents and two collectors of a
# lab, testdata/dashboards.yaml, while its links lose packets.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-dashboards-XXXXXX")
lab=wmq$$
pids=()

clean() {
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait || true
	bin/waymark-lab down --name "$lab" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap clean EXIT

need prometheus=prometheus python3=python3 ping=iputils-ping
programs
cat >"$work/collector.yaml" <<END
listen: ["tcp://[::]:4739"]
store: {directory: "$work/store"}
END
cat >"$work/prometheus.yaml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/packaging/prometheus/waymark.rules.yaml]
scrape_configs:
  - job_name: waymark
    static_configs: [{targets: ["[2001:db8:ff::1]:9598", "[2001:db8:ff::2]:9598", "[::1]:9598"]}]
  - job_name: waymark-collector
    static_configs: [{targets: ["[::1]:4780", "[::1]:9599"]}]
END
bin/waymark-lab up --name "$lab" scripts/interop/testdata/dashboards.yaml >/dev/null
in_node=(bin/waymark-lab exec --name "$lab" right --)
"${in_node[@]}" bin/waymark-collector run --config "$work/collector.yaml" 2>"$work/collector.log" &
pids+=($!)
# Only this command has outputs.
"${in_node[@]}" bin/waymark-collector collect --listen 'tcp://[::1]:4740' --metrics '[::1]:9599' --output "$work/collected" >/dev/null 2>"$work/collect.log" &
pids+=($!)
"${in_node[@]}" prometheus --config.file="$work/prometheus.yaml" --enable-feature=native-histograms --storage.tsdb.path="$work/data" \
	--web.listen-address='[::1]:9090' 2>"$work/prometheus.log" &
pids+=($!)
bin/waymark-lab loss add --name "$lab" left eth1 --every 10 >/dev/null
bin/waymark-lab loss add --name "$lab" left eth1 --every 11 --twice >/dev/null
bin/waymark-lab reorder --name "$lab" left eth1 --every 10 --by 3 >/dev/null &
pids+=($!)
# outsider sends traces from outside, which left's edge drops.
outsider() {
	bin/waymark-lab exec --name "$lab" alpha -- python3 -c 'import socket, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, bytes.fromhex("00020100310e0000007b080180000000ffffffff01020000"))
for _ in range(5): s.sendto(b"hello", ("2001:db8:2::2", 9009)); time.sleep(0.1)'
}
traffic() {
	local end=$((SECONDS + 300 * ${WAYMARK_PATIENCE:-1}))
	while [ $SECONDS -lt $end ]; do
		bin/waymark-lab traffic --name "$lab" >/dev/null 2>&1 || true # packets are lost, as they should
		outsider
		# core says that their hop limit is over.
		bin/waymark-lab exec --name "$lab" alpha -- ping -q -c 5 -i 0.1 -W 1 -t 2 2001:db8:2::2 >/dev/null || true
	done
}
traffic &
pids+=($!)
go test -c -o "$work/dashboards.test" ./packaging/dashboards
wait_for 30 "${in_node[@]}" bash -c 'exec 3<>/dev/tcp/::1/9090' || true # the test says what is wrong
WAYMARK_PROMETHEUS='http://[::1]:9090' "${in_node[@]}" "$work/dashboards.test" -test.v -test.run 'TestQueriesOfPrometheus' || {
	tail -n 5 "$work"/*.log >&2
	exit 1
}
