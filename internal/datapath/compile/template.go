// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const (
	optionIOAM         = 0x31 // RFC 9486 §3
	snapshotNoSchema   = 0x00ffffff
	traceHeaderLength  = 8
	ioamOptionOverhead = 4 // type, length, reserved, IOAM option-type
)

// compileEncapsulation builds the extension headers that a rule inserts, with
// this node's own data, and lists what must be filled in per packet.
func compileEncapsulation(cfg model.NodeConfig, out model.Interface, e model.Encapsulation) bpf.ABIEncapsulation {
	c := bpf.ABIEncapsulation{
		Mode:        uint32(e.Mode),
		FrequencyK:  e.Frequency.K,
		FrequencyN:  e.Frequency.N,
		HasBudget:   bpf.Boolean(e.Budget != model.Budget{}),
		PacketShare: shareOf(e.Budget.Packets),
		OctetShare:  shareOf(e.Budget.Octets),
		PacketPrice: priceOf(e.Budget.Packets),
		OctetPrice:  priceOf(e.Budget.Octets),
		Source:      bpf.AddressWords(e.TunnelSource),
		Destination: bpf.AddressWords(e.TunnelDestination),
		Options:     uint8(len(e.Options)),
		Nested:      bpf.Boolean(e.Nested),
		PathMtu:     uint32(e.PathMTU),
		Inserted:    uint8(model.OutcomeEncapInserted),
		Tunneled:    uint8(model.OutcomeEncapTunneled),
	}
	c.FlowsBelow = flowsBelow(e.Flows)
	var header []byte
	if e.HopByHopLen() > 0 {
		header = []byte{0, 0, 1, 0} // next header and length later; PadN aligns options to 4n
	}
	for i, option := range e.Options {
		if option.DirectExport != nil {
			header = appendDirectExport(header, *option.DirectExport, &c.Patches[i])
			c.HasDex = 1
			c.FlowsByLabel |= bpf.Boolean(option.DirectExport.FlowID.Kind == model.FlowIDLabel)
			// the export includes the queue depth even where the header has no
			// room for it
			c.WantsQueue |= bpf.Boolean(option.DirectExport.Type.Has(ioam.BitQueueDepth))
			c.WantsBuffer |= bpf.Boolean(option.DirectExport.Type.Has(ioam.BitBufferOccupancy) && cfg.Compatibility == model.CompatibilityDefault)
			continue
		}
		if option.EdgeToEdge != nil {
			continue // in a header of its own
		}
		if option.Proof != nil {
			header = appendProof(header, *option.Proof, &c.Patches[i])
			c.HasProof = 1
			continue
		}
		if option.Trace.Incremental {
			c.HasIncremental = 1
		}
		asksBy(cfg, *option.Trace, len(header)+ioamOptionOverhead, &c)
		var lacking model.Outcome
		header, lacking = appendTraceOption(header, cfg, out, *option.Trace, &c.Patches[i])
		c.Inserted, c.Tunneled = max(c.Inserted, uint8(lacking)), max(c.Tunneled, uint8(lacking))
		if c.Patches[i].Seconds != 0 || c.Patches[i].Fraction != 0 {
			c.WantsTime = 1
		}
		if c.Patches[i].Queue != 0 {
			c.WantsQueue = 1
		}
		if c.Patches[i].Buffer != 0 {
			c.WantsBuffer = 1
		}
	}
	c.Content = uint8(len(header) / 4)
	c.Whole = c.Content
	header = appendDestinationHeader(&c, closeHeader(header, 0), e)
	c.HeaderLength = uint32(len(header))
	for i := 0; i < len(header); i += 8 {
		c.Header[i/8] = binary.NativeEndian.Uint64(header[i:])
	}
	return c
}

// closeHeader pads an extension header, which begins at an offset, and writes its length.
func closeHeader(header []byte, start int) []byte {
	if len(header) == start {
		return header // there is none
	}
	if len(header)%8 != 0 {
		header = append(header, 1, 2, 0, 0)
	}
	header[start+1] = uint8((len(header)-start)/8 - 1)
	return header
}

