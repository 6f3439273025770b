// SPDX-License-Identifier: Apache-2.0

// Package linkloss loses packets in one direction of a link, as its rules say, and counts
// exactly what it lost.
//
// It is a clsact filter with the lowest priority at the egress of the sending interface.
// The kernel runs such filters after all programs in tcx, and after filters of a higher
// priority, in whatever order they were attached: the agent of the sending node has
// counted a packet that is lost, and no program of the receiving node sees it. Frames
// that XDP forwards pass by all of tc, and are not lost.
//
// A rule may send what it chooses twice instead: the copy passes the programs of the sending
// interface again, so an agent that counts what leaves there counts both.
//
// What is not lost may take a detour to another device; package linkrelay holds it there.
//
// The filter holds its program, which holds its rules and counters, so they last as long
// as the interface, without a file and without a process.
//
// All functions work in the network namespace of the calling thread.
package linkloss

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/problem"
)

// Rule says which frames of an interface are lost. A frame is what the device is given;
// an offloaded one is many packets, of which all are lost or none.
type Rule struct {
	// Of the frames that it chooses from: invalid prefixes are all.
	Source      netip.Prefix `json:"source,omitzero"` // of the outer IPv6 header
	Destination netip.Prefix `json:"destination,omitzero"`
	FirstSID    netip.Prefix `json:"first_sid,omitzero"` // of the segment routing header; without one, the destination
	LastSID     netip.Prefix `json:"last_sid,omitzero"`

	// The last Burst frames of each Every, or each frame with the Probability.
	Burst       uint32  `json:"burst,omitempty"`
	Every       uint32  `json:"every,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Twice       bool    `json:"twice,omitempty"` // they are sent twice, instead of lost
	Seed        uint64  `json:"seed,omitempty"`  // of Probability: the same frames are lost with the same seed
}

// Counts are what a rule chose from, and what it lost, or sent twice, of that.
type Counts struct {
	Frames      uint64 `json:"frames"`
	Packets     uint64 `json:"packets"`
	LostFrames  uint64 `json:"lost_frames"`
	LostPackets uint64 `json:"lost_packets"`
}

// Active is a rule that is in force.
type Active struct {
	Number int `json:"number"` // from 1, of the interface
	Rule
	Counts
}

// Validate checks what the kernel's program relies on.
func (r Rule) Validate() error {
	if err := (Selection{r.Source, r.Destination, r.FirstSID, r.LastSID}).Validate(); err != nil {
		return err
	}
	random := r.Probability != 0
	switch {
	case random == (r.Every != 0):
		return problem.New("a rule loses frames periodically or at random", "choose one")
	case random && !(r.Probability > 0 && r.Probability <= 1):
		return fmt.Errorf("the probability %v is not above 0 and at most 1", r.Probability)
	case !random && (r.Burst < 1 || r.Burst > r.Every):
		return problem.New(
			fmt.Sprintf("of each %d frames, %d cannot be lost", r.Every, r.Burst),
			fmt.Sprintf("write a number from 1 to %d", r.Every),
		)
	}
	return nil
}

// kernel is the rule as the program reads it.
func (r Rule) kernel() lossRule {
	k := lossRule{
		Source: kernelPrefix(r.Source), Destination: kernelPrefix(r.Destination), First: kernelPrefix(r.FirstSID), Last: kernelPrefix(r.LastSID),
		Burst: r.Burst, Period: r.Every, Pattern: lossPatternPATTERN_PERIODIC,
	}
	if r.Twice {
		k.Twice = 1
	}
	if r.Probability > 0 {
		k.Pattern, k.Seed, k.Threshold = lossPatternPATTERN_RANDOM, r.Seed, threshold(r.Probability)
	}
	return k
}

// threshold is how many of the 2^32 random numbers lose a frame.
func threshold(probability float64) uint64 { return max(1, uint64(math.Round(probability*(1<<32)))) }

// decimals hide that 0.01 is not a multiple of 2^-32.
const decimals = 1e9

func (k lossRule) rule() Rule {
	r := Rule{Source: k.Source.prefix(), Destination: k.Destination.prefix(), FirstSID: k.First.prefix(), LastSID: k.Last.prefix()}
	if k.Pattern == lossPatternPATTERN_RANDOM {
		r.Seed, r.Probability = k.Seed, math.Round(float64(k.Threshold)/(1<<32)*decimals)/decimals
	} else {
		r.Burst, r.Every = k.Burst, k.Period
	}
	r.Twice = k.Twice != 0
	return r
}

// Add attaches the filter if need be, and adds a rule to it; it returns the rule's
// number. Rules apply in the order of their numbers, each to what those before it left.
func Add(device string, r Rule) (int, error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	f, err := findOrAttach(device)
	if err != nil {
		return 0, err
	}
	defer f.close()
	for i := range f.rules.MaxEntries() {
		var k lossRule
		if err := f.rules.Lookup(i, &k); err != nil {
			return 0, fmt.Errorf("read rule %d of %s: %w", i+1, device, err)
		}
		if k.Pattern != lossPatternPATTERN_NONE {
			continue
		}
		// Nothing counts while there is no rule.
		if err := errors.Join(f.forget(i), f.counters.Put(i, lossCounts{}), f.rules.Put(i, r.kernel())); err != nil {
			return 0, fmt.Errorf("add rule %d to %s: %w", i+1, device, err)
		}
		return int(i) + 1, nil
	}
	return 0, problem.New(fmt.Sprintf("%s has %d rules, the most that it can have", device, f.rules.MaxEntries()), "remove one")
}

// List reads the rules of an interface; none without the filter.
func List(device string) ([]Active, error) {
	f, err := find(device)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.close()
	return f.list()
}

// Remove removes a rule and returns its last state. With the last rule, the filter goes,
// unless there is a detour.
func Remove(device string, number int) (Active, error) {
	f, err := find(device)
	if err != nil {
		return Active{}, err
	}
	if f == nil {
		return Active{}, fmt.Errorf("%s has no rule %d", device, number)
	}
	defer f.close()
	rules, err := f.list()
	if err != nil {
		return Active{}, err
	}
	at := slices.IndexFunc(rules, func(a Active) bool { return a.Number == number })
	if at < 0 {
		return Active{}, fmt.Errorf("%s has no rule %d", device, number)
	}
	removed, i := rules[at], uint32(number-1)
	if err := f.rules.Put(i, lossRule{}); err != nil {
		return removed, fmt.Errorf("remove rule %d of %s: %w", number, device, err)
	}
	// What was lost since the rules were listed counts, too.
	if removed.Counts, err = f.countsOf(i); err != nil {
		return removed, err
	}
	return removed, f.detachIfIdle()
}
