#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails unless the pinned BPF compiler is installed. Other compilers make objects
# that differ from the committed ones, and clang 14 miscompiles packet copies.
set -euo pipefail

cure='run scripts/setup.sh test, or: apt-get install clang-19 llvm-19 libbpf-dev'
for tool in clang-19 llvm-strip-19; do
	if ! command -v "$tool" >/dev/null; then
		echo "compiler: $tool is not installed; $cure" >&2
		exit 1
	fi
done
major=$(clang-19 -dumpversion | cut -d. -f1)
if [ "$major" != 19 ]; then
	echo "compiler: clang-19 says it is version $major; $cure" >&2
	exit 1
fi
if [ ! -e /usr/include/bpf/bpf_helpers.h ]; then
	echo "compiler: bpf/bpf_helpers.h is not installed; $cure" >&2
	exit 1
fi
