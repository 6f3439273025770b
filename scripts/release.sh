#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: release.sh [--check]
#
# Makes the release of the version in the file VERSION: checks that version, changelog, frozen
# compatibility data and tree agree, runs the checks, builds the packages, writes the notes into
# build/packages, and makes the tag, which it does not push. With --check, it only checks what
# takes seconds.
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

# The data of this version that later ones must load.
frozen=test/compatibility/testdata/$version
[ -d "$frozen" ] || fail "$frozen is missing; run: scripts/freeze.sh, and commit what it writes"

[ -z "$(git status --porcelain)" ] || fail "the tree has changes; commit or remove them: git status"
! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "the tag $tag exists; write the next version into VERSION and CHANGELOG.md"
[ "${1:-}" != --check ] || exit 0

scripts/check.sh || fail "the checks failed"
# The tag makes the programs say the version without a date; it is taken back if the build fails.
git tag -a "$tag" -m "Waymark $version"
trap 'git tag -d "$tag" >/dev/null; echo "release: the tag was taken back" >&2' ERR
[ "$(scripts/version.sh)" = "$version" ] || { echo "release: scripts/version.sh says $(scripts/version.sh)" >&2; false; }
make package
notes=build/packages/NOTES.md
{
	echo "# Waymark $version"
	echo
	section
	echo
	echo "## Files"
	echo
	echo '```'
	cat build/packages/SHA256SUMS
	echo '```'
} >"$notes"
for arch in amd64 arm64; do
	for program in waymark waymark-collector waymark-lab; do
		[ -e "build/packages/${program}_$version-1_$arch.deb" ] || { echo "release: the package of $program for $arch is missing" >&2; false; }
	done
done
trap - ERR
echo "release: $tag is tagged, and build/packages is complete. To publish it: git push origin $tag"
