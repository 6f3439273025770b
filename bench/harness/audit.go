// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/waymark-net/waymark/internal/datapath"
)

// Audit says which packets the node chose, whichever CPU they passed. If it gave them
// a number, each from the first to the last must be there once.
type Audit struct {
	Length int // of these packets at the sink
	Number int // the offset of the 32 bits; 0: they have none
	OneIn  int // one of so many packets is chosen
}

// auditPackets are sent in an audit; an audit can tell twice as many numbers apart.
const auditPackets = 1 << 20

// audited is what an audit found.
type audited struct {
	handled  uint64 // packets that the node forwarded
	given    uint64 // packets that it chose, and gave a number if they have one
	distinct uint64 // numbers that arrived at the sink
	repeated uint64 // packets whose number had arrived before
	missing  uint64 // numbers between the first and the last that did not arrive
}

// audit sends packets from all CPUs of a stream, and checks their numbers.
func (t *traffic) audit(l *line, v *Variant) error {
	maps := t.collection.Maps
	cleared := trafficAudit{Length: uint32(v.Audits.Length), At: uint32(v.Audits.Number)}
	if err := maps[trafficMapAudits].Put(uint32(0), cleared); err != nil {
		return fmt.Errorf("clear what the auditor saw: %w", err)
	}
	repeated, err := t.perCPU(trafficMapRepeated)
	if err != nil {
		return err
	}
	before, err := l.counters()
	if err != nil {
		return err
	}
	err = t.sinksBy(trafficProgSink, trafficProgAuditor, l, func() error {
		if err := t.send(l, v.Send, auditPackets, sending{batch: batchSize}); err != nil {
			return err
		}
		_, err := t.settled()
		return err
	})
	if err != nil {
		return err
	}
	after, err := l.counters()
	if err != nil {
		return err
	}
	l.looks += auditPackets
	again, err := t.perCPU(trafficMapRepeated)
	if err != nil {
		return err
	}
	var seen trafficAudit
	if err := maps[trafficMapAudits].Lookup(uint32(0), &seen); err != nil {
		return fmt.Errorf("read what the auditor saw: %w", err)
	}
	node := v.Wants[0].Node
	found := audited{
		handled: forwarded(after[node]) - forwarded(before[node]), given: v.counted(l, before, after), repeated: again - repeated,
	}
	found.distinct, found.missing = run(seen.Seen[:])
	return found.fault(*v.Audits, v.Send.Senders)
}

// forwarded is how many packets a node sent on, through the stack or without it.
func forwarded(counters []datapath.Counters) (n uint64) {
	for _, c := range counters {
		for i := range c.Forwarded {
			n += c.Forwarded[i] + c.Egress[i]
		}
	}
	return n
}

// run returns how many bits are set, and how many are not between the first and
// the last of them. Numbers wrap around, so the longest row of unset bits is what
// lies outside; it may begin at the end and go on at the start.
func run(words []uint64) (set, missing uint64) {
	size := uint64(len(words)) * 64
	var first, last, longest uint64 // positions of set bits, from 1 on
	for i, word := range words {
		for ; word != 0; word &= word - 1 {
			at := uint64(i*64+bits.TrailingZeros64(word)) + 1
			if set++; first == 0 {
				first = at
			} else {
				longest = max(longest, at-last-1)
			}
			last = at
		}
	}
	if set == 0 {
		return 0, 0
	}
	return set, size - set - max(longest, first+size-last-1)
}

// fault says what is wrong with the chosen packets. Packets that were lost after the node
// have numbers, too. CPUs take the packets that get a number in blocks, and may
// have used a part of one.
func (a audited) fault(of Audit, cpus int) error {
	due, slack := a.handled/uint64(of.OneIn), uint64(0)
	if of.OneIn > 1 {
		slack = uint64(2*cpus + 1)
	}
	switch {
	case a.given == 0:
		return errors.New("no packet was chosen")
	case a.given > due+slack, a.given+slack < due:
		return fmt.Errorf("%d of %d packets were chosen instead of %d", a.given, a.handled, due)
	case a.distinct+a.repeated > a.given:
		return fmt.Errorf("%d chosen packets arrived; %d were chosen", a.distinct+a.repeated, a.given)
	case a.distinct == 0:
		return fmt.Errorf("none of %d chosen packets arrived", a.given)
	case of.Number == 0:
		return nil
	}
	switch lost := a.given - a.distinct - a.repeated; {
	case a.repeated > 0:
		return fmt.Errorf("%d of %d numbers were given again", a.repeated, a.given)
	case a.missing > lost:
		return fmt.Errorf("%d of %d numbers are missing, and %d packets", a.missing, a.given, lost)
	}
	return nil
}
