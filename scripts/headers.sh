#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails when a header of the BPF programs does not compile by itself. Each header
# includes what it uses, so the order of inclusion does not matter.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
for hook in xdp skb; do
	for header in bpf/*.h bpf/lib/*.h bpf/lib/option/*.h "bpf/lib/$hook"/*.h; do
		if ! clang-19 -target bpf -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-function \
			-fsyntax-only -x c -I bpf -I bpf/lib -I "bpf/lib/$hook" \
			-idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu \
			-include "$header" /dev/null; then
			echo "headers: $header does not compile by itself in $hook" >&2
			status=1
		fi
	done
done
exit $status
