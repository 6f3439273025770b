// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What keeps the compiler from code that the verifier does not follow. */
#ifndef WAYMARK_COMPILER_H
#define WAYMARK_COMPILER_H

/* Hides a value from the optimizer, which would merge checks and uses that the verifier must see one by one. */
#define opaque(x) asm volatile("" : "+r"(x))

/* Makes the compiler read memory again instead of keeping values on the stack, which is small. */
#define forget_memory() asm volatile("" ::: "memory")

#endif
