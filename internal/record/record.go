// SPDX-License-Identifier: Apache-2.0

// Package record defines what Waymark reports: every kind of record, and for each kind
// one table of its fields. The records' JSON, their IPFIX templates and encoding, their
// decoding in a collector, and the reference are made from the tables.
package record

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// Record is what sinks and observers take. It must not change after it was offered,
// except a postcard: see Retain.
type Record interface {
	// Kind is the record's kind, as in JSON.
	Kind() string
	// Text is the record as readable text.
	Text() string
	// AppendJSON appends the record as an object of JSON, in one line without its
	// end. The keys are a contract: they are added to, never changed.
	AppendJSON([]byte) []byte
}

// Kinds of records, as in JSON.
const (
	KindTrace      = "trace"
	KindPostcard   = "postcard"
	KindFlow       = "flow"
	KindPath       = "path"
	KindTrigger    = "direct-export"
	KindEdgeToEdge = "edge-to-edge"
	KindEdgeFlow   = "edge-flow"
	KindProof      = "proof-of-transit"
	KindOptions    = "options"
	KindOther      = "record"
	KindLost       = "lost"
	KindStatistics = "statistics"
	KindLoss       = "loss"
	KindDelay      = "delay"
	KindBlock      = "block"
	KindWarning    = "warning"
)

// kind describes a kind of records: a new kind needs only an entry to be read and
// documented.
type kind struct {
	name, meaning, from string
	columns             []Column
	parse               func([]byte) (Record, error)
}

// kinds are all of them, in the order of the reference.
var kinds = []kind{
	newKind(KindTrace, "the trace of one packet, with the data of every node", "`observe`, `jsonl`, `collect`, `decode`, `lab demo`", traces),
	newKind(KindPostcard, "one node's report on one packet with a Direct Export option", "`observe`, `jsonl`; `collect`, where it cannot be joined or with `--records`", postcards),
	newKind(KindFlow, "one node's report on the packets of one flow", "`observe`, `jsonl`, `collect`", flows),
	newKind(KindPath, "the postcards of one packet, joined", "`collect`, `lab demo`", paths),
	newKind(KindLoss, "the packet loss of a flow in one block of alternate marking, between two points", "`collect`", blockLosses),
	newKind(KindDelay, "the delay of a flow between two points, by one method", "`collect`", pathDelays),
	newKind(KindBlock, "what one point counted of a flow in one block of alternate marking", "`observe`, `jsonl`, with `exchange: ipfix`; `collect` with `--records`", blocks),
	newKind(KindTrigger, "the option of one packet, as found in a capture", "`decode`", triggers),
	newKind(KindEdgeToEdge, "the Edge-to-Edge option of one packet, as found in a capture", "`decode`", edges),
	newKind(KindEdgeFlow, "what the decapsulating node measured of a flow from the Edge-to-Edge options of its packets", "`observe`, `jsonl`, `collect`", edgeFlows),
	newKind(KindProof, "the Proof of Transit option of one packet, as found in a capture", "`decode`", proofs),
	optionsKind(newKind(KindOptions, "an IPFIX options record, element by element", "`collect` with `--records`", others)),
	newKind(KindOther, "an IPFIX record of something else, element by element", "`collect`", others),
	newKind(KindLost, "the number of records that are missing here because the reader was too slow", "`observe`, on standard error; the API's stream", losses),
	newKind(KindWarning, "a measured flow begins or ceases to be beyond a threshold of a collector", "`collect` with `--max-loss` or `--max-delay`, on standard error", warnings),
	newKind(KindStatistics, "the counters of a collector", "`collect`, on standard error", statistics),
}

func newKind[R any, P interface {
	*R
	Record
}](name, meaning, from string, t table[R]) kind {
	return kind{name, meaning, from, t.rows().describe(), func(line []byte) (Record, error) {
		r := P(new(R))
		return r, t.parseJSON((*R)(r), line)
	}}
}

// optionsKind reads records of a kind that differs from another only in its name.
func optionsKind(k kind) kind {
	parse := k.parse
	k.parse = func(line []byte) (Record, error) {
		r, err := parse(line)
		if o, ok := r.(*Other); ok {
			o.Options = true
		}
		return r, err
	}
	return k
}

// Parse reads a record from its JSON; nil when it is of an unknown kind.
func Parse(line []byte) (Record, error) {
	var of struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return nil, fmt.Errorf("not a record: %w", err)
	}
	for _, k := range kinds {
		if k.name != of.Kind {
			continue
		}
		r, err := k.parse(line)
		if err != nil {
			return nil, fmt.Errorf("not a %s: %w", k.name, err)
		}
		return r, nil
	}
	return nil, nil
}

// AppendLine appends a record as a line of JSON, with its end.
func AppendLine(b []byte, r Record) []byte { return append(r.AppendJSON(b), '\n') }

// Filter selects records; the zero value selects all.
type Filter struct {
	Namespace   *ioam.NamespaceID
	Source      netip.Prefix // invalid: any
	Destination netip.Prefix // invalid: any
	Kinds       string       // with commas between them; "": any
	Flow        string       // name of a measured flow, of records of its loss and delay; "": any
}

// about is a record about packets of a namespace, whose addresses may be invalid.
type about interface {
	about() (ioam.NamespaceID, *Packet)
}

func (r *Trace) about() (ioam.NamespaceID, *Packet)      { return r.Namespace, &r.Packet }
func (p *Postcard) about() (ioam.NamespaceID, *Packet)   { return p.Namespace, &p.Packet }
func (f *Flow) about() (ioam.NamespaceID, *Packet)       { return f.Namespace, &f.Packet }
func (p *Path) about() (ioam.NamespaceID, *Packet)       { return p.Namespace, &p.Packet }
func (t *Trigger) about() (ioam.NamespaceID, *Packet)    { return t.Namespace, &t.Packet }
func (e *EdgeToEdge) about() (ioam.NamespaceID, *Packet) { return e.Namespace, &e.Packet }
func (f *EdgeFlow) about() (ioam.NamespaceID, *Packet) {
	return f.Namespace, &Packet{Source: f.Source, Destination: f.Destination, FlowLabel: f.FlowLabel}
}

// Match reports whether the filter selects a record. One that is not about packets
// is not selected by a namespace or an address.
func (f Filter) Match(r Record) bool {
	if f.Kinds != "" && !strings.Contains(","+f.Kinds+",", ","+r.Kind()+",") {
		return false
	}
	if f.Flow != "" {
		of, ok := r.(interface{ measurement() *Measurement })
		if !ok || of.measurement().Flow != f.Flow {
			return false
		}
	}
	if f.Namespace == nil && !f.Source.IsValid() && !f.Destination.IsValid() {
		return true
	}
	of, ok := r.(about)
	if !ok {
		return false
	}
	namespace, packet := of.about()
	return (f.Namespace == nil || *f.Namespace == namespace) &&
		(!f.Source.IsValid() || f.Source.Contains(packet.Source)) &&
		(!f.Destination.IsValid() || f.Destination.Contains(packet.Destination))
}
