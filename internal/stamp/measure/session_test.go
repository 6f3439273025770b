// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/delay"
)

// network sends a packet each millisecond, and answers it as its fate says.
type network struct {
	session   *Session
	stateful  bool
	reflected uint32
	now       int64
}

func (n *network) exchange(t *testing.T, fates string) {
	t.Helper()
	for _, fate := range fates {
		n.now += int64(time.Millisecond)
		sequence := n.session.Send(n.now, n.now, 0)
		reply := func() Reply {
			number := sequence
			if n.stateful {
				number = n.reflected
			}
			n.reflected++
			return Reply{
				Sequence:  sequence,
				Reflected: number,
				Arrived:   n.now + 100,
				Returned:  n.now + 150,
				Received:  n.now + 350,
				Steady:    n.now + 350,
				Timed:     true,
			}
		}
		receive := func(r Reply, want Verdict) {
			if got := n.session.Receive(&r); got != want {
				t.Fatalf("packet %d (%c): verdict %v, want %v", sequence, fate, got, want)
			}
		}
		switch fate {
		case 'R': // lost, while the reflector restarts
			n.reflected = 0
		case 'u': // this node did not send it
			n.session.Unsent(sequence)
		case '.': // answered
			receive(reply(), Answered)
		case 'f': // lost forward
		case 'b': // lost backward
			reply()
		case 'd': // duplicated on the way back
			r := reply()
			receive(r, Answered)
			receive(r, Duplicate)
		case 'D': // duplicated on the way there
			receive(reply(), Answered)
			receive(reply(), Duplicate)
		case 'l': // late
			r := reply()
			r.Received, r.Steady = r.Received+int64(time.Second), r.Steady+int64(time.Second)
			receive(r, Late)
		}
	}
}

func TestDirectionOfLoss(t *testing.T) {
	for _, tt := range []struct {
		fates                                   string
		knowledge                               Knowledge
		stateful                                bool
		lost, forward, backward, neither, extra uint64
		known                                   bool
	}{
		{"....", Guess, true, 0, 0, 0, 0, 0, false},
		{".f.", Guess, true, 1, 1, 0, 0, 0, true},
		{".b.", Guess, true, 1, 0, 0, 1, 0, false}, // a stateless reflector could have missed it
		{".b.", Stateful, true, 1, 0, 1, 0, 0, true},
		{".b.f.", Guess, true, 2, 1, 1, 0, 0, true},
		{".f.b.", Guess, false, 2, 0, 0, 2, 0, false},
		{".f.b.", Stateless, false, 2, 0, 0, 2, 0, false},
		{"fb.ffbb..bf", Stateful, true, 8, 2, 2, 4, 0, true}, // before the first and after the last
		{".d.D.f.b.", Guess, true, 2, 1, 1, 0, 2, true},
		{".l.f.", Guess, true, 2, 1, 0, 1, 0, true},
		{"fff", Stateful, true, 3, 0, 0, 3, 0, true},
		{".uu.", Stateful, true, 0, 0, 0, 0, 0, true},
		{".u.", Guess, false, 0, 0, 0, 0, 0, false}, // a stateless reflector's number is still ours
		{"u.ufu.ubu.u", Guess, true, 2, 1, 1, 0, 0, true},
	} {
		n := network{session: NewSession(tt.knowledge, 0, 64, time.Second), stateful: tt.stateful, now: 1}
		n.exchange(t, tt.fates)
		r := n.session.Result(n.now + int64(2*time.Second))
		if r.Sent != uint64(len(tt.fates)-strings.Count(tt.fates, "u")) || r.Lost != tt.lost || r.Received != r.Sent-r.Lost || r.Waiting != 0 ||
			r.LostUndirected != tt.neither ||
			r.Duplicates != tt.extra {
			t.Errorf("%s: %+v", tt.fates, r)
		}
		if (r.LostForward != nil) != tt.known || tt.known && (*r.LostForward != tt.forward || *r.LostBackward != tt.backward) {
			t.Errorf(
				"%s: forward %v, backward %v; want %d, %d (known %v)",
				tt.fates,
				r.LostForward,
				r.LostBackward,
				tt.forward,
				tt.backward,
				tt.known,
			)
		}
	}
}

// Of packets that were handed to the kernel together, it refused some in the middle: they
// are not lost, and the numbers of those at the end are used again.
func TestUnsentInTheMiddle(t *testing.T) {
	s := NewSession(Stateful, 0, 64, time.Second)
	for i := range uint32(6) {
		if n := s.Send(0, 0, 0); n != i {
			t.Fatalf("number %d, want %d", n, i)
		}
	}
	for _, n := range []uint32{1, 2, 5, 4} {
		s.Unsent(n)
	}
	if n := s.Send(0, 0, 0); n != 4 || s.Sent() != 3 {
		t.Errorf("number %d, want 4; %d sent", n, s.Sent())
	}
	s.Receive(&Reply{Sequence: 0, Reflected: 0})
	s.Receive(&Reply{Sequence: 4, Reflected: 1}) // 3 was lost on the way there
	if r := s.Result(int64(time.Second)); r.Sent != 3 || r.Lost != 1 || *r.LostForward != 1 || *r.LostBackward != 0 {
		t.Errorf("%+v, forward %d, backward %d", r, *r.LostForward, *r.LostBackward)
	}
}

