// SPDX-License-Identifier: Apache-2.0

package record

import (
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// DomainName is an options record of IPFIX: the name of an observation domain,
// which is a node, and the ids that the node writes into packets.
type DomainName struct {
	Domain Field[uint32]
	Name   string
	ID     Field[ioam.NodeID]
	IDWide Field[ioam.NodeIDWide]
}

var domainNames = table[*DomainName]{
	hidden(func(d *DomainName) *Field[uint32] { return &d.Domain }, optional(number[uint32]())).ipfix(sectionHeader, "observationDomainId"),
	hidden(func(d *DomainName) *string { return &d.Name }, textual()).ipfix(sectionHeader, "observationDomainName"),
	hidden(func(d *DomainName) *Field[ioam.NodeID] { return &d.ID }, known(number[ioam.NodeID](), 1<<24-1)).ipfix(sectionHeader, "ioamNodeId"),
	hidden(
		func(d *DomainName) *Field[ioam.NodeIDWide] { return &d.IDWide },
		known(number[ioam.NodeIDWide](), 1<<56-1),
	).ipfix(sectionHeader, "ioamNodeIdWide"),
}

// InterfaceName is the name of an interface, what its operator wrote about it, and the ids
// that the node writes into packets.
type InterfaceName struct {
	Index       model.IfIndex
	Name        string
	Description string
	ID          Field[ioam.InterfaceID]
	IDWide      Field[ioam.InterfaceIDWide]
}

var interfaceNames = table[*InterfaceName]{
	hidden(
		func(i *InterfaceName) *model.IfIndex { return &i.Index },
		greatest(),
	).ipfix(sectionHeader, "ingressInterface").
		also("egressInterface"),
	hidden(func(i *InterfaceName) *string { return &i.Name }, textual()).ipfix(sectionHeader, "interfaceName"),
	hidden(func(i *InterfaceName) *string { return &i.Description }, textual()).ipfix(sectionHeader, "interfaceDescription"),
	hidden(func(i *InterfaceName) *Field[ioam.InterfaceID] { return &i.ID }, known(number[ioam.InterfaceID](), 1<<16-1)).
		ipfix(sectionHeader, "ioamIngressInterfaceId"),
	hidden(func(i *InterfaceName) *Field[ioam.InterfaceIDWide] { return &i.IDWide }, known(number[ioam.InterfaceIDWide](), 1<<32-1)).
		ipfix(sectionHeader, "ioamIngressInterfaceIdWide"),
}

// greatest is an index of which the greatest value is read: another exporter may send
// one for each direction, and 0 in one of them.
func greatest() codec[*model.IfIndex] {
	c := number[model.IfIndex]()
	c.readValue = func(p any, v ipfix.Value) bool {
		n, ok := v.Uint()
		if i := p.(*model.IfIndex); ok {
			*i = max(*i, model.IfIndex(n))
		}
		return ok
	}
	return c
}

// Metering counts what was sent (RFC 7011 §4.1).
type Metering struct {
	Domain                    uint32
	Messages, Records, Octets uint64
}

var meterings = table[*Metering]{
	hidden(func(m *Metering) *uint32 { return &m.Domain }, number[uint32]()).ipfix(sectionHeader, "observationDomainId"),
	hidden(func(m *Metering) *uint64 { return &m.Messages }, number[uint64]()).ipfix(sectionHeader, "exportedMessageTotalCount"),
	hidden(func(m *Metering) *uint64 { return &m.Records }, number[uint64]()).ipfix(sectionHeader, "exportedFlowRecordTotalCount"),
	hidden(func(m *Metering) *uint64 { return &m.Octets }, number[uint64]()).ipfix(sectionHeader, "exportedOctetTotalCount"),
}

// Ignored counts packets without a record (RFC 7011 §4.2), with the causes. There is no
// ignoredOctetTotalCount: the data plane does not count the octets of packets without a
// record.
type Ignored struct {
	Domain           uint32
	Packets          uint64
	First, Last      instant.Time // loss
	Suppressed, Lost uint64       // records
}

var ignoreds = table[*Ignored]{
	hidden(func(i *Ignored) *uint32 { return &i.Domain }, number[uint32]()).ipfix(sectionHeader, "observationDomainId"),
	hidden(func(i *Ignored) *uint64 { return &i.Packets }, number[uint64]()).ipfix(sectionHeader, "ignoredPacketTotalCount"),
	hidden(func(i *Ignored) *instant.Time { return &i.First }, moment()).ipfix(sectionHeader, "observationTimeSeconds"),
	hidden(func(i *Ignored) *instant.Time { return &i.Last }, moment()).ipfix(sectionHeader, "observationTimeSeconds"),
	hidden(func(i *Ignored) *uint64 { return &i.Suppressed }, number[uint64]()).ipfix(sectionHeader, "ioamSuppressedRecordTotalCount"),
	hidden(func(i *Ignored) *uint64 { return &i.Lost }, number[uint64]()).ipfix(sectionHeader, "ioamLostRecordTotalCount"),
}

// Unsent counts records that were not sent (RFC 7011 §4.3), with the causes.
type Unsent struct {
	Process                                uint32
	Records, Packets, Octets               uint64
	First, Last                            instant.Time // of them
	QueueFull, ConnectionLost, Unencodable uint64
}

var unsents = table[*Unsent]{
	hidden(func(u *Unsent) *uint32 { return &u.Process }, number[uint32]()).ipfix(sectionHeader, "exportingProcessId"),
	hidden(func(u *Unsent) *uint64 { return &u.Records }, number[uint64]()).ipfix(sectionHeader, "notSentFlowTotalCount"),
	hidden(func(u *Unsent) *uint64 { return &u.Packets }, number[uint64]()).ipfix(sectionHeader, "notSentPacketTotalCount"),
	hidden(func(u *Unsent) *uint64 { return &u.Octets }, number[uint64]()).ipfix(sectionHeader, "notSentOctetTotalCount"),
	hidden(func(u *Unsent) *instant.Time { return &u.First }, moment()).ipfix(sectionHeader, "observationTimeMilliseconds"),
	hidden(func(u *Unsent) *instant.Time { return &u.Last }, moment()).ipfix(sectionHeader, "observationTimeMilliseconds"),
	hidden(func(u *Unsent) *uint64 { return &u.QueueFull }, number[uint64]()).ipfix(sectionHeader, "ioamQueueFullRecordTotalCount"),
	hidden(func(u *Unsent) *uint64 { return &u.ConnectionLost }, number[uint64]()).ipfix(sectionHeader, "ioamConnectionLostRecordTotalCount"),
	hidden(func(u *Unsent) *uint64 { return &u.Unencodable }, number[uint64]()).ipfix(sectionHeader, "ioamUnencodableRecordTotalCount"),
}

// Reporting is what a node says of its postcards in a namespace: those about packets from
// Since until Until came before it in the transport session, except as many as its
// counters have grown since the record before.
type Reporting struct {
	Domain                    uint32
	Namespace                 ioam.NamespaceID
	Since, Until              instant.Time
	Counted                   instant.Time // when the counters had been read
	Served                    instant.Time // since when the node's configuration is as it is
	Sampling                  uint32       // a postcard of one packet in this number
	Suppressed, Lost, NotSent uint64       // records
}

var reportings = table[*Reporting]{
	hidden(func(r *Reporting) *uint32 { return &r.Domain }, number[uint32]()).ipfix(sectionHeader, "observationDomainId"),
	hidden(func(r *Reporting) *ioam.NamespaceID { return &r.Namespace }, number[ioam.NamespaceID]()).ipfix(sectionHeader, "ioamNamespaceId"),
	hidden(func(r *Reporting) *instant.Time { return &r.Since }, moment()).ipfix(sectionHeader, "ioamReportedSinceNanoseconds"),
	hidden(func(r *Reporting) *instant.Time { return &r.Until }, moment()).ipfix(sectionHeader, "ioamReportedUntilNanoseconds"),
	hidden(func(r *Reporting) *instant.Time { return &r.Counted }, moment()).ipfix(sectionHeader, "ioamCountedUntilNanoseconds"),
	hidden(func(r *Reporting) *instant.Time { return &r.Served }, moment()).ipfix(sectionHeader, "ioamServedSinceNanoseconds"),
	hidden(func(r *Reporting) *uint32 { return &r.Sampling }, number[uint32]()).ipfix(sectionHeader, "ioamPostcardSamplingInterval"),
	hidden(func(r *Reporting) *uint64 { return &r.Suppressed }, number[uint64]()).ipfix(sectionHeader, "ioamSuppressedRecordTotalCount"),
	hidden(func(r *Reporting) *uint64 { return &r.Lost }, number[uint64]()).ipfix(sectionHeader, "ioamLostRecordTotalCount"),
	hidden(func(r *Reporting) *uint64 { return &r.NotSent }, number[uint64]()).ipfix(sectionHeader, "notSentFlowTotalCount"),
}

// Options writes the options records of a session (RFC 7011 §3.4.2.2).
type Options struct {
	DomainName    Option[DomainName]
	InterfaceName Option[InterfaceName]
	Metering      Option[Metering]
	Ignored       Option[Ignored]
	Unsent        Option[Unsent]
	Reporting     Option[Reporting]
}

// Option writes one kind of options records.
type Option[R any] struct {
	Template *ipfix.Template
	steps    []step[*R]
}

// Append appends a record.
func (o *Option[R]) Append(b []byte, r *R) []byte {
	for _, put := range o.steps {
		b = put(b, r)
	}
	return b
}

// NewOptions makes the options templates, with the first template numbers.
func NewOptions(registry *ipfix.Registry) (*Options, error) {
	o, id := &Options{}, ipfix.MinTemplateID
	var failed error
	failed = option(&o.DomainName, registry, &id, domainNames, failed)
	failed = option(&o.InterfaceName, registry, &id, interfaceNames, failed)
	failed = option(&o.Metering, registry, &id, meterings, failed)
	failed = option(&o.Ignored, registry, &id, ignoreds, failed)
	failed = option(&o.Unsent, registry, &id, unsents, failed)
	failed = option(&o.Reporting, registry, &id, reportings, failed)
	return o, failed
}

// option makes the next template, unless a previous one failed. The first field is the
// scope.
func option[R any](o *Option[R], registry *ipfix.Registry, id *ipfix.TemplateID, t table[*R], failed error) error {
	if failed != nil {
		return failed
	}
	specs := t.rows().specs(0)
	template, err := registry.OptionsTemplate(*id, specs[:1], specs[1:]...)
	if err != nil {
		return err
	}
	*id++
	o.Template, o.steps = template, t.steps(0, template.Fields())
	return nil
}

// Templates are all options templates.
func (o *Options) Templates() []*ipfix.Template {
	return []*ipfix.Template{
		o.DomainName.Template,
		o.InterfaceName.Template,
		o.Metering.Template,
		o.Ignored.Template,
		o.Unsent.Template,
		o.Reporting.Template,
	}
}
