#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: debian.sh bookworm|trixie
#
# Installs the tarball of waymark as docs/install.md says, starts it, upgrades and removes it; and the collector's.
# Then it installs the package of waymark into a fresh Debian that systemd boots in a container
# (systemd-nspawn), and does with it what an operator does: configure, start, reload, crash,
# upgrade, remove, purge. While it is upgraded, a peer outside counts the packets that were
# not treated: none may be. While waymark-collector is upgraded, a peer sends postcards over UDP:
# all must be kept. waymark-lab comes and goes. Packages come from the mirror of this machine's apt.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh
. scripts/interop/machine.sh
. scripts/interop/previous.sh

suite=$1
capture='' exporters=''

fail() {
	echo "debian.sh: $*" >&2
	[ -z "$leader" ] || inside journalctl -b --no-pager -u waymark -u waymark-collector -n 30 >&2 || true
	exit 1
}

clean() {
	[ -z "$capture" ] || kill "$capture" 2>/dev/null || true
	[ -z "$exporters" ] || kill "$exporters" 2>/dev/null || true
	machine_end
}
trap clean EXIT

need tshark=tshark ping=iputils-ping
machine_make "$suite" "$suite"
packages >/dev/null
work=$machines
previous deb,tar
new=$(echo build/packages/waymark_*_amd64.deb)
old=$work/previous/waymark_$previous-1_amd64.deb
cp "$new" "$root/srv/packages/new_waymark.deb"
cp "$old" "$root/srv/packages/old_waymark.deb"
cp build/packages/waymark-collector_*_amd64.deb "$root/srv/packages/new_collector.deb"
cp "$work"/previous/waymark-collector_0.0.9-1_amd64.deb "$root/srv/packages/old_collector.deb"
cp build/packages/waymark-lab_*_amd64.deb "$root/srv/packages/new_lab.deb"
mkdir "$root/srv/packages/old" "$root/srv/packages/new"
cp "$work"/previous/waymark-[0-9]*-linux-amd64.tar.gz "$root/srv/packages/old/"
cp build/packages/waymark-{[0-9],collector-}*-linux-amd64.tar.gz "$root/srv/packages/new/"
go build -o "$work/postcards" ./scripts/postcards

echo "- boot $suite"
machine_boot

# documented NAME is the block of commands with that name in docs/install.md.
documented() {
	local block
	block=$(sed -n "/^\`\`\`sh $1\$/,/^\`\`\`\$/p" docs/install.md | sed '1d;$d')
	[ -n "$block" ] || fail "docs/install.md has no commands $1"
	echo "$block"
}
# ours lists what has our name, but for what stays after the purge of any package.
ours() {
	# man-db cleans its cache of pages by itself, once a day.
	inside find / -xdev -name '*waymark*' -not -path '/srv/packages/*' -not -path '/proc/*' -not -path '/var/log/apt/*' -not -path '/var/cache/man/*'
	inside find /run -name '*waymark*' -not -path '/run/credentials/*'
}

# verify UNIT...: systemd of Debian 12 does not know the steps of restarts; it says so, and goes on.
verify() {
	local problems
	problems=$(inside systemd-analyze verify "$@" 2>&1 | grep -vE "Unknown key '?(name )?'?Restart(Steps|MaxDelaySec)" || true)
	[ -z "$problems" ] || fail "systemd-analyze verify: $problems"
}
# follow DIRECTORY NAME does what docs/install.md says where the tarballs of a version are.
follow() {
	local commands
	commands=$(documented "$2")
	inside sh -euc "cd /srv/packages/$1; $commands" >/dev/null 2>&1 || fail "the commands $2 of docs/install.md fail with the $1 tarball"
}

echo "- the tarball of $previous, and its upgrade"
follow old from-tarball
[ "$(inside sh -c 'command -v waymark')" = /usr/local/bin/waymark ] || fail "the program is elsewhere"
inside waymark config check /etc/waymark/node.yaml
inside getent group waymark-read >/dev/null || fail "there is no group waymark-read"
inside systemctl enable --quiet --now waymark || fail "the service of the tarball does not start"
[ "$(inside waymark --version)" = "waymark $previous" ] || fail "another version is installed: $(inside waymark --version)"
inside waymark status >/dev/null
was=$(inside systemctl show -P MainPID waymark)
follow new tarball-upgrade
[ "$(inside waymark --version)" = "waymark $(scripts/version.sh)" ] || fail "the upgrade leaves $(inside waymark --version)"
[ "$(inside systemctl show -P MainPID waymark)" != "$was" ] && inside waymark status >/dev/null || fail "the new agent does not serve"
[ "$(inside stat -c '%a' /etc/waymark /etc/waymark/node.yaml /var/log/waymark | tr '\n' ' ')" = "750 640 750 " ] || fail "files have other rights"
follow new tarball-removal
# Files that only the old one had stay, as the document says.
inside sh -c "tar -tzf /srv/packages/old/* | sed 's|^[^/]*|/usr/local|' | xargs rm -f"
left=$(ours)
[ -z "$left" ] || fail "the tarball leaves behind: $left"
! inside getent group waymark-read >/dev/null || fail "the group is left"

