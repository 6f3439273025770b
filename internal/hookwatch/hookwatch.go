// SPDX-License-Identifier: Apache-2.0

// Package hookwatch judges whether the programs of a node are executed: from what looks at
// its hooks found, it derives since when a program was off its hook, out of its place or
// without packets, and when to repair that. It has no clock, no input and no output.
package hookwatch

import (
	"time"

	"github.com/waymark-net/waymark/internal/model"
)

// Key is one hook.
type Key struct {
	Index   model.IfIndex
	Ingress bool
}

// Look is what one look at a hook found.
type Look struct {
	Attached, InPlace bool
	Changed           bool // others changed the chain of programs since the look before
}

// Traffic is what a device and the hook on it have counted in one direction.
type Traffic struct {
	Device, Hook uint64
	Dropped      uint64 // of Hook, before the device
	// Meanwhile are further packets that the hook counted until the device had been read.
	Meanwhile uint64
}

// Cause is why packets may have passed a hook without the program. Gaps of several causes may
// overlap, and each ends for itself.
type Cause string

// The causes.
const (
	Detached  Cause = "detached"
	Displaced Cause = "displaced"
	Bypassed  Cause = "bypassed"
	Changed   Cause = "changed" // a program of others may have come and gone between two looks
)

// Gap is a time in which packets may have passed a hook without the program.
type Gap struct {
	Key
	Cause
	Since time.Time // when it was last known to be executed
	Until time.Time // zero while it lasts
}

// beforeFirstLook is since when a gap is that the first look finds: no one looked while no agent ran.
var beforeFirstLook = time.Unix(0, 0)

// State is what is known about one hook.
type State struct {
	Checked time.Time

	OffSince      time.Time // since when the program was not on the hook; zero: it is
	AwaySince     time.Time // since when it was out of its place; zero: it is there
	BypassedSince time.Time // since when the hook sees nothing, though the device counts; zero: it sees packets
	Unseen        uint64    // packets that the device counted meanwhile

	Last     Gap    // the last time that has ended, in which it was off
	LastMove Gap    // likewise, out of its place
	Change   Gap    // the last time in which other programs changed the chain, and our program kept its place
	Repairs  int    // lately
	Fault    string // why the last repair failed
	Next     time.Time

	lastGood time.Time // the last look that found it attached and in place
	counts
}

// Hooks is the state of all hooks.
type Hooks struct {
	hooks map[Key]*State
	gap   func(Gap) // may be nil
}

// New makes a watch; gap gets each gap when it begins, without Until, and when it ends.
func New(gap func(Gap)) *Hooks { return &Hooks{hooks: make(map[Key]*State), gap: gap} }

// The pauses between repairs double with each one, so that two programs that both want to
// be first do not fight. An edge waits less, because the domain is open meanwhile.
const (
	firstPause  = time.Second
	longestEdge = 8 * time.Second
	longest     = time.Minute
	calm        = 2 * time.Minute // after this time without a repair, the pauses are short again
)

// Keep forgets the hooks that are no longer there.
func (h *Hooks) Keep(there func(Key) bool) {
	for k, s := range h.hooks {
		if !there(k) {
			h.end(k, s, s.Checked)
			h.sees(k, s, s.Checked)
			delete(h.hooks, k)
		}
	}
}

// State is what is known about a hook.
func (h *Hooks) State(k Key) State {
	if s := h.hooks[k]; s != nil {
		return *s
	}
	return State{}
}

// end ends what looks found.
func (h *Hooks) end(k Key, s *State, now time.Time) {
	if !s.OffSince.IsZero() {
		s.Last = Gap{k, Detached, s.OffSince, now}
		h.report(s.Last)
		s.OffSince = time.Time{}
	}
	if !s.AwaySince.IsZero() {
		s.LastMove = Gap{k, Displaced, s.AwaySince, now}
		h.report(s.LastMove)
		s.AwaySince = time.Time{}
	}
}

func (h *Hooks) report(g Gap) {
	if h.gap != nil {
		h.gap(g)
	}
}

// Observe takes what a look at a hook found, and returns whether it is to be repaired now:
// Reattach or Reposition.
func (h *Hooks) Observe(k Key, l Look, now time.Time) Repair {
	s := h.hooks[k]
	if s == nil {
		s = &State{}
		h.hooks[k] = s
	}
	if now.Before(s.Checked) {
		return None // two look at once, and the other has seen what is now
	}
	since, good := now, beforeFirstLook
	if !s.lastGood.IsZero() {
		since, good = s.lastGood, s.lastGood
	}
	s.Checked = now
	if now.Sub(s.Next) > calm {
		s.Repairs = 0
	}
	switch {
	case !l.Attached:
		if s.OffSince.IsZero() {
			s.OffSince = since
			h.report(Gap{Key: k, Cause: Detached, Since: good})
		}
	case !l.InPlace:
		if s.AwaySince.IsZero() {
			if !s.OffSince.IsZero() {
				h.end(k, s, now)
			}
			s.AwaySince = since
			h.report(Gap{Key: k, Cause: Displaced, Since: good})
		}
	default:
		if l.Changed && !s.lastGood.IsZero() && s.OffSince.IsZero() && s.AwaySince.IsZero() {
			h.report(Gap{Key: k, Cause: Changed, Since: s.lastGood})
			s.Change = Gap{k, Changed, s.lastGood, now}
			h.report(s.Change)
		}
		s.lastGood, s.Fault = now, ""
		h.end(k, s, now)
		return None
	}
	if now.Before(s.Next) {
		return None
	}
	if !l.Attached {
		return Reattach
	}
	return Reposition
}

// Repair is what a hook needs.
type Repair int

// What a hook may need.
const (
	None Repair = iota
	Reattach
	Reposition
)

// Repaired notes an attempt, and sets when the next one may follow.
func (h *Hooks) Repaired(k Key, filters bool, err error, now time.Time) {
	s := h.hooks[k]
	if s == nil {
		return
	}
	s.Fault = ""
	if err != nil {
		s.Fault = err.Error()
	}
	most := longest
	if filters {
		most = longestEdge
	}
	pause := firstPause << min(s.Repairs, 10)
	s.Next = now.Add(min(pause, most))
	s.Repairs++
}

// Fail notes a hook that could not be looked at: of the time since the last look, nothing is
// known.
func (h *Hooks) Fail(k Key) {
	if h.hooks[k] == nil {
		h.hooks[k] = &State{}
	}
}

// Known is until when it is known where packets may have passed a hook without the program:
// later than that, there may be gaps that were not noticed yet. now is when the last looks
// and comparisons began; by a hook that has been quiet for a time, nothing goes.
func (h *Hooks) Known(now time.Time, quiet time.Duration) time.Time {
	for _, s := range h.hooks {
		for _, until := range []time.Time{s.Checked, s.until(now, quiet)} {
			if until.Before(now) {
				now = until
			}
		}
	}
	return now
}
