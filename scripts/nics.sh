#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: nics.sh [MACHINE...], such as 6.12 or 6.12-arm64 (scripts/kernels.sh)
#
# Boots a Debian cloud kernel in an emulated machine that is a router with two network cards: virtio-net with
# several queues and mergeable buffers, in XDP, then in tc with an MTU of 9000, for which a packet takes several
# buffers, then vmxnet3. Hosts left and right are namespaces of this machine, behind tap devices:
#
#   left ──── eth0 router eth1 ──── right
#
# left inserts traces and Direct Exports that right removes; the router encapsulates what goes to
# left, and forwards fast: in native XDP with virtio-net, in tc with jumbo and vmxnet3. All three count an SRv6
# flow of left's, of which the cable to right loses every 20th packet, by nftables, which counts them.
# NICS_RUN, a pattern, chooses cards (virtio|jumbo|vmxnet3). Needs root.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. scripts/kernels/machine.sh
. scripts/interop/shared.sh
export PATH=$PATH:/sbin:/usr/sbin:$PWD/bin GOFLAGS="${GOFLAGS:-} -buildvcs=false"
export WAYMARK_PATIENCE=${WAYMARK_PATIENCE:-10}

id=wmn$$ temporary=$(mktemp -d "${TMPDIR:-/tmp}/waymark-nics-XXXXXX")
left=$id-left right=$id-right middle=$id-middle
pids=()

stop() {
	local ns
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait || true
	pids=()
	for ns in "$left" "$right"; do
		ip netns exec "$ns" bin/waymark agent stop --remove >/dev/null 2>&1 || true
	done
	for ns in "$left" "$right" "$middle"; do ip netns delete "$ns" 2>/dev/null || true; done
}
clean() {
	stop
	rm -rf "$temporary"
}
trap clean EXIT

bad() {
	echo "nics: $*" >&2
	return 1
}

# A bridge between a host's link and the card's tap, of which the emulator has the queues.
cable() {
	local host=$1 tap=$2
	ip netns add "$host"
	ip -n "$middle" link add "br-$tap" type bridge mcast_snooping 0
	ip -n "$middle" link add "v-$tap" type veth peer name eth0 netns "$host"
	ip -n "$middle" tuntap add dev "$tap" mode tap $3
	local port
	for port in "v-$tap" "$tap" "br-$tap"; do
		[ "$port" = "br-$tap" ] || ip -n "$middle" link set "$port" master "br-$tap"
		ip -n "$middle" link set "$port" mtu "$mtu" up
	done
	ip netns exec "$host" sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.eth0.accept_dad=0
	ip -n "$host" link set lo up
	ip -n "$host" link set eth0 mtu "$mtu" up
}

network() { # QUEUES
	local queues=''
	[ "$1" = 1 ] || queues=multi_queue
	ip netns add "$middle"
	cable "$left" tap0 "$queues"
	cable "$right" tap1 "$queues"
	ip -n "$left" addr add 2001:db8:1::2/64 dev eth0 nodad
	ip -n "$left" addr add 2001:db8:a::2/128 dev lo
	ip -n "$left" -6 route add default via 2001:db8:1::1 src 2001:db8:a::2 mtu $((mtu - 200))
	ip netns exec "$left" ip sr tunsrc set 2001:db8:a::2
	ip -n "$left" -6 route add 2001:db8:c::/64 encap seg6 mode encap segs fc00:3::d6 dev eth0
	ip -n "$right" addr add 2001:db8:2::2/64 dev eth0 nodad
	ip -n "$right" addr add 2001:db8:2::99/64 dev eth0 nodad
	ip -n "$right" addr add 2001:db8:b::2/128 dev lo
	ip -n "$right" -6 route add default via 2001:db8:2::1 src 2001:db8:b::2 mtu $((mtu - 200))
	ip -n "$right" addr add 2001:db8:c::2/128 dev lo
	ip netns exec "$right" sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.eth0.seg6_enabled=1
	ip -n "$right" -6 route add fc00:3::d6/128 encap seg6local action End.DT6 table 255 dev eth0
	ip netns exec "$middle" nft -f - <<-END
		table netdev cable {
			counter lost { }
			chain in {
				type filter hook ingress device "tap1" priority 0;
				ip6 daddr fc00:3::d6 numgen inc mod 20 == 0 counter name "lost" drop
			}
		}
	END
}

