#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: kernels.sh [6.1] [6.12]
#
# Boots Debian's own cloud kernels in an emulated machine, one after the other,
# and runs the tests that depend on the kernel: the datapath's tests, the probes,
# doctor, the demonstration, and whole topologies. It installs nothing over the
# running system. Needs a Debian machine (amd64), root for apt-get, and Go, but no
# KVM. See docs/kernels.md.
#
# WAYMARK_AGREEMENT_PACKETS  number of random packets of the agreement test;
#                            without it, always the same 50000
# WAYMARK_PATIENCE           factor by which the tests wait longer (10)
# KERNELS_TIMEOUT            seconds until a machine is stopped (10800)
# KERNELS_RUN                only steps whose name matches this pattern (all)
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

packets=${WAYMARK_AGREEMENT_PACKETS:-}
patience=${WAYMARK_PATIENCE:-10}
timeout=${KERNELS_TIMEOUT:-10800}
only=${KERNELS_RUN:-.}
work=build/kernels
# Modules that the tests need; the emulated machine has no others.
modules=(veth sch_ingress cls_bpf sch_tbf bridge vrf tun)

fail() {
	echo "kernels: $*" >&2
	exit 1
}

install_tools() {
	local tool missing=()
	declare -A package=(
		[qemu-system-x86_64]=qemu-system-x86 [busybox]=busybox-static
		[cpio]=cpio [depmod]=kmod [xz]=xz-utils [ip]=iproute2 [ethtool]=ethtool
	)
	for tool in "${!package[@]}"; do
		PATH=$PATH:/sbin:/usr/sbin command -v "$tool" >/dev/null || missing+=("${package[$tool]}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "kernels: installing ${missing[*]}"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		fail "could not install ${missing[*]}; run apt-get update, then this again"
}

# unpack SERIES fetches the newest cloud kernel of a series into $work/SERIES
# and prints its release.
unpack() {
	local series=$1 meta image
	for meta in "linux-image-$series-cloud-amd64" linux-image-cloud-amd64; do
		image=$({ apt-cache depends "$meta" 2>/dev/null || true; } | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
		[[ $image == "linux-image-$series".* ]] && break
		image=
	done
	[ -n "$image" ] || fail "apt knows no cloud kernel $series; run apt-get update, or choose one of: apt-cache search linux-image-.*cloud-amd64"
	local release=${image#linux-image-} root=$work/$series
	if [ ! -e "$root/lib/modules/$release/modules.dep" ]; then
		rm -rf "$root"
		mkdir -p "$root"
		(cd "$root" && apt-get -q -o APT::Sandbox::User=root download "$image" >&2) || fail "could not download $image"
		dpkg-deb -x "$root"/*.deb "$root"
		rm "$root"/*.deb
		depmod -b "$root" "$release"
	fi
	echo "$release"
}

# add_modules ROOT RELEASE INITRAMFS copies the modules, in the order of loading.
add_modules() {
	local root=$1 release=$2 target=$3 module path name
	mkdir -p "$target/modules"
	for module in "${modules[@]}"; do
		modprobe -d "$root" -S "$release" --show-depends "$module" | sed -n 's/^insmod //p'
	done | awk '!seen[$1]++ { print $1 }' >"$target/modules/paths"
	while read -r path; do
		name=$(basename "${path%.xz}")
		case $path in
		*.xz) xz -dc "$path" >"$target/modules/$name" ;;
		*) cp "$path" "$target/modules/$name" ;;
		esac
		echo "$name" >>"$target/modules/order"
	done <"$target/modules/paths"
}

build_programs() {
	local target=$1 package
	export CGO_ENABLED=0 GOARCH=amd64 GOFLAGS="${GOFLAGS:-} -buildvcs=false"
	mkdir -p "$target"
	go build -trimpath -o "$target/" ./cmd/...
	for package in datapath health; do
		go test -c -trimpath -ldflags '-s -w' -o "$target/$package.test" "./internal/$package"
	done
	for package in test/e2e/*/; do
		package=$(basename "$package")
		go test -c -trimpath -ldflags '-s -w' -o "$target/e2e-$package.test" "./test/e2e/$package"
	done
}

# The machine's first process. It prints the name, time and result of each step;
# its last line says that all steps were reached.
write_init() {
	cat <<INIT
#!/bin/sh
export PATH=/bin HOME=/root TMPDIR=/tmp
export WAYMARK_AGREEMENT_PACKETS=$packets WAYMARK_PATIENCE=$patience WAYMARK_PROGRAM=/bin/waymark
only='$only'
INIT
	cat <<'INIT'
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
cd /tmp

step() {
	name=$1 limit=$2
	shift 2
	echo "$name" | grep -Eq "$only" || return
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

echo "kernels: booted $(uname -r), $(nproc) CPU"
# The limits only stop a step that hangs: emulation on a busy machine is slow.
step doctor 300 waymark doctor
tests() {
	name=$1 limit=$2 program=$3
	shift 3
	step "$name" "$limit" "$program" -test.v -test.timeout 0 "$@"
}
tests probes 300 health.test -test.run 'TestProbes|TestReadClock'
tests attach 1800 datapath.test -test.run 'TestMode|TestAuto|TestFailedApply|TestInterfaceGone|Left|TestNamespaceGone|TestTap'
tests mutations 1800 datapath.test -test.run 'TestIngressMutations|TestTransparency|TestOutcomes'
step demo 1800 waymark lab demo
tests kernel 1800 e2e-kernel.test -test.run TestKernelTransit
tests transfers 3600 e2e-trace.test -test.short -test.run 'TestTransfer|TestEqualPaths'
tests masters 3600 e2e-trace.test -test.run TestArrivalBy
tests pathmtu 3600 e2e-tunnel.test -test.run TestTunnelPathMTU
tests paths 3600 e2e-tunnel.test -test.short -test.run TestNarrowPath
tests account 1800 datapath.test -test.run TestAccountOfOwnPackets
tests agents 3600 e2e-agent.test -test.run 'TestAgent|TestRuntime'
tests exports 3600 e2e-directexport.test -test.run TestDirectExport
tests collect 3600 e2e-collect.test -test.run 'TestCollectPaths|TestCollectTraces'
tests fast 3600 e2e-forward.test -test.run 'TestForwardFast|TestForwardSameBytes|TestForwardLeavesToStack'
tests segments 3600 e2e-forward.test -test.run 'TestForwardTables|TestForwardSegmentsWithIOAM'
tests forwarding 3600 datapath.test -test.run 'TestForwardingAgreement|TestForwardHeld'
tests agreement 3600 datapath.test -test.run TestAgreement
echo "kernels: kernel's complaints:"
dmesg | grep -E 'WARNING:|BUG:|Oops|Call Trace|lockup|rcu.*stall' | sed 's/^/kernels: complaint /'
echo "kernels: all steps reached"
poweroff -f
INIT
}

# add_program PATH INITRAMFS copies a program with the libraries that it loads.
add_program() {
	local target=$2 library
	# busybox has an applet with this name
	rm -f "$target/bin/$(basename "$1")"
	cp -L "$1" "$target/bin/"
	ldd "$1" | grep -o '/[^ ]*' | while read -r library; do
		mkdir -p "$target$(dirname "$library")"
		cp -L "$library" "$target$library"
	done
}

# make_initramfs SERIES RELEASE writes $work/SERIES/initramfs.
make_initramfs() {
	local series=$1 release=$2 target=$work/$1/initramfs.d
	rm -rf "$target"
	mkdir -p "$target"/{bin,proc,sys,dev,tmp,run,root,etc}
	cp "$(command -v busybox)" "$target/bin/busybox"
	"$target/bin/busybox" --list | grep -vx busybox | while read -r applet; do ln -s busybox "$target/bin/$applet"; done
	add_program "$(command -v ip)" "$target"
	add_program "$(command -v ethtool)" "$target"
	cp "$work"/bin/* "$target/bin/"
	add_modules "$work/$series" "$release" "$target"
	write_init >"$target/init"
	chmod +x "$target/init"
	(cd "$target" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/$series/initramfs"
}

# judge LOG prints what failed; the log is the output of the machine's console.
judge() {
	local log=$1 status=0
	grep -q '^kernels: all steps reached' "$log" || {
		echo "kernels: the machine ended early; see $log"
		status=1
	}
	grep -q '^kernels: .* PASS' "$log" || status=1
	! grep -Eq '^kernels: (.* FAIL|complaint|cannot load)' "$log" || status=1
	# The firmware writes escape sequences before the first line.
	sed 's/^.*\(kernels: booted\)/\1/' "$log" |
		grep -E '^kernels: (booted|.* (PASS|FAIL)|complaint|cannot load)|^ *--- (FAIL|SKIP)' || true
	return $status
}

boot() {
	local series=$1 release log
	release=$(unpack "$series")
	log=$work/$series.log
	make_initramfs "$series" "$release"
	echo "kernels: booting $release; the console is in $log"
	# One emulated CPU, and a panic ends the machine.
	timeout --kill-after=10 "$timeout" qemu-system-x86_64 \
		-machine q35,accel=tcg -cpu max -smp 1 -m 1024 -nic none -no-reboot -nographic \
		-kernel "$work/$series/boot/vmlinuz-$release" -initrd "$work/$series/initramfs" \
		-append "console=ttyS0 quiet loglevel=4 panic=-1 rdinit=/init" </dev/null 2>&1 |
		sed -u 's/\r//g' >"$log" || true
	judge "$log"
}

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail "needs a Debian machine (amd64): the kernels come from its packages"
export PATH=$PATH:/sbin:/usr/sbin
install_tools
build_programs "$work/bin"
series=("$@")
[ ${#series[@]} -gt 0 ] || series=(6.1 6.12)
failed=()
for one in "${series[@]}"; do
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
