// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// exportWindowsPerSecond is how many windows of the export rate a second has:
// they last 2^27 ns.
const exportWindowsPerSecond = 1e9 / (1 << 27)

// Exports is how a node exports, the same at all its interfaces.
type Exports struct {
	hasExports bool
	limit      uint32
	rate       uint32 // exports per window
	FlowSets   uint32 // per CPU; 0 when no namespace aggregates
	flowKeys   [11]uint64
	Collectors []bpf.ABICollector
	inserts    bool // some encapsulation has a Direct Export
	Sequences  bool // some Direct Export numbers packets
	Postcards  bool // some namespace exports postcards
}

func compileExporting(cfg model.NodeConfig) Exports {
	x := Exports{
		limit:    cmp.Or(cfg.ExportLimit, model.DefaultExportLimit),
		flowKeys: flowKeys(cfg.FlowSeed),
	}
	rate := float64(cmp.Or(cfg.ExportRate, model.DefaultExportRate))
	x.rate = uint32(max(rate/exportWindowsPerSecond, 1))
	for _, ns := range cfg.Namespaces {
		x.hasExports = x.hasExports || ns.Export != model.ExportNone
		x.Postcards = x.Postcards || ns.Export == model.ExportEvery || ns.Export == model.ExportSample
		if ns.Export == model.ExportAggregate || ns.Export == model.ExportSample {
			entries := uint(cmp.Or(cfg.FlowEntries, model.DefaultFlowEntries))
			x.FlowSets = bpf.PowerOfTwo((entries + uint(flows.Ways) - 1) / uint(flows.Ways))
		}
	}
	for _, c := range cfg.Collectors {
		to := bpf.ABICollector{Address: bpf.AddressWords(c.Address), Protocol: uint8(c.Protocol)}
		x.Collectors = append(x.Collectors, to) // for packets whose port is unknown
		to.Port = bpf.BigEndian16(c.Port)
		x.Collectors = append(x.Collectors, to)
	}
	for _, e := range cfg.Encapsulations {
		for _, o := range e.Options {
			if o.DirectExport == nil {
				continue
			}
			x.inserts = true
			x.Sequences = x.Sequences || o.DirectExport.ExtensionFlags&ioam.ExtensionSequence != 0
		}
	}
	return x
}

// constants sets the read-only data of programs.
func (x Exports) constants(node *bpf.ABINodeConfig) {
	node.HasPostcards = bpf.Boolean(x.hasExports)
	node.InsertsDex = bpf.Boolean(x.inserts)
	node.FlowSets = x.FlowSets
	node.PostcardLimit, node.PostcardRate = x.limit, x.rate
	node.FlowKeys = x.flowKeys
}

// CollectorBits are the bits of all collectors' addresses.
func (x Exports) CollectorBits() (bits uint64) {
	for _, c := range x.Collectors {
		bits |= 1 << collectorBit(c.Address)
	}
	return bits
}

// collectorBit is the bit that programs test before they look a collector up.
func collectorBit(address [2]uint64) uint64 { return (address[0] ^ address[1]) * fibonacci >> 58 }

// fibonacci is 2^64 divided by the golden ratio.
const fibonacci = 0x9e3779b97f4a7c15

// flowKeys are the multipliers of the flow hash
// (docs/data-plane/direct-export.md#flow-hash): outputs of splitmix64.
func flowKeys(seed uint64) (keys [11]uint64) {
	state := seed
	for i := range keys {
		state += fibonacci
		z := (state ^ state>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		keys[i] = z ^ z>>31
	}
	return keys
}

// flowsBelow is the bound for flow hashes that selects 1 in n flows; 0 selects
// all.
func flowsBelow(n uint32) uint32 {
	if n <= 1 {
		return 0
	}
	return uint32(1 << 32 / uint64(n))
}
