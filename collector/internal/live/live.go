// SPDX-License-Identifier: Apache-2.0

// Package live gives what the collector has just kept to those who watch. Nobody who watches slows the collector:
// each has a queue of a bounded length and a bounded rate, and gets the number of what is left out.
package live

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

const (
	// Span is how far back a stream begins.
	Span = time.Minute
	// mostKept is how many items of this time are kept. What there is more is left out evenly.
	mostKept = 4096
	// keptRate is how many packets a second are kept of it, so that a minute has room, with other items.
	keptRate = 50
	// mostReaders is how many may watch at a time.
	mostReaders = 128
	// mostOfOne is how many of them may be one user's, so that one user does not keep out the others.
	mostOfOne = mostReaders / 4
	// mostWaiting is how many items wait for one reader.
	mostWaiting = 1024
	// mostSought is how many packets of one batch are compared with what a reader selects.
	mostSought = 4096
	// mostBatches is how many batches wait to be given out.
	mostBatches = 4
	// MostRate is how many packets a second one reader may have.
	MostRate = 5000
)

// Errors of one reader too many.
var (
	ErrFull error = problem.New("as many watch already as may", "try again later")
	ErrMany error = problem.New("this user watches in as many places as one may", "close one of them")
)

// Item is a record that was kept.
type Item struct {
	ID     uint64 // ascending
	At     time.Time
	Record record.Record

	once sync.Once
	text []byte
}

// Text is the item as text, which is made once, for all readers.
func (i *Item) Text(encode func(record.Record) []byte) []byte {
	i.once.Do(func() { i.text = encode(i.Record) })
	return i.text
}

// Selection is what a reader wants.
type Selection struct {
	Match func(record.Record) bool
	User  string // who watches; "": there are no users
	Rate  int    // packets a second
	After uint64 // items after this one, as far as they are kept; 0: those of the last Span
}

// Reader gets items.
type Reader struct {
	hub     *Hub
	want    Selection
	queue   chan *Item
	missed  atomic.Uint64
	allowed float64 // packets that it may have now
	end     sync.Once
	gone    chan struct{}
}

// Hub gives items to readers.
type Hub struct {
	batches chan []record.Record
	unseen  atomic.Uint64 // records of batches that had no room

	mu      sync.Mutex
	readers map[*Reader]struct{}
	kept    []*Item // of the last Span, the oldest first
	left    []gone  // what is left out of it
	next    uint64
	last    time.Time
	ended   bool
	now     func() time.Time
	marks   cipher.Block // makes marks of ids
}

// gone are items that were not kept for those who come later.
type gone struct {
	at    time.Time
	count uint64
}

// New makes a hub, which gives out what it gets until its Run ends.
func New() *Hub {
	var key [16]byte
	_, _ = rand.Read(key[:])          // it never fails
	marks, _ := aes.NewCipher(key[:]) // the length is right
	return &Hub{batches: make(chan []record.Record, mostBatches), readers: map[*Reader]struct{}{}, now: time.Now, marks: marks}
}

// Mark is an item's id as a reader may have it. From ids themselves, who sees a part would learn how many items others
// have.
func (h *Hub) Mark(id uint64) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:], id)
	h.marks.Encrypt(b[:], b[:])
	return hex.EncodeToString(b[:])
}

