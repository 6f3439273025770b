// SPDX-License-Identifier: Apache-2.0

// Package kernelclock reads the clock that BPF programs read, bpf_ktime_get_ns. In a time namespace
// (containers, restored checkpoints), the monotonic clock of a process differs from it by an offset,
// which may be days. So every time that is compared with one of a program comes from here.
package kernelclock

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// fresh is how long an offset is used before it is read again, ns. It changes only where a process
// is restored on another machine.
const fresh = 1_000_000_000

// clock is how far the programs' clock is ahead of this process's.
type clock struct {
	mu      sync.Mutex // for program, while it runs
	program *ebpf.Program

	known atomic.Bool
	read  atomic.Int64 // when, by the monotonic clock of this process
	ahead atomic.Int64
}

var programs clock

// Monotonic is the time of bpf_ktime_get_ns in ns. The first call loads a program.
func Monotonic() (uint64, error) {
	if err := programs.refresh(); err != nil {
		return 0, err
	}
	at, err := own()
	return uint64(at + programs.ahead.Load()), err
}

// own is the monotonic clock of this process.
func own() (int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return t.Nano(), nil
}

// refresh reads the offset again if it is old. What was known is kept if that fails.
func (c *clock) refresh() error {
	now, err := own()
	if err != nil {
		return err
	}
	known := c.known.Load()
	if known && now-c.read.Load() < fresh && now >= c.read.Load() {
		return nil
	}
	if !known {
		c.mu.Lock()
	} else if !c.mu.TryLock() { // another goroutine is about to know it
		return nil
	}
	defer c.mu.Unlock()
	if err := c.measure(); err != nil && !c.known.Load() {
		return fmt.Errorf("read the clock of BPF programs: %w", err)
	}
	c.read.Store(now)
	c.known.Store(true)
	return nil
}

// runs is how often the program runs to find the offset: this process may be interrupted in one.
const runs = 3

// measure finds the offset. Each run gives a lower and an upper bound. If the earlier offset is within
// both, it stays: a new one would be wrong by up to the time that a run takes.
func (c *clock) measure() error {
	if c.program == nil {
		var err error
		if c.program, err = load(); err != nil {
			return err
		}
	}
	ahead := within{}
	for range runs {
		before, err := own()
		if err != nil {
			return err
		}
		at, err := c.run()
		if err != nil {
			return err
		}
		after, err := own()
		if err != nil {
			return err
		}
		ahead.narrow(at-after, at-before)
	}
	c.ahead.Store(ahead.nearest(c.ahead.Load()))
	return nil
}

// within are the bounds of an offset.
type within struct {
	known     bool
	low, high int64
}

// narrow takes those of another run, if these are closer.
func (w *within) narrow(low, high int64) {
	if !w.known || high-low < w.high-w.low {
		*w = within{true, low, high}
	}
}

// nearest is an offset within the bounds: that from before if it still can be.
func (w *within) nearest(before int64) int64 {
	if w.low <= before && before <= w.high {
		return before
	}
	return w.low + (w.high-w.low)/2
}

const (
	packetLen = 32 // longer than an Ethernet header
	timeLen   = 8
)

// run runs the program.
func (c *clock) run() (int64, error) {
	opts := ebpf.RunOptions{Data: make([]byte, packetLen), DataOut: make([]byte, packetLen)}
	if _, err := c.program.Run(&opts); err != nil {
		return 0, err
	}
	if len(opts.DataOut) < timeLen {
		return 0, fmt.Errorf("the program gave %d octets, want %d", len(opts.DataOut), timeLen)
	}
	return int64(binary.NativeEndian.Uint64(opts.DataOut)), nil
}

// load loads a program that writes its clock to the start of its packet.
func load() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "waymark_clock", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(asm.RFP, -timeLen, asm.R0, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Imm(asm.R2, 0),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, -timeLen),
			asm.Mov.Imm(asm.R4, timeLen),
			asm.Mov.Imm(asm.R5, 0),
			asm.FnSkbStoreBytes.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
}
