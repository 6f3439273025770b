// SPDX-License-Identifier: Apache-2.0

// Package rings reads what programs write for the agent: records and flows from a ring of the
// kernel's for each CPU, and postcards from one in shared memory.
package rings

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

	"github.com/waymark-net/waymark/internal/datapath/bpf"
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

// Demand is whether records are wanted.
type Demand struct {
	wanted  atomic.Bool
	changed chan struct{} // buffered: holds a change until the reader notices
}

// NewDemand begins without a reader.
func NewDemand() *Demand { return &Demand{changed: make(chan struct{}, 1)} }

// Set says whether records are wanted from now on.
func (d *Demand) Set(wanted bool) {
	d.wanted.Store(wanted)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Ring is what one CPU's programs write: records in a ring of the kernel's, and
// postcards in one of ours.
type Ring struct {
	cpu    int
	cards  *atomic.Pointer[PostcardRings]
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

// Open opens the rings of every CPU.
func Open(records *ebpf.Map, cards *atomic.Pointer[PostcardRings]) (rings []*Ring, err error) {
	defer func() {
		if err != nil {
			Close(rings)
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

func openRing(m *ebpf.Map) (*Ring, error) {
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	r := &Ring{file: os.NewFile(uintptr(fd), "ring")}
	if r.wait, err = r.file.SyscallConn(); err == nil {
		r.reader, err = ringbuf.NewReader(m)
	}
	if err != nil {
		r.file.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the rings, when nothing reads them any more.
func Close(rings []*Ring) {
	for _, r := range rings {
		r.file.Close()
		r.reader.Close()
	}
}

// Taker takes what rings hold.
type Taker struct {
	Sample    func(sample []byte, taiOffset time.Duration)
	Postcards func([]Postcard)
}

// Read passes on what is written into rings until the context ends. It polls while records are
// wanted.
func Read(ctx context.Context, rings []*Ring, wish *Demand, offset func() time.Duration, to Taker) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range rings {
		context.AfterFunc(ctx, func() { r.Poke() }) // fails on closed rings, which need no poke
		group.Go(func() error { return r.Serve(ctx, offset, to) })
	}
	group.Go(func() error { return lookAfter(ctx, rings, wish) })
	return group.Wait()
}

// ReadWaiting passes on what is in the rings now.
func ReadWaiting(rings []*Ring, offset time.Duration, to Taker) error {
	for _, r := range rings {
		if err := r.empty(context.Background(), func() time.Duration { return offset }, to); err != nil {
			return err
		}
	}
	return nil
}

// lookAfter pokes the readers of rings with records that no program woke them
// for.
func lookAfter(ctx context.Context, rings []*Ring, wish *Demand) error {
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
			if !r.Holds() {
				continue
			}
			found = true
			if err := r.Poke(); err != nil {
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

// Poke makes the ring's reader look.
func (r *Ring) Poke() error {
	if err := r.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return fmt.Errorf("wake the reader of records: %w", err)
	}
	return nil
}

// Serve reads a ring whenever it is poked or woken by a program, until it is
// poked after the context's end.
func (r *Ring) Serve(ctx context.Context, offset func() time.Duration, to Taker) error {
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

// Holds reports whether there is something to read.
func (r *Ring) Holds() bool {
	return r.reader.AvailableBytes() > 0 || r.cards.Load().waiting(r.cpu)
}

// isEmpty also answers callers that asked before.
func (r *Ring) isEmpty() bool {
	if r.asked == nil {
		return !r.Holds()
	}
	asked := r.asked.Load()
	if r.Holds() {
		return false
	}
	r.seenEmpty.Store(asked)
	return true
}

// empty passes on what is in the rings. It ends with the context even if they
// never become empty.
func (r *Ring) empty(ctx context.Context, offset func() time.Duration, to Taker) error {
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
			to.Sample(raw.RawSample, correction)
		}
	}
	return nil
}

func (r *Ring) readPostcards(ctx context.Context, taiOffset time.Duration, to Taker) {
	passPostcards := func(raw []bpf.ABIPostcard) {
		for i := range raw {
			decodePostcard(&r.batch[i], &raw[i], taiOffset)
		}
		to.Postcards(r.batch[:len(raw)])
	}
	cards := r.cards.Load()
	for n := 0; n < recordsPerRound && ctx.Err() == nil; {
		took := cards.Read(r.cpu, passPostcards)
		if n += took; took == 0 {
			return
		}
	}
}
