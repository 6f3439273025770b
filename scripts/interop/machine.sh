# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A fresh Debian that systemd boots in a container (systemd-nspawn), for steps that source this
# after shared.sh. Packages come from the mirror of this machine's apt. machine_make and
# machine_boot set `root`, the directory of its files, and `leader`, its first process.

machines=$PWD/build/interop
root='' leader='' container='' peer=''

# inside runs a command in the machine.
inside() { nsenter -t "$leader" -m -u -i -n -p -- "$@"; }

# The mirror of the release that this machine runs has the other releases, too.
mirror() {
	# shellcheck disable=SC1091
	local codename && codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk -v release="$codename" '$2 == release && $3 == "main" { print $1; exit }'
}

# machine_make SUITE NAME [PACKAGE...] makes the files of the machine of a step with that name.
machine_make() {
	local suite=$1 name=$2 tar uri include=systemd,systemd-sysv,iproute2,iputils-ping,man-db,logrotate
	shift 2
	need mmdebstrap=mmdebstrap systemd-nspawn=systemd-container ip=iproute2
	tar=$machines/$suite${*:+-$name}.tar root=$machines/$name
	mkdir -p "$machines"
	if [ ! -e "$tar" ]; then
		uri=$(mirror)
		[ -n "$uri" ] || fail "apt of this machine has no sources of Debian"
		mmdebstrap --quiet --variant=minbase --include="$include${*:+,$(IFS=, && echo "$*")}" "$suite" "${tar%.tar}.new.tar" "$uri"
		mv "${tar%.tar}.new.tar" "$tar"
	fi
	rm -rf "$root" && mkdir "$root" && tar -C "$root" -xf "$tar"
	mkdir "$root/srv/packages"
}

booted() {
	leader=$(cat "/proc/$container/task/$container/children" 2>/dev/null)
	leader=${leader%% *}
	kill -0 "$container" 2>/dev/null || fail "the container ended: $(tail -3 "$root.console")"
	[ -n "$leader" ] || return 1
	local state
	state=$(inside systemctl is-system-running || true) # which fails when a unit of the system has failed
	[ "$state" = running ] || [ "$state" = degraded ]
}

# machine_boot boots it, with a link to a new namespace `peer`: 2001:db8:77::1 there, ::2 here.
machine_boot() {
	local link=wmp$$
	peer=wmpeer-$$
	ip netns add "$peer"
	ip link add "$link" type veth peer name eth0 netns "$peer"
	ip netns exec "$peer" sysctl -qw net.ipv6.conf.eth0.accept_dad=0
	ip -n "$peer" link set lo up
	ip -n "$peer" addr add 2001:db8:77::2/64 dev eth0 nodad
	ip -n "$peer" link set eth0 up
	# systemd 257 boots on control groups of the first version only if it is told so.
	systemd-nspawn --quiet --register=no --keep-unit -D "$root" --capability=all --system-call-filter=bpf \
		--private-network --boot SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 >"$root.console" 2>&1 </dev/null &
	container=$!
	wait_for 60 booted || fail "systemd does not boot: $(tail -3 "$root.console")"
	# --network-interface would want a udev that knows it, which a container has not.
	ip link set "$link" netns "$leader"
	inside ip link set lo up
	inside ip link set "$link" name eth0
	inside ip addr add 2001:db8:77::1/64 dev eth0 nodad
	inside ip link set eth0 up
}

machine_end() {
	if [ -n "$container" ]; then
		# One SIGTERM lets systemd stop everything; the end of its first process ends the rest.
		kill -TERM "$container" 2>/dev/null || true
		wait_for 20 not kill -0 "$container" || kill -KILL "$leader" "$container" 2>/dev/null || true
	fi
	[ -z "$peer" ] || ip netns delete "$peer" 2>/dev/null || true
	[ -z "$root" ] || rm -rf "$root"
}