echo "- the collector's tarball"
follow new collector-from-tarball
[ "$(inside waymark-collector --version)" = "waymark-collector $(scripts/version.sh)" ] || fail "another version is installed"
verify waymark-collector.service
inside systemctl enable --quiet --now waymark-collector || fail "the service of the collector's tarball does not start"
follow new collector-removal
left=$(ours)
[ -z "$left" ] || fail "the collector's tarball leaves behind: $left"

echo "- install: $(basename "$new")"
inside apt-get install -y -qq /srv/packages/new_waymark.deb >/dev/null 2>&1 || fail "the installation fails"
[ "$(inside waymark --version)" = "waymark $(scripts/version.sh)" ] || fail "another version is installed: $(inside waymark --version)"
inside dpkg --verify waymark
[ "$(inside stat -c '%a %U' /etc/waymark)" = "750 root" ] || fail "/etc/waymark has other rights"
inside getent group waymark-read >/dev/null || fail "there is no group waymark-read"
inside waymark config check /etc/waymark/node.yaml
inside waymark doctor >/dev/null || fail "doctor finds errors"
inside man -w waymark-agent-run >/dev/null || fail "there is no manual page"
inside logrotate --debug /etc/logrotate.d/waymark 2>&1 | grep -i error && fail "logrotate refuses its file"
! inside systemctl is-active --quiet waymark || fail "the service runs before it was started"
verify waymark.service run-waymark-bpf.mount
inside systemd-analyze security --threshold=30 --no-pager waymark.service | tail -1

configure() {
	inside tee /etc/waymark/node.yaml >/dev/null <<'END'
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
export:
  - {kind: jsonl, path: /var/log/waymark/records.jsonl}
END
}

echo "- start"
configure
inside systemctl enable --quiet --now waymark
inside waymark doctor | grep -E 'bpffs_private|agent_' && fail "the pins end with the service"
inside ping -c 3 -i 0.2 -q 2001:db8:77::2 >/dev/null

echo "- a reload of a wrong file fails, and changes nothing"
inside cp /etc/waymark/node.yaml /root/node.yaml
echo 'node: {id: x}' | inside tee /etc/waymark/node.yaml >/dev/null
! inside systemctl reload waymark 2>/dev/null || fail "a reload of a wrong file succeeds"
inside systemctl is-active --quiet waymark || fail "the service ended"
inside cp /root/node.yaml /etc/waymark/node.yaml
inside systemctl reload waymark

echo "- an agent that is killed again and again is restarted later each time"
restarts() { inside systemctl show -P NRestarts waymark; }
restarted() { [ "$(restarts)" -ge "$1" ] && inside systemctl is-active --quiet waymark; }
delay() { inside systemctl show -P RestartUSecNext waymark; }
if [ -z "$(delay)" ]; then
	skip "the back-off of restarts: $(inside systemctl --version | head -1) does not know RestartSteps"
else
	delays=$(delay)
	for n in 1 2 3 4 5; do
		inside systemctl kill --kill-whom=main -s KILL waymark
		wait_for 60 restarted "$n" || fail "the agent is not restarted after its end $n"
		delays+=" $(delay)"
	done
	echo "  $delays"
	awk '{ for (i = 2; i <= NF; i++) if ($i + 0 < $(i - 1) + 0) exit 1; exit !($1 == "2s" && $NF + 0 > 10) }' <<<"$delays" ||
		fail "the delay of the next restart does not grow"
fi

echo "- purge"
inside apt-get purge -y -qq waymark >/dev/null 2>&1
left=$(ours)
[ -z "$left" ] || fail "left behind: $left"