// shareOf is a number of millionths in 2^-32, rounded down, and at least 1.
func shareOf(millionths uint32) uint64 {
	if millionths == 0 {
		return 0
	}
	return max(1, uint64(millionths)<<32/model.MaxBudget)
}

// priceOf is how many packets earn one of a share, or octets one octet, rounded up.
func priceOf(millionths uint32) uint32 {
	if millionths == 0 {
		return 0
	}
	share := shareOf(millionths)
	return uint32((1<<32 + share - 1) / share)
}

// appendTraceOption appends one option with this node's data at its tail. If it
// writes no data, it returns the outcome that says why, else 0.
func appendTraceOption(
	header []byte,
	cfg model.NodeConfig,
	out model.Interface,
	o model.TraceOption,
	p *bpf.ABIPatch,
) ([]byte, model.Outcome) {
	p.Kind = uint8(bpf.ABIOptionKindKIND_TRACE)
	size, kind := o.Size, ioam.IOAMPreallocatedTrace
	if o.Incremental { // the namespace is known, and the data fit: validation refuses all else
		p.Kind = uint8(bpf.ABIOptionKindKIND_INCREMENTAL)
		size, kind = 4*o.Type.NodeLen(), ioam.IOAMIncrementalTrace
		p.Remaining, p.RemainingAt = uint8((o.Size-size)/4), uint16(len(header)+ioamOptionOverhead+3)
	}
	header = append(header, optionIOAM, uint8(2+traceHeaderLength+size), 0, uint8(kind))
	end := len(header) + traceHeaderLength + size
	data, lacking := ownData(cfg, out, o, end, p)
	lengths := uint16(o.Type.NodeLen())<<11 | uint16((o.Size-len(data))/4)
	if lacking == model.OutcomeEncapOverflow {
		lengths |= uint16(ioam.FlagOverflow) << 7
	}
	header = binary.BigEndian.AppendUint16(header, uint16(o.Namespace))
	header = binary.BigEndian.AppendUint16(header, lengths)
	header = binary.BigEndian.AppendUint32(header, uint32(o.Type)<<8)
	header = append(header, make([]byte, size-len(data))...)
	return append(header, data...), lacking
}

// appendDirectExport appends one option, and lists what differs per packet.
func appendDirectExport(header []byte, o model.DirectExportOption, p *bpf.ABIPatch) []byte {
	start := len(header)
	header = append(header, uint8(cmp.Or(o.OptionType, ioam.OptionIOAMStatic)), 0, 0, uint8(ioam.IOAMDirectExport))
	p.Kind, p.Dex = uint8(bpf.ABIOptionKindKIND_DEX), uint16(len(header))
	header = binary.BigEndian.AppendUint16(header, uint16(o.Namespace))
	header = append(header, 0, o.ExtensionFlags)
	header = binary.BigEndian.AppendUint32(header, uint32(o.Type)<<8)
	if o.ExtensionFlags&ioam.ExtensionFlowID != 0 {
		p.FlowId = uint16(len(header))
		header = binary.BigEndian.AppendUint32(header, o.FlowID.Fixed)
	}
	if o.ExtensionFlags&ioam.ExtensionSequence != 0 {
		p.Sequence = uint16(len(header))
		header = binary.BigEndian.AppendUint32(header, 0)
	}
	header[start+1] = uint8(len(header) - start - 2)
	p.FlowIdSource = uint32(o.FlowID.Kind)
	p.FixedFlowId = o.FlowID.Fixed
	return header
}

