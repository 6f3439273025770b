# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Packages of an earlier version, to be upgraded, for steps that source this after shared.sh.

# The commit of 0.1.0, which was never tagged, and had no packages.
first=78f91c90bf35b4542f9c52272863b69dac92ca1f

# previous KINDS builds the packages of `waymark` and `waymark-collector` for amd64 into the
# directory $machines/previous, and sets `previous`, the version of `waymark`. Its program is that
# of 0.1.0, in packages made as today's. The collector of 0.1.0 was no service: it is today's, as 0.0.9.
previous() {
	local sources=$machines/previous-sources programs=waymark-collector
	rm -rf "$machines/previous" "$machines/previous-work" "$sources"
	previous=0.1.0
	if git -c safe.directory='*' cat-file -e "$first^{commit}" 2>/dev/null; then
		mkdir -p "$sources"
		git -c safe.directory='*' archive "$first" | tar -C "$sources" -x
		rm -r "$sources/packaging"
		cp -r packaging "$sources/"
		# An option that 0.1.0 did not have.
		sed -i 's/^\(ExecReload=.* agent reload\) --quiet$/\1/' "$sources/packaging/systemd/waymark.service"
		previous_build "$previous" waymark "$1" "$sources"
	else
		skip "the upgrade is from the same sources with another number, because this clone has no history back to 0.1.0"
		previous=0.0.9 programs=waymark,waymark-collector
	fi
	previous_build 0.0.9 "$programs" "$1" .
	rm -rf "$sources"
}

# previous_build VERSION PROGRAMS KINDS SOURCES
previous_build() {
	go run ./packaging/cmd/waymark-package --root "$4" --version "$1" --commit previous --epoch 1700000000 \
		--programs "$2" --architectures amd64 --kinds "$3" --output "$machines/previous" --work "$machines/previous-work/$1" >/dev/null
}
