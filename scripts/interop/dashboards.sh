#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every query of the dashboards against a Prometheus that scrapes an agent with traffic.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-dashboards-XXXXXX")
node=wmnode-$$ peer=wmpeer-$$
pids=()

clean() {
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait || true
	ip netns exec "$node" bin/waymark agent stop --remove >/dev/null 2>&1 || true
	ip netns delete "$node" 2>/dev/null || true
	ip netns delete "$peer" 2>/dev/null || true
	rm -rf "$work"
}
trap clean EXIT

need prometheus=prometheus
programs
two_nodes "$node" "$peer"
cat >"$work/node.yaml" <<END
node: {id: 10}
interfaces:
  - {name: eth0, id: 1, role: [ingress, egress]}
namespaces:
  - {id: 10, remove: true}
encapsulations:
  - name: all
    interface: eth0
    match: {destination: "2001:db8:77::/64"}
    mode: inline
    options:
      - trace: {namespace: 10, type: 0xf00000, size: 64}
export:
  - {kind: jsonl, path: $work/records.jsonl}
metrics: {listen: "[::1]:9598"}
END
cat >"$work/prometheus.yaml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/packaging/prometheus/waymark.rules.yaml]
scrape_configs:
  - job_name: waymark
    static_configs: [{targets: ["[::1]:9598"]}]
  - job_name: waymark-collector
    static_configs: [{targets: ["[::1]:9599"]}]
END
ip netns exec "$node" bin/waymark agent run --config "$work/node.yaml" 2>"$work/agent.log" &
pids+=($!)
ip netns exec "$node" bin/waymark-collector collect --metrics '[::1]:9599' --output "$work/collected" 2>>"$work/agent.log" &
pids+=($!)
ip netns exec "$node" prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/data" --web.listen-address='[::1]:9090' 2>"$work/prometheus.log" &
pids+=($!)
ip netns exec "$node" ping -q -i 0.1 2001:db8:77::2 >/dev/null 2>&1 &
pids+=($!)
go test -c -o "$work/dashboards.test" ./packaging/dashboards
cd packaging/dashboards
wait_for 30 ip netns exec "$node" bash -c 'exec 3<>/dev/tcp/::1/9090' || true # the test says what is wrong
WAYMARK_PROMETHEUS='http://[::1]:9090' ip netns exec "$node" "$work/dashboards.test" -test.v -test.run 'TestQueriesOfPrometheus' || {
	tail -5 "$work/prometheus.log" "$work/agent.log" >&2
	exit 1
}
