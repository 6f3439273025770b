#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the next release in a clone, as CONTRIBUTING.md says: version, changelog, names in manifests,
# frozen data, commit, scripts/release.sh, signed with a key that lives as long as the clone. Then looks at the
# tag, the notes, the signatures and what the packages say. Nothing leaves the clone.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh

fail() {
	echo "release.sh: $*" >&2
	exit 1
}

clone=$(mktemp -d)
export GNUPGHOME=$clone/gpg
trap 'gpgconf --kill all 2>/dev/null || true; rm -rf "$clone"' EXIT
git -c safe.directory='*' clone -q . "$clone/waymark"
cd "$clone/waymark"
git config user.name Waymark
git config user.email waymark@users.noreply.github.com

now=$(<VERSION)
next=${now%.*}
next=${next%.*}.$((${next#*.} + 1)).0
tag=v$next
! scripts/release.sh --check 2>/dev/null || fail "the tree of a version that was released is released again"

echo "- $now becomes $next"
echo "$next" >VERSION
sed -i "s/^## Unreleased$/## $next - $(date -u +%F)/" CHANGELOG.md
named=$(scripts/release.sh --check 2>&1 | sed -nE 's/^([^:]+):[0-9]+:.*/\1/p' | sort -u || true)
[ -n "$named" ] || fail "no manifest names a version: $(scripts/release.sh --check 2>&1)"
# shellcheck disable=SC2086 # one word per file
sed -E -i "s/(^|[^0-9.])${now//./\\.}/\1$next/g" $named
scripts/freeze.sh
git add -A
git commit -q -m "release: $next"
scripts/release.sh --check

echo "- release"
need gpg=gnupg
mkdir -m 700 "$GNUPGHOME"
gpg --batch --quiet --passphrase '' --quick-generate-key 'A test of Waymark <test@example.net>' ed25519 sign 1d 2>/dev/null
git config user.signingkey "$(gpg --list-keys --with-colons | sed -n 's/^fpr:*\(.*\):$/\1/p' | head -1)"
need aarch64-linux-gnu-g++=g++-aarch64-linux-gnu x86_64-linux-gnu-g++=g++-x86-64-linux-gnu
make release >"$clone/release.log" 2>&1 || fail "it fails: $(tail -20 "$clone/release.log")"
tail -1 "$clone/release.log"
[ "$(git describe --exact-match --tags)" = "$tag" ] || fail "$tag is not the tag of this commit"
git verify-tag "$tag" 2>/dev/null || fail "$tag is not signed"
gpg --quiet --verify build/packages/SHA256SUMS.asc build/packages/SHA256SUMS 2>/dev/null || fail "the checksums are not signed"
[ -z "$(git ls-remote --tags origin "$tag")" ] || fail "the tag was pushed"
section=$(awk -v head="## $next - " 'index($0, head) == 1 { on = 1; next } /^## / { on = 0 } on && /^- /' CHANGELOG.md)
[ -n "$section" ] || fail "the changelog has no lines of $next"
[ "$(grep -cFx -f <(echo "$section") build/packages/NOTES.md)" = "$(wc -l <<<"$section")" ] || fail "the notes have not the changelog's lines"
dpkg --info "build/packages/waymark_$next-1_arm64.deb" | has -x " Version: $next-1" || fail "the package has another version"
! scripts/release.sh --check 2>/dev/null || fail "a version is released twice"
echo "- release of $next ok"
