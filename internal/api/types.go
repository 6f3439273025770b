// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pathmtu"
	"github.com/waymark-net/waymark/ioam"
)

// Status is the status of a running agent. Parts of the configuration are in the words
// of the file.
type Status struct {
	Version        string                 `json:"version"`
	Agent          string                 `json:"agent"` // the network namespace's id
	PID            int                    `json:"pid"`
	Started        instant.Time           `json:"started"`
	ConfigFile     string                 `json:"config_file"`
	Loaded         instant.Time           `json:"loaded"`
	Modified       bool                   `json:"modified"` // runtime changes are in force
	Node           Node                   `json:"node"`
	Interfaces     []Interface            `json:"interfaces"`
	Namespaces     []config.Namespace     `json:"namespaces"`
	Encapsulations []config.Encapsulation `json:"encapsulations"`
	Decapsulations []netip.Addr           `json:"decapsulations"`
	PathMTUs       []pathmtu.Path         `json:"path_mtus"` // known path MTUs of tunnels
	// of packets with the Loopback flag, by what became of them; zeros left out
	LoopbackCopies map[string]uint64 `json:"loopback_copies,omitempty"`
	// ICMPv6 errors that arrived while there were tunnels, by what followed, and those lost at any time; zeros left out
	TunnelErrors map[string]uint64 `json:"tunnel_errors"`
	Measurement  Measurement       `json:"measurement"` // of SRv6 flows
	Records      Records           `json:"records"`
	Warnings     []health.Warning  `json:"warnings"`
	Metrics      string            `json:"metrics,omitempty"` // URL of the metrics
}

// Node is the node's identity.
type Node struct {
	Name            string `json:"name"` // in records
	ID              uint32 `json:"id"`
	IDWide          uint64 `json:"id_wide"`
	TimestampFormat string `json:"timestamp_format"`
	Compatibility   string `json:"compatibility"`
	Mode            string `json:"mode"` // full, or observe: packets are counted and not changed

	StillActive []string `json:"still_active,omitempty"` // in mode observe: the keys of what works as in mode full
}

// Interface is one configured interface and what happened there.
type Interface struct {
	Name             string            `json:"name"`
	Index            uint32            `json:"index"` // 0 while it is missing
	ID               uint16            `json:"id"`
	IDWide           uint32            `json:"id_wide"`
	Roles            []string          `json:"roles"`
	Boundary         string            `json:"boundary"`                      // the default policy
	Namespaces       map[string]string `json:"boundary_namespaces,omitempty"` // those of namespaces
	MTU              int               `json:"mtu"`
	IngressHook      string            `json:"ingress_hook"`
	EgressHook       string            `json:"egress_hook"`
	NativeXDPRefused string            `json:"native_xdp_refused,omitempty"`
	Hooks            []Hook            `json:"hooks,omitempty"`
	Forwarding       string            `json:"forwarding"`
	Ingress          map[string]uint64 `json:"ingress"` // outcome → packets, zeros left out
	Egress           map[string]uint64 `json:"egress"`
	IngressOptions   map[string]uint64 `json:"ingress_options"` // outcome → IOAM options, zeros left out
	EgressOptions    map[string]uint64 `json:"egress_options"`
	Forwarded        map[string]uint64 `json:"forwarded,omitempty"` // without the stack, by outcome
	ToStack          map[string]uint64 `json:"to_stack,omitempty"`  // left to the stack, by reason
	RecordsWritten   uint64            `json:"records_written"`
	RecordsLost      uint64            `json:"records_lost"`

	// Of Direct Export.
	Postcards         uint64 `json:"postcards"`          // written
	ExportsSuppressed uint64 `json:"exports_suppressed"` // by the limits
	FlowsEvicted      uint64 `json:"flows_evicted"`      // replaced by others
	SequencesEvicted  uint64 `json:"sequences_evicted"`  // flows whose Sequence Numbers restart

	Loopback map[string]uint64 `json:"loopback,omitempty"` // packets by what was done about the Loopback flag: asked, returned, suppressed

	// packets with a malformed Segment Routing Header, while flows are measured, by fault
	SRHMalformed map[string]uint64 `json:"srh_malformed,omitempty"`
	// packets of measured flows that left without the option that would mark them, by cause
	Unmarked map[string]uint64 `json:"unmarked,omitempty"`

	Rates *Rates `json:"rates,omitempty"` // absent in the first second
}

