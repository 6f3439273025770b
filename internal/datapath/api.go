// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"log/slog"
	"time"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
)

// Options are fixed for the life of a Datapath.
type Options struct {
	// PinPath is a directory in a BPF file system for this network namespace
	// alone. It keeps programs, links and maps.
	PinPath string
	Log     *slog.Logger
}

// Config is one generation of the data plane's configuration.
type Config struct {
	Node model.NodeConfig
	// Attach is the mode of each interface; absent ones are AttachAuto.
	Attach map[model.IfIndex]attach.Mode
	// Places are where the programs stand among those of others; absent ones are the first.
	Places map[model.IfIndex]model.Place
	// Fast names the interfaces whose arriving packets are forwarded without the
	// stack where possible.
	Fast map[model.IfIndex]bool
	// NextHops is how many destinations each CPU caches; 0 is 16384. It is
	// rounded up to a power of two.
	NextHops int
	// StackOptions is how many options the stack takes in one Hop-by-Hop header: fast
	// forwarding leaves packets with more to it. Nil is model.StackOptions.
	StackOptions *int
	// Noticed is when what this configuration answers to was noticed, such as a change of
	// interfaces, or zero: interfaces were not counted since.
	Noticed time.Time
}

// InterfaceStatus says how one interface is served.
type InterfaceStatus struct {
	Index   model.IfIndex
	Name    string
	Ingress attach.Mode // xdp, tcx or clsact
	Egress  attach.Mode // tcx or clsact
	// FastRefused is why the interface leaves all packets to the stack although
	// it is configured to forward fast.
	FastRefused string
	// NativeXDPRefused is the driver's reason when auto fell back from XDP.
	NativeXDPRefused string
}

// Counters of one interface since its programs were first attached; a restart of
// the agent does not reset them.
type Counters struct {
	Index   model.IfIndex
	Name    string
	Ingress [model.NumOutcomes]uint64
	Egress  [model.NumOutcomes]uint64
	// IngressOptions and EgressOptions count options by outcome, including those
	// whose outcome is the packet's. The options of a removed header are counted
	// where it is reported.
	IngressOptions [model.NumOutcomes]uint64
	EgressOptions  [model.NumOutcomes]uint64
	// Forwarded counts packets that arrived here and were forwarded without the
	// stack, by their outcome at egress.
	Forwarded [model.NumOutcomes]uint64
	// ToStack counts packets that fast forwarding left to the stack, by reason.
	ToStack        [forward.NumStackReasons]uint64
	RecordsWritten uint64
	RecordsLost    uint64 // also postcards and evicted flows: without a reader, or with one that is too slow
	// Exports: postcards written, exports that the limits of RFC 9326 §3.1.2
	// suppressed, flows evicted by others, and flows whose Sequence Numbers start
	// again because others needed their entry.
	Postcards, ExportsSuppressed, FlowsEvicted, SequencesEvicted uint64
	// Flows from edge to edge that others evicted: of numbered flows, the numbers start
	// again; of measured ones, what the interval had counted is lost.
	EdgeNumbersEvicted, EdgeFlowsEvicted uint64
	Loopback                             LoopbackCounters
	// SRHMalformed counts packets with a malformed Segment Routing Header, by fault, while
	// flows are measured.
	SRHMalformed [NumSRHFaults]uint64
	// Unmarked counts packets of measured flows that left without the option that would
	// mark them, by cause.
	Unmarked [NumUnmarked]uint64
}

// LoopbackCounters count what an interface did about Loopback flags (RFC 9322 §4).
type LoopbackCounters struct {
	Asked      uint64 // packets on which the flag was set
	Returned   uint64 // headers handed over, for copies to return
	Suppressed uint64 // both, beyond a limit, or without a reader
}
