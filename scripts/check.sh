#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every static check, as many at a time as there are CPUs, and then lists
# those that failed. If a formatter or generator can fix a finding, the check
# prints its command.
set -uo pipefail
cd "$(dirname "$0")/.."

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# step NAME COMMAND... starts one check, and prints its output when it ends.
step() {
	local name=$1
	shift
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
	(
		if "$@" >"$logs/$name" 2>&1; then
			echo "check: $name ok" >>"$logs/$name"
		else
			echo "check: $name FAILED" >>"$logs/$name"
			touch "$logs/$name.failed"
		fi
		cat "$logs/$name" >&2
	) &
}

formatted_go() {
	local files
	# not what others wrote below build/
	files=$(git -c safe.directory='*' ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 ls -d 2>/dev/null | xargs gofmt -l 2>&1)
	[ -z "$files" ] && return
	printf '%s\n' "$files" >&2
	echo "run: gofmt -w ." >&2
	return 1
}

formatted_c() {
	if ! command -v clang-format-19 >/dev/null; then
		echo "clang-format-19 is not installed; run: scripts/setup.sh test" >&2
		return 1
	fi
	find bpf bench/bpf \( -name '*.c' -o -name '*.h' \) -print0 |
		xargs -0 -r clang-format-19 --dry-run -Werror && return
	echo "run: find bpf bench/bpf -name '*.[ch]' | xargs clang-format-19 -i" >&2
	return 1
}

spelled() {
	find . \( -path ./.git -o -path ./bin -o -path ./build -o -path ./LICENSES -o -name node_modules \) -prune -o \
		\( -name '*.md' -o -name '*.go' -o -name '*.[ch]' -o -name '*.sh' -o -name '*.yaml' \) -print0 |
		xargs -0 -r go tool misspell -error -i ect # ECN-capable transport
}

tidy_modules() {
	local directory status=0
	while read -r directory; do
		(cd "$directory" && go mod tidy -diff) || status=1
	done < <(go list -m -f '{{.Dir}}')
	return $status
}

merged() {
	! git grep -nE '^(<{7}|>{7}|\|{7})( |$)'
}

scripts_parse() {
	local file status=0
	for file in .ci/run scripts/*.sh scripts/*/*.sh; do
		bash -n "$file" || status=1
	done
	return $status
}

# Its own dependencies would double what lint looks at.
lint() {
	# shellcheck disable=SC2046 # one word per package
	# Less garbage collection saves a third of the processor time, and needs 0.9 GB instead of 0.34.
	GOGC=400 go run ./scripts/lint $(go list work | grep -v '/scripts/lint$')
}

# Loading programs needs root. `make test` runs as root and never skips this.
instructions() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "instructions of BPF programs are not compared: that needs root" >&2
		return
	fi
	go test -vet=off -count=1 -timeout 40m -run '^TestInstructions$' ./bench/experiments
}

# The longest checks come first.
step generated scripts/generated.sh
step lint lint
step instructions instructions
step source go test -vet=off -count=1 -timeout 40m ./scripts/check
step modules tidy_modules
step merged merged
step gofmt formatted_go
step clang-format formatted_c
step shell scripts_parse
step headers scripts/headers.sh
step misspell spelled
wait

failed=("$logs"/*.failed)
if [ -e "${failed[0]}" ]; then
	failed=("${failed[@]##*/}")
	echo "check: failed: ${failed[*]%.failed}" >&2
	exit 1
fi
