// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

const (
	liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	batchSize  = 64     // frames; what NAPI takes at once

	firstPace  = 1e6 // packets per second, until a line has shown its own
	leastBurst = 2000
	looked     = 256 // packets that are sent to be looked at
)

// stream is packets that are alike, but for 16 bits.
type stream struct {
	frame []byte
	// values is how many values the 16 bits at offset take in turn, beginning
	// with the frame's own; 0 is one.
	values, offset int
	senders        int // CPUs that send at the same time; 0 is one

	// every makes one in so many packets the frame, and the others the rest, which
	// is as long; 0: all are the frame. Those frames have a 32-bit number at
	// numbered, unless it is 0.
	every, numbered int
	rest            []byte
}

// varied is the stream with so many values of 16 bits, from first on.
func (s stream) varied(values, first, offset int) stream {
	s.frame = with(s.frame, offset, byte(first>>8), byte(first))
	s.values, s.offset = values, offset
	return s
}

// like is the stream's frame that a packet that arrived was: its 16 bits and
// its number are the packet's.
func (s stream) like(arrived []byte) []byte {
	if s.rest != nil && len(arrived) > atNextHeader &&
		arrived[atNextHeader] == s.rest[atNextHeader] && s.frame[atNextHeader] != s.rest[atNextHeader] {
		return s.rest
	}
	if s.numbered > 0 && len(arrived) >= s.numbered+4 {
		return with(s.frame, s.numbered, arrived[s.numbered:s.numbered+4]...)
	}
	if s.values <= 1 || len(arrived) < s.offset+2 {
		return s.frame
	}
	return with(s.frame, s.offset, arrived[s.offset], arrived[s.offset+1])
}

// sink is where packets end: in tc, or in XDP before that.
type sink struct{ tc, xdp link.Link }

// traffic sends frames from the ends of lines and counts what arrives.
type traffic struct {
	ends       netns.NsHandle
	collection *ebpf.Collection
	release    func()

	guard sync.Mutex   // of sinks, while lines are raised
	sinks map[int]sink // by the sink's interface
}

func newTraffic(ends netns.NsHandle) (*traffic, error) {
	spec, err := loadTraffic()
	if err != nil {
		return nil, err
	}
	t := &traffic{ends: ends, sinks: make(map[int]sink)}
	if t.collection, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("load the programs of source and sink: %w", err)
	}
	if t.release, err = hold(t.collection.Programs[trafficProgSource]); err != nil {
		t.collection.Close()
		return nil, err
	}
	return t, nil
}

