#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: release.sh [--check]
#
# Makes the release of the version in the file VERSION: checks that version, changelog, manifests,
# documents, frozen compatibility data and tree agree, runs the checks, builds the packages, writes the notes into
# build/packages, and makes the tag, which it does not push. If git has a key to sign with (user.signingkey), the
# tag is signed, and the checksums are, too. With --check, it only checks what takes seconds.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

fail() {
	echo "release: $*" >&2
	exit 1
}

version=$(<VERSION)
tag=v$version

# section prints the changelog's lines of the version.
section() { awk -v head="## $version - " 'index($0, head) == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md; }

grep -qE "^## ${version//./\\.} - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
	fail "CHANGELOG.md has no section of $version with a date; begin it with: ## $version - $(date -u +%F)"
[ -n "$(section)" ] || fail "the section of $version in CHANGELOG.md is empty"
unreleased=$(awk '/^## Unreleased/ { on = 1; next } /^## / { on = 0 } on && /^- /' CHANGELOG.md)
[ -z "$unreleased" ] || fail "CHANGELOG.md has changes under Unreleased; move them into the section of $version"

others=$(scripts/versions.sh) || fail "these files name another version than $version:
$others"

# The data of this version that later ones must load.
frozen=test/compatibility/testdata/$version
[ -d "$frozen" ] || fail "$frozen is missing; run: scripts/freeze.sh, and commit what it writes"

[ -z "$(git status --porcelain)" ] || fail "the tree has changes; commit or remove them: git status"
! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "the tag $tag exists; write the next version into VERSION and CHANGELOG.md"
key=$(git config user.signingkey || true)
[ -z "$key" ] || [ "$(git config gpg.format || echo openpgp)" = openpgp ] ||
	fail "only gpg signs a release; unset gpg.format for it, or user.signingkey"
[ "${1:-}" != --check ] || exit 0

scripts/check.sh || fail "the checks failed"
# The tag makes the programs say the version without a date; it is taken back if the build fails.
git tag "$([ -n "$key" ] && echo -s || echo -a)" "$tag" -m "Waymark $version"
trap 'git tag -d "$tag" >/dev/null; echo "release: the tag was taken back" >&2' EXIT
[ "$(scripts/version.sh)" = "$version" ] || fail "scripts/version.sh says $(scripts/version.sh)"
make package
built=build/packages
(cd "$built" && sha256sum --check --quiet SHA256SUMS) || fail "the checksums are wrong"
expected=("waymark-$version.oci.tar" "waymark-collector-$version.oci.tar")
for program in waymark waymark-collector waymark-lab; do
	expected+=("${program}_$version-1_"{amd64,arm64}.deb "$program-$version-1."{x86_64,aarch64}.rpm "$program-$version-linux-"{amd64,arm64}.tar.gz
		"${program}_${version}_"{amd64,arm64}.spdx.json)
done
for file in "${expected[@]}"; do
	[ -s "$built/$file" ] && grep -qF "  $file" "$built/SHA256SUMS" || fail "$file is missing"
done
for program in waymark waymark-collector waymark-lab; do
	says=$(tar -xzO -f "$built/$program-$version-linux-$(go env GOARCH).tar.gz" --wildcards "*/bin/$program" >"build/$program" &&
		chmod +x "build/$program" && "build/$program" --version)
	rm "build/$program"
	[ "$says" = "$program $version" ] || fail "$program says that it is $says"
done
{
	echo "# Waymark $version"
	echo
	section
	echo
	echo "## Files"
	echo
	echo '```'
	cat "$built/SHA256SUMS"
	echo '```'
} >"$built/NOTES.md"
if [ -n "$key" ]; then
	"$(git config gpg.program || echo gpg)" --yes --armor --local-user "$key" --output "$built/SHA256SUMS.asc" --detach-sign "$built/SHA256SUMS" ||
		fail "the checksums cannot be signed with $key"
fi
trap - EXIT
echo "release: $tag is tagged, and $built is complete. To publish it: git push origin $tag"