# The router's clock knows seconds at best when it boots: left tells it the time when a second begins.
tell_time() {
	ip netns exec "$left" python3 -c 'import socket, time
s = socket.create_server(("2001:db8:1::2", 9013), family=socket.AF_INET6)
while True:
	c, _ = s.accept()
	time.sleep(-time.time() % 1)
	try: c.sendall(b"%d\n" % round(time.time()))
	except OSError: pass
	c.close()' &
	pids+=($!)
}

configurations() { # ATTACH
	local trace='trace: {namespace: 123, type: 0xf80000, size: 60}' export='export: [{kind: ipfix, address: "tcp://[2001:db8:2::2]:4739"}'
	# Emulated clocks may be a second wrong.
	local flow="name: flow, source: 2001:db8:a::2, segments: ['fc00:3::d6']" measured='measurement: {block: 10s, guard: 4500ms, clock-error: 1s}
stamp: {allow: ["2001:db8::/32"]}'
	cat >"$temporary/left.yaml" <<END
node: {id: 1, name: left, export-interval: 1s, export-limit: 1/1}
interfaces: [{name: eth0, id: 101, role: [ingress, egress], attach: clsact}]
namespaces: [{id: 123, remove: true, export: sample, sample: 5}]
encapsulations:
  - {name: udp, interface: eth0, match: {destination: "2001:db8:b::/64", next-header: 17}, mode: inline, options: [{dex: {namespace: 123, trace-type: 0xf80000, extension-flags: [flow-id, sequence]}}]}
  - {name: all, interface: eth0, match: {destination: "2001:db8:b::/64"}, mode: inline, options: [{$trace}]}
decapsulations: [{tunnel-destination: "2001:db8:1::2"}]
flows: [{$flow, direction: out, points: ["router=2001:db8:1::1", "right=2001:db8:2::2"]}]
$measured
$export, {kind: jsonl, path: $temporary/left.jsonl, records: [trace]}]
END
	cat >"$temporary/right.yaml" <<END
node: {id: 3, export-interval: 1s, export-limit: 1/1}
interfaces: [{name: eth0, id: 301, role: [ingress, egress], attach: clsact}]
namespaces: [{id: 123, remove: true, export: sample, sample: 5}]
flows: [{$flow, direction: in}]
$measured
$export, {kind: jsonl, path: $temporary/right.jsonl, records: [trace]}]
END
	cat >"$work/$machine/etc/router.yaml" <<END
node: {id: 2, export-interval: 1s, export-limit: 1/1}
interfaces:
  - {name: eth0, id: 201, role: [ingress, egress], attach: $1, forwarding: fast}
  - {name: eth1, id: 202, role: [ingress, egress], attach: $1, forwarding: fast}
namespaces: [{id: 123, export: sample, sample: 5}]
encapsulations:
  - {name: to-left, interface: eth0, match: {destination: "2001:db8:a::/64"}, mode: encap, tunnel: {source: "2001:db8:1::1", destination: "2001:db8:1::2"}, options: [{$trace}]}
flows: [{$flow, direction: transit}]
$measured
$export]
END
}

# traces FILE NODES counts the traces by these nodes.
traces() { jq -c 'select(.kind == "trace") | [.nodes[].node_id]' "$1" 2>/dev/null | grep -cxF "$2" || true; }

# seen prints how many traces of which nodes the hosts have, and fails.
seen() {
	local host
	for host in left right; do
		echo "nics: $host has traces by $(jq -c 'select(.kind == "trace") | [.nodes[].node_id]' "$temporary/$host.jsonl" | sort | uniq -c | tr '\n' ' ')" >&2
		tail -3 "$temporary/$host.log" >&2
	done
	return 1
}

