# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Debian's cloud kernels in emulated machines: what scripts/kernels.sh and scripts/nics.sh share. It is
# sourced in the root of the sources, by scripts that set $machines, whose names are as 6.1 or 6.1-arm64.

work=$PWD/build/kernels

fail() {
	echo "kernels: $*" >&2
	exit 1
}

install_tools() {
	local tool missing=()
	declare -A package=(
		[qemu-system-x86_64]=qemu-system-x86 [cpio]=cpio [depmod]=kmod [xz]=xz-utils [busybox]=busybox-static
	)
	[[ " ${machines[*]} " != *-arm64* ]] || package[qemu-system-aarch64]=qemu-system-arm
	for tool in "${!package[@]}"; do
		command -v "$tool" >/dev/null || missing+=("${package[$tool]}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "kernels: installing ${missing[*]}"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		fail "could not install ${missing[*]}; run apt-get update, then this again"
}

# debian ARCHITECTURE COMMAND ARGUMENT... is apt with the sources of this machine, for another
# architecture, as if nothing was installed. Its lists are its own.
debian() {
	local architecture=$1 command=$2 state
	shift 2
	state=$work/apt-$architecture
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	touch "$state/status"
	"$command" -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State="$state" \
		-o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root "$@"
}

# fetch_programs ARCHITECTURE unpacks what the machines need besides ours, and asks for new lists of apt, once a day.
fetch_programs() {
	local root=$work/programs-$1 state=$work/apt-$1 package
	[ -z "$(find "$root/complete" -mtime -1 2>/dev/null)" ] || [ ! -e "$root/usr/sbin/xdp-loader" ] || return 0
	debian "$1" apt-get update >/dev/null 2>&1 || fail "apt-get update failed for $1"
	debian "$1" apt-get install -y --download-only --no-install-recommends busybox-static iproute2 ethtool xdp-tools >/dev/null ||
		fail "could not download the programs for $1"
	rm -rf "$root"
	mkdir -p "$root"
	for package in "$state"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
	touch "$root/complete"
}

# unpack SERIES ARCHITECTURE MACHINE fetches the newest cloud kernel of a series into
# $work/MACHINE, and prints its release.
unpack() {
	local series=$1 architecture=$2 root=$work/$3 meta image release
	for meta in "linux-image-$series-cloud-$architecture" "linux-image-cloud-$architecture"; do
		image=$({ debian "$architecture" apt-cache depends "$meta" 2>/dev/null || true; } | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
		[[ $image == "linux-image-$series".* ]] && break
		image=
	done
	[ -n "$image" ] || fail "apt knows no cloud kernel $series; choose one of: apt-cache search linux-image-.*cloud-$architecture"
	release=${image#linux-image-}
	if [ ! -e "$root/lib/modules/$release/modules.dep" ]; then
		rm -rf "$root"
		mkdir -p "$root"
		(cd "$root" && debian "$architecture" apt-get download "$image" >&2) || fail "could not download $image"
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

# build_programs ARCHITECTURE DIRECTORY PACKAGE...
build_programs() {
	local architecture=$1 directory=$2
	shift 2
	mkdir -p "$directory"
	CGO_ENABLED=0 GOARCH=$architecture go build -trimpath -ldflags "-s -w" -o "$directory/" "$@"
}

# build_collector ARCHITECTURE DIRECTORY: it links C++, and is built for this machine's architecture only.
build_collector() {
	[ "$1" = "$(dpkg --print-architecture)" ] || return 0
	CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo -ldflags '-s -w -extldflags "-static -Wl,--no-warnings"' -o "$2/" ./collector/cmd/waymark-collector
}

# build_tests ARCHITECTURE INIT STEPS builds the tests that the script INIT runs in steps whose name matches STEPS.
build_tests() {
	local target=$work/bin-$1 program package
	export CGO_ENABLED=0 GOARCH=$1
	rm -f "$target"/*.test # they make the image larger
	STEPS=$3 awk '$1 == "tests" && $2 ~ ENVIRON["STEPS"] { print $4 }' "$2" | sort -u | while read -r program; do
		package=${program%.test}
		case $package in
		e2e-*) package=./test/e2e/${package#e2e-} ;;
		*) package=./internal/$package ;;
		esac
		go test -c -trimpath -ldflags '-s -w' -o "$target/$program" "$package" </dev/null
	done
}

# make_initramfs MACHINE ARCHITECTURE RELEASE INIT PROGRAMS writes $work/MACHINE/initramfs, whose first process
# is the script INIT, and which has the files in the directory PROGRAMS, $work/MACHINE/etc/ and $modules.
make_initramfs() {
	local machine=$1 architecture=$2 release=$3 init=$4 ours=$5 target=$work/$1/initramfs.d programs=$work/programs-$2 library program
	rm -rf "$target"
	mkdir -p "$target"/{bin,proc,sys,dev,tmp,run,root,etc}
	cp "$programs/bin/busybox" "$target/bin/busybox"
	busybox --list | grep -vx busybox | while read -r applet; do ln -s busybox "$target/bin/$applet"; done
	# busybox has applets with these names
	for program in bin/ip sbin/tc sbin/ethtool sbin/xdp-loader; do
		[ -e "$programs/$program" ] || program=usr/$program
		rm -f "$target/bin/$(basename "$program")"
		cp -L "$programs/$program" "$target/bin/"
	done
	# The libraries of programs of another architecture cannot be asked for: all that come with them.
	find "$programs"/lib* "$programs"/usr/lib* -maxdepth 2 -name '*.so*' | while read -r library; do
		mkdir -p "$target/$(dirname "${library#"$programs/"}")"
		cp -L "$library" "$target/${library#"$programs/"}"
	done
	# What libxdp loads.
	find "$programs"/usr/lib/*/bpf -name '*.o' | while read -r library; do
		mkdir -p "$target/$(dirname "${library#"$programs/"}")"
		cp "$library" "$target/${library#"$programs/"}"
	done
	cp "$ours"/* "$target/bin/"
	add_modules "$work/$machine" "$release" "$target"
	cp -r "$work/$machine/etc" "$target/"
	install -m 755 "$init" "$target/init"
	(cd "$target" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/$machine/initramfs"
}

# choose_machine MACHINE sets series, architecture, emulator and console. The machine has one emulated CPU.
# The one of arm64 is a real one, which is cheaper to emulate than all that there is.
choose_machine() {
	series=${1%-arm64} architecture=amd64
	emulator=(qemu-system-x86_64 -machine q35,accel=tcg -cpu max) console=ttyS0
	if [ "$1" != "$series" ]; then
		architecture=arm64 emulator=(qemu-system-aarch64 -machine virt,accel=tcg,gic-version=3 -cpu neoverse-n1) console=ttyAMA0
	fi
	emulator+=(-smp 1 -m 2048 -no-reboot -nographic)
}

# watch LOG writes the machine's console to LOG, and prints what steps come to when they do.
watch() {
	# The firmware writes escape sequences before the first line.
	sed -u -e 's/\r//g' -e 's/^.*\(kernels: booted\)/\1/' | tee "$1" |
		{ grep --line-buffered -E '^kernels: (booted|.* (PASS|FAIL)|.* left out: |complaint|cannot load)|^ *--- (FAIL|SKIP)' || true; }
}

# judge LOG says by its status whether all steps passed; the log is the output of the machine's console.
judge() {
	local log=$1 status=0
	grep -q '^kernels: all steps reached' "$log" || {
		echo "kernels: the machine ended early; see $log"
		status=1
	}
	grep -q '^kernels: .* PASS' "$log" || status=1
	! grep -Eq '^kernels: (.* FAIL|complaint|cannot load)' "$log" || status=1
	return $status
}
