#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the images by runc, as docs/how-to/containers.md says. That of waymark: read-only, with four
# capabilities, and with a BPF file system of the machine. Kills the container, and looks whether
# packets keep their treatment until the next one has taken over. That of waymark-collector: read-only,
# as its own user, without any capability, with a directory for what it keeps. Then podman loads the
# archives, and runs both programs under the names that docs and packaging/container say, with its own
# seccomp profile; podman-compose starts both as packaging/container/compose.yaml says; skopeo copies all architectures.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-container-XXXXXX")
id=wm$$
node=wmnode-$$ peer=wmpeer-$$
capture=''

fail() {
	echo "container.sh: $*" >&2
	tail -5 "$work/log" >&2 || true
	exit 1
}

# engine has directories of its own, so that no image of this machine is used or replaced.
engine() {
	podman --root "$work/storage" --runroot "$work/runroot" --tmpdir "$work/podman" --storage-driver vfs --cgroup-manager cgroupfs "$@" </dev/null
}

clean() {
	[ ! -d "$work/storage" ] || engine rm --all --force --time 0 >/dev/null 2>&1 || true
	[ -z "$capture" ] || kill "$capture" 2>/dev/null || true
	runc delete --force "$id" 2>/dev/null || true
	runc delete --force "wm$$" 2>/dev/null || true
	ip netns delete "$node" 2>/dev/null || true
	ip netns delete "$peer" 2>/dev/null || true
	umount "$work/bpf" 2>/dev/null || true
	rm -rf "$work"
}
trap clean EXIT

need umoci=umoci runc=runc podman=podman skopeo=skopeo jq=jq pip3=python3-pip nsenter=util-linux tshark=tshark ip=iproute2 ping=iputils-ping
packages >/dev/null
mkdir "$work/bpf" "$work/etc"

unpack_image waymark "$(go env GOARCH)" "$work"
two_nodes "$node" "$peer"
cat >"$work/etc/node.yaml" <<'END'
node: {id: 10}
interfaces:
  - {name: eth0, id: 1, role: [ingress, egress]}
namespaces:
  - {id: 10, remove: true}
encapsulations:
  - name: all
    interface: eth0
    match: {destination: "2001:db8:77::/64"}
    mode: inline
    options:
      - trace: {namespace: 10, type: 0xf00000, size: 64}