// Rates are packets a second.
type Rates struct {
	Over      int64              `json:"over_ns"` // of what follows: the time until now
	Ingress   map[string]float64 `json:"ingress"` // by outcome, zeros left out
	Egress    map[string]float64 `json:"egress"`
	Forwarded map[string]float64 `json:"forwarded,omitempty"` // without the stack

	// Of the last ten minutes, the oldest step first. What is forwarded without the stack arrives, and
	// leaves by no hook.
	Step    int64     `json:"step_ns"`
	InLast  []float64 `json:"in_last,omitempty"`
	OutLast []float64 `json:"out_last,omitempty"`
}

// Hook is whether the program on one hook of an interface is executed.
type Hook struct {
	Direction   string       `json:"direction"` // ingress or egress
	Mode        string       `json:"mode"`      // xdp, tcx or clsact
	Program     uint32       `json:"program"`   // the kernel's id
	Place       string       `json:"place"`     // that it should have among the programs of others
	Attached    bool         `json:"attached"`
	InPlace     bool         `json:"in_place"`
	SeesPackets bool         `json:"sees_packets"`     // false: the interface counts packets, and the hook none
	Before      []string     `json:"before,omitempty"` // programs of others that run earlier
	Checked     instant.Time `json:"checked"`
}

// Measurement counts the messages about measured flows, by what became of them; zeros are left
// out.
type Measurement struct {
	StampPackets  map[string]uint64 `json:"stamp_packets,omitempty"` // that reached this node's STAMP reflector
	StampNotes    map[string]uint64 `json:"stamp_notes,omitempty"`   // what was wrong with them besides
	StampDropped  uint64            `json:"stamp_socket_dropped,omitempty"`
	StampSessions int64             `json:"stamp_sessions,omitempty"`

	ResponderQueries map[string]map[string]uint64 `json:"responder_queries,omitempty"` // that reached this node's responders, by protocol

	QuestionReplies map[string]uint64 `json:"question_replies,omitempty"` // to this node's questions
	ProbeReplies    map[string]uint64 `json:"probe_replies,omitempty"`    // to its test packets
	QuestionsUnsent map[string]uint64 `json:"questions_unsent,omitempty"` // by cause
	ProbesUnsent    map[string]uint64 `json:"probes_unsent,omitempty"`
	BlockAnswers    map[string]uint64 `json:"block_answers,omitempty"` // what other nodes said about blocks of flows
	// counters of blocks, this node's own and those of others, as loss is computed from them
	Readings map[string]uint64 `json:"readings,omitempty"`
}

// Records counts the records that the data plane wrote, by result.
type Records struct {
	Read      uint64 `json:"read"`
	Malformed uint64 `json:"malformed"`
	Observers int    `json:"observers"`
	Dropped   uint64 `json:"observers_dropped"` // observers that were too slow
	Sinks     []Sink `json:"exporters"`

	KernelEvents *KernelEvents `json:"kernel_events,omitempty"` // when they are configured

	Advice string `json:"advice,omitempty"` // why no records will come
}

// KernelEvents counts the events of the kernel's own IOAM, by result.
type KernelEvents struct {
	Received  uint64 `json:"received"`
	Malformed uint64 `json:"malformed"`
	Lost      uint64 `json:"lost"` // they overran the agent's socket
}

