#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first process of an emulated machine (scripts/kernels.sh). It prints the name, time and
# result of each step; its last line says that all steps were reached.
export PATH=/bin:/sbin HOME=/root TMPDIR=/tmp WAYMARK_PROGRAM=/bin/waymark
. /etc/steps # WAYMARK_PATIENCE, WAYMARK_AGREEMENT_PACKETS, only
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
while read -r module; do
	insmod "/modules/$module" || echo "kernels: cannot load $module"
done </modules/order
ip link set lo up
cd /tmp || exit

step() {
	name=$1 limit=$2
	shift 2
	echo "$name" | grep -Eq "$only" || return
	case $name in exports | collect)
		command -v waymark-collector >/dev/null || {
			echo "kernels: $name left out: waymark-collector is not built for this architecture"
			return
		}
		;;
	esac
	begun=$(cut -d. -f1 /proc/uptime)
	echo "kernels: $name begins"
	timeout "$limit" "$@" 2>&1
	status=$?
	took=$(($(cut -d. -f1 /proc/uptime) - begun))
	case $status in
	0) echo "kernels: $name PASS (${took}s)" ;;
	143) echo "kernels: $name FAIL (ended after ${took}s)" ;;
	*) echo "kernels: $name FAIL (status $status, ${took}s)" ;;
	esac
}

echo "kernels: booted $(uname -r) $(uname -m), $(nproc) CPU"
# The limits only stop a step that hangs: emulation on a busy machine is slow.
step doctor 600 waymark doctor
tests() {
	name=$1 limit=$2 program=$3
	shift 3
	step "$name" "$limit" "$program" -test.v -test.timeout 0 "$@"
}
step load 3600 waymark-bench instructions /tmp/instructions
tests probes 600 health.test -test.run 'TestProbes|TestReadClock'
tests attach 1800 datapath.test -test.run 'TestMode|TestAuto|TestFailedApply|TestInterfaceGone|Left|TestNamespaceGone|TestTap'
tests mutations 1800 datapath.test -test.run 'TestIngressMutations|TestTransparency|TestOutcomes'
step demo 1800 waymark lab demo
tests kernel 1800 e2e-kernel.test -test.run TestKernelTransit
tests transfers 3600 e2e-trace.test -test.short -test.run 'TestDomain/.*/transfer|TestTransfer|TestEqualPaths'
tests masters 3600 e2e-trace.test -test.run 'TestDomain/encap/bridge|TestArrivalBy'
tests pathmtu 3600 e2e-tunnel.test -test.run TestTunnelPathMTU
tests paths 3600 e2e-tunnel.test -test.short -test.run TestNarrowPath
tests account 1800 datapath.test -test.run TestAccountOfOwnPackets
tests agents 3600 e2e-agent.test -test.run 'TestAgent|TestRuntime'
tests neighbours 1800 e2e-edge.test -test.run Dispatcher
tests exports 3600 e2e-directexport.test -test.run TestDirectExport
tests collect 3600 e2e-collect.test -test.run 'TestCollectPaths|TestCollectTraces' -test.skip '/tshark$' # which is not there
tests fast 3600 e2e-forward.test -test.run 'TestForwardFast|TestForwardSameBytes|TestForwardLeavesToStack'
tests segments 3600 e2e-forward.test -test.run 'TestForwardTables|TestForwardSegmentsWithIOAM'
tests forwarding 3600 datapath.test -test.run 'TestForwardingAgreement|TestForwardHeld'
tests agreement 3600 datapath.test -test.run TestAgreement
echo "kernels: kernel's complaints:"
dmesg | grep -E 'WARNING:|BUG:|Oops|Call Trace|soft lockup|hard LOCKUP|rcu.*detected.*stall' | sed 's/^/kernels: complaint /'
echo "kernels: all steps reached"
poweroff -f