// ownData returns this node's data, which end where the option ends, and fills in
// the offsets of what differs per packet; or it returns the outcome that says why
// it writes none. Linux does the same (net/ipv6): ioam6_do_fill leaves a trace of
// an unknown namespace unchanged, and if a trace is too small,
// ioam6_fill_trace_data sets the overflow flag and leaves RemainingLen.
func ownData(cfg model.NodeConfig, out model.Interface, o model.TraceOption, end int, p *bpf.ABIPatch) ([]byte, model.Outcome) {
	known := slices.IndexFunc(cfg.Namespaces, func(ns model.Namespace) bool { return ns.ID == o.Namespace })
	if known < 0 {
		return nil, model.OutcomeEncapUnfilled
	}
	ns := cfg.Namespaces[known]
	var tail []byte
	if o.Type.HasSnapshot() {
		tail = Snapshot(ns.Schema)
	}
	length := 4*o.Type.NodeLen() + len(tail)
	if length > o.Size {
		return nil, model.OutcomeEncapOverflow
	}
	start := uint16(end - length)

	var data []byte
	at := func(bit int, field *uint16, within int) {
		if o.Type.Has(bit) {
			*field = start + uint16(len(data)+within)
		}
	}
	put32 := func(bit int, v uint32) {
		if o.Type.Has(bit) {
			data = binary.BigEndian.AppendUint32(data, v)
		}
	}
	put64 := func(bit int, v uint64) {
		if o.Type.Has(bit) {
			data = binary.BigEndian.AppendUint64(data, v)
		}
	}
	at(0, &p.HopLimit, 0)
	put32(0, uint32(cfg.ID))
	at(1, &p.IngressId, 0)
	put32(1, uint32(ioam.InterfaceIDUnavailable)<<16|uint32(out.ID))
	at(2, &p.Seconds, 0)
	put32(2, ioam.DataUnavailable)
	at(3, &p.Fraction, 0)
	put32(3, ioam.DataUnavailable)
	put32(4, ioam.DataUnavailable)
	put32(5, ns.Data)
	at(6, &p.Queue, 0)
	put32(6, ioam.DataUnavailable)
	mainline := cfg.Compatibility == model.CompatibilityMainline
	if !mainline {
		at(7, &p.Complement, 0)
	}
	put32(7, ioam.DataUnavailable)
	at(8, &p.HopLimitWide, 0)
	put64(8, uint64(cfg.IDWide))
	at(9, &p.IngressIdWide, 0)
	put64(9, uint64(ioam.InterfaceIDWideUnavailable)<<32|uint64(out.IDWide))
	put64(10, ns.DataWide)
	if !mainline {
		at(11, &p.Buffer, 0)
	}
	for bit := 11; bit <= 21; bit++ {
		put32(bit, ioam.DataUnavailable)
	}
	data = append(data, tail...)
	if p.Complement != 0 {
		longer := 0
		if o.Incremental {
			longer = len(data)
		}
		p.Sum = prebuiltSum(data, start, longer, p)
	}
	return data, 0
}

// prebuiltSum is what the checksum complement of a packet's own data begins with: the
// one's complement sum of the data without what differs per packet, less that of
// RemainingLen, which the data reduce, and with what the option is longer by; as programs
// sum up words of the packet.
func prebuiltSum(data []byte, start uint16, longer int, p *bpf.ABIPatch) uint16 {
	fixed := slices.Clone(data)
	zero := func(offset uint16, length int) {
		if offset != 0 {
			clear(fixed[int(offset-start):][:length])
		}
	}
	zero(p.HopLimit, 1)
	zero(p.IngressId, 2)
	zero(p.HopLimitWide, 1)
	zero(p.IngressIdWide, 4)
	for _, offset := range []uint16{p.Seconds, p.Fraction, p.Queue, p.Complement, p.Buffer} {
		zero(offset, 4)
	}
	lengths := binary.BigEndian.AppendUint16(nil, ^uint16(len(data)/4))
	lengths = binary.BigEndian.AppendUint16(lengths, uint16(longer))
	sum := uint64(binary.NativeEndian.Uint16(lengths)) + uint64(binary.NativeEndian.Uint16(lengths[2:]))
	for i := 0; i < len(fixed); i += 2 {
		sum += uint64(binary.NativeEndian.Uint16(fixed[i:]))
	}
	return uint16(sum % 0xffff)
}

// Snapshot is an opaque state snapshot on the wire (RFC 9197 §4.4.2.13).
func Snapshot(s *model.Schema) []byte {
	if s == nil {
		return binary.BigEndian.AppendUint32(nil, snapshotNoSchema)
	}
	units := (len(s.Data) + 3) / 4
	b := binary.BigEndian.AppendUint32(nil, uint32(units)<<24|uint32(s.ID))
	b = append(b, s.Data...)
	return append(b, make([]byte, 4*units-len(s.Data))...)
}
