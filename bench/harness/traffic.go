// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/waymark-net/waymark/internal/problem"
)

const (
	liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	batchSize  = 64     // frames that NAPI takes at once

	firstPace  = 1e6 // packets per second, until a line's own pace is known
	leastBurst = 2000
	looked     = 256 // packets that are sent to check how they arrive
)

// Stream describes packets that differ in at most 16 bits, a number, or Rest.
type Stream struct {
	Frame []byte
	// Values is how many values the 16 bits at offset take in turn, starting with
	// the frame's own; 0 is one.
	Values, offset int
	Senders        int // CPUs that send at the same time; 0 is one
	// Apart gives each CPU values of its own, as a network card does that
	// distributes flows.
	Apart bool
	// Yields makes other threads of these CPUs go first.
	Yields bool

	// Every sends Frame as one packet of this many, and Rest, of the same length,
	// as the others; 0: all packets are Frame. Numbered is the offset of a 32-bit
	// packet number in Frame; 0: none.
	Every, Numbered int
	Rest            []byte
}

// Varied returns the stream with this many values of 16 bits, starting at first.
func (s Stream) Varied(values, first, offset int) Stream {
	s.Frame = With(s.Frame, offset, byte(first>>8), byte(first))
	s.Values, s.offset = values, offset
	return s
}

// like returns the frame that an arrived packet was sent as: its 16 bits and its
// number are taken from the packet.
func (s Stream) like(arrived []byte) []byte {
	if s.Rest != nil && len(arrived) > AtNextHeader &&
		arrived[AtNextHeader] == s.Rest[AtNextHeader] && s.Frame[AtNextHeader] != s.Rest[AtNextHeader] {
		return s.Rest
	}
	if s.Numbered > 0 && len(arrived) >= s.Numbered+4 {
		return With(s.Frame, s.Numbered, arrived[s.Numbered:s.Numbered+4]...)
	}
	if s.Values <= 1 || len(arrived) < s.offset+2 {
		return s.Frame
	}
	return With(s.Frame, s.offset, arrived[s.offset], arrived[s.offset+1])
}

// sink is where packets end: in tc, or in XDP before that.
type sink struct{ tc, xdp link.Link }

// traffic sends frames from the sources of lines and counts what arrives.
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

// collect makes an interface a sink, in XDP if inXDP is set.
func (t *traffic) collect(device netlink.Link, inXDP bool) error {
	index, programs := device.Attrs().Index, t.collection.Programs
	return InNamespace(t.ends, func() (err error) {
		var s sink
		s.tc, err = link.AttachTCX(link.TCXOptions{Program: programs[trafficProgSink], Interface: index, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return problem.Wrap(fmt.Errorf("attach the sink: %w", err), "this benchmark needs Linux 6.6")
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

// sinkBy runs f with another program at a line's sink, in tc.
func (t *traffic) sinkBy(program string, l *line, f func() error) error {
	return t.sinksBy(program, trafficProgPassXdp, l, f)
}

// sinksBy runs f with other programs at a line's sink, in tc and, where it has
// one there, in XDP.
func (t *traffic) sinksBy(inTC, inXDP string, l *line, f func() error) error {
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
	if err := exchange(inTC, inXDP); err != nil {
		return err
	}
	return errors.Join(f(), exchange(trafficProgSink, trafficProgSinkXdp))
}

// received is the sinks' count so far.
func (t *traffic) received() (uint64, error) { return t.perCPU(trafficMapReceived) }

// perCPU is the sum of a counter over all CPUs.
func (t *traffic) perCPU(name string) (sum uint64, err error) {
	var each []uint64
	if err := t.collection.Maps[name].Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("read the counter %q: %w", name, err)
	}
	for _, n := range each {
		sum += n
	}
	return sum, nil
}

// settled waits, for a limited time, for packets that are still on their way, and
// returns the sinks' count.
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

// sending says how packets are sent.
type sending struct {
	batch uint32 // packets that are sent together
	stamp bool   // write the time of sending at their end
	// finished is called when a sender has sent all of its packets; may be nil.
	finished func()
}

// send sends packets of a stream from a line's source, each sender on its own
// CPU.
func (t *traffic) send(l *line, s Stream, times uint32, how sending) error {
	frame := l.addressed(s.Frame)
	headers := trafficHeaders{
		To: uint32(l.source.Attrs().Index), Values: uint32(max(s.Values, 1)),
		First: uint32(binary.BigEndian.Uint16(frame[s.offset:])), Offset: uint32(s.offset),
	}
	if how.stamp {
		headers.Stamp = 1
	}
	if s.Apart {
		headers.Apart = 1
	}
	headers.Every, headers.Numbered = uint32(s.Every), uint32(s.Numbered)
	if s.Rest != nil {
		copy(headers.Rest[:Rewritten], l.addressed(s.Rest))
	}
	headers.Size = uint32(copy(headers.Bytes[:min(len(frame), Rewritten)], frame))
	if err := t.collection.Maps[trafficMapSending].Put(uint32(0), headers); err != nil {
		return fmt.Errorf("set what to send: %w", err)
	}
	senders := max(s.Senders, 1)
	done := make(chan error, senders)
	for i := range senders {
		go func() {
			err := InNamespace(t.ends, func() error { return t.sendFrom(i, s.Yields, frame, times/uint32(senders), how.batch) })
			if how.finished != nil {
				how.finished()
			}
			done <- err
		}()
	}
	var errs []error
	for range senders {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// sendFrom sends on the CPU that is `sender` before the last one.
func (t *traffic) sendFrom(sender int, yields bool, frame []byte, times, batch uint32) error {
	release, err := PinThread(sender)
	if err != nil {
		return err
	}
	defer release()
	if yields {
		restore, err := goLast()
		if err != nil {
			return err
		}
		defer restore()
	}
	_, err = t.collection.Programs[trafficProgSource].Run(&ebpf.RunOptions{
		Data: frame, Repeat: times, Flags: liveFrames, BatchSize: batch,
	})
	if err != nil {
		return problem.Wrap(fmt.Errorf("send live frames: %w", err), "this benchmark needs Linux 5.18")
	}
	return nil
}

// Rewritten is how many bytes of a recycled frame are written again: more than
// any node changes.
const Rewritten = 400

// window is how long packets are counted for one rate.
const window = 10 * time.Millisecond

// Rate sends for about the given duration. It returns packets per second at the
// sink, from the middle half of the windows without start or end of the sending,
// and how many packets arrived in total.
func (t *traffic) Rate(l *line, s Stream, duration time.Duration) (pps float64, packets uint64, err error) {
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
	var some atomic.Bool // of the senders have finished: the rate is no longer that of all
	go func() {
		done <- t.send(l, s, times, sending{batch: batchSize, finished: func() { some.Store(true) }})
	}()
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
			// The first window includes the start, and a late tick is followed by
			// a short window.
			if last > before && now > last && at.Sub(lastTime) > window/2 && !some.Load() {
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
	if len(rates) > 2 {
		pps = Middle(rates)
	}
	l.pace = float64(after-before) / took.Seconds()
	if after, err = t.settled(); err != nil {
		return 0, 0, err
	}
	return pps, after - before, nil
}

// look sends a few packets and returns one of them as it arrived.
func (t *traffic) look(l *line, s Stream) (arrived []byte, err error) {
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
			time.Sleep(5 * time.Millisecond) // softirqs may be late
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

// delay sends packets one by one for about the given duration and returns the
// least time from source to sink in ns, and how many arrived.
func (t *traffic) delay(l *line, s Stream, duration time.Duration) (least float64, packets uint64, err error) {
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
