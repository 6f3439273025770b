// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// loopbackWindowsPerSecond is how many windows of the loopback rate a second has: they
// last 2^30 ns.
const loopbackWindowsPerSecond = 1e9 / (1 << 30)

// probingOf is what the programs do with the flags of a namespace's traces.
func probingOf(cfg model.NodeConfig, ns model.Namespace) (p bpf.ABIProbing) {
	if ns.Loopback {
		p |= bpf.ABIProbingPROBING_RETURNS
	}
	if cfg.AsksLoopback(ns.ID) {
		p |= bpf.ABIProbingPROBING_ASKS
	}
	if ns.TerminateActive {
		p |= bpf.ABIProbingPROBING_TERMINATES
	}
	return p
}

// probingConstants sets the read-only data of programs.
func probingConstants(cfg model.NodeConfig, node *bpf.ABINodeConfig) {
	for _, ns := range cfg.Namespaces {
		p := probingOf(cfg, ns)
		if p&bpf.ABIProbingPROBING_RETURNS != 0 {
			node.TraceFlags |= uint8(ioam.FlagLoopback)
		}
		if p&bpf.ABIProbingPROBING_TERMINATES != 0 {
			node.TraceFlags |= uint8(ioam.FlagActive)
		}
		node.AsksLoopback |= bpf.Boolean(p&bpf.ABIProbingPROBING_ASKS != 0)
	}
	node.LoopbackLimit = cmp.Or(cfg.LoopbackLimit, model.DefaultLoopbackLimit)
	rate := float64(cmp.Or(cfg.LoopbackRate, model.DefaultLoopbackRate))
	node.LoopbackRate = uint32(max(rate/loopbackWindowsPerSecond, 1))
}

// asksBy notes the trace of a prebuilt header that gets the Loopback flag, whose first
// word is at an offset.
func asksBy(cfg model.NodeConfig, o model.TraceOption, at int, c *bpf.ABIEncapsulation) {
	if o.Loopback > 0 && cfg.Recognises() {
		c.Loopback, c.LoopbackAt = o.Loopback, uint16(at)
	}
}
