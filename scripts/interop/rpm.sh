#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# rpm reads the packages, and with their scripts installs, upgrades and removes those for amd64 in a fresh Debian 12
# that systemd boots in a container, because a system with RPM is no package of Debian. Compares what the packages
# of the program that is not static ask for with what readelf says.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh
. scripts/interop/machine.sh
. scripts/interop/previous.sh

fail() {
	echo "rpm.sh: $*" >&2
	[ -z "$leader" ] || inside journalctl -b --no-pager -u waymark -u waymark-collector -n 30 >&2 || true
	exit 1
}
trap machine_end EXIT

need rpm=rpm readelf=binutils
packages >/dev/null
for file in build/packages/*.rpm; do
	rpm --checksig --nosignature "$file" >/dev/null || fail "$file is damaged"
	rpm -qp --nosignature "$file"
done

echo "- what waymark-collector for arm64 asks for"
program=$machines/collector-arm64
tar -xzO -f build/packages/waymark-collector-*-linux-arm64.tar.gz --wildcards '*/bin/waymark-collector' >"$program"
needed=$(readelf --version-info --wide "$program" | grep -oE 'Name: [A-Z]+_[0-9.]+' | sed 's/Name: //' | sort -uV)
rm "$program"
newest() { grep "^$1_" <<<"$needed" | tail -1; }
glibc=$(newest GLIBC) glibcxx=$(newest GLIBCXX)
asked=$(rpm -qp --nosignature --requires build/packages/waymark-collector-*.aarch64.rpm)
for version in $needed; do
	has -F "($version)(64bit)" <<<"$asked" || fail "the .rpm does not ask for $version: $asked"
done
asked=$(dpkg --field build/packages/waymark-collector_*_arm64.deb Depends)
has -F "libc6 (>= ${glibc#GLIBC_})" <<<"$asked" || fail "the program needs $glibc, the .deb asks for $asked"
# Debian's own list of the symbols' versions says which libstdc++6 has this one.
symbols=$(dpkg-query --control-show libstdc++6 symbols)
gcc=$(sed -n "s/^ $glibcxx@$glibcxx //p" <<<"$symbols" | cut -d' ' -f1)
has -F "libstdc++6 (>= $gcc)" <<<"$asked" || fail "$glibcxx is in libstdc++6 $gcc, the .deb asks for $asked"
has -F "needs glibc ${glibc#GLIBC_} or newer and the libstdc++ of GCC $gcc or newer" docs/install.md ||
	fail "docs/install.md does not say that the program needs $glibc and the libstdc++ of GCC $gcc"
echo "  $glibc, $glibcxx: $asked"

machine_make bookworm rpm rpm
previous rpm
mkdir "$root/srv/packages/old" "$root/srv/packages/new"
cp "$machines"/previous/*.x86_64.rpm "$root/srv/packages/old/"
cp build/packages/*.x86_64.rpm "$root/srv/packages/new/"
echo "- boot"
machine_boot
# As Fedora and RHEL have it. Without a preset, systemd enables what is installed.
inside mkdir -p /etc/systemd/system-preset
echo 'disable *' | inside tee /etc/systemd/system-preset/99-default-disable.preset >/dev/null

# machine_rpm ARGUMENT... fails also when rpm only warns: it goes on when a script has failed, but for the last one of an
# installation. It knows none of the packages that are installed.
machine_rpm() {
	local said
	said=$(inside sh -c "rpm --force-debian --nodeps --nosignature $*" 2>&1) || fail "rpm $* fails: $said"
	said=$(grep -v 'saved as' <<<"$said" || true)
	! has -iE 'warning|error|fail' <<<"$said" || fail "rpm $*: $said"
}
state() { inside systemctl "$1" "$2" 2>/dev/null || true; }
runs() { [ "$(state is-active "$1")" = active ]; }
main() { inside systemctl show -P MainPID "$1"; }

echo "- install: $previous, and the collector"
machine_rpm -i '/srv/packages/old/*.rpm'
inside getent group waymark-read >/dev/null || fail "there is no group waymark-read"
[ "$(inside stat -c '%a %U' /etc/waymark /run/waymark | tr '\n' ' ')" = "750 root 755 root " ] || fail "directories have other rights"
for unit in waymark waymark-collector; do
	[ "$(state is-enabled $unit)" = disabled ] || fail "$unit is $(state is-enabled $unit) after the installation, against the preset"
	! runs $unit || fail "$unit runs before it was started"
done
inside systemctl enable --quiet --now waymark waymark-collector || fail "the services do not start"
[ "$(inside waymark --version)" = "waymark $previous" ] || fail "another version is installed: $(inside waymark --version)"
echo '# of the operator' | inside tee -a /etc/waymark/node.yaml >/dev/null

echo "- upgrade"
agent=$(main waymark) collector=$(main waymark-collector)
machine_rpm -U '/srv/packages/new/*.rpm'
version=$(scripts/version.sh)
for program in waymark waymark-collector waymark-lab; do
	[ "$(inside "$program" --version)" = "$program $version" ] || fail "after the upgrade, there is $(inside "$program" --version)"
done
again() { runs waymark && runs waymark-collector && [ "$(main waymark)" != "$agent" ] && [ "$(main waymark-collector)" != "$collector" ] && inside waymark status; }
wait_for 30 again || fail "the upgrade does not restart the services"
for unit in waymark waymark-collector; do
	[ "$(state is-enabled $unit)" = enabled ] || fail "$unit is $(state is-enabled $unit) after the upgrade"
done
inside tail -1 /etc/waymark/node.yaml | has 'of the operator' || fail "the upgrade replaced the operator's file"
said=$(inside rpm -V --nodeps waymark waymark-collector waymark-lab || true)
[ "$(grep -v '^\S* *c /etc/waymark/node.yaml$' <<<"$said")" = '' ] || fail "other files than the packages': $said"

echo "- removal"
machine_rpm -e waymark waymark-collector waymark-lab
for unit in waymark waymark-collector run-waymark-bpf.mount; do
	! runs $unit || fail "$unit still runs"
done
[ "$(inside find /etc/systemd -name '*waymark*')" = '' ] || fail "a unit is still enabled"
! inside mount | has waymark || fail "a file system is still mounted"
# RPM has no purge: what the operator changed and the services wrote stays, and the group.
left=$(inside find / -xdev -name '*waymark*' -not -path '/srv/packages/*' -not -path '/proc/*' -not -path '/var/cache/man/*' | sort | tr '\n' ' ')
[ "$left" = "/etc/waymark /var/lib/private/waymark /var/lib/waymark " ] || fail "left behind: $left"
[ "$(inside find /run -name '*waymark*' -not -path '/run/credentials/*')" = '' ] || fail "left behind in /run"
[ "$(inside ls /etc/waymark)" = node.yaml.rpmsave ] || fail "the operator's file is not kept"
echo "- rpm ok"
