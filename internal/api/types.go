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

// Status is everything worth knowing about a running agent. Parts of the
// configuration are in the words of the file.
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
	PathMTUs       []pathmtu.Path         `json:"path_mtus"`     // of tunnels, those that are known
	TunnelErrors   map[string]uint64      `json:"tunnel_errors"` // ICMPv6 errors that arrived while there were tunnels, by what followed, and those lost at any time; zeros left out
	Records        Records                `json:"records"`
	Warnings       []health.Warning       `json:"warnings"`
	Metrics        string                 `json:"metrics,omitempty"` // URL of the metrics
}

// Node is the node's identity.
type Node struct {
	Name            string `json:"name"` // in records
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
	Forwarding       string            `json:"forwarding"`
	Ingress          map[string]uint64 `json:"ingress"` // outcome → packets, zeros left out
	Egress           map[string]uint64 `json:"egress"`
	Forwarded        map[string]uint64 `json:"forwarded,omitempty"` // without the stack, by outcome
	ToStack          map[string]uint64 `json:"to_stack,omitempty"`  // left to the stack, by reason
	RecordsWritten   uint64            `json:"records_written"`
	RecordsLost      uint64            `json:"records_lost"`

	// Of Direct Export.
	Postcards         uint64 `json:"postcards"`          // that were written
	ExportsSuppressed uint64 `json:"exports_suppressed"` // by the limits
	FlowsEvicted      uint64 `json:"flows_evicted"`      // that gave way to others
	SequencesEvicted  uint64 `json:"sequences_evicted"`  // flows whose Sequence Numbers begin anew
}

// Records is what became of the records that the data plane wrote.
type Records struct {
	Read      uint64     `json:"read"`
	Malformed uint64     `json:"malformed"`
	Observers int        `json:"observers"`
	Dropped   uint64     `json:"observers_dropped"` // observers that were too slow
	Exporters []Exporter `json:"exporters"`

	KernelEvents *KernelEvents `json:"kernel_events,omitempty"` // when they are configured
}

// KernelEvents is what became of the events of the kernel's own IOAM.
type KernelEvents struct {
	Received  uint64 `json:"received"`
	Malformed uint64 `json:"malformed"`
	Lost      uint64 `json:"lost"` // they overran the agent's socket
}

// Exporter is one configured receiver of records.
type Exporter struct {
	Name    string `json:"name"`
	Written uint64 `json:"written"`
	Dropped uint64 `json:"dropped"` // its queue was full
	Failed  uint64 `json:"failed"`  // writing failed, or the connection was lost
	Queued  uint64 `json:"queued"`  // on their way
	Error   string `json:"error,omitempty"`

	// Of exporters over the network.
	Connected *bool  `json:"connected,omitempty"`
	Messages  uint64 `json:"messages,omitempty"`
	Octets    uint64 `json:"octets,omitempty"`
	Unsure    uint64 `json:"unsure,omitempty"` // of Written at most: collectors that broke their connections may not have read them
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

// NamespaceExport says what a node does with the Direct Exports of a namespace;
// the sample is the n of "sample".
type NamespaceExport struct {
	Export model.ExportMode `json:"export"`
	Sample uint32           `json:"sample,omitempty"`
}

// InterfaceChange sets roles and the policy at the domain's edge; what is absent
// stays. No role is [].
type InterfaceChange struct {
	Role     *[]model.Role   `json:"role,omitempty"`
	Boundary *model.Boundary `json:"boundary,omitempty"`
}

// Stop asks the agent to end.
type Stop struct {
	Remove bool `json:"remove"` // detach and unpin first
}

// Stopped is the answer to Stop.
type Stopped struct {
	Warnings []health.Warning `json:"warnings"` // of what the removal broke elsewhere
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Status  int           `json:"-"`
	Message string        `json:"error"`
	Faults  config.Faults `json:"faults,omitempty"` // of a configuration, each once more with its place
}

func (e *Error) Error() string { return e.Message }