// Marked is the id of a mark; 0: there is none, or another hub made it, so that the reader has nothing of this one.
func (h *Hub) Marked(mark string) uint64 {
	b, err := hex.DecodeString(mark)
	if err != nil || len(b) != aes.BlockSize {
		return 0
	}
	h.marks.Decrypt(b, b)
	if binary.BigEndian.Uint64(b[8:]) != 0 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Wanted reports whether readers are given a record.
func Wanted(r record.Record) bool {
	switch r := r.(type) {
	case *record.Path, *record.Loss, *record.Event, *record.Warning:
		return true
	case *record.Trace:
		return !r.Copy
	}
	return false
}

// isPacket reports whether a record is one of those that may be too many.
func isPacket(r record.Record) bool {
	switch r.(type) {
	case *record.Path, *record.Trace:
		return true
	}
	return false
}

// Publish takes records that were kept. It never waits, and does not keep the list.
func (h *Hub) Publish(records []record.Record) {
	list := make([]record.Record, 0, len(records))
	for _, r := range records {
		if Wanted(r) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return
	}
	select {
	case h.batches <- list:
	default:
		h.unseen.Add(uint64(len(list)))
	}
}

// Run gives out what is published, until the context ends; then readers have gone.
func (h *Hub) Run(ctx context.Context) {
	for {
		select {
		case list := <-h.batches:
			h.give(list)
		case <-ctx.Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			h.ended = true
			for r := range h.readers {
				r.end.Do(func() { close(r.gone) })
			}
			return
		}
	}
}

// give gives a batch to all readers.
func (h *Hub) give(list []record.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	passed := Span.Seconds()
	if !h.last.IsZero() {
		passed = max(now.Sub(h.last).Seconds(), 0)
	}
	h.last = now
	items := make([]*Item, len(list))
	packets := 0
	for i, r := range list {
		h.next++
		items[i] = &Item{ID: h.next, At: now, Record: r}
		if isPacket(r) {
			packets++
		}
	}
	h.keep(items, packets, passed)
	unseen := h.unseen.Swap(0)
	for r := range h.readers {
		r.missed.Add(unseen)
		r.offer(items, passed)
	}
}

// keep keeps a part of the packets, evenly, and everything else.
func (h *Hub) keep(items []*Item, packets int, passed float64) {
	now := h.now()
	all := max(int(keptRate*min(passed, 1)), 1)
	taken, seen, left := 0, 0, uint64(0)
	for _, item := range items {
		if isPacket(item.Record) {
			seen++
			if packets > all && taken >= seen*all/packets {
				left++
				continue
			}
			taken++
		}
		h.kept = append(h.kept, item)
	}
	if left > 0 {
		h.left = append(h.left, gone{now, left})
	}
	old := 0
	for old < len(h.kept) && (now.Sub(h.kept[old].At) > Span || len(h.kept)-old > mostKept) {
		if now.Sub(h.kept[old].At) <= Span {
			h.left = append(h.left, gone{h.kept[old].At, 1})
		}
		h.kept[old] = nil
		old++
	}
	h.kept = append(h.kept[:0:0], h.kept[old:]...)
	forgotten := 0
	for forgotten < len(h.left) && (now.Sub(h.left[forgotten].at) > Span || len(h.left)-forgotten > mostKept) {
		forgotten++
	}
	h.left = append(h.left[:0:0], h.left[forgotten:]...)
}

// offer puts the items that a reader selects into its queue: all but packets, and of these as many as its rate
// allows, evenly.
func (r *Reader) offer(items []*Item, passed float64) {
	rate := float64(r.want.Rate)
	r.allowed = min(r.allowed+rate*min(passed, 1), rate)
	var selected []*Item
	packets, sought := 0, 0
	for _, item := range items {
		is := isPacket(item.Record)
		if is {
			if sought++; sought > mostSought {
				r.missed.Add(1)
				continue
			}
		}
		if !r.want.Match(item.Record) {
			continue
		}
		if is {
			packets++
		}
		selected = append(selected, item)
	}
	most := int(r.allowed)
	taken, seen := 0, 0
	for _, item := range selected {
		if isPacket(item.Record) {
			seen++
			if packets > most && taken >= seen*most/packets {
				r.missed.Add(1)
				continue
			}
			taken++
		}
		select {
		case r.queue <- item:
		default:
			r.missed.Add(1)
		}
	}
	r.allowed -= float64(taken)
}

// Observe begins to give items to a reader. begun are those of before; left is how many of these were left out.
func (h *Hub) Observe(want Selection) (r *Reader, begun []*Item, left uint64, err error) {
	want.Rate = min(max(want.Rate, 1), MostRate)
	r = &Reader{hub: h, want: want, queue: make(chan *Item, mostWaiting), gone: make(chan struct{}), allowed: float64(want.Rate)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || len(h.readers) >= mostReaders {
		return nil, nil, 0, ErrFull
	}
	if want.User != "" && h.of(want.User) >= mostOfOne {
		return nil, nil, 0, ErrMany
	}
	now := h.now()
	var since time.Time
	for _, item := range h.kept {
		if now.Sub(item.At) > Span || item.ID <= want.After {
			since = item.At
			continue
		}
		if want.Match(item.Record) {
			begun = append(begun, item)
		}
	}
	for _, g := range h.left {
		if now.Sub(g.at) <= Span && g.at.After(since) {
			left += g.count
		}
	}
	h.readers[r] = struct{}{}
	return r, begun, left, nil
}

// of is how many readers are a user's.
func (h *Hub) of(user string) (n int) {
	for r := range h.readers {
		if r.want.User == user {
			n++
		}
	}
	return n
}

// Items are those that wait.
func (r *Reader) Items() <-chan *Item { return r.queue }

// Gone is closed when the hub ends.
func (r *Reader) Gone() <-chan struct{} { return r.gone }

// TakeMissed is how many items were left out since it was called before.
func (r *Reader) TakeMissed() uint64 { return r.missed.Swap(0) }

// Close ends it.
func (r *Reader) Close() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.readers, r)
}

// Readers is how many watch.
func (h *Hub) Readers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.readers)
}

// Writer is a writer of which everything that it writes is published.
func (h *Hub) Writer(to sink.Writer) sink.Writer { return &watched{to, h} }

type watched struct {
	sink.Writer
	hub *Hub
}

func (w *watched) Write(batch []record.Record) (tried, written int, err error) {
	tried, written, err = w.Writer.Write(batch)
	w.hub.Publish(batch[:written])
	return tried, written, err
}
