// SPDX-License-Identifier: Apache-2.0

package harness

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../bpf=bench/bpf" -type frame restore ../bpf/restore.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../bpf=bench/bpf" -type headers -type sample -type delay -type audit traffic ../bpf/traffic.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../bpf=bench/bpf" hooks ../bpf/hooks.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../bpf=bench/bpf" -type list linear ../bpf/linear.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -fdebug-prefix-map=../bpf=bench/bpf" bare ../bpf/bare.bpf.c -- -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
