// SPDX-License-Identifier: Apache-2.0

// Package kernelclock reads the clocks that BPF programs read: bpf_ktime_get_ns and
// bpf_ktime_get_boot_ns. In a time namespace (containers, restored checkpoints), the clocks of a
// process differ from them by an offset, which may be days. So every time that is compared with
// one of a program comes from here.
package kernelclock

import (
	"encoding/binary"
	"errors"
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

// clock is how far the programs' clocks are ahead of this process's.
type clock struct {
	mu      sync.Mutex // for program, while it runs
	program *ebpf.Program

	known           atomic.Bool
	read            atomic.Int64 // when, by the monotonic clock of this process
	monotonic, boot atomic.Int64
}

var clocks clock

// Monotonic is the time of bpf_ktime_get_ns in ns. The first call loads a program.
func Monotonic() (uint64, error) {
	return clocks.now(unix.CLOCK_MONOTONIC, &clocks.monotonic)
}

// Boot is the time of bpf_ktime_get_boot_ns in ns.
func Boot() (uint64, error) { return clocks.now(unix.CLOCK_BOOTTIME, &clocks.boot) }

func (c *clock) now(id int32, ahead *atomic.Int64) (uint64, error) {
	if err := c.refresh(); err != nil {
		return 0, err
	}
	at, err := own(id)
	return uint64(at + ahead.Load()), err
}

// own is a clock of this process.
func own(id int32) (int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0, fmt.Errorf("read a clock of the kernel: %w", err)
	}
	return t.Nano(), nil
}

// refresh reads the offsets again if they are old. What was known is kept if that fails.
func (c *clock) refresh() error {
	now, err := own(unix.CLOCK_MONOTONIC)
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

// runs is how often the program runs to find the offsets: this process may be interrupted in one.
const runs = 3

// measure finds the offsets. Each run says between what an offset is. One that was right before and
// still may be stays, so that none is off by the time that a run takes unless it must be.
func (c *clock) measure() error {
	if c.program == nil {
		var err error
		if c.program, err = load(); err != nil {
			return err
		}
	}
	monotonic, boot := within{}, within{}
	for range runs {
		before, err := both()
		if err != nil {
			return err
		}
		programs, err := c.run()
		if err != nil {
			return err
		}
		after, err := both()
		if err != nil {
			return err
		}
		monotonic.narrow(programs[0]-after[0], programs[0]-before[0])
		boot.narrow(programs[1]-after[1], programs[1]-before[1])
	}
	c.monotonic.Store(monotonic.nearest(c.monotonic.Load()))
	c.boot.Store(boot.nearest(c.boot.Load()))
	return nil
}

// both are the clocks of this process.
func both() (t [2]int64, err error) {
	var fault error
	t[0], err = own(unix.CLOCK_MONOTONIC)
	t[1], fault = own(unix.CLOCK_BOOTTIME)
	return t, errors.Join(err, fault)
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
	timesLen  = 16
)

// run runs the program.
func (c *clock) run() (times [2]int64, err error) {
	opts := ebpf.RunOptions{Data: make([]byte, packetLen), DataOut: make([]byte, packetLen)}
	if _, err := c.program.Run(&opts); err != nil {
		return times, err
	}
	if len(opts.DataOut) < timesLen {
		return times, fmt.Errorf("the program gave %d octets, want %d", len(opts.DataOut), timesLen)
	}
	return [2]int64{int64(binary.NativeEndian.Uint64(opts.DataOut)), int64(binary.NativeEndian.Uint64(opts.DataOut[8:]))}, nil
}

// load loads a program that writes both clocks to the start of its packet.
func load() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "waymark_clock", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(asm.RFP, -timesLen, asm.R0, asm.DWord),
			asm.FnKtimeGetBootNs.Call(),
			asm.StoreMem(asm.RFP, -timesLen+8, asm.R0, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Imm(asm.R2, 0),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, -timesLen),
			asm.Mov.Imm(asm.R4, timesLen),
			asm.Mov.Imm(asm.R5, 0),
			asm.FnSkbStoreBytes.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
}
