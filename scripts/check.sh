#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every static check, each with a reason; all of them run, then the failed
# ones are named. What a formatter or generator can mend names its command.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
# step NAME COMMAND... runs one check.
step() {
	local name=$1
	shift
	if "$@"; then
		echo "check: $name ok"
	else
		echo "check: $name FAILED" >&2
		failed+=("$name")
	fi
}

formatted_go() {
	local files
	files=$(gofmt -l . 2>&1)
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
	find . \( -path ./.git -o -path ./bin -o -path ./build -o -path ./LICENSES \) -prune -o \
		\( -name '*.md' -o -name '*.go' -o -name '*.[ch]' -o -name '*.sh' -o -name '*.yaml' \) -print0 |
		xargs -0 -r go tool misspell -error -i ect # ECN-capable transport
}

scripts_parse() {
	local file status=0
	for file in .ci/run scripts/*.sh; do
		bash -n "$file" || status=1
	done
	return $status
}

# Loading programs needs root; make test, which is root, has no other way out.
instructions() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "instructions of BPF programs are not compared: that needs root" >&2
		return
	fi
	go test -count=1 -run '^TestInstructions$' ./bench
}

step gofmt formatted_go
step clang-format formatted_c
step shell scripts_parse
step misspell spelled
step vet go vet ./...
step staticcheck go tool staticcheck ./...
step errorlint go tool go-errorlint ./...
step source go test -count=1 ./scripts/check
step modules go mod tidy -diff
step instructions instructions
step generated scripts/generated.sh

if [ ${#failed[@]} -gt 0 ]; then
	echo "check: failed: ${failed[*]}" >&2
	exit 1
fi
