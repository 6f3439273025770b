// SPDX-License-Identifier: Apache-2.0

package datapath

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../../bpf=bpf" -type outcome -type counter -type stack_reason -type forwarding_key -type perfect_hash -type node_config -type ingress_interface -type ioam_namespace -type rule -type rule_key -type patch -type encapsulation -type frequency -type clock_state -type record -type forwarding -type next_hop_set -type neighbour abi ../../bpf/abi.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../../bpf=bpf" ingressXDP ../../bpf/ingress_xdp.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../../bpf=bpf" ingressTC ../../bpf/ingress_tc.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../../bpf=bpf" egressTC ../../bpf/egress_tc.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
