// SPDX-License-Identifier: Apache-2.0

// Package linkrelay delays and reorders packets of one direction of a link, and counts
// exactly what it did: not every kernel has netem.
//
// The filter of package linkloss, after all other programs at the egress of the sending
// interface, diverts frames to a tap. A loop in this process reads them, holds them, and
// gives them to the link's device, past queues and programs: the sending node's agent has
// counted each once, before. In front of the tap the kernel cuts offloaded frames into
// packets, and computes their checksums, as a network card does; each packet is a frame of
// its own from there on.
//
// The loop renews the detour. If the process is killed, frames take the link itself again,
// after at most [linkloss.DetourLease]; until then they are lost.
package linkrelay

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/problem"
)

// Rule says what happens to which frames: they are delayed, or reordered.
type Rule struct {
	linkloss.Selection

	// Each frame waits for the delay, more or less by at most the jitter: a random time
	// that the seed decides. Frames overtake each other where the jitter is larger than
	// the time between them.
	Delay  time.Duration `json:"delay_ns,omitempty"`
	Jitter time.Duration `json:"jitter_ns,omitempty"`
	Seed   uint64        `json:"seed,omitempty"`

	// Each Every-th frame waits until By later ones have overtaken it, but no longer than
	// for Hold.
	Every uint32        `json:"every,omitempty"`
	By    uint32        `json:"by,omitempty"`
	Hold  time.Duration `json:"hold_ns,omitempty"`
}

// DefaultHold is a time in which frames follow where there is traffic.
const DefaultHold = 100 * time.Millisecond

// MaxDelay bounds what the queue has to hold.
const MaxDelay = 10 * time.Second

// Validate checks what the loop relies on.
func (r Rule) Validate() error {
	if err := r.Selection.Validate(); err != nil {
		return err
	}
	switch delays := r.Delay != 0 || r.Jitter != 0; {
	case delays == (r.Every != 0 || r.By != 0):
		return problem.New("a rule delays frames or reorders them", "choose one")
	case delays && (r.Delay <= 0 || r.Jitter < 0 || r.Jitter > r.Delay || r.Delay > MaxDelay):
		return problem.New(
			fmt.Sprintf("a delay of %v, more or less by %v, is not possible", r.Delay, r.Jitter),
			fmt.Sprintf("give up to %v, and a jitter of at most the delay", MaxDelay),
		)
	case !delays && (r.By < 1 || r.Every <= r.By):
		return problem.New(
			fmt.Sprintf("each %d-th frame cannot be overtaken by %d", r.Every, r.By),
			"give a larger first number, and at least 1",
		)
	case !delays && (r.Hold <= 0 || r.Hold > MaxDelay):
		return problem.New(fmt.Sprintf("frames cannot wait for %v", r.Hold), fmt.Sprintf("give up to %v", MaxDelay))
	}
	return nil
}

// Counts are what a relay did with the frames.
type Counts struct {
	Frames     uint64 `json:"frames"`      // that took the detour, offloaded ones whole
	Packets    uint64 `json:"packets"`     // in them
	Sent       uint64 `json:"sent"`        // packets that went on, later
	Overtaken  uint64 `json:"overtaken"`   // by as many as the rule says
	OutOfTime  uint64 `json:"out_of_time"` // that went on first, because too few followed
	NotRead    uint64 `json:"not_read"`    // lost before: they came faster than the relay reads
	NotSent    uint64 `json:"not_sent"`    // lost: the link's device did not take them
	ShortestNS uint64 `json:"shortest_ns"` // time for which a packet was held
	MeanNS     uint64 `json:"mean_ns"`
	LongestNS  uint64 `json:"longest_ns"`
}
