// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Programs do not wake the reader per record, which would cost the packet more
// than writing it, but only where much waits. Less than that is looked for.
const (
	// lookBusy bounds how long a record waits while records come.
	lookBusy = 20 * time.Millisecond
	// lookQuiet bounds it for the first one after quietAfter.
	lookQuiet  = 100 * time.Millisecond
	quietAfter = time.Second
)

// recordsPerRound bounds how long the clock's offset is taken for granted.
const recordsPerRound = 4096

// demand is whether anybody wants records.
type demand struct {
	wanted  atomic.Bool
	changed chan struct{} // buffered: whoever reads has yet to notice
}

func newDemand() *demand { return &demand{changed: make(chan struct{}, 1)} }

func (d *demand) set(wanted bool) {
	d.wanted.Store(wanted)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// ring is one CPU's records.
type ring struct {
	reader *ringbuf.Reader
	// file waits for the programs in the runtime's own poller: a thread in a
	// system call would have to be watched.
	file *os.File
	wait syscall.RawConn
	// asked counts who wants to know that the ring was seen empty; nil when nobody can ask.
	asked     *atomic.Uint64
	seenEmpty atomic.Uint64 // how many had asked when it last was
}

// openRings opens the ring of every CPU.
func openRings(records *ebpf.Map) (rings []*ring, err error) {
	defer func() {
		if err != nil {
			closeRings(rings)
			rings = nil
		}
	}()
	for cpu := range records.MaxEntries() {
		var m *ebpf.Map
		if err := records.Lookup(cpu, &m); err != nil {
			return rings, fmt.Errorf("open the ring of CPU %d: %w", cpu, err)
		}
		r, err := openRing(m)
		m.Close()
		if err != nil {
			return rings, fmt.Errorf("map the ring of CPU %d: %w", cpu, err)
		}
		rings = append(rings, r)
	}
	return rings, nil
}

func openRing(m *ebpf.Map) (*ring, error) {
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	r := &ring{file: os.NewFile(uintptr(fd), "ring")}
	if r.wait, err = r.file.SyscallConn(); err == nil {
		r.reader, err = ringbuf.NewReader(m)
	}
	if err != nil {
		r.file.Close()
		return nil, err
	}
	return r, nil
}

func closeRings(rings []*ring) {
	for _, r := range rings {
		r.file.Close()
		r.reader.Close()
	}
}

// ReadSamples hands on what programs write until the context ends. Samples of
// one CPU come in order. While nobody wants records, what was left is read, and
// then nothing is looked at.
func (d *Datapath) ReadSamples(ctx context.Context, to Samples) error {
	rings, err := openRings(d.shared[mapRecords])
	if err != nil {
		return err
	}
	defer closeRings(rings)
	for _, r := range rings {
		r.asked = &d.reading.asked
	}
	d.reading.rings.Store(&rings)
	defer d.reading.rings.Store(nil)
	return readRings(ctx, rings, d.demand, d.taiOffset, d.taking(to))
}

// ReadWaiting hands on what programs have written and nobody has read, those
// included that are at it now. It is for the end, when ReadSamples has returned
// and records are not wanted any more.
func (d *Datapath) ReadWaiting(to Samples) error {
	rings, err := openRings(d.shared[mapRecords])
	if err != nil {
		return err
	}
	defer closeRings(rings)
	time.Sleep(flowSettling)
	return readWaiting(rings, d.taiOffset(), d.taking(to))
}

func (d *Datapath) taking(to Samples) func([]byte, time.Duration) {
	return func(sample []byte, offset time.Duration) { to.take(sample, offset, d.flowTable) }
}

func readRings(ctx context.Context, rings []*ring, wish *demand, offset func() time.Duration, each func(sample []byte, taiOffset time.Duration)) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range rings {
		context.AfterFunc(ctx, func() { r.poke() }) // closed rings need none
		group.Go(func() error { return r.serve(ctx, offset, each) })
	}
	group.Go(func() error { return lookAfter(ctx, rings, wish) })
	return group.Wait()
}

// readWaiting hands on what is in the rings now.
func readWaiting(rings []*ring, offset time.Duration, each func(sample []byte, taiOffset time.Duration)) error {
	for _, r := range rings {
		if err := r.empty(context.Background(), func() time.Duration { return offset }, each); err != nil {
			return err
		}
	}
	return nil
}

// lookAfter pokes the readers of rings with records that no program has told
// them of.
func lookAfter(ctx context.Context, rings []*ring, wish *demand) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // that a record was seen
	for idle := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-wish.changed:
			idle = 0
		case <-timer.C:
		}
		found, now := false, time.Now()
		for _, r := range rings {
			if r.reader.AvailableBytes() == 0 {
				continue
			}
			found = true
			if err := r.poke(); err != nil {
				return err
			}
		}
		if idle++; found {
			last, idle = now, 0
		}
		switch {
		case !wish.wanted.Load() && idle > 1: // once more for programs that had begun
			timer.Stop()
		case now.Sub(last) < quietAfter:
			timer.Reset(lookBusy)
		default:
			timer.Reset(lookQuiet)
		}
	}
}

// poke makes the ring's reader look.
func (r *ring) poke() error {
	if err := r.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return fmt.Errorf("wake the reader of records: %w", err)
	}
	return nil
}

// serve reads a ring whenever it is poked, or woken by a program, until the
// context ends, and a poke says so.
func (r *ring) serve(ctx context.Context, offset func() time.Duration, each func(sample []byte, taiOffset time.Duration)) error {
	for {
		// what was poked for before this is found by the first look
		if err := r.file.SetReadDeadline(time.Time{}); err != nil {
			return fmt.Errorf("wait for records: %w", err)
		}
		var fault error
		err := r.wait.Read(func(uintptr) (done bool) {
			fault = r.empty(ctx, offset, each)
			return fault != nil || ctx.Err() != nil
		})
		switch {
		case fault != nil:
			return fault
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("wait for records: %w", err)
		}
	}
}

// isEmpty also says so to who asked before.
func (r *ring) isEmpty() bool {
	if r.asked == nil {
		return r.reader.AvailableBytes() == 0
	}
	asked := r.asked.Load()
	if r.reader.AvailableBytes() > 0 {
		return false
	}
	r.seenEmpty.Store(asked)
	return true
}

// empty hands over what is in the ring. One that never runs empty does not keep
// it from ending.
func (r *ring) empty(ctx context.Context, offset func() time.Duration, each func(sample []byte, taiOffset time.Duration)) error {
	var raw ringbuf.Record
	for ctx.Err() == nil && !r.isEmpty() {
		r.reader.SetDeadline(time.Unix(1, 0)) // it need not wait
		correction := offset()
		for n := 0; n < recordsPerRound && ctx.Err() == nil; n++ {
			err := r.reader.ReadInto(&raw)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fmt.Errorf("read records: %w", err)
			}
			each(raw.RawSample, correction)
		}
	}
	return nil
}
