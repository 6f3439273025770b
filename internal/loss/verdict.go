// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict says what a block's numbers are worth.
type Verdict uint8

// Verdicts. The numbers are those of IPFIX element pmVerdict.
const (
	NoData    Verdict = iota // neither end reported: nothing is known
	Uncertain                // there are reasons not to trust the numbers
	Measured                 // the numbers are exact
	Idle                     // exact, and there was no packet
	// Duplicated: the counters are exact, and more packets came to a point than were sent.
	// So some came more than once, and how many were lost is not known.
	Duplicated

	// NumVerdicts is the number of verdicts.
	NumVerdicts
)

var verdictNames = [NumVerdicts]string{"no-data", "uncertain", "measured", "idle", "duplicated"}

// String is the verdict in a word.
func (v Verdict) String() string {
	if v >= NumVerdicts {
		return "unknown"
	}
	return verdictNames[v]
}

// UnmarshalText reads a verdict's word.
func (v *Verdict) UnmarshalText(text []byte) error {
	i := slices.Index(verdictNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a verdict", text)
	}
	*v = Verdict(i)
	return nil
}

// Exact reports whether the numbers are exact.
func (v Verdict) Exact() bool { return v == Measured || v == Idle }

// Reasons are why the numbers of a point are uncertain: a set of bits, numbered as in
// IPFIX elements pmFromReasons and pmToReasons.
type Reasons uint16

const (
	// Missing: the point did not report the block in time.
	Missing Reasons = 1 << iota
	// Contradicting: the point reported the block twice, with different numbers.
	Contradicting
	// Restarted: counting began in the block, or was interrupted.
	Restarted
	// GuardViolated: packets were later than the guard allows, or the counters were read
	// outside their window.
	GuardViolated
	// ClockWorse: the clock of this end is so inaccurate that the clocks of both ends may
	// differ by more than planned.
	ClockWorse
	// ColourMissing: packets of the flow had no mark; something on the way removes it.
	ColourMissing
	// ColourOutOfTurn: packets had a colour that did not fit their time.
	ColourOutOfTurn
	// OtherPath: the flow took, or may have taken, a path without this point. Only transit points
	// have this reason, and only if their counters show no other one.
	OtherPath
	// OtherSelection: the point selects other packets than the flow's first point, or does not
	// say which ones.
	OtherSelection
	// InterfacesChanged: an interface at which the flow may pass was added, removed or
	// attached again in the block, or is missing.
	InterfacesChanged
	// UnservedInterface: packets of the flow passed an interface that is not counted.
	UnservedInterface
	// NotExecuted: the program that counts at an interface did not run for all packets.
	NotExecuted
	// PathUnknown: packets are missing at this point, or too many came after it, and the
	// other points do not tell whether they were lost or duplicated, or took a path without
	// it. Only a transit point has it.
	PathUnknown

	// AllReasons has every reason.
	AllReasons = PathUnknown<<1 - 1

	// Uncovered are the reasons of a point where some interface was not counted.
	Uncovered = InterfacesChanged | UnservedInterface | NotExecuted
)

var reasonNames = [...]string{
	"missing", "contradicting", "restarted", "guard_violated", "clock_worse", "colour_missing", "colour_out_of_turn", "other_path",
	"other_selection", "interfaces_changed", "unserved_interface", "not_executed", "path_unknown",
}

// Names are the reasons in words, in the order of their bits.
func (r Reasons) Names() []string { return namesOf(uint16(r), reasonNames[:]) }

// ReasonsNamed is the inverse of Names. Names that it does not know, as of a later
// version, are skipped.
func ReasonsNamed(names []string) Reasons { return Reasons(bitsNamed(names, reasonNames[:])) }

// namesOf are the names of the bits of a set.
func namesOf(set uint16, all []string) (list []string) {
	for i, name := range all {
		if set>>i&1 != 0 && name != "" {
			list = append(list, name)
		}
	}
	return list
}

// bitsNamed is the inverse of namesOf.
func bitsNamed(names, all []string) (set uint16) {
	for i, name := range all {
		if name != "" && slices.Contains(names, name) {
			set |= 1 << i
		}
	}
	return set
}

// String is the reasons in words, with commas between them; "" for none.
func (r Reasons) String() string { return strings.Join(r.Names(), ",") }

// reasons are those that a reading shows by itself.
func (r *Reading) reasons() (out Reasons) {
	for _, why := range [...]struct {
		met    bool
		reason Reasons
	}{
		{r.Flags&Began != 0 || r.Flags&Interrupted != 0 && r.Flags&uncovered == 0, Restarted},
		{r.Late > 0 || r.Flags&OutsideWindow != 0, GuardViolated},
		{r.Unmarked > 0, ColourMissing},
		{r.OutOfTurn > 0, ColourOutOfTurn},
		{r.Flags&ChangedInterfaces != 0, InterfacesChanged},
		{r.Flags&PassedUnserved != 0, UnservedInterface},
		{r.Flags&NotRun != 0, NotExecuted},
	} {
		if why.met {
			out |= why.reason
		}
	}
	return out
}
