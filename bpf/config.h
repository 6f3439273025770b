// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Read-only data: fixed when a generation is loaded, so the verifier removes what is off. */
#ifndef WAYMARK_CONFIG_H
#define WAYMARK_CONFIG_H

#include "abi.h"

const volatile struct node_config NODE = {};

#endif
