#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs examples/frr-srv6: FRR routes a network by IS-IS, and Waymark measures its tunnel. What a
# link loses on purpose is found on that link, packet for packet; when the link fails, FRR
# routes around it, and the agent says that the packets do not pass p1 any more.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh
export PATH=$PWD/bin:$PATH

lab=wmf$$
ended=''

fail() {
	echo "frr.sh: $*" >&2
	waymark-lab exec --name "$lab" pe1 -- waymark loss --verbose --last 1m --wide >&2 || true
	exit 1
}

clean() { [ -n "$ended" ] || examples/frr-srv6/run.sh down "$lab" >/dev/null 2>&1 || true; }
trap clean EXIT

need vtysh=frr jq=jq ip=iproute2 ping=iputils-ping
programs

echo "- IS-IS finds the way by p1"
examples/frr-srv6/run.sh up "$lab" >/dev/null 2>&1
way() { ip -n "$lab-pe1" -6 route get fc00:0:2::d6 | has "dev $1 proto isis"; }
back() { ip -n "$lab-pe2" -6 route get fc00:0:1::d6 | has "dev $1 proto isis"; }
wait_for 60 way eth1 && wait_for 60 back eth1 || fail "there is no route to the SIDs"
wait_for 30 ip netns exec "$lab-a" ping -c 1 -W 1 2001:db8:b::2 || fail "b does not answer"
vtysh --vty_socket "/run/waymark/frr/$lab/pe1" -c 'show version' | head -1

# results FILTER... prints a line for each result about the tunnel with packets since the beginning.
results() { waymark-lab exec --name "$lab" pe1 -- waymark loss --verbose --last 5m --json 2>/dev/null | jq -rs "map(select(.kind == \"loss\" and .start > \"$since\" and .sent != 0)) | $1"; }
now() { date -u +%Y-%m-%dT%H:%M:%S; }
# The agents' first blocks are incomplete.
sleep 3

echo "- a link loses every 50th packet"
waymark-lab loss add --name "$lab" p1 eth1 --every 50 --last-sid fc00:0:2::d6 >/dev/null
since=$(now)
waymark-lab traffic --name "$lab" >/dev/null && fail "the link loses nothing"
all() { [ "$(results 'map(select(.scope == "whole").sent // 0) | add // 0')" -eq 1000 ]; }
wait_for 20 all || fail "the agents did not count the 1000 packets: $(results .)"
lost=$(waymark-lab loss show --name "$lab" --json | jq '.[0].lost_packets')
[ "$lost" -gt 0 ] || fail "the lab lost nothing"
found=$(results 'map(select(.scope == "segment")) | group_by(.from_node) | map("\(.[0].from_node)>\(.[0].to_node) \(map(.lost) | add) \(map(.verdict) | unique | join(","))") | join("; ")')
[ "$found" = "p1>pe2 $lost measured; pe1>p1 0 measured" ] || fail "the link lost $lost, and the agents found: $found"
echo "  $found"

echo "- the link fails, and IS-IS goes by p2"
ip -n "$lab-p1" link set eth1 down
wait_for 60 way eth2 && wait_for 60 back eth2 || fail "IS-IS does not find the way by p2"
# An agent that a busy machine keeps from looking at its programs in time says so (not_executed): then, send again.
for try in 1 2 3 4 5; do
	sleep 2
	since=$(now)
	waymark-lab traffic --name "$lab" >/dev/null || fail "packets are lost on the other way"
	wait_for 20 all || fail "the agents did not count the 1000 packets: $(results .)"
	found=$(results 'group_by(.scope) | map("\(.[0].scope) lost \(map(.lost) | unique | tostring) \(map(.verdict) | unique | join(",")) \(map(.reasons // [], .from_reasons // [], .to_reasons // []) | add | unique | join(","))") | join("; ")')
	echo "  $found"
	case $found in
	*not_executed*) [ "$try" -lt 5 ] || fail "blocks stay uncertain" ;;
	*) break ;;
	esac
done
case $found in
*'whole lost [0] measured'*) ;;
*) fail "the whole way is not measured: $found" ;;
esac
case $found in
*'segment lost [null] uncertain'*other_path*) ;;
*) fail "p1 is still said to be on the way: $found" ;;
esac

echo "- down"
ended=yes
examples/frr-srv6/run.sh down "$lab"
! ip netns list | has "^$lab-" || fail "namespaces are left"
