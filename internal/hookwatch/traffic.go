// SPDX-License-Identifier: Apache-2.0

package hookwatch

import "time"

// A hook is bypassed when its device counts packets and the hook none. Few packets may be such
// as no hook sees, or be counted late, so a gap begins with fewPackets in comparisons of which
// each found some, or with bypassPackets in all; it ends when none come any more. After
// bypassTime, the hook counts as bypassed until it sees packets.
const (
	fewPackets    = 3
	bypassPackets = 20
	bypassTime    = 4 * time.Second
)

// latestCount is how long after the hook a device may count a packet that waits in a queue behind the
// hook, or of which the driver tells from time to time. It is more than the time between two
// comparisons. As many packets as the hook has counted meanwhile, and the device has not, are no bypass
// within this time: one that is as short, and as small, is not noticed by their numbers.
const latestCount = 3 * time.Second

// counts is what comparisons of a hook with its device found.
type counts struct {
	compared     bool
	counted      bool      // the hook has counted since the first comparison, or a gap has ended
	at           time.Time // of the last comparison
	proof        time.Time // the program was executed after it
	lastCounted  time.Time // the last comparison in which something had counted
	device       uint64    // at the last comparison
	hook         uint64
	unseen       uint64    // packets that the device counted since the hook last did
	silentUnseen uint64    // of these, in comparisons of which each found some
	seen         time.Time // when the hook last counted, or the device nothing since then
	since        time.Time // the hook may be bypassed since then
	gap          time.Time // that it is, was reported since then; zero: was not
	hookAt       time.Time // of the last comparison in which the hook had counted
	dropped      uint64
	uncounted    uncounted
}

// uncounted are packets that the hook has counted and the device has not. Some of them were dropped behind
// the hook and never will be, so they are not more than the hook has counted lately. An offloaded packet is
// one here and several at some devices.
type uncounted struct {
	packets     uint64
	now, before uint64 // that the hook has counted in this period of latestCount, and in the one before
	began       time.Time
}

// add takes what the hook has counted and not dropped, and what the device has counted, since the comparison before.
func (u *uncounted) add(hook, device uint64, now time.Time) {
	switch age := now.Sub(u.began); {
	case age >= 2*latestCount:
		u.now, u.before, u.began = 0, 0, now
	case age >= latestCount:
		u.now, u.before, u.began = 0, u.now, u.began.Add(latestCount)
	}
	u.now += hook
	u.packets += hook
	u.packets -= min(u.packets, device)
	u.packets = min(u.packets, u.now+u.before)
}

// Count takes what the device and the hook have counted.
func (h *Hooks) Count(k Key, t Traffic, now time.Time) {
	s := h.hooks[k]
	if s == nil || s.compared && now.Before(s.at) { // two compare at once: this one was read before the other
		return
	}
	before, came := s.at, t.Device-s.device
	silent := s.compared && t.Hook+t.Meanwhile == s.hook && t.Device >= s.device
	if !s.compared {
		before = now
	}
	late := s.late(t, now)
	s.counted = s.compared && (s.counted || t.Hook != s.hook)
	s.compared, s.at, s.device, s.hook, s.dropped = true, now, t.Device, t.Hook, t.Dropped
	switch {
	case !silent: // it was executed after the comparison before
		h.sees(k, s, now)
		s.hookAt = now
		s.seen, s.lastCounted, s.since, s.proof = now, now, before, before
		return
	case came == 0:
		s.silentUnseen = 0
		if s.unseen == 0 {
			s.seen = now
		}
		if s.BypassedSince.IsZero() && !s.gap.IsZero() {
			h.report(Gap{k, Bypassed, s.gap, now})
			s.gap, s.since, s.counted = time.Time{}, now, true
		}
		return
	}
	s.lastCounted, s.proof = now, s.since
	if came -= late; came == 0 {
		return
	}
	s.unseen, s.silentUnseen = s.unseen+came, s.silentUnseen+came
	if s.gap.IsZero() && (s.silentUnseen >= fewPackets || s.unseen >= bypassPackets) {
		s.gap = s.since
		if !s.counted {
			s.gap = beforeFirstLook
		}
		h.report(Gap{Key: k, Cause: Bypassed, Since: s.gap})
	}
	if s.BypassedSince.IsZero() && s.unseen >= bypassPackets && now.Sub(s.seen) >= bypassTime {
		s.BypassedSince = s.seen
	}
	if !s.BypassedSince.IsZero() {
		s.Unseen = s.unseen
	}
}

// late is how many of the packets that the device has counted since the comparison before may have been counted
// by the hook before that.
func (s *State) late(t Traffic, now time.Time) (packets uint64) {
	if !s.compared || t.Hook < s.hook || t.Device < s.device || t.Dropped < s.dropped { // a counter began anew
		s.uncounted = uncounted{began: now}
		return 0
	}
	came := t.Device - s.device
	if now.Sub(s.hookAt) < latestCount {
		packets = min(came, s.uncounted.packets)
	}
	s.uncounted.add(t.Hook-s.hook-(t.Dropped-s.dropped), came, now)
	return packets
}

// sees notes that a hook sees packets, or is gone.
func (h *Hooks) sees(k Key, s *State, now time.Time) {
	if !s.gap.IsZero() {
		h.report(Gap{k, Bypassed, s.gap, now})
	}
	s.gap, s.BypassedSince, s.Unseen, s.unseen, s.silentUnseen = time.Time{}, time.Time{}, 0, 0, 0
}

// Incomparable notes that a hook's packets cannot be compared with its device's.
func (h *Hooks) Incomparable(k Key, now time.Time) {
	if s := h.hooks[k]; s != nil && s.compared {
		h.sees(k, s, now)
		s.counts = counts{}
	}
}

// until is until when it is known whether packets went past the hook: if nothing has counted for
// a while, none did.
func (s *State) until(now time.Time, quiet time.Duration) time.Time {
	switch {
	case !s.compared:
		return now // nothing is known of it by this, at any time
	case !s.gap.IsZero(), s.at.Sub(s.lastCounted) >= quiet:
		return s.at
	}
	return s.proof
}
