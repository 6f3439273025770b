// SPDX-License-Identifier: Apache-2.0

package history

import (
	"time"

	"github.com/waymark-net/waymark/internal/collectorapi"
	"github.com/waymark-net/waymark/internal/instant"
)

// The answers, as far as tables show them.
type (
	answer struct {
		From, Until time.Time
		Gaps        []gap
		Cut         *collectorapi.Cut
		missing     string // number of gaps of an answer in CSV
	}
	gap struct {
		From, Until time.Time
		Reason      string
	}
	node struct {
		Node     string  `json:"node"`
		Exporter string  `json:"exporter"`
		ID       *uint64 `json:"node_id"`
	}
	iface struct {
		Index uint32 `json:"index"`
		Name  string `json:"name"`
	}
	delays struct {
		P50 int64 `json:"p50_ns"`
		P95 int64 `json:"p95_ns"`
		P99 int64 `json:"p99_ns"`
		Max int64 `json:"max_ns"`
	}

	paths struct {
		answer
		Instead *instead
		Packets uint64
		Paths   []path
		Before  *paths
	}
	path struct {
		ID         string `json:"path"`
		Complete   bool
		Packets    uint64
		Share      float64
		Incomplete uint64
		Lost       uint64
		LossKnown  bool `json:"loss_known"`
		Delay      *delays
		Negative   uint64 `json:"delay_negative"`
		Hops       []hop
	}
	hop struct {
		node
		Ingress, Egress *iface
		Hops            *int
		Held, Since     *delays
		Negative        uint64 `json:"since_negative"`
	}

	events struct {
		answer
		Events []event
	}
	event struct {
		Time             time.Time
		Node, Text, Cure string
		Name             string `json:"event"`
	}

	changes struct {
		answer
		Changes []change
	}
	change struct {
		Time, Before        time.Time
		Source, Destination string
		Namespace           uint16
		Moved               float64
		Was, Became         []share
	}
	share struct {
		Nodes []node
		Share float64
		Delay *int64 `json:"delay_mean_ns"`
	}

	segments struct {
		answer
		Segments []segment
	}
	segment struct {
		From            node
		To              *node
		Egress, Ingress *iface
		LossKnown       bool `json:"loss_known"`
		measured
		Baseline *measured
	}
	measured struct {
		Packets, Lost uint64
		Held, Link    *delays
		Negative      uint64 `json:"link_negative"`
	}

	grid struct {
		answer
		Pairs []pair
	}
	pair struct {
		From      node
		To        *node
		LossKnown bool `json:"loss_known"`
		between
		Before *between
	}
	between struct {
		Packets, Lost uint64
		Paths         uint64
		Delay         *delays
		Negative      uint64 `json:"delay_negative"`
	}

	packets struct {
		answer
		Packets []packet
	}
	packet struct {
		Time            time.Time
		FlowID          *uint32 `json:"flow_id"`
		Sequence        *uint32
		From            string  `json:"source_address"`
		To              string  `json:"destination_address"`
		NextHeader      uint8   `json:"next_header"`
		SourcePort      *uint16 `json:"source_port"`
		DestinationPort *uint16 `json:"destination_port"`
		Length          uint32
		Reason, Verdict string
		Delay           *int64 `json:"delay_ns"`
		Nodes           []packetNode
	}
	packetNode struct {
		node
		Role            string
		Ingress, Egress *iface
		HopLimit        *uint8        `json:"hop_limit"`
		Time            *instant.Time `json:"timestamp"`
		Since           *int64        `json:"since_previous_ns"`
		Held            *int64        `json:"held_ns"`
		Queue           *uint32       `json:"queue_depth"`
		ClockError      *int64        `json:"clock_error_ns"`
	}

	losses struct {
		answer
		Flows []flowLoss
		Edges []edgeLoss `json:"edge_flows"`
	}
	flowLoss struct {
		Flow       string
		FlowID     int64 `json:"flow_id"`
		Scope      string
		From, To   int64
		FromNode   string `json:"from_node"`
		ToNode     string `json:"to_node"`
		Blocks     uint64
		Uncertain  uint64 `json:"blocks_uncertain"`
		Sent, Lost uint64
		Ratio      *float64
		Before     *struct{ Ratio *float64 }
	}
	edgeLoss struct {
		Node, Source, Destination string
		Packets                   int64
		Lost                      *int64
		Unknown                   int64
		Duplicates, Reordered     int64
	}
)
