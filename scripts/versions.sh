#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints where manifests, the chart, the role and documents name another version than VERSION, and fails if one does.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(<VERSION)

# Names of images, packages and charts, with a version after them: each for itself, as a line can have several. Packages
# have their release after it; a name may end a sentence.
named=$(git -c safe.directory='*' grep -noE '(waymark[a-z-]*[:_]|VERSION:-|^version: |^appVersion: )[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+~-]*' -- packaging/ansible packaging/container packaging/helm packaging/kubernetes docs README.md ':!*_test.go') || [ $? -eq 1 ] # nothing is named
others=$(echo "$named" |
	grep -vE "([a-z-]:|:-|ersion: |[a-z-]_)${version//./\\.}\.*$|[a-z-]_${version//./\\.}-1$" || true)
[ -z "$others" ] || {
	echo "$others"
	exit 1
}
