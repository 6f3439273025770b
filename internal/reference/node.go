// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"slices"

	"github.com/waymark-net/waymark/internal/e2e"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Link is the kind of link-layer header that a frame begins with.
type Link uint8

const (
	// LinkEthernet is an Ethernet header with up to two VLAN tags.
	LinkEthernet Link = iota
	// LinkNone is no link-layer header: the frame begins with the IP header.
	LinkNone
)

// Frame is a packet at a hook, with what the hook knows about it.
type Frame struct {
	Data      []byte // from the link layer to the end; the node never changes it
	Link      Link
	Interface model.IfIndex // where the hook is
	Ingress   model.IfIndex // egress hook: where the packet arrived, 0 when this node generated it
	Time      int64         // nanoseconds of TAI since 1970-01-01 TAI
	Arrived   int64         // egress hook: when this node's ingress hook saw the packet, in the same unit as Time; 0 when unknown

	// The egress queue, at the egress hook; "not available" without QueueKnown.
	QueueKnown   bool
	QueuePackets uint32
	QueueBytes   uint32
	// BufferBytes wait in all queues of the egress interface, at the egress hook; "not
	// available" without BufferKnown.
	BufferKnown bool
	BufferBytes uint32

	// Generic segmentation offload: the kernel will segment the packet later.
	// GSOSize is the payload of a segment in bytes, 0 without GSO. GSOSegments,
	// their number, is for the caller's counters.
	GSOSize     uint32
	GSOSegments uint32

	// PathMTU is, at the egress hook, the largest packet for the packet's route,
	// as far as the kernel knows (docs/data-plane/path-mtu.md), 0 when it knows no
	// limit. It applies to packets that grow beyond the 1280 bytes that every
	// path carries.
	PathMTU int
}

// Verdict is whether a frame goes on.
type Verdict uint8

const (
	// Pass lets it go on.
	Pass Verdict = iota
	// Drop ends it.
	Drop
)

// String returns "pass" or "drop".
func (v Verdict) String() string {
	if v == Drop {
		return "drop"
	}
	return "pass"
}

// Result is what a hook did with a frame.
type Result struct {
	Verdict Verdict
	Data    []byte // the frame that goes on or is dropped; the input itself when nothing changed
	Outcome model.Outcome
	Removal model.Outcome // of a probe that was dropped: what was removed of it before, else 0
	// Options are the outcomes of the options that were treated and reported, in
	// their order. The packet's outcome is the greatest of them, unless something
	// else happened to the packet.
	Options []model.Outcome
	// Edges are the outcomes of the options in a Destination Options header that was
	// removed.
	Edges     []model.Outcome
	Record    *Record // of a removed header with a pre-allocated trace, else nil
	Loopback  *Record // of the headers, as they arrived, of a packet of which a copy is returned (RFC 9322 §4.2), else nil
	Asks      bool    // the Loopback flag was set on the packet
	Withheld  bool    // a copy is due, and not returned because its header would be too long
	Postcards []model.Postcard
	GSOSize   uint32 // bytes; as in the frame unless the insertion made segments smaller
	// Outer is what was done with the packet around this one, whose tunnel ended here, else
	// nil: headers in a tunnel are treated as those of a packet that arrives.
	Outer *Result
}

// RecordPacketSize is how many bytes of a packet a record holds at most.
const RecordPacketSize = 80

// Record is one removed Hop-by-Hop header, with what identifies its packet.
type Record struct {
	Time      int64         // of arrival, nanoseconds of TAI
	Interface model.IfIndex // where it arrived
	Outcome   model.Outcome // OutcomeInlineRemoved or OutcomeTunnelDecapsulated; OutcomeLoopbackReceived for a copy, and one to return
	Length    int           // bytes of the IPv6 packet that goes on
	Packet    []byte        // its first bytes, at most RecordPacketSize, from the IPv6 header
	Header    []byte        // the removed Hop-by-Hop header, with this node's data
}

