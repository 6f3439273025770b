// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/health"
)

// Status is everything worth knowing about a running agent.
type Status struct {
	Version        string           `json:"version"`
	Agent          string           `json:"agent"` // the network namespace's id
	PID            int              `json:"pid"`
	Started        time.Time        `json:"started"`
	ConfigFile     string           `json:"config_file"`
	Loaded         time.Time        `json:"loaded"`
	Modified       bool             `json:"modified"` // runtime changes are in force
	Node           Node             `json:"node"`
	Interfaces     []Interface      `json:"interfaces"`
	Namespaces     []Namespace      `json:"namespaces"`
	Encapsulations []Encapsulation  `json:"encapsulations"`
	Decapsulations []netip.Addr     `json:"decapsulations"`
	Records        Records          `json:"records"`
	Warnings       []health.Warning `json:"warnings"`
	Metrics        string           `json:"metrics,omitempty"` // URL of the metrics
}

// Node is the node's identity.
type Node struct {
	ID              uint32 `json:"id"`
	IDWide          uint64 `json:"id_wide"`
	TimestampFormat string `json:"timestamp_format"`
	Compatibility   string `json:"compatibility"`
}

// Interface is one configured interface and what happened there.
type Interface struct {
	Name             string            `json:"name"`
	Index            uint32            `json:"index"` // 0 while it is missing
	ID               uint16            `json:"id"`
	IDWide           uint32            `json:"id_wide"`
	Roles            []string          `json:"roles"`
	Boundary         string            `json:"boundary"`
	MTU              int               `json:"mtu"`
	IngressHook      string            `json:"ingress_hook"`
	EgressHook       string            `json:"egress_hook"`
	NativeXDPRefused string            `json:"native_xdp_refused,omitempty"`
	Ingress          map[string]uint64 `json:"ingress"` // outcome → packets, zeros left out
	Egress           map[string]uint64 `json:"egress"`
	RecordsWritten   uint64            `json:"records_written"`
	RecordsLost      uint64            `json:"records_lost"`
}

// Records is what became of the records that the data plane wrote.
type Records struct {
	Read      uint64     `json:"read"`
	Malformed uint64     `json:"malformed"`
	Observers int        `json:"observers"`
	Dropped   uint64     `json:"observers_dropped"` // observers that were too slow
	Exporters []Exporter `json:"exporters"`
}

// Exporter is one configured receiver of records.
type Exporter struct {
	Name    string `json:"name"`
	Written uint64 `json:"written"`
	Dropped uint64 `json:"dropped"` // its queue was full
	Failed  uint64 `json:"failed"`  // writing failed
	Error   string `json:"error,omitempty"`
}

// Hex32 is a 32-bit value that JSON shows as "0x" and 8 digits.
type Hex32 uint32

// Hex64 is a 64-bit value that JSON shows as "0x" and 16 digits.
type Hex64 uint64

// Hex24 is a 24-bit value that JSON shows as "0x" and 6 digits.
type Hex24 uint32

func (h Hex32) String() string { return fmt.Sprintf("0x%08x", uint32(h)) }
func (h Hex64) String() string { return fmt.Sprintf("0x%016x", uint64(h)) }
func (h Hex24) String() string { return fmt.Sprintf("0x%06x", uint32(h)) }

// MarshalText implements encoding.TextMarshaler.
func (h Hex32) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (h Hex64) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (h Hex24) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex32) UnmarshalText(b []byte) error {
	v, err := parseHex(b, 32)
	*h = Hex32(v)
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex64) UnmarshalText(b []byte) error {
	v, err := parseHex(b, 64)
	*h = Hex64(v)
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex24) UnmarshalText(b []byte) error {
	v, err := parseHex(b, 24)
	*h = Hex24(v)
	return err
}

func parseHex(b []byte, bits int) (uint64, error) {
	v, err := strconv.ParseUint(string(b), 0, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of %d bits, such as %q", b, bits, "0x1f")
	}
	return v, nil
}

// Namespace is one IOAM namespace.
type Namespace struct {
	ID       uint16  `json:"id"`
	Data     *Hex32  `json:"data,omitempty"`      // absent: not available
	DataWide *Hex64  `json:"data_wide,omitempty"` // absent: not available
	Schema   *uint32 `json:"schema,omitempty"`
	Remove   bool    `json:"remove,omitempty"`
}

// Schema is the content of an opaque state snapshot.
type Schema struct {
	ID         uint32   `json:"id"`
	Data       string   `json:"data"`
	Namespaces []uint16 `json:"namespaces,omitempty"` // that use it; ignored in a request
}

// SchemaBinding sets the schema of a namespace; null is none.
type SchemaBinding struct {
	Schema *uint32 `json:"schema"`
}

// Encapsulation is one rule of an encapsulating node.
type Encapsulation struct {
	Name      string   `json:"name"`
	Interface string   `json:"interface"`
	Match     Match    `json:"match"`
	Frequency string   `json:"frequency"` // "K/N"; empty in a request: 1/1
	Mode      string   `json:"mode"`      // inline, encap or auto; empty in a request: auto
	Tunnel    *Tunnel  `json:"tunnel,omitempty"`
	Options   []Option `json:"options"`
}

// Match selects packets; absent criteria match everything.
type Match struct {
	Destination     *netip.Prefix `json:"destination,omitempty"`
	Source          *netip.Prefix `json:"source,omitempty"`
	NextHeader      *uint8        `json:"next_header,omitempty"`
	SourcePort      *Ports        `json:"source_port,omitempty"`
	DestinationPort *Ports        `json:"destination_port,omitempty"`
	TrafficClass    *uint8        `json:"traffic_class,omitempty"`
	FlowLabel       *uint32       `json:"flow_label,omitempty"`
}

// DestinationOnly is whether the rule is what a route would be: it selects by
// destination prefix and nothing else.
func (m Match) DestinationOnly() bool {
	return m.Source == nil && m.NextHeader == nil && m.SourcePort == nil &&
		m.DestinationPort == nil && m.TrafficClass == nil && m.FlowLabel == nil
}

// Ports is an inclusive range.
type Ports struct {
	From uint16 `json:"from"`
	To   uint16 `json:"to"`
}

// Tunnel is the outer IPv6 header. In a request, an absent source is the
// address that the kernel would use to reach the destination.
type Tunnel struct {
	Source      *netip.Addr `json:"source,omitempty"`
	Destination netip.Addr  `json:"destination"`
}

// Option is one IOAM option to insert.
type Option struct {
	Trace *Trace `json:"trace"`
}

// Trace is a pre-allocated trace to insert.
type Trace struct {
	Namespace uint16 `json:"namespace"`
	Type      Hex24  `json:"type"`
	Size      int    `json:"size"`
}

// Stop asks the agent to end.
type Stop struct {
	Remove bool `json:"remove"` // detach and unpin first
}

// Lost is a line in a stream of records: this many did not fit the observer's
// queue.
type Lost struct {
	Kind  string `json:"kind"` // "lost"
	Count uint64 `json:"count"`
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Status  int    `json:"-"`
	Message string `json:"error"`
}

func (e *Error) Error() string { return e.Message }
