#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: setup.sh demo|bench|test
#
# Makes a Debian 12 machine ready for one of the make targets: checks for root
# and Go, and installs missing packages. For the benchmarks it also builds goflow2,
# another collector, into bin/. For the tests it also builds stamp-suite,
# an independent implementation of STAMP, which needs Rust, unpacks Prometheus, gets
# from npm what drives a browser, and downloads Go modules, all at the same time.
# Quick when nothing is missing.
set -euo pipefail

fail() {
	echo "setup: $*" >&2
	exit 1
}

target=${1:-}
case $target in
demo | bench)
	# gcc and g++ link the collector's database.
	packages=(iproute2 ethtool gcc g++ libc6-dev)
	;;
test)
	# gcc, g++ and libc6-dev are for the collector's database and the race detector, linux-libc-dev for the
	# kernel's header files that BPF programs include, chromium for the console.
	packages=(
		iproute2 ethtool iputils-ping tshark nfdump softflowd xdp-tools python3-scapy openssl ca-certificates git
		clang-19 llvm-19 clang-format-19 libbpf-dev linux-libc-dev gcc g++ libc6-dev
		chromium
	)
	# Node may have come from elsewhere.
	command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm)
	;;
*)
	fail "unknown target '$target'; use demo, bench or test"
	;;
esac

if [ "$(id -u)" -ne 0 ]; then
	fail "make $target needs root: it creates network namespaces and loads BPF programs; run: sudo env \"PATH=\$PATH\" make $target"
fi

if ! command -v go >/dev/null; then
	fail "Go is not on the PATH; install Go 1.26 or newer from https://go.dev/dl/, then run make $target again"
fi
# An older Go downloads the toolchain that go.mod names, unless GOTOOLCHAIN forbids it.
if ! reason=$(cd "$(dirname "$0")/.." && go version 2>&1); then
	fail "this Go cannot build Waymark (${reason}); install Go 1.26 or newer from https://go.dev/dl/"
fi

# The tests find the program here (test/e2e/stamp); a new version is a new directory.
stamp_suite_version=1.0.0
stamp_suite=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/waymark/stamp-suite-$stamp_suite_version

# A debug build takes about a minute, half of an optimized one. Nobody debugs it.
install_stamp_suite() {
	[ -x "$stamp_suite/bin/stamp-suite" ] && return
	# Debian 12's own cargo is too old.
	if ! command -v cargo >/dev/null; then
		fail "cargo is not on the PATH; install Rust 1.86 or newer from https://rustup.rs, then run make $target again"
	fi
	echo "setup: building stamp-suite $stamp_suite_version" >&2
	mkdir -p "$stamp_suite"
	if ! CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --version "$stamp_suite_version" --root "$stamp_suite" \
		stamp-suite >"$stamp_suite/log" 2>&1; then
		cat "$stamp_suite/log" >&2
		fail "could not build stamp-suite $stamp_suite_version; check the network, and that 'cargo --version' is 1.86 or newer, then run make $target again"
	fi
}

# What the console's tests run: its unit tests, and the driver of a browser. npm runs nothing of it.
install_from_npm() {
	local folder log
	for folder in collector/console collector/internal/browsertest; do
		[ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ] && continue
		echo "setup: getting what $folder/package-lock.json names" >&2
		log=$(npm ci --ignore-scripts --no-audit --no-fund --prefix "$folder" 2>&1) || fail "npm ci in $folder: $log"
		touch "$folder/node_modules/.package-lock.json"
	done
}

# The benchmark collector compares with it, and says so if it is not there.
install_goflow2() {
	local version log
	version=$(awk '$1 == "github.com/netsampler/goflow2/v2" { print $2 }' go.mod)
	if [ -x bin/goflow2 ] && go version -m bin/goflow2 | grep -qP "^\tmod\tgithub.com/netsampler/goflow2/v2\t$version\t"; then
		return
	fi
	echo "setup: building goflow2 $version" >&2
	if ! log=$(GOBIN=$PWD/bin GOFLAGS='' go install "github.com/netsampler/goflow2/v2/cmd/goflow2@$version" 2>&1); then
		printf 'setup: goflow2 %s cannot be built, so that the benchmark collector has nothing to compare with:\n%s\n' "$version" "$log" >&2
	fi
}

# Without them the checks download the modules, and say so if they cannot.
download_modules() {
	CGO_ENABLED=1 go list -e -deps -test work tool >/dev/null 2>&1 || true
}

installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_packages() {
	local missing=() package log
	if ! command -v dpkg-query >/dev/null; then
		echo "setup: not a Debian system; make sure that these are installed: ${packages[*]}" >&2
		return
	fi
	for package in "${packages[@]}"; do
		installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0

	echo "setup: installing ${missing[*]}" >&2
	# Noninteractive also answers tshark's question about capturing: root only.
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	apt() { apt-get -y -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1; }
	if ! apt install --no-install-recommends "${missing[@]}"; then
		# The package lists are absent or too old.
		: >"$log"
		if ! apt update || ! apt install --no-install-recommends "${missing[@]}"; then
			cat "$log" >&2
			rm -f "$log"
			fail "could not install ${missing[*]}; check the network and the package sources, then run make $target again"
		fi
	fi
	rm -f "$log"
}

# The tests find its programs here (internal/prometheustest).
prometheus=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/waymark/prometheus

# Prometheus tests the rules and scrapes an agent. It is only unpacked, because its package starts a server.
unpack_prometheus() {
	local work name programs=(./usr/bin/prometheus ./usr/bin/promtool)
	command -v prometheus >/dev/null && command -v promtool >/dev/null && return
	[ -x "$prometheus/usr/bin/promtool" ] && return
	command -v dpkg-deb >/dev/null || fail "not a Debian system; make sure that prometheus and promtool are on the PATH"
	work=$(mktemp -d)
	download() { (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download prometheus >log 2>&1); }
	if ! download && ! { apt-get -qq update >"$work/log" 2>&1 && download; }; then
		cat "$work/log" >&2
		fail "could not download Debian's package prometheus; check the network and the package sources, then run make $target again"
	fi
	mkdir -p "$prometheus"
	name=$(echo "$work"/prometheus_*.deb)
	dpkg-deb --fsys-tarfile "$name" | tar -x -C "$prometheus" "${programs[@]}"
	rm -rf "$work"
}

# npm may be among the packages, and they may need new lists.
install_packages_and_what_needs_them() {
	install_packages
	unpack_prometheus
	install_from_npm
}

cd "$(dirname "$0")/.."
if [ "$target" != test ]; then
	install_packages
	[ "$target" != bench ] || install_goflow2
	exit 0
fi

parts=()
begin() {
	"$@" &
	parts+=($!)
}
begin download_modules
# What Rust builds needs a linker, which may be among the packages.
command -v cc >/dev/null || install_packages
begin install_stamp_suite
begin install_packages_and_what_needs_them
status=0
for part in "${parts[@]}"; do
	wait "$part" || status=1
done
exit $status