// A reflector that restarts, or whose session ended, numbers from 0 again: no loss
// changes its direction, and packets that were lost around the restart have none.
func TestReflectorRestarts(t *testing.T) {
	long := strings.Repeat(".", 200)
	for _, tt := range []struct {
		fates                                string
		forward, backward, neither, restarts uint64
	}{
		{"..f..R..b..", 1, 1, 1, 1},
		{long + "fR" + long, 0, 0, 2, 1},
		{long + "R.f." + long + "bRf" + long + "f.", 2, 0, 4, 2},
		{".R.R.R.", 0, 0, 3, 3},
		{"...fffR..", 0, 0, 4, 1},
	} {
		n := network{session: NewSession(Stateful, 0, 64, time.Second), stateful: true, now: 1}
		n.exchange(t, tt.fates)
		r := n.session.Result(n.now + int64(2*time.Second))
		if *r.LostForward != tt.forward || *r.LostBackward != tt.backward || r.LostUndirected != tt.neither ||
			*r.ReflectorRestarts != tt.restarts {
			t.Errorf(
				"%.20s…: forward %d, backward %d, %d neither, %d restarts; want %+v",
				tt.fates,
				*r.LostForward,
				*r.LostBackward,
				r.LostUndirected,
				*r.ReflectorRestarts,
				tt,
			)
		}
	}
}

// Replies out of order are no restart, not even around one.
func TestReorderingAroundRestart(t *testing.T) {
	type answer struct{ place, reflected uint32 } // places from 1
	for _, tt := range []struct {
		name              string
		answers           []answer
		forward, backward uint64
		restarts          uint64
	}{
		{"reordered on the way back", []answer{{1, 0}, {3, 2}, {2, 1}, {5, 4}, {4, 3}}, 0, 0, 0},
		{"reordered on the way there", []answer{{1, 0}, {3, 1}, {2, 2}, {4, 3}}, 0, 0, 0},
		{"far out of order", []answer{{1, 0}, {60, 59}, {2, 1}, {61, 60}}, 0, 57, 0},
		{"the last one before comes after", []answer{{1, 0}, {2, 1}, {4, 0}, {3, 2}, {5, 1}}, 0, 0, 1},
		{"the second one after comes first", []answer{{1, 0}, {2, 1}, {3, 2}, {5, 1}, {4, 0}, {6, 2}}, 0, 0, 1},
		{"after more than half of all numbers", []answer{{1, 3<<30 - 1}, {2, 3 << 30}, {3, 0}, {4, 1}}, 0, 0, 1},
	} {
		d := newDirection(64)
		for _, a := range tt.answers {
			d.add(a.place-1, a.reflected, uint64(a.place))
		}
		if forward, backward := d.lost(math.MaxUint64); forward != tt.forward || backward != tt.backward || d.restarts != tt.restarts {
			t.Errorf("%s: forward %d, backward %d, %d restarts; want %+v", tt.name, forward, backward, d.restarts, tt)
		}
	}
}

func TestDelays(t *testing.T) {
	n := network{session: NewSession(Guess, 0, 64, time.Second), now: 1}
	n.exchange(t, "..........")
	r := n.session.Result(n.now)
	for name, d := range map[string]struct {
		got  *delay.Summary
		want int64
	}{"round trip": {r.RoundTrip, 350}, "two-way": {r.TwoWay, 300}, "residence": {r.Residence, 50}, "forward": {r.Forward, 100},
		"backward": {r.Backward, 200}} {
		if d.got == nil || d.got.Count != 10 || d.got.Min != d.want || d.got.Max != d.want || d.got.Mean != d.want || d.got.Median != d.want ||
			d.got.P99 != d.want {
			t.Errorf("%s: %+v, want %d", name, d.got, d.want)
		}
	}
	if j := r.RoundTrip.Jitter; j == nil || *j != 0 || r.Residence.Jitter != nil {
		t.Errorf("jitter %v", j)
	}
	// Duplicates count neither as replies nor in the jitter.
	d := network{session: NewSession(Guess, 0, 64, time.Second), now: 1}
	d.exchange(t, ".dD.d.")
	if r := d.session.Result(d.now); r.Duplicates != 3 || r.RoundTrip.Count != 6 || *r.RoundTrip.Jitter != 0 {
		t.Errorf("%+v, %+v", r, r.RoundTrip)
	}
	// Clocks that differ: one way is negative, both together are right.
	s := NewSession(Guess, 0, 4, time.Second)
	s.Receive(&Reply{Sequence: s.Send(1000, 1000, 0), Arrived: 500, Returned: 600, Received: 1400, Steady: 1400, Timed: true})
	s.Receive(&Reply{Sequence: s.Send(2000, 2000, 0), Arrived: 1540, Returned: 1640, Received: 2440, Steady: 2440})
	r = s.Result(2440)
	if r.Forward.Min != -500 || r.Backward.Max != 800 || r.TwoWay.Mean != 300 || r.Forward.Count != 1 || r.RoundTrip.Count != 2 ||
		*r.RoundTrip.Jitter != 40 {
		t.Errorf("%+v, %+v, %+v, %+v", r.Forward, r.Backward, r.TwoWay, r.RoundTrip)
	}
}