END
mount -t bpf bpf "$work/bpf"
jq --arg etc "$work/etc" --arg bpf "$work/bpf" --arg netns "/run/netns/$node" '
	["CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE"] as $capabilities |
	.process.terminal = false | .process.noNewPrivileges = true | .root.readonly = true |
	.process.capabilities = {bounding: $capabilities, effective: $capabilities, permitted: $capabilities} |
	.mounts += [
		{destination: "/etc/waymark", type: "bind", source: $etc, options: ["rbind", "ro"]},
		{destination: "/run/waymark", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", "noexec", "mode=0755"]},
		{destination: "/run/waymark/bpf", type: "bind", source: $bpf, options: ["rbind", "rw"]}
	] |
	.linux.namespaces = [.linux.namespaces[] | if .type == "network" then .path = $netns else . end] |
	if any(.linux.namespaces[]; .type == "network") then . else .linux.namespaces += [{type: "network", path: $netns}] end
' "$work/waymark/config.json" >"$work/config.json"
mv "$work/config.json" "$work/waymark/config.json"

start() {
	runc run --detach --bundle "$work/waymark" "$id" >>"$work/log" 2>&1 </dev/null || fail "the container does not start"
	wait_for 30 runc exec "$id" /usr/bin/waymark status || fail "the agent does not serve"
}
requests() { tshark -r "$work/peer.pcap" -Y "icmpv6.type == 128 $1" 2>/dev/null | wc -l; }

echo "- start"
start
runc exec "$id" /usr/bin/waymark doctor | grep -E 'capability_missing|bpffs_private' && fail "doctor misses something"
ip netns exec "$peer" dumpcap -q -i eth0 -f ip6 -w "$work/peer.pcap" 2>/dev/null &
capture=$!
wait_for 30 test -s "$work/peer.pcap"
sleep 1
ip netns exec "$node" ping -q -i 0.02 -W 1 -w 8 2001:db8:77::2 >"$work/ping" &
sender=$!
sleep 1
echo "- kill, and start another container"
runc kill "$id" KILL
stopped() { [ "$(runc state "$id" | jq -r .status)" = stopped ]; }
wait_for 10 stopped || fail "the container does not end"
sleep 1
runc delete "$id"
start
wait "$sender" || true
sleep 1
kill -INT "$capture" && wait "$capture" || true
capture=''
sent=$(sed -n 's/ packets transmitted.*//p' "$work/ping") all=$(requests '') untreated=$(requests '&& !ipv6.hopopts')
echo "  $(grep transmitted "$work/ping"); $all captured, $untreated of them untreated"
[ "$all" -gt $((sent * 9 / 10)) ] && [ "$all" -gt 100 ] || fail "too few packets were captured to say anything"
[ "$untreated" -eq 0 ] || fail "$untreated packets were not treated"

echo "- an agent whose configuration has no interface ends the treatment"
runc kill "$id" KILL
wait_for 10 stopped || fail "the container does not end"
runc delete "$id"
echo 'node: {id: 10}' >"$work/etc/node.yaml"
start
ip netns exec "$peer" dumpcap -q -i eth0 -a duration:3 -f ip6 -w "$work/peer.pcap" 2>/dev/null &
capture=$!
sleep 1
ip netns exec "$node" ping -q -c 10 -i 0.1 2001:db8:77::2 >/dev/null
wait "$capture" || true
capture=''
[ "$(requests '')" -gt 0 ] && [ "$(requests '&& ipv6.hopopts')" -eq 0 ] || fail "packets are still treated"

echo "- remove"
# The agent is the container's first process: when it ends, so does the command that stopped it.
runc exec "$id" /usr/bin/waymark agent stop --remove || true
wait_for 20 stopped || fail "the agent does not end"
left=$(find "$work/bpf" -name 'netns-*')
[ -z "$left" ] || fail "pins are left: $left"

echo "- the collector"
unpack_image waymark-collector "$(go env GOARCH)" "$work"
mkdir "$work/kept" "$work/collector"
chown 65532:65532 "$work/kept"
echo 'store: {age: 1d}' >"$work/collector/collector.yaml"
jq --arg etc "$work/collector" --arg kept "$work/kept" --arg netns "/run/netns/$node" '
	.process.terminal = false | .process.noNewPrivileges = true | .root.readonly = true |
	.process.capabilities = {} |
	.mounts += [
		{destination: "/etc/waymark-collector", type: "bind", source: $etc, options: ["rbind", "ro"]},
		{destination: "/var/lib/waymark", type: "bind", source: $kept, options: ["rbind", "rw"]}
	] |
	.linux.namespaces = ([.linux.namespaces[] | select(.type != "network")] + [{type: "network", path: $netns}])
' "$work/waymark-collector/config.json" >"$work/config.json"
mv "$work/config.json" "$work/waymark-collector/config.json"
id=wmc$$
collect() {
	runc run --detach --bundle "$work/waymark-collector" "$id" >>"$work/log" 2>&1 </dev/null || fail "the collector's container does not start"
	wait_for 30 runc exec "$id" /usr/bin/waymark-collector status || fail "the collector does not answer"
}
collect
[ "$(stat -c %u "/proc/$(runc state "$id" | jq -r .pid)")" = 65532 ] || fail "the collector runs as another user"
[ -n "$(find "$work/kept" -name '*.duckdb*' -user 65532)" ] || fail "the collector keeps nothing: $(ls "$work/kept")"
runc kill "$id" TERM
wait_for 60 stopped || fail "the collector does not end"
runc delete "$id"
collect
runc kill "$id" KILL
wait_for 10 stopped || fail "the collector's container does not end"

echo "- podman loads the archives, and the names are those of docs/how-to/containers.md"
tag=$(scripts/version.sh | tr + -)
for program in waymark waymark-collector; do
	engine load -q -i build/packages/"$program"-[0-9]*.oci.tar >>"$work/log" 2>&1 || fail "podman does not load $program"
	for name in "localhost/$program:$tag" "$program:$tag"; do # the second is that of compose.yaml
		engine image exists "$name" || fail "podman has no image $name, but: $(engine images --format '{{.Repository}}:{{.Tag}}')"
	done
done
umount "$work/bpf" && mount -t bpf bpf "$work/bpf"
cat >"$work/etc/node.yaml" <<'END'
node: {id: 10}
interfaces: [{name: eth0, id: 1, role: [ingress, egress]}]
namespaces: [{id: 10}]
END
# Limits that also a machine allows which is a container itself.
run=(run --detach --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --read-only --runtime "$(command -v runc)" --network "ns:/run/netns/$node" --cap-drop all)
engine "${run[@]}" --name waymark --cap-add NET_ADMIN,SYS_ADMIN,NET_RAW,NET_BIND_SERVICE --security-opt no-new-privileges \
	--tmpfs /run/waymark:mode=0755 -v "$work/bpf:/run/waymark/bpf" -v "$work/etc:/etc/waymark:ro" \
	"localhost/waymark:$tag" >>"$work/log" 2>&1 || fail "podman does not run the agent"
wait_for 30 engine exec waymark waymark status || fail "the agent does not serve under podman: $(engine logs waymark 2>&1)"
engine exec waymark waymark status --json | jq -e '.interfaces[0].ingress_hook | length > 0' >/dev/null || fail "the agent under podman serves no interface"
grep -q '^Seccomp:[[:space:]]*2$' "/proc/$(engine inspect --format '{{.State.Pid}}' waymark)/status" || fail "podman set no seccomp profile"
rm -rf "$work/kept" && mkdir "$work/kept" && chown 65532:65532 "$work/kept"
engine "${run[@]}" --name collector --security-opt no-new-privileges -v "$work/collector:/etc/waymark-collector:ro" \
	-v "$work/kept:/var/lib/waymark" "localhost/waymark-collector:$tag" >>"$work/log" 2>&1 || fail "podman does not run the collector"
wait_for 30 engine exec collector waymark-collector status || fail "the collector does not answer under podman: $(engine logs collector 2>&1)"

echo "- podman-compose starts both"
engine rm --force --time 0 waymark collector >/dev/null
# Debian 12 has 1.0.3, which knows no network_mode: host, and runs the health check by a shell.
composer=$PWD/build/interop/podman-compose
[ -x "$composer/bin/podman-compose" ] || pip3 install --quiet --root-user-action=ignore --target "$composer" podman-compose==1.5.0 ||
	fail "podman-compose cannot be fetched"
mkdir "$work/bin" "$work/over"
cat >"$work/bin/podman" <<END
#!/bin/sh
exec $(command -v podman) --root $work/storage --runroot $work/runroot --tmpdir $work/podman --storage-driver vfs --cgroup-manager cgroupfs "\$@" </dev/null
END
chmod +x "$work/bin/podman"
cat >"$work/containers.conf" <<END
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
END
# Not ip netns exec, whose /sys has no control groups.
host=(nsenter --net="/run/netns/$node")
# It runs podman-compose with the paths of the host that the file names, in a mount namespace of its own.
export work composer
"${host[@]}" unshare --mount --propagation private bash -euc '
	mount -t tmpfs none "$work/over"
	for at in etc var/log; do
		mkdir -p "$work/over/$at/upper" "$work/over/$at/work"
		mount -t overlay -o "lowerdir=/$at,upperdir=$work/over/$at/upper,workdir=$work/over/$at/work" none "/$at"
	done
	mkdir -p /etc/waymark /etc/waymark-collector /var/log/waymark
	mount --bind "$work/etc" /etc/waymark
	mount --bind "$work/collector" /etc/waymark-collector
	mount -t bpf bpf /sys/fs/bpf
	CONTAINERS_CONF=$work/containers.conf WAYMARK_VERSION=$0 PATH=$work/bin:$PATH PYTHONPATH=$composer \
		"$composer/bin/podman-compose" -f packaging/container/compose.yaml up -d </dev/null
' "$tag" >>"$work/log" 2>&1 || fail "podman-compose does not start the services"
composed() { "${host[@]}" "$work/bin/podman" "$@"; }
wait_for 30 composed exec waymark_agent_1 waymark status || fail "the agent does not serve under Compose: $(engine logs waymark_agent_1 2>&1)"
composed exec waymark_agent_1 waymark status --json | jq -e '.interfaces[0].ingress_hook | length > 0' >/dev/null || fail "the agent under Compose serves no interface"
composed healthcheck run waymark_agent_1 >>"$work/log" 2>&1 || fail "the health check of the agent fails"
wait_for 30 composed exec waymark_collector_1 waymark-collector status || fail "the collector does not answer under Compose: $(engine logs waymark_collector_1 2>&1)"
skip "no health check runs by itself under Compose, because podman needs systemd for it, which the step does not have"

echo "- skopeo copies an archive, with all its architectures"
skopeo copy -q --all oci-archive:"$(echo build/packages/waymark-[0-9]*.oci.tar)" "oci:$work/copied:$tag" || fail "skopeo does not copy the archive"
index=$(jq -r '.manifests[0].digest' "$work/copied/index.json")
architectures=$(jq -r '[.manifests[].platform.architecture] | join(" ")' "$work/copied/blobs/sha256/${index#sha256:}")
[ "$architectures" = "amd64 arm64" ] || fail "the copy has: $architectures"
skip "no Docker loads the images, because the step starts no daemon of Docker"