// Sink is one configured receiver of records.
type Sink struct {
	Name    string `json:"name"`
	Written uint64 `json:"written"`
	Dropped uint64 `json:"dropped"` // its queue was full
	Failed  uint64 `json:"failed"`  // writing failed, or the connection was lost
	Queued  uint64 `json:"queued"`  // on their way
	Error   string `json:"error,omitempty"`
	Cure    string `json:"cure,omitempty"` // of Error

	// Of sinks over the network.
	Connected *bool  `json:"connected,omitempty"`
	Messages  uint64 `json:"messages,omitempty"`
	Octets    uint64 `json:"octets,omitempty"`
	// upper bound; of Written, those that collectors may not have read before their connections broke
	Unsure uint64 `json:"unsure,omitempty"`
	// upper bound; not of Written: those that collectors may have read although their connections ended before they
	// acknowledged them. They were sent again, or failed
	Unacknowledged uint64 `json:"unacknowledged,omitempty"`
}

// MeasuredFlow is an SRv6 flow, and what was counted of it.
type MeasuredFlow struct {
	Flow config.Flow `json:"flow"`
	Last *Block      `json:"last,omitempty"` // the last closed block
	// Previous is the block before Last, if the agent has read it.
	Previous *Block `json:"previous,omitempty"`
}

// Block is what one node counted of a flow in one block (RFC 9341).
type Block struct {
	Number   uint64       `json:"number"` // UTC, divided by the length
	Start    instant.Time `json:"start"`
	Length   string       `json:"length"`   // with its unit
	Complete bool         `json:"complete"` // counted from its start
	Packets  uint64       `json:"packets"`
	Octets   uint64       `json:"octets"`   // of IPv6 packets
	Late     uint64       `json:"late"`     // arrived farther after the block than the guard
	Early    uint64       `json:"early"`    // or before it
	Unmarked uint64       `json:"unmarked"` // without a colour, not in Packets
	Unsized  uint64       `json:"unsized"`  // offloaded packets of unknown length: Octets is too small
}

// Schema is the content of an opaque state snapshot.
type Schema struct {
	ID         ioam.SchemaID      `json:"id"`
	Data       string             `json:"data"`
	Namespaces []ioam.NamespaceID `json:"namespaces,omitempty"` // that use it; ignored in a request
}

// SchemaBinding sets the schema of a namespace; null is none.
type SchemaBinding struct {
	Schema *ioam.SchemaID `json:"schema"`
}

// NamespaceExport sets what a node does with the Direct Exports of a namespace; Sample
// is the n of "sample".
type NamespaceExport struct {
	Export model.ExportMode `json:"export"`
	Sample uint32           `json:"sample,omitempty"`
}

// InterfaceChange sets roles and the policies at the domain's edge; absent fields do not
// change. No role is [].
type InterfaceChange struct {
	Role     *[]model.Role    `json:"role,omitempty"`
	Boundary *config.Boundary `json:"boundary,omitempty"` // all policies: a word, or an object with default and namespaces
}

// Changed is the answer to a change of the configuration that is in force now.
type Changed struct {
	Name     string           `json:"name,omitempty"` // of the changed entry, if it has one
	Warnings []health.Warning `json:"warnings"`       // about the change
}

// Reloaded is the answer to a reload.
type Reloaded struct {
	RuntimeChangesEnded bool             `json:"runtime_changes_ended"` // the reload dropped runtime changes
	Warnings            []health.Warning `json:"warnings"`              // and hints, that there were not before
}

// Stop asks the agent to end.
type Stop struct {
	Remove bool `json:"remove"` // detach and unpin first
}

// Stopped is the answer to Stop.
type Stopped struct {
	Warnings []health.Warning `json:"warnings"` // of problems that the removal causes elsewhere
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Status  int           `json:"-"`
	Message string        `json:"error"`
	Faults  config.Faults `json:"faults,omitempty"` // of a configuration, repeated with their places

	Encapsulations []config.Encapsulation `json:"encapsulations,omitempty"` // of status 409: those that fit
}

func (e *Error) Error() string { return e.Message }
