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

// Waking the reader for each record would cost a packet more than writing the
// record, so programs only wake it when much is waiting. Otherwise, records are
// found by polling.
const (
	// lookBusy bounds how long a record waits while others arrive.
	lookBusy = 20 * time.Millisecond
	// lookQuiet bounds the wait of the first record after quietAfter.
	lookQuiet  = 100 * time.Millisecond
	quietAfter = time.Second
)

// recordsPerRound bounds how long the clock's offset is used without being read
// again.
const recordsPerRound = 4096

// demand is whether records are wanted.
type demand struct {
	wanted  atomic.Bool
	changed chan struct{} // buffered: holds a change until the reader notices
}

func newDemand() *demand { return &demand{changed: make(chan struct{}, 1)} }

func (d *demand) set(wanted bool) {
	d.wanted.Store(wanted)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// ring is what one CPU's programs write: records in a ring of the kernel's, and
// postcards in one of ours.
type ring struct {
	cpu    int
	cards  *atomic.Pointer[postcardRings]
	batch  [postcardsAtOnce]Postcard
	reader *ringbuf.Reader
	// file waits for the programs in the Go runtime's poller; a thread in a
	// system call could not be interrupted.
	file *os.File
	wait syscall.RawConn
	// asked counts the callers that wait until the ring was seen empty; nil when
	// there can be none.
	asked     *atomic.Uint64
	seenEmpty atomic.Uint64 // value of asked when the ring was last empty
}

// openRings opens the rings of every CPU.
func openRings(records *ebpf.Map, cards *atomic.Pointer[postcardRings]) (rings []*ring, err error) {
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
		r.cpu, r.cards = int(cpu), cards
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

// taker takes what rings hold.
type taker struct {
	sample    func(sample []byte, taiOffset time.Duration)
	postcards func([]Postcard)
}

func readRings(ctx context.Context, rings []*ring, wish *demand, offset func() time.Duration, to taker) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range rings {
		context.AfterFunc(ctx, func() { r.poke() }) // fails on closed rings, which need no poke
		group.Go(func() error { return r.serve(ctx, offset, to) })
	}
	group.Go(func() error { return lookAfter(ctx, rings, wish) })
	return group.Wait()
}

// readWaiting passes on what is in the rings now.
func readWaiting(rings []*ring, offset time.Duration, to taker) error {
	for _, r := range rings {
		if err := r.empty(context.Background(), func() time.Duration { return offset }, to); err != nil {
			return err
		}
	}
	return nil
}

// lookAfter pokes the readers of rings with records that no program woke them
// for.
func lookAfter(ctx context.Context, rings []*ring, wish *demand) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // when a record was last seen
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
			if !r.holds() {
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
		case !wish.wanted.Load() && idle > 1: // one more look for programs that had already started
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

// serve reads a ring whenever it is poked or woken by a program, until it is
// poked after the context's end.
func (r *ring) serve(ctx context.Context, offset func() time.Duration, to taker) error {
	for {
		// records that were poked for before this are found by the first look
		if err := r.file.SetReadDeadline(time.Time{}); err != nil {
			return fmt.Errorf("wait for records: %w", err)
		}
		var fault error
		err := r.wait.Read(func(uintptr) (done bool) {
			fault = r.empty(ctx, offset, to)
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

// holds reports whether there is something to read.
func (r *ring) holds() bool {
	return r.reader.AvailableBytes() > 0 || r.cards.Load().waiting(r.cpu)
}

// isEmpty also answers callers that asked before.
func (r *ring) isEmpty() bool {
	if r.asked == nil {
		return !r.holds()
	}
	asked := r.asked.Load()
	if r.holds() {
		return false
	}
	r.seenEmpty.Store(asked)
	return true
}

// empty passes on what is in the rings. It ends with the context even if they
// never become empty.
func (r *ring) empty(ctx context.Context, offset func() time.Duration, to taker) error {
	var raw ringbuf.Record
	for ctx.Err() == nil && !r.isEmpty() {
		r.reader.SetDeadline(time.Unix(1, 0)) // do not wait
		correction := offset()
		r.readPostcards(ctx, correction, to)
		for n := 0; n < recordsPerRound && ctx.Err() == nil; n++ {
			err := r.reader.ReadInto(&raw)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fmt.Errorf("read records: %w", err)
			}
			to.sample(raw.RawSample, correction)
		}
	}
	return nil
}

func (r *ring) readPostcards(ctx context.Context, taiOffset time.Duration, to taker) {
	take := func(raw []ABIPostcard) {
		for i := range raw {
			decodePostcard(&r.batch[i], &raw[i], taiOffset)
		}
		to.postcards(r.batch[:len(raw)])
	}
	cards := r.cards.Load()
	for n := 0; n < recordsPerRound && ctx.Err() == nil; {
		took := cards.read(r.cpu, take)
		if n += took; took == 0 {
			return
		}
	}
}
