// SPDX-License-Identifier: Apache-2.0

package config

import (
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Node is the identity of the node and the profile it follows.
type Node struct {
	Name            string               `key:"name" optional:"true"`
	Mode            NodeMode             `key:"mode" default:"full"`
	ReadGroup       string               `key:"read-group" optional:"true"`
	ID              *ioam.NodeID         `key:"id" optional:"true"`
	IDWide          *ioam.NodeIDWide     `key:"id-wide" optional:"true"`
	TimestampFormat ioam.TimestampFormat `key:"timestamp-format" default:"posix"`
	NextHops        NextHops             `key:"next-hops" default:"16384"`
	FlowSeed        FlowSeed             `key:"flow-seed" default:"0x5741594d41524b36"`
	Flows           FlowEntries          `key:"flows" default:"4096"`
	ExportInterval  yamlfile.Period      `key:"export-interval" default:"10s"`
	ExportLimit     Share                `key:"export-limit" default:"1/100"`
	ExportRate      ExportRate           `key:"export-rate" default:"10000"`
	LoopbackLimit   Share                `key:"loopback-limit" default:"1/100"`
	LoopbackRate    LoopbackRate         `key:"loopback-rate" default:"100"`
	Delays          Delays               `key:"delays" default:"none"`
	KernelEvents    bool                 `key:"kernel-events" default:"false"`
	QueueDelay      QueueDelay           `key:"queue-delay" default:"false"`
	ReceiveOffload  bool                 `key:"receive-offload" default:"true"`
	Compatibility   model.Compatibility  `key:"compatibility" default:"default"`
}

// nodeTexts say what the keys of node mean.
var nodeTexts = yamlfile.KeyTexts{
	"name": "The node's name in records, in what it exports, and wherever a person reads. The flag --node-name of " +
		"waymark agent run goes before it.",
	"name, absent": "the host's name",
	"mode": "With full, the node does what the rest of the file says. With observe, it changes no packet: it inserts, " +
		"fills, removes, marks, copies and drops nothing, forwards nothing itself, and only counts what passes its " +
		"interfaces, at the tc hooks; the rest of the file is checked as usual. What touches no packet of others " +
		"works as with full: probes, path-trace, stamp, responders, queue-delay and kernel-events. For a first " +
		"deployment, before full.",
	"read-group": "Members of this group, which is in /etc/group, may ask the agent and change no configuration: " +
		"status, observe, top, events and others that only read, on a socket of its own. They can make the node " +
		"produce more records. Records show addresses and ports of packets, so choose who is in it.",
	"read-group, absent": "root alone",
	"id":                 "Node id of trace field 0 (RFC 9197 §4.4.2.1).",
	"id, absent":         "the kernel's net.ipv6.ioam6_id, followed when it changes",
	"id-wide":            "Node id of trace field 8 (RFC 9197 §4.4.2.9).",
	"id-wide, absent":    "the kernel's net.ipv6.ioam6_id_wide, followed when it changes",
	"timestamp-format": "Format of the timestamps (RFC 8877): posix is seconds and microseconds of UTC; ptp is seconds " +
		"and nanoseconds of TAI; ntp is seconds since 1900 of UTC and a binary fraction.",
	"next-hops": "Number of destinations whose next hop each CPU remembers, for interfaces that forward fast; 64 bytes " +
		"each. Rounded up to a power of two.",
	"flow-seed": "Seed of the hash that makes Flow-IDs and selects flows. Use one value in the whole IOAM domain; " +
		"another value selects other flows.",
	"flows": "Number of flows that each CPU keeps for export: aggregate and export: sample. When there are more, one is " +
		"replaced and exported early.",
	"export-interval": "How often flows are exported, at least 1s.",
	"export-limit": "1/N: each interface exports at most one postcard, or flow that is replaced before its interval " +
		"ends, for every N packets that it sees (RFC 9326 §3.1.2). Exports beyond the limit are suppressed and " +
		"counted. Flows at the end of their interval are not limited by it.",
	"export-rate": "Maximum number of postcards and flows per second that the node exports. Those beyond it are " +
		"suppressed and counted, also flows at the end of their interval.",
	"loopback-limit": "1/N: each interface returns at most one copy of a packet with the Loopback flag for every N " +
		"packets that it sees (RFC 9322 §4.2); what 64 copies cost can be saved up. Copies beyond the limit are " +
		"suppressed and counted.",
	"loopback-rate": "Maximum number of copies per second that the node returns, and of packets per second on which it " +
		"sets the Loopback flag. Both are counted apart. Those beyond it are suppressed and counted.",
	"delays": "1/N, such as 1/16: count delays of packets with times in histograms (GET /v1/delays and metrics): of " +
		"every packet what its traces say where they are removed, and how long this node held it, if the option " +
		"asks for the transit delay; of other packets, how long this node held one in N. none counts nothing. It " +
		"takes 603 KiB for each CPU.",
	"kernel-events": "Also make records of the traces that the kernel's own IOAM fills, on interfaces with " +
		"net.ipv6.conf.NAME.ioam6_enabled (Linux 6.9 or newer): the node data as they leave this node, without the " +
		"packet.",
	"queue-delay": "Measure how long packets wait in the queues of the served interfaces, for metrics and events (Linux 6.6 or " +
		"newer). It costs about 6% of what the stack forwards. alarm measures from when the kernel says that one of these queues " +
		"drops packets, or was not empty at three looks, one a second, until that has not been so for a minute. " +
		`"waymark queue" measures as long as it runs, whatever this says.`,
	"receive-offload": "Whether a node after this one may join received packets (GRO) while they have IOAM of this one, " +
		"which reorders segments of TCP whose headers differ. False says that none does: all forward fast in XDP, " +
		"or have GRO off. Then waymark doctor leaves out the hint order_at_risk about them; nothing else depends on " +
		"it.",
	"compatibility": "With default, the node writes real values where it knows them. With mainline, it writes byte for " +
		"byte what the Linux kernel writes, and drops the malformed options that the kernel drops.",
}

// The modes of a node.
const (
	ModeFull    NodeMode = "full"
	ModeObserve NodeMode = "observe" // change none
)

// NodeMode is what a node may do with packets.
type NodeMode string

// When queues are measured.
const (
	QueueDelayNever  QueueDelay = "false"
	QueueDelayAlways QueueDelay = "true"
	QueueDelayAlarm  QueueDelay = "alarm" // while queues drop packets or fill
)

// QueueDelay is when queues are measured.
type QueueDelay string

// NextHops is a number of destinations to remember.
type NextHops int

// FlowSeed is the seed of the flow hash.
type FlowSeed uint64

// FlowEntries is how many flows each CPU keeps.
type FlowEntries int

// ExportRate is a number of exports per second.
type ExportRate uint32

// Share is the N of 1/N.
type Share uint32

// Delays is the N of 1/N packets whose delay is counted, 0 for none.
type Delays uint32

// LoopbackRate is a number of copies per second.
type LoopbackRate uint32

// maxNextHops is 64 MiB for each CPU.
const maxNextHops = 1 << 20

func (c *Config) identify(node *model.NodeConfig) {
	if c.Node.ID != nil {
		node.ID = *c.Node.ID
	}
	if c.Node.IDWide != nil {
		node.IDWide = *c.Node.IDWide
	}
}
