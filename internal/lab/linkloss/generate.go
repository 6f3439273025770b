// SPDX-License-Identifier: Apache-2.0

package linkloss

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../../../bpf=bpf" -type pattern -type prefix -type rule -type counts -type detour -type detoured -type colouring -type rule_block loss ../../../bpf/lab/loss.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
