// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"encoding/binary"
	"math"
	"time"
)

// History keeps the latest results of all flows, encoded, in a bounded number of octets and
// for a bounded time. The oldest results make room for new ones, whatever flow they are of.
// It is not safe for concurrent use, but what Read returns is, besides Add.
type History struct {
	room    int           // octets
	span    time.Duration // before the latest block
	chunks  []*chunk      // in the order in which they were written
	latest  int64         // start of a block
	ended   int64         // the latest end of a block
	before  int64         // the greatest start of results that are gone; MinInt64: none is
	writing encoder       // of the last chunk
}

// chunk has encoded results. Its octets up to len are never written again.
type chunk struct {
	octets []byte
	last   int64 // the greatest start of its blocks
}

const (
	chunkSize = 64 << 10
	// maxEncoded is more than one result takes: MaxPoints−1 segments and the whole way, each
	// with up to 17 numbers of up to ten octets and two texts, and its head.
	maxEncoded = MaxPoints*(17*10+2*(2+maxText)) + 100
	// maxText is how much of a text is kept.
	maxText = 250
	// belated is how many blocks older than the latest a result may be. A result of an even older block
	// was made after the clock was set back.
	belated = 8
)

// Kept is a result of a history.
type Kept struct {
	Flow   uint32 // as it was added
	Marks  uint8  // as they were added
	Result Result // without its Flow and Timing
}

// NewHistory keeps results in at most room octets, and no result whose block began longer
// than span before the latest one.
func NewHistory(room int, span time.Duration) *History {
	return &History{room: max(room, 2*chunkSize), span: span, before: math.MinInt64}
}

// Add adds a result of a flow, with marks of the caller.
func (h *History) Add(flow uint32, marks uint8, r *Result) {
	end := r.Start + int64(r.Length)
	if end < h.ended-belated*int64(r.Length) {
		h.setBack(r.Start, end)
	}
	h.latest, h.ended = max(h.latest, r.Start), max(h.ended, end)
	if n := len(h.chunks); n == 0 || len(h.chunks[n-1].octets) > chunkSize-maxEncoded {
		for len(h.chunks) > 0 && ((len(h.chunks)+1)*chunkSize > h.room || h.chunks[0].last < h.latest-int64(h.span)) {
			h.before = max(h.before, h.chunks[0].last)
			h.chunks[0] = nil
			h.chunks = h.chunks[1:]
		}
		h.chunks = append(h.chunks, &chunk{octets: make([]byte, 0, chunkSize)})
		h.writing = encoder{}
	}
	c := h.chunks[len(h.chunks)-1]
	c.octets = h.writing.append(c.octets, flow, marks, r)
	c.last = max(c.last, r.Start)
}

// setBack follows a clock that was set back: what the history has grows old from now on. Else,
// each chunk would make all before it too old, until the clock is as far as it was.
func (h *History) setBack(start, end int64) {
	h.latest, h.ended, h.before = start, end, min(h.before, start)
	for _, c := range h.chunks {
		c.last = min(c.last, start)
	}
}

// Octets is how many octets the history takes.
func (h *History) Octets() int { return len(h.chunks) * chunkSize }

// Remembered is what a history had at a time.
type Remembered struct {
	chunks [][]byte
	since  int64
	// Cut is the greatest start of blocks of which results are gone; false: none is.
	Cut   int64
	IsCut bool
}

// Read returns the results of the blocks that began at or after a time.
func (h *History) Read(since int64) Remembered {
	m := Remembered{since: since, Cut: h.before, IsCut: h.before != math.MinInt64}
	for _, c := range h.chunks {
		if c.last >= since {
			m.chunks = append(m.chunks, c.octets)
		}
	}
	return m
}

// Each calls fn with each result, in the order in which they were added, until it returns
// false.
func (m *Remembered) Each(fn func(*Kept) bool) {
	for _, octets := range m.chunks {
		for d := (decoder{octets: octets}); len(d.octets) > 0; {
			var k Kept
			d.next(&k)
			if k.Result.Start >= m.since && !fn(&k) {
				return
			}
		}
	}
}