echo "- upgrade under traffic: $(basename "$old") to $(basename "$new")"
inside apt-get install -y -qq /srv/packages/old_waymark.deb >/dev/null 2>&1 || fail "the installation of $previous fails"
[ "$(inside waymark --version)" = "waymark $previous" ] || fail "another version is installed: $(inside waymark --version)"
configure
inside cp /etc/waymark/node.yaml /root/node.yaml
inside systemctl enable --quiet --now waymark
inside ping -c 3 -i 0.2 -q 2001:db8:77::2 >/dev/null
ip netns exec "$peer" dumpcap -q -i eth0 -f ip6 -w "$work/$suite.pcap" 2>/dev/null &
capture=$!
wait_for 30 test -s "$work/$suite.pcap"
sleep 1
# By the container's systemd: a child of ours there would keep the container from ending.
inside systemd-run --quiet --unit=sender -p StandardOutput=file:/srv/ping ping -q -i 0.01 -W 1 2001:db8:77::2
main() { inside systemctl show -P MainPID waymark; }
was=$(main)
inside apt-get install -y -qq -o Dpkg::Options::=--force-confold /srv/packages/new_waymark.deb >/dev/null 2>&1 || fail "the upgrade fails"
again() { [ "$(main)" != "$was" ] && inside systemctl is-active --quiet waymark && inside waymark status; }
wait_for 30 again || fail "the new agent does not serve"
[ "$(inside waymark --version)" != "waymark $previous" ] || fail "the old program is still there"
cmp -s "$root/root/node.yaml" "$root/etc/waymark/node.yaml" || fail "the upgrade changed the configuration"

echo "- a crash and a hang under the same traffic"
inside mkdir -p /run/systemd/system/waymark.service.d
printf '[Service]\nWatchdogSec=3\nTimeoutAbortSec=2\n' | inside tee /run/systemd/system/waymark.service.d/quick.conf >/dev/null
inside systemctl daemon-reload
before=$(restarts)
inside systemctl kill --kill-whom=main -s KILL waymark
wait_for 30 restarted $((before + 1)) || fail "a killed agent is not restarted"
inside systemctl kill --kill-whom=main -s STOP waymark
wait_for 60 restarted $((before + 2)) || fail "a stopped agent is not restarted"
inside rm -r /run/systemd/system/waymark.service.d
sleep 1
inside systemctl kill -s INT sender
wait_for 10 grep -q transmitted "$root/srv/ping" || fail "ping does not end"
sleep 1
kill -INT "$capture" && wait "$capture" || true
capture=''
requests() { tshark -r "$work/$suite.pcap" -Y "icmpv6.type == 128 $1" 2>/dev/null | wc -l; }
sent=$(sed -n 's/ packets transmitted.*//p' "$root/srv/ping")
all=$(requests '') untreated=$(requests '&& !ipv6.hopopts')
echo "  $(grep transmitted "$root/srv/ping"); $all captured, $untreated of them untreated"
[ "$all" -gt $((sent * 9 / 10)) ] && [ "$all" -gt 300 ] || fail "too few packets were captured to say anything"
[ "$untreated" -eq 0 ] || fail "$untreated packets were not treated"

echo "- remove: nothing of ours treats packets"
inside apt-get remove -y -qq waymark >/dev/null 2>&1
! inside systemctl is-active --quiet waymark || fail "the service still runs"
timeout 20 ip netns exec "$peer" dumpcap -q -i eth0 -a duration:4 -f ip6 -w "$work/$suite.pcap" 2>/dev/null &
capture=$!
sleep 1
inside ping -c 10 -i 0.1 -q 2001:db8:77::2 >/dev/null
wait "$capture" || true
capture=''
[ "$(requests '')" -gt 0 ] && [ "$(requests '&& ipv6.hopopts')" -eq 0 ] || fail "packets are still treated"
[ -e "$root/etc/waymark/node.yaml" ] || fail "the configuration is gone before a purge"

echo "- the collector"
inside apt-get install -y -qq /srv/packages/old_collector.deb >/dev/null 2>&1 || fail "the collector's installation fails"
verify waymark-collector.service
inside systemd-analyze security --threshold=12 --no-pager waymark-collector.service | tail -1
inside tee /etc/waymark-collector/collector.yaml >/dev/null <<'END'
listen: ["udp://[2001:db8:77::1]:4739", "tcp://[2001:db8:77::1]:4739"]
END
inside systemctl start waymark-collector
receives() { inside ss -Hulpn 'sport = 4739' | has waymark; }
wait_for 30 receives || fail "the collector does not receive: $(inside systemctl status --no-pager waymark-collector)"
inside systemctl restart waymark-collector
wait_for 30 receives || fail "the collector does not receive after a restart"
[ "$(inside systemctl show -P NRestarts waymark-collector)" = 0 ] || fail "the collector crashed"
[ "$(inside systemctl show -P NFileDescriptorStore waymark-collector)" -ge 2 ] || fail "systemd keeps no sockets of the collector"

