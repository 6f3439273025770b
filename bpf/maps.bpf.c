// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The definitions of the maps alone: the agent reads them sooner than an object with a program. */
#include "config.h"
#include "maps.h"
