#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: setup.sh demo|bench|test
#
# Makes a Debian 12 machine ready for one of the make targets: checks for root
# and Go, and installs the packages that are missing. Quick when nothing is.
set -euo pipefail

fail() {
	echo "setup: $*" >&2
	exit 1
}

target=${1:-}
case $target in
demo | bench)
	packages=(iproute2 ethtool)
	;;
test)
	# libc6-dev and gcc are for the race detector, linux-libc-dev for the
	# kernel's header files that BPF programs include.
	packages=(
		iproute2 ethtool iputils-ping tshark nfdump softflowd openssl ca-certificates git
		clang-19 llvm-19 clang-format-19 libbpf-dev linux-libc-dev gcc libc6-dev
	)
	;;
*)
	fail "unknown target '$target'; use demo, bench or test"
	;;
esac

if [ "$(id -u)" -ne 0 ]; then
	fail "make $target needs root: it creates network namespaces and loads BPF programs; run: sudo env \"PATH=\$PATH\" make $target"
fi

if ! command -v go >/dev/null; then
	fail "Go is not on the PATH; install Go 1.26 or newer, then run make $target again"
fi
# An older Go fetches the toolchain that go.mod asks for, unless told not to.
if ! reason=$(cd "$(dirname "$0")/.." && go version 2>&1); then
	fail "this Go cannot build Waymark (${reason}); install Go 1.26 or newer"
fi

installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
	echo "setup: not a Debian system; make sure that these are installed: ${packages[*]}" >&2
	exit 0
fi

missing=()
for package in "${packages[@]}"; do
	installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "setup: installing ${missing[*]}" >&2
# Noninteractive also answers tshark's question about capturing: root only.
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { apt-get -y -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1; }

if ! apt install --no-install-recommends "${missing[@]}"; then
	# The package lists are absent or too old.
	: >"$log"
	if ! apt update || ! apt install --no-install-recommends "${missing[@]}"; then
		cat "$log" >&2
		fail "could not install ${missing[*]}; check the network and the package sources, then run make $target again"
	fi
fi