measure() {
	local ns paths
	for ns in left right; do
		ip netns exec "$id-$ns" bin/waymark agent run --config "$temporary/$ns.yaml" 2>"$temporary/$ns.log" &
		pids+=($!)
	done
	ip netns exec "$right" bin/waymark-collector collect --json --listen 'tcp://[::]:4739' --output "$temporary/paths.jsonl" 2>"$temporary/collector.log" &
	pids+=($!)
	for ns in left right; do
		wait_for 30 ip netns exec "$id-$ns" bin/waymark status || bad "the agent of $ns does not serve: $(tail -1 "$temporary/$ns.log")" || return 1
	done
	wait_for 60 grep -q '^nics: the router serves' "$log" || bad "the router does not serve" || return 1
	wait_for 10 ip netns exec "$left" ping -c 1 -W 2 2001:db8:b::2 || bad "right does not answer" || return 1
	ip netns exec "$left" ping -q -c 20 -i 0.2 -W 5 2001:db8:b::2 | has ' 0% packet loss' || bad "pings are lost" || return 1
	enough() { [ "$(traces "$temporary/right.jsonl" '[1,2,3]')" -ge 20 ] && [ "$(traces "$temporary/left.jsonl" '[2,1]')" -ge 20 ]; }
	wait_for 10 enough || seen || bad "of 20 pings, $(traces "$temporary/right.jsonl" '[1,2,3]') have traces by 1, 2, 3, and $(traces "$temporary/left.jsonl" '[2,1]') answers by 2, 1" || return 1
	echo "nics:   20 pings have traces by left, router, right; 20 answers, which the router encapsulates, by router and left"

	ip netns exec "$left" ping -q -c 5 -i 0.2 -W 5 -s $((mtu - 300)) 2001:db8:b::2 | has ' 0% packet loss' || bad "large pings are lost" || return 1

	head -c 1048576 /dev/urandom >"$temporary/bulk"
	ip netns exec "$right" timeout 300 python3 -c 'import socket, sys
s = socket.create_server(("2001:db8:b::2", 9001), family=socket.AF_INET6)
c, _ = s.accept()
while b := c.recv(65536): sys.stdout.buffer.write(b)' >"$temporary/arrived" &
	pids+=($!)
	wait_for 10 ip netns exec "$right" bash -c 'ss -Hltn sport = 9001 | grep -q .' || bad "right does not listen" || return 1
	ip netns exec "$left" timeout 300 bash -c 'cat >/dev/tcp/2001:db8:b::2/9001' <"$temporary/bulk" || bad "TCP fails" || return 1
	wait_for 10 cmp "$temporary/bulk" "$temporary/arrived" || bad "other octets arrived" || return 1
	echo "nics:   1 MiB over TCP is the same at right"

	for _ in $(seq 10); do
		ip netns exec "$left" bash -c 'echo hello >/dev/udp/2001:db8:b::2/9000'
		sleep 0.1
	done
	paths() { [ "$(jq -c 'select(.kind == "path" and .complete) | [.nodes[].node_id]' "$temporary/paths.jsonl" | grep -cxF '[1,2,3]')" -ge 10 ]; }
	wait_for 10 paths || bad "the collector did not join the Direct Exports of 10 packets: $(tail -2 "$temporary/paths.jsonl")" || return 1
	echo "nics:   Direct Exports of 10 packets by all three nodes are complete paths"
	losses
}

# results FILTER prints a line for each result of the flow's blocks since $since in which packets were sent.
results() {
	ip netns exec "$left" bin/waymark loss --verbose --last 10m --json 2>/dev/null |
		jq -rs --arg since "$since" "map(select(.kind == \"loss\" and .start > \$since and (.sent // 0) != 0)) | $1"
}

losses() {
	local since lost found
	since=$(date -u +%Y-%m-%dT%H:%M:%S -d '-15 minutes')
	# A block that all nodes counted from its begin, with nothing sent.
	idle() { ip netns exec "$left" bin/waymark loss --verbose --last 1m --json | jq -es 'map(select(.kind == "loss" and .scope == "whole" and .verdict == "idle")) != []'; }
	wait_for 10 idle || bad "no block of the flow is known: $(ip netns exec "$left" bin/waymark loss --verbose --wide 2>&1 | tail -4)" || return 1
	ip netns exec "$left" python3 -c 'import socket, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for i in range(400): s.sendto(bytes(200), ("2001:db8:c::2", 9002)); time.sleep(0.05)'
	all() { [ "$(results 'map(select(.scope == "whole").sent) | add // 0')" -eq 400 ]; }
	wait_for 10 all || bad "the agents did not count the 400 packets: $(results . | tail -3)" || return 1
	lost=$(ip netns exec "$middle" nft -j list counters | jq '[.nftables[].counter.packets // empty] | add')
	found=$(results 'map(select(.scope == "segment")) | group_by(.from_node) | map("\(.[0].from_node)>\(.[0].to_node) \(map(.lost) | add) \(map(.verdict) | unique | join(","))") | join("; ")')
	[ "$lost" -eq 20 ] && [ "$found" = "left>router 0 measured; router>right $lost measured" ] ||
		bad "the cable lost $lost packets, and the agents found: $found" || return 1
	echo "nics:   of an SRv6 flow of 400 packets, $lost were lost on the cable: $found"
}

# spread sends from many ports, for which the emulator chooses several queues of the card that they arrive at.
spread() {
	ip netns exec "$1" python3 -c 'import socket, sys, time
for _ in range(32):
	socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"spread", (sys.argv[1], 9003))
	time.sleep(0.02)' "$2"
}

