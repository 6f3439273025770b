// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// enterprise is that of our own elements in these tests.
const enterprise = ipfix.EnterpriseExample

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// field is a value of a record, by the name of its element.
type field struct {
	name  string
	value any // uint64, int64, string, netip.Addr, time.Time or []byte
}

type fields []field

// with replaces values, and adds missing ones.
func (f fields) with(changes ...field) fields {
	out := append(fields{}, f...)
	for _, c := range changes {
		found := false
		for i := range out {
			if out[i].name == c.name {
				out[i], found = c, true
			}
		}
		if !found {
			out = append(out, c)
		}
	}
	return out
}

// without removes values.
func (f fields) without(names ...string) fields {
	var out fields
	for _, x := range f {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+x.name+" ") {
			out = append(out, x)
		}
	}
	return out
}

// exporter makes messages.
type exporter struct {
	t         testing.TB
	registry  *ipfix.Registry
	encoder   *ipfix.Encoder
	templates map[string]*ipfix.Template
}

func newExporter(t testing.TB, transport ipfix.Transport, domain uint32) *exporter {
	t.Helper()
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(enterprise))
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := ipfix.NewEncoder(transport, domain, 60000)
	if err != nil {
		t.Fatal(err)
	}
	return &exporter{t, registry, encoder, map[string]*ipfix.Template{}}
}

// message makes a message of records; scope is the number of scope fields, 0 for data
// records.
func (e *exporter) message(at time.Time, scope int, records ...fields) []byte {
	e.t.Helper()
	e.encoder.Start(nil)
	for _, r := range records {
		template, record := e.record(scope, r)
		if err := errors.Join(e.encoder.Define(template), e.encoder.Add(template, record)); err != nil {
			e.t.Fatal(err)
		}
	}
	return e.encoder.Finish(at)
}

func (e *exporter) record(scope int, r fields) (*ipfix.Template, []byte) {
	e.t.Helper()
	var specs []string
	for _, f := range r {
		specs = append(specs, f.name)
	}
	key := fmt.Sprint(scope, specs)
	template := e.templates[key]
	if template == nil {
		var err error
		id := ipfix.TemplateID(256 + len(e.templates))
		if scope > 0 {
			template, err = e.registry.OptionsTemplate(id, specs[:scope], specs[scope:]...)
		} else {
			template, err = e.registry.Template(id, specs...)
		}
		if err != nil {
			e.t.Fatal(err)
		}
		e.templates[key] = template
	}
	w := template.Record(nil)
	for _, f := range r {
		switch v := f.value.(type) {
		case uint64:
			w.Uint(v)
		case int64:
			w.Int(v)
		case string:
			w.Text(v)
		case netip.Addr:
			w.Addr(v)
		case time.Time:
			w.Time(v)
		case []byte:
			w.Octets(v)
		default:
			e.t.Fatalf("%s has a value of type %T", f.name, v)
		}
	}
	record, err := w.End()
	if err != nil {
		e.t.Fatal(err)
	}
	return template, record
}

func num(name string, v uint64) field { return field{name, v} }

// postcard is the postcard of a node at a time in microseconds.
func postcard(node, role, hopLimit, sequence uint64, us int) fields {
	at := start.Add(time.Duration(us) * time.Microsecond)
	return fields{
		{"observationTimeNanoseconds", at},
		{"sourceIPv6Address", netip.MustParseAddr("2001:db8:1::2")},
		{"destinationIPv6Address", netip.MustParseAddr("2001:db8:2::2")},
		num("protocolIdentifier", 17), num("flowLabelIPv6", 0x12345),
		num("sourceTransportPort", 4242), num("destinationTransportPort", 9), num("ipTotalLength[4]", 148),
		num("ingressInterface", 2), num("egressInterface", 3), num("ioamNodeRole", role), num("ioamOptionType", 4),
		num("ioamNamespaceId", 123), num("ioamTraceType", 0x800000), num("ioamExtensionFlags", 0xc0),
		num("ioamDexFlowId", 7), num("ioamDexSequenceNumber", sequence),
		num("ioamHopLimit", hopLimit), num("ioamNodeId", node),
	}
}

// The postcards of a packet at athos, porthos and aramis.
func packet(sequence uint64) []fields {
	return []fields{postcard(1, 1, 63, sequence, 0), postcard(2, 2, 62, sequence, 10), postcard(3, 3, 61, sequence, 25)}
}

// memory is a sink that keeps everything.
type memory struct {
	mu     sync.Mutex
	events []record.Record
}

func (m *memory) Name() string { return "memory" }

func (m *memory) Offer(records ...record.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, records...)
}

func (m *memory) Run(ctx context.Context) { <-ctx.Done() }

func (m *memory) Stats() (s sink.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sink.Stats{Offered: uint64(len(m.events)), Written: uint64(len(m.events))}
}

func (m *memory) Close() {}

func (m *memory) all() []record.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]record.Record{}, m.events...)
}

// lines are the events as JSON.
func (m *memory) lines(t testing.TB) []string {
	t.Helper()
	var list []string
	for _, e := range m.all() {
		list = append(list, string(record.AppendJSON(nil, e)))
	}
	return list
}

// offline is a collector without sockets, and a session for what exporters send.
func offline(t testing.TB, config Config, transport ipfix.Transport) (c *Collector, out *memory, send func(octets []byte) bool) {
	t.Helper()
	out = &memory{}
	config.Sinks, config.Enterprise = []sink.Sink{out}, enterprise
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	from := netip.MustParseAddrPort("[2001:db8::5]:40000")
	session, err := c.decoder.Open(ipfix.SessionKey{Transport: transport, Exporter: from}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c, out, func(octets []byte) bool { return c.message(session, joinExporter(from), octets) }
}

// message takes a message through all stages at once.
func (c *Collector) message(s *ipfix.Session, from join.Exporter, octets []byte) bool {
	a := c.decode(s, from, octets)
	c.change(func() { c.arrived(a) })
	return a.err == nil
}