// Node is the reference IOAM node: encapsulating, transit and decapsulating
// (RFC 9197 §4.2), as docs/data-plane specifies. It is not safe for
// concurrent use, as it counts packets for [Frequency], numbers them for
// [DirectExport], proofs of transit and Edge-to-Edge, and remembers the numbers that it
// has received.
type Node struct {
	// TAIOffset is TAI − UTC in nanoseconds, for the timestamp formats in UTC. It
	// may be set at any time.
	TAIOffset int64

	config         model.NodeConfig
	interfaces     map[model.IfIndex]*model.Interface
	uppers         map[model.IfIndex]*model.Interface // what is known about a packet that arrived through them
	proven         map[model.IfIndex]bool             // the uppers whose packets all passed this node's ingress hook
	namespaces     map[ioam.NamespaceID]*model.Namespace
	decapsulations map[[16]byte]*model.Decapsulation
	// tunnelDestinations are all destinations that the node knows, wherever they
	// are.
	tunnelDestinations map[[16]byte]bool
	matched            []uint64                 // packets that matched each encapsulation, for its frequency
	batches            map[model.IfIndex]uint64 // packets that left by each interface since the last batch was complete
	budgets            []budget                 // of each encapsulation
	flowKeys           [flowWords]uint64
	sequences          map[numberedFlow]uint32     // the next Sequence Number of each flow
	learned            map[[16]byte]learnedMTU     // by destination
	proofNumbers       map[ioam.NamespaceID]uint64 // of the next packet that gets a proof
	accepted           map[uint64]*accepted        // by profile
	edgeNumbers        map[e2e.Key]uint64          // the next number of each flow from edge to edge
	edges              map[e2e.Key]*e2e.Flow       // those that are measured here
	asked              []uint64                    // packets of each encapsulation that might get the Loopback flag
}

// NewNode returns a node with a configuration that [NodeConfig.Validate] accepts.
// It copies the configuration's lists, but not what they point to.
func NewNode(config model.NodeConfig) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Interfaces = slices.Clone(config.Interfaces)
	config.Namespaces = slices.Clone(config.Namespaces)
	config.Encapsulations = slices.Clone(config.Encapsulations)
	config.Collectors = slices.Clone(config.Collectors)
	config.Decapsulations = slices.Clone(config.Decapsulations)
	n := &Node{
		config:         config,
		interfaces:     make(map[model.IfIndex]*model.Interface),
		uppers:         make(map[model.IfIndex]*model.Interface),
		proven:         make(map[model.IfIndex]bool),
		namespaces:     make(map[ioam.NamespaceID]*model.Namespace),
		decapsulations: make(map[[16]byte]*model.Decapsulation),
		matched:        make([]uint64, len(config.Encapsulations)),
		batches:        make(map[model.IfIndex]uint64),
		budgets:        make([]budget, len(config.Encapsulations)),
		flowKeys:       flowKeys(config.FlowSeed),
		sequences:      make(map[numberedFlow]uint32),
		learned:        make(map[[16]byte]learnedMTU),
		proofNumbers:   make(map[ioam.NamespaceID]uint64),
		accepted:       make(map[uint64]*accepted),
		edgeNumbers:    make(map[e2e.Key]uint64),
		edges:          make(map[e2e.Key]*e2e.Flow),
		asked:          make([]uint64, len(config.Encapsulations)),
	}
	for i := range config.Interfaces {
		n.interfaces[config.Interfaces[i].Index] = &config.Interfaces[i]
	}
	for _, u := range config.Uppers {
		n.uppers[u.Index] = &model.Interface{Index: u.Index, ID: u.ID, IDWide: u.IDWide, Roles: u.Roles}
		n.proven[u.Index] = u.Proven
	}
	for i := range config.Namespaces {
		n.namespaces[config.Namespaces[i].ID] = &config.Namespaces[i]
	}
	for i, d := range config.Decapsulations {
		n.decapsulations[d.TunnelDestination.As16()] = &config.Decapsulations[i]
	}
	n.tunnelDestinations = make(map[[16]byte]bool)
	for _, a := range config.KnownTunnelDestinations() {
		n.tunnelDestinations[a.As16()] = true
	}
	return n, nil
}

// arrival is where a frame arrived, nil when that interface is not served;
// proven is false when it may have been an interface that is not served.
func (n *Node) arrival(f Frame) (from *model.Interface, proven bool) {
	if from, ok := n.interfaces[f.Ingress]; ok {
		return from, true
	}
	return n.uppers[f.Ingress], n.proven[f.Ingress]
}

// unchanged is a frame that goes on unchanged.
func unchanged(f Frame, outcome model.Outcome) Result {
	return Result{Verdict: Pass, Data: f.Data, Outcome: outcome, GSOSize: f.GSOSize}
}

// isLinkLocalUnicast is fe80::/10 (RFC 4291 §2.5.6).
func isLinkLocalUnicast(a [16]byte) bool { return a[0] == 0xfe && a[1]&0xc0 == 0x80 }

// isMulticast is ff00::/8 (RFC 4291 §2.7).
func isMulticast(a [16]byte) bool { return a[0] == 0xff }

// isUnspecified is :: (RFC 4291 §2.5.2).
func isUnspecified(a [16]byte) bool { return a == [16]byte{} }
