# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the steps of `make interop` share. It is sourced in the root of the sources.

# need COMMAND=PACKAGE... installs what is missing.
need() {
	local pair missing=()
	for pair in "$@"; do
		command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "interop: installing ${missing[*]}" >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# packages builds the packages of this tree, unless it has, and prints their directory. A tree
# with changes has no name of its own, so what was built of one may be of another.
packages() {
	local version
	version=$(scripts/version.sh) || return 1
	need aarch64-linux-gnu-g++=g++-aarch64-linux-gnu x86_64-linux-gnu-g++=g++-x86-64-linux-gnu || return 1
	if [[ $version == *-dirty ]] || ! packaged "$version"; then
		make package >&2 || return 1
	fi
	echo build/packages
}

# packaged VERSION says whether all packages of a version are there, as their checksums, which are written last, say.
packaged() {
	local program arch
	for program in waymark waymark-collector waymark-lab; do
		for arch in amd64 arm64; do
			has -F "  $program-$1-linux-$arch.tar.gz" <build/packages/SHA256SUMS || return 1
		done
	done 2>/dev/null
	(cd build/packages && sha256sum --check --status SHA256SUMS)
}

# unpack_image PROGRAM ARCHITECTURE DIRECTORY unpacks one of its images into a directory of its name. The archive has an image of
# each architecture, of which umoci does not choose one.
unpack_image() {
	local layout=$3/layout-$1 index
	need umoci=umoci jq=jq || return 1
	mkdir "$layout"
	tar -C "$layout" -xf build/packages/"$1"-[0-9]*.oci.tar
	index=$(jq -r '.manifests[0].digest' "$layout/index.json")
	jq --arg architecture "$2" '{schemaVersion, manifests: [.manifests[] | select(.platform.architecture == $architecture) |
		.annotations = {"org.opencontainers.image.ref.name": "this"}]}' "$layout/blobs/sha256/${index#sha256:}" >"$layout/one.json"
	mv "$layout/one.json" "$layout/index.json"
	umoci unpack --image "$layout:this" "$3/$1" >"$layout/log" 2>&1 && return
	cat "$layout/log" >&2
	fail "umoci does not unpack the image of $1 for $2"
}

# programs builds those of bin/, which takes no time if they are of this tree.
programs() { make build >&2; }

# skip WHAT says what a step does not do, and why. The end of `make interop` repeats it.
skip() {
	echo "skipped: $*"
	[ -z "${INTEROP_SKIPPED:-}" ] || echo "$INTEROP_STEP: $*" >>"$INTEROP_SKIPPED"
}

# left_out skips each step that kernels.sh, whose output it reads, left out, and prints all that it reads.
left_out() {
	local line machine=''
	while IFS= read -r line; do
		printf '%s\n' "$line"
		case $line in
		"kernels: booting "*) machine=${line#kernels: booting } machine=${machine%%;*} ;;
		"kernels: "*" left out: "*) skip "$machine: ${line#kernels: }" ;;
		esac
	done
}

# wait_for SECONDS COMMAND... waits until a command succeeds.
wait_for() {
	local end=$((SECONDS + $1 * ${WAYMARK_PATIENCE:-1}))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.2
	done
}

# has PATTERN says whether a line of the input matches. grep -q ends at the first one, and the program that still
# writes fails then, for which pipefail blames the whole pipe.
has() { grep "$@" >/dev/null; }

not() { ! "$@"; }

# module_at MODULE VERSION prints where the sources of a Go module are, which it fetches.
module_at() {
	local at
	at=$(GOWORK=off go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	[ -n "$at" ] && echo "$at"
}

# module_copy MODULE VERSION DIRECTORY copies the sources of a Go module, to be built as they are,
# with the replacements of their go.mod, which go install refuses.
module_copy() {
	local from
	[ ! -e "$3/go.mod" ] || return 0
	from=$(module_at "$1" "$2") || return 1
	mkdir -p "$(dirname "$3")" && rm -rf "$3.new" && cp -r "$from" "$3.new" && chmod -R u+w "$3.new" && mv "$3.new" "$3"
}

# two_nodes NODE PEER makes two namespaces with a link: 2001:db8:77::1 and ::2, on eth0 of both.
two_nodes() {
	ip netns add "$1"
	ip netns add "$2"
	ip -n "$1" link add eth0 type veth peer name eth0 netns "$2"
	ip -n "$1" addr add 2001:db8:77::1/64 dev eth0 nodad
	ip -n "$2" addr add 2001:db8:77::2/64 dev eth0 nodad
	local ns
	for ns in "$1" "$2"; do
		ip -n "$ns" link set lo up
		ip -n "$ns" link set eth0 up
	done
}
