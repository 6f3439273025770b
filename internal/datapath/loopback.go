// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// loopbackWindowsPerSecond is how many windows of the loopback rate a second has: they
// last 2^30 ns.
const loopbackWindowsPerSecond = 1e9 / (1 << 30)

// LoopbackCounters count what an interface did about Loopback flags (RFC 9322 §4).
type LoopbackCounters struct {
	Asked      uint64 // packets on which the flag was set
	Returned   uint64 // headers handed over, for copies to return
	Suppressed uint64 // both, beyond a limit, or without a reader
}

// probingOf is what the programs do with the flags of a namespace's traces.
func probingOf(cfg model.NodeConfig, ns model.Namespace) (p abiProbing) {
	if ns.Loopback {
		p |= abiProbingPROBING_RETURNS
	}
	if cfg.AsksLoopback(ns.ID) {
		p |= abiProbingPROBING_ASKS
	}
	if ns.TerminateActive {
		p |= abiProbingPROBING_TERMINATES
	}
	return p
}

// probingConstants sets the read-only data of programs.
func probingConstants(cfg model.NodeConfig, node *abiNodeConfig) {
	for _, ns := range cfg.Namespaces {
		p := probingOf(cfg, ns)
		if p&abiProbingPROBING_RETURNS != 0 {
			node.TraceFlags |= uint8(ioam.FlagLoopback)
		}
		if p&abiProbingPROBING_TERMINATES != 0 {
			node.TraceFlags |= uint8(ioam.FlagActive)
		}
		node.AsksLoopback |= boolean(p&abiProbingPROBING_ASKS != 0)
	}
	node.LoopbackLimit = cmp.Or(cfg.LoopbackLimit, model.DefaultLoopbackLimit)
	rate := float64(cmp.Or(cfg.LoopbackRate, model.DefaultLoopbackRate))
	node.LoopbackRate = uint32(max(rate/loopbackWindowsPerSecond, 1))
}

// asksBy notes the trace of a prebuilt header that gets the Loopback flag, whose first
// word is at an offset.
func asksBy(cfg model.NodeConfig, o model.TraceOption, at int, c *abiEncapsulation) {
	if o.Loopback > 0 && cfg.Recognises() {
		c.Loopback, c.LoopbackAt = o.Loopback, uint16(at)
	}
}
