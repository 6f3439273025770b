// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// End is why a flow is reported.
type End uint8

const (
	// EndOfInterval is the end of an interval.
	EndOfInterval End = iota
	// EndOfConnection is the end of a TCP connection, in the interval that ended.
	EndOfConnection
	// Eviction is another flow that needed the entry.
	Eviction
)

// Flow summarizes the exports of one flow in an interval.
type Flow struct {
	Role            model.NodeRole
	Ingress, Egress model.IfIndex // 0: not known, or none
	Namespace       ioam.NamespaceID
	Type            ioam.TraceType
	ExtensionFlags  uint8
	FlowID          uint32 // 0 when the option has none
	Flow            model.Flow
	End             End

	Packets, Bytes           uint64
	First, Last              time.Time // UTC, to the precision of the kernel's tick
	DelayCount               uint32    // packets whose transit delay was measured
	DelaySum                 time.Duration
	DelayMin, DelayMax       time.Duration // of those
	Skipped                  uint32        // Sequence Numbers that were expected since the flow was last reported, and did not arrive
	SkippedUnknown           bool          // Skipped cannot be known
	Paid                     bool          // export limits were applied when the flow ended or was evicted
	Late                     uint32        // packets that arrived after one with a later Sequence Number on the same CPU
	HopLimitMin, HopLimitMax uint8
}