# exporters_start PACKETS FIRST sends postcards of so many packets a second; exporters_end sets `sent` and `refused`.
exporters_start() {
	ip netns exec "$peer" "$work/postcards" send '[2001:db8:77::1]:4739' "$1" "$2" >"$work/$suite.sent" &
	exporters=$!
	sleep 3
}
exporters_end() {
	sleep 2
	kill -INT "$exporters" && wait "$exporters"
	exporters=''
	read -r sent refused <"$work/$suite.sent"
	sleep 5 # what waits is joined and written
}
kept() { nsenter -t "$leader" -n "$work/postcards" count 'http://[::1]:4780'; }
collects() { [ "$(inside systemctl show -P MainPID waymark-collector)" != "$was" ] && inside systemctl is-active --quiet waymark-collector; }
# The sockets' buffers have what this machine allows, because the container may not change it.
rate=600
if [ "$(sysctl -n net.core.rmem_max)" -lt 4000000 ]; then
	rate=60
	skip "postcards come at a tenth of the rate, because net.core.rmem_max of this machine is less than 4 MB"
fi

echo "- upgrade of the collector under postcards over UDP: $(basename build/packages/waymark-collector_*_amd64.deb)"
exporters_start "$rate" 0
was=$(inside systemctl show -P MainPID waymark-collector)
inside apt-get install -y -qq -o Dpkg::Options::=--force-confold /srv/packages/new_collector.deb >/dev/null 2>&1 || fail "the collector's upgrade fails"
wait_for 30 collects || fail "the new collector does not run"
[ "$(inside waymark-collector --version)" != "waymark-collector 0.0.9" ] || fail "the old collector is still there"
exporters_end
stored=$(kept)
echo "  $sent postcards sent, $refused messages refused, $stored postcards kept"
[ "$sent" -gt $((rate * 20)) ] || fail "too few postcards were sent to say anything"
[ "$stored" -eq "$sent" ] && [ "$refused" -eq 0 ] || fail "$((sent - stored)) postcards are lost"
# The unit allows what gives questions less of the processors than reception has.
pid=$(inside systemctl show -P MainPID waymark-collector)
nice=$(inside sh -c "cat /proc/$pid/task/*/stat 2>/dev/null || true" | # threads end meanwhile
	 sed 's/.*) //' | cut -d' ' -f17)
echo "  nice values of threads: $(sort -n <<<"$nice" | uniq -c | xargs)"
has -x 10 <<<"$nice" || fail "the threads of the database have the priority of reception"

echo "- a crash of the collector under postcards over UDP"
before=$stored
exporters_start "$rate" 1000000
was=$(inside systemctl show -P MainPID waymark-collector)
inside systemctl kill --kill-whom=main -s KILL waymark-collector
wait_for 30 collects || fail "a killed collector is not restarted"
exporters_end
stored=$(($(kept) - before))
echo "  $sent postcards sent, $refused messages refused, $stored postcards kept"
[ "$refused" -eq 0 ] && [ "$stored" -le "$sent" ] && [ "$stored" -ge $((sent - 2 * rate * 5)) ] ||
	fail "more is lost than came in the two seconds before the collector was killed"

echo "- waymark-lab"
inside apt-get install -y -qq /srv/packages/new_lab.deb >/dev/null 2>&1 || fail "the installation of waymark-lab fails"
[ "$(inside waymark-lab --version)" = "waymark-lab $(scripts/version.sh)" ] || fail "another version is installed: $(inside waymark-lab --version)"
inside dpkg --verify waymark-lab
inside man -w waymark-lab >/dev/null || fail "waymark-lab has no manual page"
inside apt-get purge -y -qq waymark-lab >/dev/null 2>&1
left=$(ours | grep lab || true)
[ -z "$left" ] || fail "left behind: $left"

echo "- purge: nothing of ours is left, nor a key that the operator put beside the configuration"
inside install -m 600 /etc/hostname /etc/waymark/stamp.key
inside install -m 600 /etc/hostname /etc/waymark-collector/tls.key
inside apt-get purge -y -qq waymark waymark-collector >/dev/null 2>&1
left=$(ours)
[ -z "$left" ] || fail "left behind: $left"
! inside mount | has waymark || fail "a file system is still mounted"
echo "- $suite ok"
