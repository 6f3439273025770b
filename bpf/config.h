// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Global data: constants, with which the verifier removes code, and the state of the tables. */
#ifndef WAYMARK_CONFIG_H
#define WAYMARK_CONFIG_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "abi.h"

const volatile struct node_config NODE = {};

/* Written by the agent alone, in its own memory: one word changes the tables for all hooks at once. */
volatile struct state STATE SEC(".data.state") = {};

/* What the agent knows of the routes; written as often as it shows that it runs. Kept. */
volatile struct forwarding FORWARDING SEC(".data.forwarding") = {};

#endif