// encoder writes results one after another. What is as in the result before takes little.
type encoder struct {
	block  int64
	length time.Duration
	text   string // the last one
}

func (e *encoder) append(b []byte, flow uint32, marks uint8, r *Result) []byte {
	b = append(binary.AppendUvarint(b, uint64(flow)), marks)
	b = binary.AppendVarint(b, r.Block-e.block)
	b = binary.AppendVarint(b, int64(r.Length-e.length))
	e.block, e.length = r.Block, r.Length
	b = binary.AppendVarint(b, r.Start-r.Block*int64(r.Length)) // not 0: several blocks
	b = appendSample(b, r.Tested.Sample)
	if r.Tested.Packets > 0 {
		b = binary.AppendVarint(b, int64(r.Tested.Clocks))
	}
	b = binary.AppendUvarint(b, uint64(len(r.Segments)))
	b = appendSegment(b, &r.Whole)
	for i := range r.Segments {
		b = appendSegment(b, &r.Segments[i])
	}
	for s := range r.parts {
		for _, end := range []*End{&s.From, &s.To} {
			if end.Reasons&OtherSelection != 0 {
				b = e.appendText(b, end.Difference)
			}
		}
	}
	return b
}

// appendText writes a text's length and one more, or 0 if it is the last one again.
func (e *encoder) appendText(b []byte, text string) []byte {
	text = text[:min(len(text), maxText)]
	if text == e.text {
		return append(b, 0)
	}
	e.text = text
	return append(binary.AppendUvarint(b, uint64(len(text))+1), text...)
}

// parts are the whole way and the segments.
func (r *Result) parts(yield func(*Segment) bool) {
	if !yield(&r.Whole) {
		return
	}
	for i := range r.Segments {
		if !yield(&r.Segments[i]) {
			return
		}
	}
}

// decoder reads what an encoder has written.
type decoder struct {
	octets []byte
	last   encoder
}

func (d *decoder) next(k *Kept) {
	k.Flow = uint32(d.unsigned())
	k.Marks = d.octet()
	r := &k.Result
	r.Block = d.last.block + d.signed()
	r.Length = d.last.length + time.Duration(d.signed())
	d.last.block, d.last.length = r.Block, r.Length
	r.Start = r.Block*int64(r.Length) + d.signed()
	if r.Tested.Sample = d.sample(); r.Tested.Packets > 0 {
		r.Tested.Clocks = time.Duration(d.signed())
	}
	if n := d.unsigned(); n > 0 {
		r.Segments = make([]Segment, min(n, MaxPoints))
	}
	d.segment(&r.Whole)
	for i := range r.Segments {
		d.segment(&r.Segments[i])
	}
	for s := range r.parts {
		for _, end := range []*End{&s.From, &s.To} {
			if end.Reasons&OtherSelection != 0 {
				end.Difference = d.text()
			}
		}
	}
}

func (d *decoder) text() string {
	n := d.unsigned()
	if n > 0 {
		n = min(n-1, uint64(len(d.octets)))
		d.last.text = string(d.octets[:n])
		d.octets = d.octets[n:]
	}
	return d.last.text
}

// What a segment has, besides its ends and its verdict.
const (
	hasSent = 1 << iota
	hasReceived
	hasSentOctets
	hasReceivedOctets
	hasReasons
	hasMean
	hasDoubleMarked
	hasRange
)

