#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The collector's program for arm64 runs in QEMU's user emulation, with the libraries that its image has: it receives what
# an agent of this machine exports, keeps it, ends, opens what it kept, and has every trace of the agent's records. The
# program of the tarball, which the image also has, says its version with the libraries that Debian cross-compiles with.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-arm64-XXXXXX")
lab=wma$$
pid=''

clean() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	wait || true
	bin/waymark-lab down --name "$lab" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap clean EXIT

fail() {
	echo "armcollector.sh: $*" >&2
	tail -5 "$work/collector.log" >&2 || true
	exit 1
}

need qemu-aarch64=qemu-user ip=iproute2 file=file jq=jq
at=$(packages)
programs
tar -xzf "$at"/waymark-collector-[0-9]*-linux-arm64.tar.gz -C "$work" --strip-components=1
file "$work/bin/waymark-collector" | has 'ARM aarch64' || fail "this is no program for arm64"
qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/bin/waymark-collector" --version
unpack_image waymark-collector arm64 "$work"
root=$work/waymark-collector/rootfs
cmp "$work/bin/waymark-collector" "$root/usr/bin/waymark-collector"
# What is in it has Debian's versions, as scanners of vulnerabilities know them.
contents=$root/usr/share/doc/waymark-collector/waymark-collector.spdx.json
for one in glibc:glibc libgcc:gcc libstdc++:gcc; do
	jq -e --arg name "${one%:*}" --arg source "pkg:deb/debian/${one#*:}" '.packages[] | select(.name == $name) |
		(.externalRefs[0].referenceLocator | startswith($source)) and (.versionInfo | test("deb[0-9]+u"))' "$contents" >/dev/null ||
		fail "the list of the image's contents has no $one: $(jq -c '.packages[] | select(.name | test("glibc|libgcc|libstdc"))' "$contents")"
done

in_node=(bin/waymark-lab exec --name "$lab" aramis --)
collector=(qemu-aarch64 -L "$root" "$root/usr/bin/waymark-collector")
inside() { "${in_node[@]}" "$@"; }
begin() {
	# No function, whose shell would get the signal.
	"${in_node[@]}" "${collector[@]}" run --config "$work/collector.yaml" 2>>"$work/collector.log" &
	pid=$!
	wait_for 120 inside bash -c 'exec 3<>/dev/tcp/::1/4780' || fail "the collector does not answer"
}

bin/waymark-lab up --name "$lab" line >/dev/null
printf 'store: {directory: "%s"}\n' "$work/store" >"$work/collector.yaml"
inside "${collector[@]}" config check "$work/collector.yaml"
begin
cat >>"/run/waymark/lab/$lab/aramis.yaml" <<END
export:
  - {kind: ipfix, address: "tcp://[::1]:4739"}
  - {kind: jsonl, path: $work/records.jsonl}
END
inside bin/waymark agent reload
bin/waymark-lab traffic --name "$lab" ping udp >/dev/null
kept() { inside bin/waymark packet history --collector 'http://[::1]:4780' --since 30m --limit 1000 --json; }
count() { grep -c '"kind":"trace"' "$work/records.jsonl"; }
complete() { [ "$(count)" -ge 5 ] && [ "$(kept | jq '.packets | length')" -ge "$(count)" ]; }
wait_for 60 complete || fail "of $(count) traces the collector has $(kept | jq '.packets | length')"

echo "- a restart keeps what was received"
kill -TERM "$pid"
wait "$pid" || fail "the collector ends with $?"
begin
[ "$(kept | jq '.packets | length')" = "$(count)" ] || fail "of $(count) traces the collector has $(kept | jq '.packets | length') after a restart"
echo "- $(count) packets in the collector for arm64 as in the agent's records"
