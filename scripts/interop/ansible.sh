#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Ansible installs, configures, reconfigures and removes Waymark by the role in packaging/ansible, over
# ssh, on a fresh Debian 12: check mode and a second run change nothing, a new configuration is a reload, a
# wrong one is refused and leaves the node as it was, and a key is used after a play that ended halfway.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh
. scripts/interop/machine.sh

keys=$(mktemp -d "${TMPDIR:-/tmp}/waymark-ansible-XXXXXX")

fail() {
	echo "ansible.sh: $*" >&2
	tail -25 "$keys/log" >&2 2>/dev/null || true
	exit 1
}

clean() {
	machine_end
	rm -rf "$keys"
}
trap clean EXIT

need ansible-playbook=ansible-core ansible-lint=ansible-lint ssh=openssh-client jq=jq
echo "- lint"
(cd packaging/ansible && ansible-lint --offline --nocolor -q site.yml) || fail "ansible-lint finds mistakes"

packages >/dev/null
machine_make bookworm ansible python3 python3-apt openssh-server
ssh-keygen -q -t ed25519 -N '' -f "$keys/id"
install -D -m 600 "$keys/id.pub" "$root/root/.ssh/authorized_keys"
echo "- boot"
machine_boot
inside systemctl start ssh

cat >"$keys/inventory.yml" <<END
waymark:
  hosts:
    node:
      ansible_host: 2001:db8:77::1
      ansible_user: root
      ansible_python_interpreter: /usr/bin/python3
END
# As in the example, from which the package comes.
sed -n '/^ *waymark_package: /p' packaging/ansible/inventory.yml | sed 's/^ */      /' >>"$keys/inventory.yml"
cat >"$keys/node.yml" <<'END'
waymark_config:
  node: {id: 10}
  interfaces:
    - {name: eth0, id: 1, role: [ingress, egress]}
  namespaces:
    - {id: 10, remove: true}
  stamp: {allow: ["2001:db8:77::/64"], key-file: /etc/waymark/stamp.key}
waymark_secret_files:
  - {path: /etc/waymark/stamp.key, content: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"}
END
export ANSIBLE_HOST_KEY_CHECKING=False ANSIBLE_NOCOLOR=1 ANSIBLE_LOCAL_TEMP=$keys/tmp ANSIBLE_TIMEOUT=60
play() {
	ip netns exec "$peer" ansible-playbook -i "$keys/inventory.yml" --private-key "$keys/id" -e "@$keys/node.yml" \
		--ssh-common-args "-o UserKnownHostsFile=/dev/null" "$@" packaging/ansible/site.yml >"$keys/log" 2>&1
}
changed() { sed -n 's/.*changed=\([0-9]*\).*/\1/p' "$keys/log"; }
main() { inside systemctl show -P MainPID waymark; }

echo "- check mode changes nothing, also where nothing is installed"
play --check || fail "the play fails"
[ "$(changed)" = 1 ] && [ ! -e "$root/usr/bin/waymark" ] || fail "$(changed) tasks would change something"

echo "- a pattern that matches no package, or several, is refused"
for pattern in 'none*.deb' 'waymark*_amd64.deb'; do
	! play -e "{\"waymark_package\": \"{{ lookup('ansible.builtin.fileglob', playbook_dir ~ '/../../build/packages/$pattern') }}\"}" || fail "$pattern is a package"
	grep -q 'run make package' "$keys/log" || fail "Ansible does not say what is wrong with $pattern"
done

echo "- install and configure"
play || fail "the play fails"
inside waymark status --json | has '"id":10' || fail "the agent has another configuration"
[ "$(inside stat -c '%a %U' /etc/waymark/stamp.key /etc/waymark/node.yaml | tr '\n' ' ')" = "600 root 640 root " ] || fail "the files have other rights"
! grep -q 000102030405 "$keys/log" || fail "the key is in the log"

echo "- a second run changes nothing"
was=$(main)
play || fail "the second play fails"
[ "$(changed)" = 0 ] || fail "$(changed) tasks changed something"

echo "- a new configuration is a reload"
sed -i 's/remove: true/remove: false/' "$keys/node.yml"
play --check || fail "the play in check mode fails"
[ "$(changed)" = 1 ] && inside cat /etc/waymark/node.yaml | has 'remove: true' || fail "check mode changed the file"
play || fail "the play fails"
[ "$(changed)" = 2 ] && [ "$(main)" = "$was" ] || fail "$(changed) tasks changed something, and process $was is $(main)"
inside waymark ioam namespace show | has . && ! inside cat /etc/waymark/node.yaml | has 'remove: true' || fail "the agent has the old configuration"

echo "- a wrong one is refused"
inside cp /etc/waymark/node.yaml /root/node.yaml
! play -e '{"waymark_config": {"node": {"id": "x"}}}' || fail "the play of a wrong configuration succeeds"
grep -q 'node.id' "$keys/log" || fail "Ansible does not say what is wrong"
inside cmp /root/node.yaml /etc/waymark/node.yaml && [ "$(main)" = "$was" ] || fail "the node changed"

echo "- a new key, which a play that ends halfway has left, is read by the next play"
loaded() { inside waymark status --json | jq -r .loaded; }
sed -i 's/1c1d1e1f/1c1d1e20/' "$keys/node.yml"
was_loaded=$(loaded)
! play -e '{"waymark_config": {"node": {"id": "x"}}}' || fail "the play of a wrong configuration succeeds"
inside grep -q 1c1d1e20 /etc/waymark/stamp.key && [ "$(loaded)" = "$was_loaded" ] || fail "the play did not end between key and configuration"
play || fail "the next play fails"
[ "$(changed)" = 1 ] && [ "$(main)" = "$was" ] || fail "$(changed) tasks changed something, and process $was is $(main)"
[ "$(loaded)" != "$was_loaded" ] || fail "the agent still has the old key"
play || fail "the play after it fails"
[ "$(changed)" = 0 ] || fail "$(changed) tasks changed something once more"

echo "- remove, and purge"
play -e waymark_state=absent || fail "the play fails"
! inside systemctl is-active --quiet waymark && [ -e "$root/etc/waymark/node.yaml" ] || fail "the service runs, or its configuration is gone"
play -e waymark_state=purged || fail "the play fails"
[ ! -e "$root/etc/waymark" ] || fail "files are left: $(ls "$root/etc/waymark")"
