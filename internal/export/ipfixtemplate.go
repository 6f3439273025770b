// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// What a record says of the packet.
const (
	packetUnknown  = iota // nothing
	packetPortless        // addresses, but no ports
	packetPorts           // addresses and ports
)

// shape is what decides which fields a data record has.
type shape struct {
	kind      uint8 // kindPostcard…
	packet    uint8 // packetUnknown…
	flowID    bool
	sequence  bool
	pathDelay bool
	gaps      bool           // of a flow: how many packets are missing
	reordered bool           // of a flow: and how many came late
	traceType ioam.TraceType // only bits that have elements
}

const (
	kindPostcard = iota
	kindHop
	kindKernelHop // of which the kernel's own IOAM told
	kindFlow
)

// Bits of a trace type that have elements.
const (
	typeFixed  ioam.TraceType = 0xfff000 // bits 0 to 11, of a fixed length
	typeFields                = typeFixed | typeSnapshot
)

const typeSnapshot ioam.TraceType = 1 << (23 - ioam.BitSnapshot)

// dataFields are the elements of bits 0 to 11, in the order and with the lengths
// of node data, so that these are a part of a record as they are.
var dataFields = [12][]string{
	ioam.BitNode:               {"ioamHopLimit", "ioamNodeId"},
	ioam.BitInterfaces:         {"ioamIngressInterfaceId", "ioamEgressInterfaceId"},
	ioam.BitTimestampSeconds:   {"ioamTimestampSeconds"},
	ioam.BitTimestampFraction:  {"ioamTimestampFraction"},
	ioam.BitTransitDelay:       {"ioamTransitDelayNanoseconds"},
	ioam.BitNamespaceData:      {"ioamNamespaceData"},
	ioam.BitQueueDepth:         {"ioamQueueDepth"},
	ioam.BitChecksumComplement: {"ioamChecksumComplement"},
	ioam.BitNodeWide:           {"ioamHopLimit", "ioamNodeIdWide"},
	ioam.BitInterfacesWide:     {"ioamIngressInterfaceIdWide", "ioamEgressInterfaceIdWide"},
	ioam.BitNamespaceDataWide:  {"ioamNamespaceDataWide"},
	ioam.BitBufferOccupancy:    {"ioamBufferOccupancy"},
}

// fields are the field specifications of a template.
func (s shape) fields() []string {
	list := []string{"observationTimeNanoseconds"}
	add := func(when bool, specs ...string) {
		if when {
			list = append(list, specs...)
		}
	}
	isHop := s.kind == kindHop || s.kind == kindKernelHop
	// There are collectors that read times only as flows have them.
	add(s.kind != kindFlow, "flowStartMilliseconds", "flowEndMilliseconds")
	add(s.packet >= packetPortless, "sourceIPv6Address", "destinationIPv6Address", "protocolIdentifier", "flowLabelIPv6")
	add(s.packet == packetPorts, "sourceTransportPort", "destinationTransportPort")
	add(s.packet >= packetPortless && s.kind != kindFlow, "ipTotalLength[4]")
	add(s.kind != kindKernelHop, "observationPointId[4]", "ingressInterface")
	add(!isHop, "egressInterface", "ioamNodeRole")
	add(s.kind != kindFlow, "ioamOptionType")
	add(true, "ioamNamespaceId", "ioamTraceType")
	add(s.kind == kindPostcard, "ioamDirectExportFlags", "ioamExtensionFlags")
	add(s.flowID, "ioamDexFlowId")
	add(s.sequence, "ioamDexSequenceNumber")
	if s.kind == kindFlow {
		add(true, flowFields...)
		add(s.gaps, "ioamSequenceGapDeltaCount")
		add(s.reordered, "ioamReorderedPacketDeltaCount")
		add(true, "minimumTTL", "maximumTTL", "flowEndReason")
		return list
	}
	add(isHop, "ioamReportId", "ioamHopIndex", "ioamHopCount")
	add(s.kind == kindHop, "ioamTraceFlags", "ioamRemainingLength")
	add(s.kind == kindKernelHop, "ioamRecordSource")
	add(s.pathDelay, pathDelayFields...)
	add(s.traceType.Has(ioam.BitTimestampSeconds), "ioamTimestampNanoseconds")
	for bit, specs := range dataFields {
		add(s.traceType.Has(bit), specs...)
	}
	add(s.traceType.HasSnapshot(), "ioamSchemaId", "ioamOpaqueStateSnapshot")
	return list
}