# card NAME ATTACH QUEUES MTU DEVICE tests a machine with two such cards.
card() {
	local name=$1 attach=$2 queues=$3 mtu=$4 device=$5 end number log status cards=()
	echo "$name" | grep -Eq "${NICS_RUN:-.}" || return 0
	log=$work/$machine-$name.log
	network "$queues"
	tell_time
	configurations "$attach"
	echo "$mtu" >"$work/$machine/etc/mtu"
	make_initramfs "$machine" "$architecture" "$release" scripts/kernels/router.sh "$work/bin-router-$architecture"
	for number in 0 1; do
		end=queues=$queues
		[ "$queues" -gt 1 ] || end=''
		cards+=(-netdev "tap,id=n$number,ifname=tap$number,script=no,downscript=no${end:+,$end}" -device "$device,netdev=n$number,mac=52:54:00:00:00:0$number")
	done
	echo "nics: $machine with $device, $attach, an MTU of $mtu; the console is in $log"
	# A busy host lets the machine stand still for half a minute, which is no lockup.
	: >"$log.raw" # tail may come before the emulator
	ip netns exec "$middle" timeout --kill-after=10 7200 "${emulator[@]}" -nic none "${cards[@]}" \
		-kernel "$work/$machine/boot/vmlinuz-$release" -initrd "$work/$machine/initramfs" \
		-append "console=$console quiet loglevel=4 panic=-1 watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 net.ifnames=0 rdinit=/init" </dev/null >>"$log.raw" 2>&1 &
	local pid=$!
	pids+=("$pid") # it ends with the script
	tail -f --pid=$pid "$log.raw" 2>/dev/null | sed -u 's/\r//g' >"$log" &
	status=0
	measure || status=1
	spread "$left" 2001:db8:b::2
	spread "$right" 2001:db8:a::2
	ip -n "$right" addr del 2001:db8:2::99/64 dev eth0
	wait_for 30 grep -q '^nics: the end' "$log" || status=1
	kill $pid 2>/dev/null || true
	grep -oE 'nics: (eth|FAIL|complaint|cannot).*' "$log" || true
	! grep -qE '^nics: (FAIL|complaint|cannot)' "$log" || status=1
	# The kernel has it on when a card appears. Off, the cards' segments would not be joined, and order not at risk.
	[ "$(grep -cE '^nics: eth[01] (begins|ends) with receive offload \(GRO\) on' "$log")" -eq 4 ] ||
		bad "not both cards had receive offload on from the beginning to the end" || status=1
	# With two CPUs, a card has two pairs of queues, and two more where XDP sends.
	[ "$queues" -eq 1 ] || [ "$(grep -cE '^nics: eth[01] got packets from [2-4] queues' "$log")" -eq 2 ] ||
		bad "not both cards got packets from more than one queue" || status=1
	# What arrived and was not left to the stack. In tc, status has no number of its own for it.
	local served
	served=$(sed -n 's/^nics: status //p' "$log" | jq -c '[.interfaces[] | {name, hook: .ingress_hook, fast: ((.ingress | add) - (.to_stack | add // 0))}]' 2>/dev/null || true)
	echo "nics:   $served"
	jq -e --arg hook "$attach" 'length == 2 and all(.hook == $hook and .fast > 0)' <<<"$served" >/dev/null || bad "not both cards forwarded in $attach" || status=1
	stop
	return $status
}

machines=("$@")
[ ${#machines[@]} -gt 0 ] || machines=(6.12)
need jq=jq ip=iproute2 ping=iputils-ping python3=python3 nft=nftables
install_tools
programs
failed=()
for machine in "${machines[@]}"; do
	choose_machine "$machine"
	emulator+=(-smp 2) # virtio-net has a queue for each CPU, and one more to transmit from XDP
	fetch_programs "$architecture"
	release=$(unpack "$series" "$architecture" "$machine")
	build_programs "$architecture" "$work/bin-router-$architecture" ./cmd/waymark
	mkdir -p "$work/$machine/etc"
	modules=(sch_ingress cls_bpf virtio_net vmxnet3)
	card virtio xdp 4 1700 virtio-net-pci,mq=on,vectors=10,mrg_rxbuf=on || failed+=("$machine virtio")
	card jumbo clsact 4 9000 virtio-net-pci,mq=on,vectors=10,mrg_rxbuf=on || failed+=("$machine jumbo")
	modules=(sch_ingress cls_bpf vmxnet3)
	card vmxnet3 clsact 1 1700 vmxnet3 || failed+=("$machine vmxnet3")
done
[ ${#failed[@]} -eq 0 ] || { echo "nics: failed: ${failed[*]}" >&2; exit 1; }
