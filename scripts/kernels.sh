#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: kernels.sh [6.1] [6.12] [6.1-arm64] [6.12-arm64]
#
# Boots Debian's own cloud kernels in emulated machines, one after the other, and
# runs the tests that depend on the kernel: the datapath's tests, the probes,
# doctor, the demonstration, and whole topologies (scripts/kernels/init.sh). Without
# arguments: both kernels for amd64. It installs nothing over the running system.
# Needs a Debian machine, root for apt-get, and Go, but no KVM. See docs/kernels.md.
#
# WAYMARK_AGREEMENT_PACKETS  number of random packets of the agreement test;
#                            without it, always the same 50000
# WAYMARK_PATIENCE           factor by which the tests wait longer (10)
# KERNELS_TIMEOUT            seconds until a machine is stopped (10800)
# KERNELS_RUN                only steps whose name matches this pattern (all)
# KERNELS_LABEL              added to the log's name, for several runs of one kernel at once
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. scripts/kernels/machine.sh

packets=${WAYMARK_AGREEMENT_PACKETS:-}
patience=${WAYMARK_PATIENCE:-10}
timeout=${KERNELS_TIMEOUT:-10800}
only=${KERNELS_RUN:-.}
version=$(git describe --always --dirty)
# Modules that the tests need; the emulated machine has no others.
modules=(veth sch_ingress cls_bpf sch_tbf bridge vrf tun)

# boot MACHINE
boot() {
	local machine=$1 series architecture emulator console release log
	choose_machine "$machine"
	fetch_programs "$architecture"
	release=$(unpack "$series" "$architecture" "$machine")
	log=$work/$machine${KERNELS_LABEL:+-$KERNELS_LABEL}.log
	build_programs "$architecture" "$work/bin-$architecture" ./cmd/... ./bench/cmd/...
	build_collector "$architecture" "$work/bin-$architecture"
	build_tests "$architecture" scripts/kernels/init.sh "$only"
	mkdir -p "$work/$machine/etc"
	printf 'export WAYMARK_PATIENCE=%q WAYMARK_AGREEMENT_PACKETS=%q\nonly=%q\n' "$patience" "$packets" "$only" >"$work/$machine/etc/steps"
	make_initramfs "$machine" "$architecture" "$release" scripts/kernels/init.sh "$work/bin-$architecture"
	echo "kernels: booting $release; the console is in $log"
	# A panic ends the machine. While the host is busy, it stands still for half a minute, which is no lockup.
	timeout --kill-after=10 "$timeout" "${emulator[@]}" -nic none \
		-kernel "$work/$machine/boot/vmlinuz-$release" -initrd "$work/$machine/initramfs" \
		-append "console=$console quiet loglevel=4 panic=-1 watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 rdinit=/init" </dev/null 2>&1 |
		watch "$log" || true
	sed -n "s/^kernels: \(.* \(PASS\|FAIL\).*\)/$(date -u +%FT%TZ) $version $machine \1/p" "$log" >>"$work/results.txt"
	judge "$log"
}

command -v dpkg-deb >/dev/null || fail "needs a Debian machine: the kernels come from its packages"
export PATH=$PATH:/sbin:/usr/sbin GOFLAGS="${GOFLAGS:-} -buildvcs=false"
machines=("$@")
[ ${#machines[@]} -gt 0 ] || machines=(6.1 6.12)
install_tools
failed=()
for one in "${machines[@]}"; do
	# Not "boot || ...": that would switch errexit off inside.
	set +e
	(set -e && boot "$one")
	status=$?
	set -e
	[ $status -eq 0 ] || failed+=("$one")
done
if [ ${#failed[@]} -gt 0 ]; then
	echo "kernels: failed on: ${failed[*]}" >&2
	exit 1
fi
