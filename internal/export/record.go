// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/json"
	"fmt"

	"github.com/waymark-net/waymark/ioam"
)

// Record is what exporters and observers take: a *TraceRecord, a *Postcard or a
// *Flow. Nobody changes it once it was offered.
type Record interface {
	// Text is the record for people.
	Text() string

	// about is what filters look at; the packet's addresses may be invalid.
	about() (ioam.NamespaceID, *Packet)
}

func (r *TraceRecord) about() (ioam.NamespaceID, *Packet) { return r.Namespace, &r.Packet }
func (p *Postcard) about() (ioam.NamespaceID, *Packet)    { return p.Namespace, &p.Packet }
func (f *Flow) about() (ioam.NamespaceID, *Packet)        { return f.Namespace, &f.Packet }

// Kinds of records, as JSON names them.
const (
	KindTrace    = "trace"
	KindPostcard = "postcard"
	KindFlow     = "flow"
)

// ParseRecord reads a record from its JSON; nil for what is none of the kinds.
func ParseRecord(line []byte) (Record, error) {
	var of struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return nil, fmt.Errorf("not a record: %w", err)
	}
	var r Record
	switch of.Kind {
	case KindTrace:
		r = &TraceRecord{}
	case KindPostcard:
		r = &Postcard{}
	case KindFlow:
		r = &Flow{}
	default:
		return nil, nil
	}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("not a %s: %w", of.Kind, err)
	}
	return r, nil
}

// Source is who told of a packet, with the numbers of IPFIX element
// ioamRecordSource. The zero value is Waymark's programs.
type Source uint8

// SourceKernel is the kernel's own IOAM.
const SourceKernel Source = 1

var sourceNames = map[Source]string{SourceKernel: "kernel"}

// String is the source in a word.
func (s Source) String() string { return named(sourceNames, s) }

// MarshalText is [Source.String].
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a source's word.
func (s *Source) UnmarshalText(text []byte) (err error) {
	*s, err = lookUp(sourceNames, string(text))
	return err
}

// NodeRole is what a node is to a packet (RFC 9197 §4.2), with the numbers of
// IPFIX element ioamNodeRole.
type NodeRole uint8

// Roles of nodes.
const (
	Encapsulating NodeRole = 1
	Transit       NodeRole = 2
	Decapsulating NodeRole = 3
)

var roleNames = map[NodeRole]string{Encapsulating: "encapsulating", Transit: "transit", Decapsulating: "decapsulating"}

// String is the role's name.
func (r NodeRole) String() string { return named(roleNames, r) }

// MarshalText is [NodeRole.String].
func (r NodeRole) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a role's name.
func (r *NodeRole) UnmarshalText(text []byte) (err error) {
	*r, err = lookUp(roleNames, string(text))
	return err
}

// EndReason is why a flow record was written, with the numbers of IPFIX element
// flowEndReason.
type EndReason uint8

// Reasons for a flow record.
const (
	EndIdle     EndReason = 1 // no packet for long
	EndInterval EndReason = 2 // the flow goes on
	EndOfFlow   EndReason = 3 // the flow has ended, or the agent
	EndEvicted  EndReason = 5 // another flow needed its place
)

var endNames = map[EndReason]string{EndIdle: "idle", EndInterval: "interval", EndOfFlow: "end", EndEvicted: "evicted"}

// String is the reason in a word.
func (e EndReason) String() string { return named(endNames, e) }

// MarshalText is [EndReason.String].
func (e EndReason) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a reason's word.
func (e *EndReason) UnmarshalText(text []byte) (err error) {
	*e, err = lookUp(endNames, string(text))
	return err
}

func named[T ~uint8](names map[T]string, v T) string {
	if name, ok := names[v]; ok {
		return name
	}
	return fmt.Sprintf("number-%d", v)
}

// lookUp finds what has a name, or the number that named writes.
func lookUp[T ~uint8](names map[T]string, text string) (v T, err error) {
	for v, name := range names {
		if name == text {
			return v, nil
		}
	}
	if _, err := fmt.Sscanf(text, "number-%d", &v); err != nil {
		return 0, fmt.Errorf("%q is not known", text)
	}
	return v, nil
}