// flowFields, which all flows have, have times in milliseconds too, for the same
// reason.
var flowFields = []string{
	"packetDeltaCount", "octetDeltaCount",
	"flowStartMilliseconds", "flowEndMilliseconds", "flowStartNanoseconds", "flowEndNanoseconds",
	"ioamTransitDelayMinNanoseconds", "ioamTransitDelayMaxNanoseconds", "ioamTransitDelaySumNanoseconds", "ioamTransitDelayDeltaCount",
}

// pathDelayFields are statistics over the packets of a record, which here is one:
// they are the same. The sum needs a count of packets beside it (RFC 9951 §7.2).
var pathDelayFields = []string{"pathDelayMeanDeltaMicroseconds", "pathDelayMinDeltaMicroseconds", "pathDelayMaxDeltaMicroseconds"}

// general is the shape that has every field that a record of s may have. What
// the record lacks is "not available" then.
func (s shape) general() shape {
	s.traceType = typeFields
	s.flowID, s.sequence = s.kind == kindPostcard || s.kind == kindFlow, s.kind == kindPostcard
	return s
}

// Templates of data records have numbers from firstDataTemplate on.
const firstDataTemplate ipfix.TemplateID = 300

// maxShapes bounds templates for trace types of their own: packets decide which
// trace types there are. Others share the general templates.
const maxShapes = 64

// layout is how records of a shape are written.
type layout struct {
	shape    shape
	index    uint16 // in templates
	template *ipfix.Template
	fixed    int // fields of the bits of typeFixed
	octets   int // of these fields

	// Where records have these values, if they do.
	length, packets, bytes, hopIndex int
}

// templates has a template for each shape of record that there was, the same
// for all collectors of an enterprise number.
type templates struct {
	registry *ipfix.Registry
	options  [numOptions]*ipfix.Template

	known atomic.Pointer[map[shape]*layout]
	mu    sync.Mutex // of making one
	list  atomic.Pointer[[]*layout]
}

func newTemplates(enterprise ipfix.Enterprise) (*templates, error) {
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(enterprise))
	if err != nil {
		return nil, fmt.Errorf("enterprise number %d: %w", enterprise, err)
	}
	t := &templates{registry: registry}
	t.known.Store(&map[shape]*layout{})
	t.list.Store(&[]*layout{})
	for i, o := range optionsFormats {
		if t.options[i], err = registry.OptionsTemplate(ipfix.MinTemplateID+ipfix.TemplateID(i), []string{o.scope}, o.specs...); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// of is the layout for records of a shape.
func (t *templates) of(s shape) (*layout, error) {
	if l := (*t.known.Load())[s]; l != nil {
		return l, nil
	}
	return t.make(s)
}

// make adds a shape: what is read without a lock is copied.
func (t *templates) make(s shape) (*layout, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, list := *t.known.Load(), *t.list.Load()
	if l := known[s]; l != nil {
		return l, nil
	}
	if general := s.general(); len(list) >= maxShapes && s.kind != kindFlow && s != general {
		if l := known[general]; l != nil {
			return l, nil
		}
		s = general
	}
	l := &layout{shape: s, index: uint16(len(list))}
	for bit, specs := range dataFields {
		if s.kind != kindFlow && s.traceType.Has(bit) {
			l.fixed += len(specs)
		}
	}
	l.octets = 4 * (s.traceType & typeFixed).NodeLen()
	var err error
	if l.template, err = t.registry.Template(firstDataTemplate+ipfix.TemplateID(l.index), s.fields()...); err != nil {
		return nil, err
	}
	l.length, l.packets = l.offset("ipTotalLength"), l.offset("packetDeltaCount")
	l.bytes, l.hopIndex = l.offset("octetDeltaCount"), l.offset("ioamHopIndex")
	next := make(map[shape]*layout, len(known)+1)
	for k, v := range known {
		next[k] = v
	}
	next[s] = l
	longer := append(list[:len(list):len(list)], l)
	t.list.Store(&longer)
	t.known.Store(&next)
	return l, nil
}
