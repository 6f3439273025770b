// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

func paths(n int) (list []record.Record) {
	for i := range n {
		list = append(list, &record.Path{Sequence: uint32(i)})
	}
	return list
}

func all(record.Record) bool { return true }

// clocked is a hub with a clock that the test sets.
func clocked() (h *Hub, pass func(time.Duration)) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	h = New()
	h.now = func() time.Time { return now }
	return h, func(d time.Duration) { now = now.Add(d) }
}

func drained(r *Reader) (list []*Item) {
	for {
		select {
		case item := <-r.Items():
			list = append(list, item)
		default:
			return list
		}
	}
}

// A reader gets as many packets as it wants, spread over what there was, and all that is no packet.
func TestRate(t *testing.T) {
	h, pass := clocked()
	r, _, _, err := h.Observe(Selection{Match: all, Rate: 100})
	if err != nil {
		t.Fatal(err)
	}
	h.give(nil)
	drained(r)
	got, missed := 0, uint64(0)
	for range 10 { // five seconds of 2000 packets
		pass(time.Second / 2)
		h.give(append(paths(1000), &record.Loss{}, &record.Warning{}))
		list := drained(r)
		last := uint32(0)
		for _, item := range list {
			if p, ok := item.Record.(*record.Path); ok {
				got, last = got+1, p.Sequence
			}
		}
		if last < 900 || len(list) < 2 {
			t.Errorf("the last of 1000 packets is %d; %d items", last, len(list))
		}
		if _, ok := list[len(list)-1].Record.(*record.Warning); !ok {
			t.Error("what is no packet is left out")
		}
		missed += r.TakeMissed()
	}
	if got < 450 || got > 650 || got+int(missed) != 10_000 {
		t.Errorf("%d packets in five seconds and %d left out, want about 500 and together 10000", got, missed)
	}
}

// Who does not read loses what has no room, and is told; others do not wait for it.
func TestSlow(t *testing.T) {
	h, pass := clocked()
	slow, _, _, _ := h.Observe(Selection{Match: all, Rate: MostRate})
	fast, _, _, _ := h.Observe(Selection{Match: all, Rate: MostRate})
	got := 0
	for range 20 {
		pass(time.Second)
		h.give(paths(1000))
		got += len(drained(fast))
	}
	if got != 20_000 || fast.TakeMissed() != 0 {
		t.Errorf("who reads has %d of 20000", got)
	}
	if n, missed := len(drained(slow)), slow.TakeMissed(); n != mostWaiting || missed != 20_000-mostWaiting {
		t.Errorf("who does not has %d, and is told of %d", n, missed)
	}
	slow.Close()
	if h.Readers() != 1 {
		t.Errorf("%d readers", h.Readers())
	}
}

// A stream begins with the last minute, or after the item that the reader had last.
func TestBegin(t *testing.T) {
	h, pass := clocked()
	first := h.next
	for range 90 { // one packet a second, for 90 s
		pass(time.Second)
		h.give(paths(1))
	}
	_, begun, left, _ := h.Observe(Selection{Match: all})
	if len(begun) != 61 || left != 0 || begun[0].ID != first+30 {
		t.Errorf("%d items from %d on, %d left out", len(begun), begun[0].ID, left)
	}
	if _, begun, _, _ = h.Observe(Selection{Match: all, After: first + 85}); len(begun) != 5 || begun[0].ID != first+86 {
		t.Errorf("%d items", len(begun))
	}
	none, begun, _, _ := h.Observe(Selection{Match: func(record.Record) bool { return false }, Rate: 1})
	h.give(paths(50))
	if len(begun) != 0 || len(drained(none)) != 0 || none.TakeMissed() != 0 {
		t.Error("what is not selected is given, or called left out")
	}
	for range 120 { // much more than is kept, with memory that is bounded
		pass(time.Second)
		h.give(paths(3000))
	}
	_, begun, left, _ = h.Observe(Selection{Match: all})
	if n := uint64(len(begun)); n < 60*keptRate/2 || n > mostKept || n+left < 60*3000 || n+left > 62*3000 {
		t.Errorf("%d items and %d left out of the last minute, in which were %d", n, left, 60*3000)
	}
}

// The number of readers is bounded, and so are the batches that wait.
func TestBounds(t *testing.T) {
	h, _ := clocked()
	for range mostReaders {
		if _, _, _, err := h.Observe(Selection{Match: all}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := h.Observe(Selection{Match: all}); err == nil {
		t.Error("one more may watch")
	}
	for range mostBatches + 3 {
		h.Publish(append(paths(2), &record.Postcard{}))
	}
	if h.unseen.Load() != 6 {
		t.Errorf("%d records had no room, want 6", h.unseen.Load())
	}
}

// A reader that had records of an earlier process gets those that this one kept. Marks tell nothing but where a reader
// was.
func TestMarks(t *testing.T) {
	before, _ := clocked()
	before.give(paths(50))
	mark := before.Mark(before.kept[40].ID)
	for _, test := range []struct {
		hub  *Hub
		mark string
		want int
	}{{before, mark, 9}, {before, "", 50}, {before, "41", 50}, {before, mark[:30] + "zz", 50}} {
		if _, begun, _, err := test.hub.Observe(Selection{Match: all, Rate: 100, After: test.hub.Marked(test.mark)}); err != nil ||
			len(begun) != test.want {
			t.Errorf("%d records after %q, want %d; %v", len(begun), test.mark, test.want, err)
		}
	}
	again, _ := clocked()
	again.give(paths(3))
	if _, begun, _, err := again.Observe(Selection{Match: all, Rate: 100, After: again.Marked(mark)}); err != nil || len(begun) != 3 {
		t.Errorf("%d of 3 records after that of another process, %v", len(begun), err)
	}
	if a, b := before.Mark(7), before.Mark(8); len(a) != len(b) || a[:8] == b[:8] || a[24:] == b[24:] {
		t.Errorf("%s, then %s", a, b)
	}
}

// One user has a part of the readers, and leaves room for others.
func TestUsersShareReaders(t *testing.T) {
	h, _ := clocked()
	var first *Reader
	for range mostOfOne {
		r, _, _, err := h.Observe(Selection{Match: all, User: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		first = r
	}
	if _, _, _, err := h.Observe(Selection{Match: all, User: "alice"}); !errors.Is(err, ErrMany) {
		t.Error(err)
	}
	if _, _, _, err := h.Observe(Selection{Match: all, User: "bob"}); err != nil {
		t.Error(err)
	}
	first.Close()
	if _, _, _, err := h.Observe(Selection{Match: all, User: "alice"}); err != nil {
		t.Error(err)
	}
}
