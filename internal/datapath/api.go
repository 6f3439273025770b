// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"log/slog"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// AttachMode says which hook takes the packets that arrive at an interface.
type AttachMode string

// The modes of attachment. Auto takes the first of the others that the kernel
// and the driver support.
const (
	AttachAuto   AttachMode = "auto"
	AttachXDP    AttachMode = "xdp"
	AttachTCX    AttachMode = "tcx"
	AttachClsact AttachMode = "clsact"
)

// Options are fixed for the life of a Datapath.
type Options struct {
	// PinPath is a directory in a BPF file system that belongs to this
	// network namespace alone. Programs, links and maps are kept there.
	PinPath string
	Log     *slog.Logger
}

// Config is one generation of the data plane's configuration.
type Config struct {
	Node model.NodeConfig
	// Attach gives the mode of each interface; absent ones are AttachAuto.
	Attach map[model.IfIndex]AttachMode
	// Fast names the interfaces whose arriving packets are forwarded without
	// the stack where that can be done.
	Fast map[model.IfIndex]bool
	// NextHops is how many destinations each CPU remembers; 0 is 16384. It is
	// rounded up to a power of two.
	NextHops int
}

// InterfaceStatus says how one interface is served.
type InterfaceStatus struct {
	Index   model.IfIndex
	Name    string
	Ingress AttachMode // xdp, tcx or clsact
	Egress  AttachMode // tcx or clsact
	// FastRefused is why the interface leaves all to the stack although it is
	// to forward fast.
	FastRefused string
	// NativeXDPRefused is the driver's reason when auto fell back from XDP.
	NativeXDPRefused string
}

// Counters of one interface since its programs were first attached; they do
// not go back on a restart of the agent.
type Counters struct {
	Index   model.IfIndex
	Name    string
	Ingress [model.NumOutcomes]uint64
	Egress  [model.NumOutcomes]uint64
	// Forwarded counts packets that arrived here and were forwarded without
	// the stack, by what the egress core said of them.
	Forwarded [model.NumOutcomes]uint64
	// ToStack counts packets that fast forwarding left to the stack, by reason.
	ToStack        [NumStackReasons]uint64
	RecordsWritten uint64
	RecordsLost    uint64 // also postcards and evicted flows: no reader, or one that is too slow
	// Exports: postcards that were written, exports that the limits of RFC 9326
	// §3.1.2 suppressed, flows that gave way to others, and flows whose Sequence
	// Numbers begin anew because others needed the place.
	Postcards, ExportsSuppressed, FlowsEvicted, SequencesEvicted uint64
}

// Record is one removed header, with what is needed to name its packet.
type Record struct {
	Time      time.Time // UTC
	Interface model.IfIndex
	Outcome   model.Outcome // inline_removed or tunnel_decapsulated
	Length    int           // bytes of the IPv6 packet that goes on
	Packet    []byte        // its first bytes, at most 80, from the IPv6 header
	Header    []byte        // the Hop-by-Hop header that was removed, with this node's data
}

// Postcard is what a program tells about one packet with a Direct Export
// (RFC 9326 §3.1.2).
type Postcard struct {
	model.Export
	Time time.Time // UTC
}

// FlowEnd is why a flow is told about.
type FlowEnd uint8

const (
	// FlowInterval is the end of an interval.
	FlowInterval FlowEnd = iota
	// FlowEnded is the end of a TCP connection, in the interval that ended.
	FlowEnded
	// FlowEvicted is another flow that needed the place.
	FlowEvicted
)

// Flow is what the exports of one flow came to in an interval.
type Flow struct {
	Role            model.ExportRole
	Ingress, Egress model.IfIndex // 0: not known, or none
	Namespace       ioam.NamespaceID
	Type            ioam.TraceType
	ExtensionFlags  uint8
	FlowID          uint32 // 0 when the option has none
	Flow            model.Flow
	End             FlowEnd

	Packets, Bytes           uint64
	First, Last              time.Time // UTC, as exact as the kernel's tick
	DelayCount               uint32    // packets whose transit delay was measured
	DelaySum                 time.Duration
	DelayMin, DelayMax       time.Duration // of those
	Skipped                  uint32        // Sequence Numbers that were expected since the flow was last told, and did not come
	SkippedUnknown           bool          // how many of them cannot be known
	Paid                     bool          // the limits of exports were applied when it ended or gave way
	Late                     uint32        // packets that came behind one with a later Sequence Number on the same CPU
	HopLimitMin, HopLimitMax uint8
}