// collect makes an interface a sink, in XDP if so wanted.
func (t *traffic) collect(device netlink.Link, inXDP bool) error {
	index, programs := device.Attrs().Index, t.collection.Programs
	return inNamespace(t.ends, func() (err error) {
		var s sink
		s.tc, err = link.AttachTCX(link.TCXOptions{Program: programs[trafficProgSink], Interface: index, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return fmt.Errorf("attach the sink: %w; this benchmark needs Linux 6.6", err)
		}
		if inXDP {
			s.xdp, err = link.AttachXDP(link.XDPOptions{Program: programs[trafficProgSinkXdp], Interface: index, Flags: link.XDPDriverMode})
		}
		t.guard.Lock()
		defer t.guard.Unlock()
		t.sinks[index] = s
		return err
	})
}

func (t *traffic) close() {
	for _, s := range t.sinks {
		s.tc.Close()
		if s.xdp != nil {
			s.xdp.Close()
		}
	}
	t.release()
	t.collection.Close()
}

// sinkBy has another program at a line's sink, in tc, while f runs.
func (t *traffic) sinkBy(program string, l *line, f func() error) error {
	s, programs := t.sinks[l.sink.Attrs().Index], t.collection.Programs
	exchange := func(inTC, inXDP string) error {
		err := s.tc.Update(programs[inTC])
		if err == nil && s.xdp != nil {
			err = s.xdp.Update(programs[inXDP])
		}
		if err != nil {
			return fmt.Errorf("attach the %s: %w", inTC, err)
		}
		return nil
	}
	if err := exchange(program, trafficProgPassXdp); err != nil {
		return err
	}
	return errors.Join(f(), exchange(trafficProgSink, trafficProgSinkXdp))
}

// received is what the sink has counted.
func (t *traffic) received() (uint64, error) {
	var perCPU []uint64
	if err := t.collection.Maps[trafficMapReceived].Lookup(uint32(0), &perCPU); err != nil {
		return 0, fmt.Errorf("read the sink's counter: %w", err)
	}
	var sum uint64
	for _, n := range perCPU {
		sum += n
	}
	return sum, nil
}

// settled waits for packets that are still on their way, at most a while, and
// returns what the sinks have counted then.
func (t *traffic) settled() (uint64, error) {
	const quiet, patience = 3, 200 // ms
	last, err := t.received()
	same := 0
	for waited := 0; err == nil && same < quiet && waited < patience; waited++ {
		time.Sleep(time.Millisecond)
		before := last
		if last, err = t.received(); last == before {
			same++
		} else {
			same = 0
		}
	}
	return last, err
}

// sending is how packets are sent.
type sending struct {
	batch uint32 // packets that set out together
	stamp bool   // with the time of sending at their end
}

// send sends packets of a stream from a line's source, each sender on a CPU of
// its own.
func (t *traffic) send(l *line, s stream, times uint32, how sending) error {
	frame := l.addressed(s.frame)
	headers := trafficHeaders{
		To: uint32(l.source.Attrs().Index), Values: uint32(max(s.values, 1)),
		First: uint32(binary.BigEndian.Uint16(frame[s.offset:])), Offset: uint32(s.offset),
	}
	if how.stamp {
		headers.Stamp = 1
	}
	headers.Every, headers.Numbered = uint32(s.every), uint32(s.numbered)
	if s.rest != nil {
		copy(headers.Rest[:rewritten], l.addressed(s.rest))
	}
	headers.Size = uint32(copy(headers.Bytes[:min(len(frame), rewritten)], frame))
	if err := t.collection.Maps[trafficMapSending].Put(uint32(0), headers); err != nil {
		return fmt.Errorf("set what to send: %w", err)
	}
	senders := max(s.senders, 1)
	done := make(chan error, senders)
	for i := range senders {
		go func() {
			done <- inNamespace(t.ends, func() error { return t.sendFrom(i, frame, times/uint32(senders), how.batch) })
		}()
	}
	var errs []error
	for range senders {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// sendFrom sends on the last CPU but `sender`.
func (t *traffic) sendFrom(sender int, frame []byte, times, batch uint32) error {
	release, err := pinThread(sender)
	if err != nil {
		return err
	}
	defer release()
	_, err = t.collection.Programs[trafficProgSource].Run(&ebpf.RunOptions{
		Data: frame, Repeat: times, Flags: liveFrames, BatchSize: batch,
	})
	if err != nil {
		return fmt.Errorf("send live frames: %w; this benchmark needs Linux 5.18", err)
	}
	return nil
}

// rewritten is how many bytes of a recycled frame are written anew: more than
// any node on the way changes.
const rewritten = 400

// window is how long packets are counted at a time.
const window = 10 * time.Millisecond

// rate sends for about as long as asked for: packets per second at the sink,
// in the middle half of the windows in which nothing but sending went on, and
// how many arrived in all.
func (t *traffic) rate(l *line, s stream, duration time.Duration) (pps float64, packets uint64, err error) {
	pace := l.pace
	if pace == 0 {
		pace = firstPace
	}
	times := max(uint32(pace*duration.Seconds()), leastBurst)
	before, err := t.received()
	if err != nil {
		return 0, 0, err
	}
	started := time.Now()
	done := make(chan error, 1)
	go func() { done <- t.send(l, s, times, sending{batch: batchSize}) }()
	var rates []float64
	last, lastTime := before, started
	tick := time.NewTicker(window)
	defer tick.Stop()
	for sending := true; sending; {
		select {
		case err = <-done:
			if err != nil {
				return 0, 0, err
			}
			sending = false
		case <-tick.C:
			now, err := t.received()
			if err != nil {
				return 0, 0, errors.Join(err, <-done)
			}
			at := time.Now()
			// The first window holds the start, and a late tick is followed by a short one.
			if last > before && now > last && at.Sub(lastTime) > window/2 {
				rates = append(rates, float64(now-last)/at.Sub(lastTime).Seconds())
			}
			last, lastTime = now, at
		}
	}
	took := time.Since(started)
	after, err := t.received()
	if err != nil {
		return 0, 0, err
	}
	pps = float64(after-before) / took.Seconds()
	if len(rates) > 3 {
		pps = middle(rates[:len(rates)-1]) // the last one may hold the end
	}
	l.pace = float64(after-before) / took.Seconds()
	if after, err = t.settled(); err != nil {
		return 0, 0, err
	}
	return pps, after - before, nil
}

// look sends a few packets and returns one as it arrived.
func (t *traffic) look(l *line, s stream) (arrived []byte, err error) {
	maps := t.collection.Maps
	if err := maps[trafficMapSamples].Put(uint32(0), trafficSample{}); err != nil {
		return nil, fmt.Errorf("clear what the witness saw: %w", err)
	}
	var sample trafficSample
	err = t.sinkBy(trafficProgWitness, l, func() error {
		if err := t.send(l, s, looked, sending{batch: batchSize}); err != nil {
			return err
		}
		for range 100 {
			if err := maps[trafficMapSamples].Lookup(uint32(0), &sample); err != nil {
				return fmt.Errorf("read what the witness saw: %w", err)
			}
			if sample.Length > 0 {
				return nil
			}
			time.Sleep(5 * time.Millisecond) // softirqs may lag behind
		}
		return fmt.Errorf("none of %d packets arrived at the sink", looked)
	})
	if err != nil {
		return nil, err
	}
	out := make([]byte, sample.Length)
	copy(out, sample.Bytes[:])
	return out, nil
}

// delay sends packets one by one for about as long as asked for and returns
// the least time from source to sink in ns, and how many arrived.
func (t *traffic) delay(l *line, s stream, duration time.Duration) (least float64, packets uint64, err error) {
	const each = 4 * time.Microsecond // about what one packet takes
	times := max(uint32(duration/each), leastBurst)
	clear := make([]trafficDelay, ebpf.MustPossibleCPU())
	for i := range clear {
		clear[i].Least = math.MaxUint64
	}
	if err := t.collection.Maps[trafficMapDelays].Put(uint32(0), clear); err != nil {
		return 0, 0, fmt.Errorf("reset the stopwatch: %w", err)
	}
	err = t.sinkBy(trafficProgStopwatch, l, func() error {
		if err := t.send(l, s, times, sending{batch: 1, stamp: true}); err != nil {
			return err
		}
		_, err := t.settled()
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	var seen []trafficDelay
	if err := t.collection.Maps[trafficMapDelays].Lookup(uint32(0), &seen); err != nil {
		return 0, 0, fmt.Errorf("read the stopwatch: %w", err)
	}
	least = math.MaxUint64
	for _, d := range seen {
		least, packets = min(least, float64(d.Least)), packets+d.Packets
	}
	return least, packets, nil
}
