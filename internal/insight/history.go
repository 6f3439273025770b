// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// kept are the intervals that ended, compressed: JSON takes about eight times as much.
type kept struct {
	settings Settings
	list     []keptInterval // by time
	octets   int
	mark     Mark
}

// Mark says how far the intervals of an engine were saved. The zero value is not at all.
type Mark struct{ kept, forgotten uint64 }

type keptInterval struct {
	start, end time.Time
	line       []byte // gzip, of one line of JSON
}

// compressor is kept for all engines: one has more than a megabyte, and to make another for each interval would be
// the most that an idle agent does.
var compressor struct {
	sync.Mutex
	w *gzip.Writer
}

// compressed makes an interval that ends at a time ready to be kept.
func compressed(v *Interval, end time.Time) (one keptInterval, ok bool) {
	var b bytes.Buffer
	compressor.Lock()
	defer compressor.Unlock()
	w := compressor.w
	if w == nil {
		w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
		compressor.w = w
	}
	w.Reset(&b)
	defer w.Reset(nil) // it keeps no interval
	_, err := w.Write(v.Line())
	if errors.Join(err, w.Close()) != nil { // cannot be: it is to memory
		return one, false
	}
	return keptInterval{v.Start.Time, end, bytes.Clone(b.Bytes())}, true
}

// append keeps an interval, and drops what is too old or has no room.
func (k *kept) append(one keptInterval) {
	k.list = append(k.list, one)
	k.mark.kept++
	k.octets += len(one.line)
	k.expire(one.end)
	for k.octets > k.settings.Octets {
		k.drop()
	}
}

func (k *kept) drop() {
	k.octets -= len(k.list[0].line)
	k.list[0].line = nil // the array is used until append makes a new one
	k.list = k.list[1:]
}

func (k *kept) expire(now time.Time) {
	for len(k.list) > 0 && now.Sub(k.list[0].end) > k.settings.Keep {
		k.drop()
	}
}

// forgetAfter drops what ended after a time, because the clock was set back to it.
func (k *kept) forgetAfter(now time.Time) {
	for last := len(k.list) - 1; last >= 0 && k.list[last].end.After(now); last-- {
		k.octets -= len(k.list[last].line)
		k.list = k.list[:last]
		k.mark.forgotten++
	}
}

func (k *keptInterval) read(r *gzip.Reader) (*Interval, error) {
	if err := r.Reset(bytes.NewReader(k.line)); err != nil {
		return nil, fmt.Errorf("an interval that was kept: %w", err)
	}
	var v Interval
	if err := json.NewDecoder(io.LimitReader(r, mostLine)).Decode(&v); err != nil {
		return nil, fmt.Errorf("an interval that was kept: %w", err)
	}
	return &v, nil
}

// Read gives the intervals that overlap a time, the oldest first, with the one that is open if it does.
// completeSince is from when on all are there.
func (e *Engine) Read(since, until, now time.Time) (list []*Interval, completeSince time.Time) {
	e.closing.Lock() // or an interval that is being kept would lack
	defer e.closing.Unlock()
	e.mu.Lock()
	e.advance(now)
	e.mu.Unlock()
	e.keepEnded()
	e.mu.Lock()
	var chosen []keptInterval
	for _, one := range e.kept.list {
		if one.end.After(since) && one.start.Before(until) {
			chosen = append(chosen, one)
		}
	}
	completeSince = e.began
	if len(e.kept.list) > 0 {
		completeSince = e.kept.list[0].start
	}
	var open *Interval
	if e.began.Before(until) && now.After(e.began) {
		e.watch(now)
		open = e.snapshot(now)
		open.Open = true
		e.baselines.show(open)
	}
	e.mu.Unlock()
	unpacker := new(gzip.Reader)
	for _, one := range chosen { // what it points to does not change
		if v, err := one.read(unpacker); err == nil { // it was written here, or checked when it was restored
			list = append(list, v)
		}
	}
	if open != nil {
		list = append(list, open)
	}
	return list, completeSince
}

// Save is what Restore takes: compressed lines of JSON, one for each interval that ended, as zcat shows
// them.
func (e *Engine) Save() []byte {
	e.mu.Lock()
	list := slices.Clone(e.kept.list)
	octets := e.kept.octets
	e.mu.Unlock()
	out := make([]byte, 0, octets)
	for _, one := range list {
		out = append(out, one.line...)
	}
	return out
}

// SaveSince is what Save has more than at a mark, and the mark of now. all: this is everything, and takes the
// place of what was saved before, because there was nothing, or intervals were forgotten since, or dropped
// before they were saved.
func (e *Engine) SaveSince(before Mark) (more []byte, now Mark, all bool) {
	e.mu.Lock()
	list, now := slices.Clone(e.kept.list), e.kept.mark
	e.mu.Unlock()
	added := now.kept - before.kept
	if all = before == (Mark{}) || before.forgotten != now.forgotten || added > uint64(len(list)); !all {
		list = list[uint64(len(list))-added:]
	}
	for _, one := range list {
		more = append(more, one.line...)
	}
	return more, now, all
}

// ErrCut is why the last interval of what was saved is not restored: who wrote it was ended meanwhile. All
// before it is there.
var ErrCut = errors.New("the last interval is cut off")

// mostLine is the greatest interval that is read: about twice what the bounds allow to write.
const mostLine = 32 << 20

// Restore takes over the intervals of an earlier engine, before the first record. Those that are too old
// are left out. It takes all before the first error.
func (e *Engine) Restore(saved []byte, now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	rest, unpacker := bufio.NewReader(bytes.NewReader(saved)), new(gzip.Reader)
	var before time.Time
	for {
		if _, err := rest.Peek(1); err != nil {
			return nil
		}
		v, err := restoreOne(rest, unpacker)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return ErrCut
		case err != nil:
			return err
		}
		end := v.Start.Add(time.Duration(v.Length))
		switch {
		case v.Length < 0 || v.Start.Before(before) || end.After(now.Add(time.Minute)):
			return fmt.Errorf("the interval of %v is out of order", v.Start)
		case now.Sub(end) > e.settings.Keep:
			continue
		}
		before = end
		e.baselines.learn(v, e.clock)
		if one, ok := compressed(v, end); ok {
			e.kept.append(one)
		}
		e.began, e.until = maxTime(e.began, end), maxTime(e.until, end)
		e.open.Start.Time = e.began
	}
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// restoreOne reads one compressed line, and checks that it may be an interval.
func restoreOne(in *bufio.Reader, r *gzip.Reader) (*Interval, error) {
	if err := r.Reset(in); err != nil {
		return nil, fmt.Errorf("not compressed by gzip: %w", err)
	}
	r.Multistream(false)
	text, err := io.ReadAll(io.LimitReader(r, mostLine))
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	var v Interval
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("not an interval: %w", err)
	}
	hops := 0
	for _, p := range v.Pairs {
		if p == nil || len(p.Paths) > mostPaths+mostMeasured+1 {
			return nil, errTooMuch
		}
		for _, path := range p.Paths {
			if path == nil {
				return nil, errTooMuch
			}
			hops += len(path.Hops)
		}
	}
	if len(v.Pairs) > mostPairs+1 || hops > mostHops+mostMeasuredHops {
		return nil, errTooMuch
	}
	return &v, nil
}

var errTooMuch = errors.New("an interval has more than an engine writes")