func appendSegment(b []byte, s *Segment) []byte {
	has := byte(0)
	for bit, met := range [...]bool{
		s.Packets.Sent.Known, s.Packets.Received.Known, s.Octets.Sent.Known, s.Octets.Received.Known,
		s.Reasons() != 0, s.Mean.Packets > 0, s.DoubleMarked.Packets > 0, s.MeanRange.Packets > 0,
	} {
		if met {
			has |= 1 << bit
		}
	}
	b = append(b, byte(s.Verdict), has, byte(s.Assumed))
	b = binary.AppendUvarint(b, uint64(s.From.Point))
	b = binary.AppendVarint(b, int64(s.To.Point)-int64(s.From.Point))
	b = binary.AppendVarint(b, s.From.ClockError)
	b = binary.AppendVarint(b, s.To.ClockError)
	if has&hasReasons != 0 {
		b = binary.AppendUvarint(b, uint64(s.From.Reasons))
		b = binary.AppendUvarint(b, uint64(s.To.Reasons))
	}
	b = appendTally(b, &s.Packets)
	b = appendTally(b, &s.Octets)
	if s.Verdict == Duplicated {
		b = binary.AppendUvarint(b, s.Packets.Duplicated.Value)
		b = binary.AppendUvarint(b, s.Packets.LostMin.Value)
	}
	if has&hasMean != 0 {
		b = appendSample(b, s.Mean)
	}
	if has&hasDoubleMarked != 0 {
		b = appendSample(b, s.DoubleMarked)
	}
	if has&hasRange != 0 {
		b = appendSample(b, Sample{s.MeanRange.Least, s.MeanRange.Packets})
		b = binary.AppendVarint(b, int64(s.MeanRange.Most))
	}
	return b
}

func (d *decoder) segment(s *Segment) {
	s.Verdict = Verdict(d.octet())
	has := d.octet()
	s.Assumed = Assumptions(d.octet())
	s.From.Point = PointID(d.unsigned())
	s.To.Point = PointID(int64(s.From.Point) + d.signed())
	s.From.ClockError, s.To.ClockError = d.signed(), d.signed()
	if has&hasReasons != 0 {
		s.From.Reasons, s.To.Reasons = Reasons(d.unsigned()), Reasons(d.unsigned())
	}
	d.tally(&s.Packets, has&hasSent != 0, has&hasReceived != 0)
	d.tally(&s.Octets, has&hasSentOctets != 0, has&hasReceivedOctets != 0)
	s.deriveLosses()
	if s.Verdict == Duplicated {
		s.Packets.Duplicated.Value, s.Packets.LostMin.Value = d.unsigned(), d.unsigned()
	}
	if has&hasMean != 0 {
		s.Mean = d.sample()
	}
	if has&hasDoubleMarked != 0 {
		s.DoubleMarked = d.sample()
	}
	if has&hasRange != 0 {
		bound := d.sample()
		s.MeanRange = Range{Least: bound.Delay, Most: time.Duration(d.signed()), Packets: bound.Packets}
	}
}

// appendTally writes the second number as its difference from the first one.
func appendTally(b []byte, t *Tally) []byte {
	if t.Sent.Known {
		b = binary.AppendUvarint(b, t.Sent.Value)
	}
	if t.Received.Known {
		b = binary.AppendVarint(b, int64(t.Received.Value-t.Sent.Value))
	}
	return b
}

func (d *decoder) tally(t *Tally, sent, received bool) {
	if sent {
		t.Sent = Number{d.unsigned(), true}
	}
	if received {
		t.Received = Number{t.Sent.Value + uint64(d.signed()), true}
	}
}

func appendSample(b []byte, s Sample) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, int64(s.Delay)), s.Packets)
}

func (d *decoder) sample() Sample { return Sample{time.Duration(d.signed()), d.unsigned()} }

func (d *decoder) octet() byte {
	if len(d.octets) == 0 {
		return 0
	}
	o := d.octets[0]
	d.octets = d.octets[1:]
	return o
}

func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.octets)
	d.skip(n)
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.octets)
	d.skip(n)
	return v
}

// skip passes over what was read; what cannot be read ends it all.
func (d *decoder) skip(n int) {
	if n <= 0 {
		d.octets = nil
		return
	}
	d.octets = d.octets[n:]
}
