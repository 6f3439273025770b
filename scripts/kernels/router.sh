#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first process of an emulated router with two network cards (scripts/nics.sh): it forwards between
# them, and runs an agent, until the other side says that the test is over.
export PATH=/bin:/sbin HOME=/root TMPDIR=/tmp
# busybox runs its own applet for a bare ip.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
while read -r module; do
	insmod "/modules/$module" || echo "nics: cannot load $module"
done </modules/order
/bin/ip link set lo up
# on or off, perhaps with [fixed] after it
receive_offload() { ethtool -k "$1" | sed -n 's/^generic-receive-offload: //p'; }
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
for card in eth0 eth1; do
	echo 0 >/proc/sys/net/ipv6/conf/$card/accept_dad
	/bin/ip link set "$card" mtu "$(cat /etc/mtu)" up || echo "nics: FAIL no $card"
	echo "nics: $card is $(ethtool -i $card | sed -n 's/^driver: //p'), $(ls -d /sys/class/net/$card/queues/rx-* | wc -l) queues"
	echo "nics: $card begins with receive offload (GRO) $(receive_offload $card)"
done
/bin/ip addr add 2001:db8:1::1/64 dev eth0 nodad
/bin/ip addr add 2001:db8:2::1/64 dev eth1 nodad
/bin/ip -6 route add 2001:db8:a::/64 via 2001:db8:1::2
/bin/ip -6 route add 2001:db8:b::/64 via 2001:db8:2::2
/bin/ip -6 route add fc00:3::/48 via 2001:db8:2::2
for _ in $(seq 60); do
	now=$(nc 2001:db8:1::2 9013 </dev/null) && [ -n "$now" ] && break
	sleep 1
done
date -s "@$now" >/dev/null || echo "nics: FAIL no time"
waymark agent run --config /etc/router.yaml >/tmp/log 2>&1 &
agent=$!
for _ in $(seq 600); do
	waymark status >/dev/null 2>&1 && break
	kill -0 $agent 2>/dev/null || break
	sleep 1
done
waymark status >/dev/null 2>&1 && echo "nics: the router serves" || { echo "nics: FAIL the agent does not serve"; tail -3 /tmp/log; }
# The other side stops answering at this address when it has seen enough.
while ping -6 -c 1 -W 5 2001:db8:2::99 >/dev/null 2>&1; do sleep 1; done
for card in eth0 eth1; do
	# Interrupts of virtio-net's receive queues: ethtool -S of 6.12 no longer counts packets by queue.
	device=$(basename "$(readlink -f /sys/class/net/$card/device)")
	echo "nics: $card got packets from $(awk -v queue="^$device-input" '$NF ~ queue { n = 0; for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i; if (n > 0) used++ }
		END { print used + 0 }' /proc/interrupts) queues: $(grep "$device-input" /proc/interrupts | tr -s ' ' | tr '\n' ';')"
	echo "nics: $card ends with receive offload (GRO) $(receive_offload $card)"
done
echo "nics: status $(waymark status --json | tr -d '\n')"
waymark doctor | sed 's/^/nics: doctor /'
dmesg | grep -E 'WARNING:|BUG:|Oops|Call Trace|soft lockup|hard LOCKUP|rcu.*detected.*stall' | sed 's/^/nics: complaint /'
echo "nics: the end"
poweroff -f
