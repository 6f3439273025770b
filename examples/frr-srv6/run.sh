#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run.sh up|down [LAB]
#
# Raises the network of lab.yaml, in a lab of that name (frr), and starts FRR's daemons in
# its routers, with NODE.conf. Needs root, waymark-lab, and FRR 8.4 or newer as Debian
# packages it; FRR's own service need not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lab=${2:-frr}
state=/run/waymark/frr/$lab
daemons=${FRR_DAEMONS:-/usr/lib/frr}

inside() {
	local node=$1
	shift
	waymark-lab exec --name "$lab" "$node" -- "$@"
}

up() {
	waymark-lab up --name "$lab" "$here/lab.yaml"
	local node daemon
	for node in pe1 pe2 p1 p2; do
		mkdir -p "$state/$node"
		: >"$state/$node/none.conf"
		chown -R frr:frr "$state/$node"
		for daemon in zebra isisd staticd; do
			inside "$node" "$daemons/$daemon" -d -f "$state/$node/none.conf" -i "$state/$node/$daemon.pid" \
				-z "$state/$node/zserv.api" --vty_socket "$state/$node" --log "file:$state/$node/$daemon.log" -A ::1
		done
		vtysh --vty_socket "$state/$node" -f "$here/$node.conf" >/dev/null
	done
}

# FRR's daemons in the network's namespaces are ended, and awaited: a namespace lasts as long as they do. The files
# with their numbers may be out of date.
down() {
	local node pid pids=()
	for node in "$state"/*/; do
		for pid in $(ip netns pids "$lab-$(basename "$node")" 2>/dev/null); do
			case $(readlink "/proc/$pid/exe") in
			*/zebra | */isisd | */staticd) pids+=("$pid") ;;
			esac
		done
	done
	if [ ${#pids[@]} -gt 0 ]; then
		kill "${pids[@]}" 2>/dev/null || true
		for pid in "${pids[@]}"; do
			timeout 20 tail -f /dev/null --pid="$pid" || kill -KILL "$pid" 2>/dev/null || true
		done
	fi
	waymark-lab down --name "$lab"
	rm -rf "$state"
}

case ${1:-} in
up | down) "$1" ;;
*)
	echo "usage: run.sh up|down [LAB]" >&2
	exit 2
	;;
esac
