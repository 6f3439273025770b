// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// loopbackConfigs are nodes that act on the flags of RFC 9322.
func loopbackConfigs() map[string]model.NodeConfig {
	asks := encapsulation(
		model.ModeInline,
		model.TraceOption{Namespace: namespace, Type: model.LoopbackType, Size: 16, Loopback: model.DefaultLoopbackLimit},
	)
	ends := nodeConfig()
	ends.Namespaces[0].Remove, ends.Namespaces[0].TerminateActive = true, true
	returns := nodeConfig()
	returns.Namespaces[0].Loopback = true
	return map[string]model.NodeConfig{"loopback: asks": asks, "loopback: returns": returns, "active: ends": ends}
}

// flagged is a trace of hop limits and node ids with flags, whose first hop is a node.
func flagged(flags ioam.TraceFlags, first uint32) []byte {
	t := ioam.Trace{Namespace: namespace, NodeLen: 1, Flags: flags, RemainingLen: 3, Type: model.LoopbackType, Data: make([]byte, 16)}
	t.Data[12], t.Data[15] = 64, byte(first)
	o := t.Option()
	return append([]byte{byte(o.Type), byte(len(o.Data))}, o.Data...)
}

// loopbackCases measure packets with the flags. Nearly all copies are beyond the limits.
func loopbackCases() []costCase {
	var cases []costCase
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		make1 := func(detail string, outcome model.Outcome, config string, frame []byte) costCase {
			return costCase{hook, detail, outcome, config, frame, harness.SKB{}, 0}
		}
		header, err := ioam.AppendExtensionHeader(nil, ioam.NextHeaderNone, ioam.Option{Type: ioam.OptionIOAM, Data: flagged(0, 2)[2:]})
		if err != nil { // the option is small
			header = nil
		}
		cases = append(cases,
			make1("Loopback flag", model.OutcomeTraceFilled, "loopback: returns", padded(110, flagged(ioam.FlagLoopback, 9))),
			make1("without the flag", model.OutcomeTraceFilled, "loopback: returns", padded(110, flagged(0, 9))),
			make1(
				"",
				model.OutcomeLoopbackReceived,
				"loopback: asks",
				harness.Ethernet(harness.IPv6(harness.Destination, harness.Source, harness.NextHBH, header)),
			),
			make1("", model.OutcomeActiveTerminated, "active: ends", padded(110, flagged(ioam.FlagActive, 9))),
		)
	}
	return append(cases, costCase{
		datapath.HookEgressTC, "Loopback flag on some", model.OutcomeEncapInserted, "loopback: asks",
		harness.Plain(harness.Destination, 78), harness.SKB{}, 0,
	})
}