func TestOrderAndStrangers(t *testing.T) {
	s := NewSession(Guess, 0, 4, time.Second)
	var replies []Reply
	for i := range 3 {
		replies = append(replies, Reply{Sequence: s.Send(int64(i), int64(i), 0), Received: 10, Steady: 10})
	}
	for _, i := range []int{0, 2, 1} {
		if v := s.Receive(&replies[i]); v != Answered {
			t.Errorf("reply %d: %v", i, v)
		}
	}
	for _, strange := range []uint32{3, 99, 1<<32 - 1} {
		if v := s.Receive(&Reply{Sequence: strange}); v != Foreign {
			t.Errorf("reply to %d: %v", strange, v)
		}
	}
	if r := s.Result(20); r.Reordered != 1 || r.Foreign != 3 || r.Received != 3 || r.RoundTrip.Count != 3 {
		t.Errorf("%+v", r)
	}
}

// A step of this node's clock between a packet and its reply changes the delay of one
// way, and neither the timeout nor the round trip.
func TestStepOfWallClock(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		s := NewSession(Guess, 0, 4, time.Second)
		r := Reply{Sequence: s.Send(1000, 1000, 0), Arrived: 1100, Returned: 1200, Received: 1300 + int64(step), Steady: 1300, Timed: true}
		if !s.Waiting(1250) || s.Receive(&r) != Answered {
			t.Errorf("%v: the timeout ended", step)
		}
		if r := s.Result(1300); r.RoundTrip.Max != 300 || r.TwoWay.Max != 200 || r.Forward.Max != 100 || r.Backward.Max != 100+int64(step) {
			t.Errorf("%v: %+v, %+v", step, r.RoundTrip, r.Backward)
		}
	}
}

// What decides is when the kernel received a reply, not when this process read it.
func TestReplyReadAfterTimeout(t *testing.T) {
	s := NewSession(Guess, 0, 4, time.Second)
	inTime := Reply{Sequence: s.Send(0, 0, 0), Received: int64(time.Second) - 1, Steady: int64(time.Second) - 1}
	late := Reply{Sequence: s.Send(0, 0, 0), Received: int64(time.Second), Steady: int64(time.Second)}
	if s.Waiting(int64(time.Minute)) {
		t.Error("a packet waits after the timeout")
	}
	if first, second := s.Receive(&inTime), s.Receive(&late); first != Answered || second != Late {
		t.Errorf("%v and %v", first, second)
	}
	if r := s.Result(int64(time.Minute)); r.Received != 1 || r.Lost != 1 || r.Late != 1 || r.Waiting != 0 || r.RoundTrip.Count != 1 {
		t.Errorf("%+v", r)
	}
}

// A window that is too small for the timeout forgets packets, as lost.
func TestWindowIsBounded(t *testing.T) {
	s := NewSession(Guess, 0, 4, time.Hour)
	first := s.Send(0, 0, 0)
	for range 9 {
		s.Send(0, 0, 0)
	}
	if v := s.Receive(&Reply{Sequence: first}); v != Foreign {
		t.Errorf("the first reply: %v", v)
	}
	if r := s.Result(0); r.Sent != 10 || r.Lost != 6 || r.Waiting != 4 {
		t.Errorf("%+v", r)
	}
	n := s.Send(0, 0, 0)
	s.Unsent(n)
	if r := s.Result(0); r.Sent != 10 || r.Lost != 7 || r.Waiting != 3 {
		t.Errorf("after a packet that was not sent: %+v", r)
	}
	if len(NewSession(Guess, 0, math.MaxInt, time.Hour).window) != MaxWindow {
		t.Error("the window has no bound")
	}
}

// Numbers wrap in sessions of weeks, at different packets for the two ends.
func TestLongSession(t *testing.T) {
	d := newDirection(64)
	const every = 1 << 20
	for sent := uint64(0); sent < 3<<32; sent += every {
		d.add(uint32(sent), uint32(sent-sent/(1<<30)), sent+1) // one in 2^30 is lost forward
	}
	forward, backward := d.lost(math.MaxUint64)
	answers := uint64(3<<32) / every
	if want := uint64(3<<2) - 1; forward != want || backward != 3<<32-every+1-want-answers {
		t.Errorf("forward %d, want %d; backward %d", forward, want, backward)
	}
}
