// SPDX-License-Identifier: Apache-2.0

// Package model describes an IOAM node: its configuration ([NodeConfig]) and the
// rules that make one valid ([NodeConfig.Validate]), the outcomes of packets
// ([Outcome]), and what a Direct Export reports ([Postcard]). The configuration
// file, the local API, the data plane and the reference node share it.
package model
