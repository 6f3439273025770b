// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What keeps the compiler from code that the verifier does not follow. */
#ifndef WAYMARK_COMPILER_H
#define WAYMARK_COMPILER_H

/* Keeps the compiler from joining what the verifier has to see apart. */
#define opaque(x) asm volatile("" : "+r"(x))

/* Lets the compiler read again what it would put aside: the stack is small. */
#define forget_memory() asm volatile("" ::: "memory")

#endif
