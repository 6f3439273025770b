// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// SKB holds the fields of the kernel's struct __sk_buff that a run may set.
type SKB struct {
	_              [36]byte
	IngressIfindex uint32
	_              [124]byte
	GSOSegs        uint32
	_              [8]byte
	GSOSize        uint32
	_              [12]byte
}

// Restorer runs a program under test after the program that restores frames. It
// serves one program type, because a map of programs holds only one.
type Restorer struct {
	collection *ebpf.Collection
	Restore    *ebpf.Program
	calibrate  *ebpf.Program
	held       []func()
	underTest  *ebpf.Program
	turn       uint32 // runs so far: each continues with the values that follow
}

func NewRestorer(kind ebpf.ProgramType) (*Restorer, error) {
	spec, err := loadRestore()
	if err != nil {
		return nil, err
	}
	for name, program := range spec.Programs {
		if program.Type != kind {
			delete(spec.Programs, name)
		}
	}
	r := &Restorer{}
	if r.collection, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("load the restoring programs: %w", err)
	}
	r.Restore, r.calibrate = r.collection.Programs[restoreProgRestoreTc], r.collection.Programs[restoreProgCalibrateTc]
	if kind == ebpf.XDP {
		r.Restore, r.calibrate = r.collection.Programs[restoreProgRestoreXdp], r.collection.Programs[restoreProgCalibrateXdp]
	}
	if kind == ebpf.XDP {
		for _, program := range []*ebpf.Program{r.Restore, r.calibrate} {
			release, err := hold(program)
			if err != nil {
				r.Close()
				return nil, err
			}
			r.held = append(r.held, release)
		}
	}
	return r, nil
}

func (r *Restorer) Close() {
	for _, release := range r.held {
		release()
	}
	r.collection.Close()
}

// Restoration is what must be restored after each run of a program.
type Restoration struct {
	offset, Size int  // range of bytes to restore
	Length       int  // of the frame after the program
	Keep         bool // the length changed after the IPv6 header
	// Values is how many values the 16 bits at Varied take, from 0 on; 0: they are
	// the frame's.
	Values, Varied int
}

// FindRestoration runs the program once and compares the frame before and after.
func FindRestoration(program *ebpf.Program, frame []byte, in SKB) (Restoration, error) {
	out, err := RunOnce(program, frame, in)
	if err != nil {
		return Restoration{}, err
	}
	r := Restoration{Length: len(out)}
	kept := EthernetHeader
	if len(out) != len(frame) &&
		bytes.Equal(out[EthernetHeader+8:EthernetHeader+IPv6Header], frame[EthernetHeader+8:EthernetHeader+IPv6Header]) {
		r.Keep, kept = true, EthernetHeader+IPv6Header
	}
	switch difference := len(out) - len(frame); {
	case difference < 0:
		r.Size = kept - difference // the room that restoring makes does not have the old header's bytes
		return r, nil
	case difference > 0:
		out = append(append([]byte(nil), out[:kept]...), out[kept+difference:]...)
	}
	last := -1
	for i := range frame {
		if out[i] != frame[i] {
			if last < 0 {
				r.offset = i
			}
			last = i
		}
	}
	if last >= 0 {
		r.Size = last + 1 - r.offset
	}
	return r, nil
}

func RunOnce(program *ebpf.Program, frame []byte, in SKB) ([]byte, error) {
	o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+1024)}
	if program.Type() == ebpf.SchedCLS {
		o.Context = &in
	}
	if _, err := program.Run(o); err != nil {
		return nil, fmt.Errorf("run a frame of %d bytes: %w", len(frame), err)
	}
	return o.DataOut, nil
}

// Run repeats the program under test on the frame, which is restored before each
// run, and returns how long all runs took.
func (r *Restorer) Run(program *ebpf.Program, frame []byte, what Restoration, in SKB, times int) (time.Duration, error) {
	if err := r.Set(program, frame, what); err != nil {
		return 0, err
	}
	r.turn += uint32(times)
	return timeRuns(r.Restore, frame, in, times)
}

// Set sets the frame to restore and the program to run on it.
func (r *Restorer) Set(program *ebpf.Program, frame []byte, what Restoration) error {
	f := restoreFrame{
		Length: uint32(len(frame)),
		Offset: uint32(what.offset),
		Size:   uint32(what.Size),
		Values: uint32(what.Values),
		Varied: uint32(what.Varied),
		Turn:   r.turn,
	}
	if what.Keep {
		f.Keep = 1
	}
	if what.Size > 0 && copy(f.Bytes[:], frame[what.offset:]) < what.Size {
		return fmt.Errorf("%d bytes to restore are too many", what.Size)
	}
	maps := r.collection.Maps
	if err := maps[restoreMapFrames].Put(uint32(0), f); err != nil {
		return fmt.Errorf("set the frame to restore: %w", err)
	}
	if r.underTest == program {
		return nil // a change makes the kernel patch its code, which is slow
	}
	if err := maps[restoreMapUnderTest].Put(uint32(0), program); err != nil {
		return fmt.Errorf("set the program to measure: %w", err)
	}
	r.underTest = program
	return nil
}

// timeRuns repeats a program on a frame. For XDP it uses the kernel's own clock,
// which counts whole nanoseconds per run but leaves out the setup, which takes
// far longer than the runs. For tc, the setup is short and the same for every
// program.
func timeRuns(program *ebpf.Program, frame []byte, in SKB, times int) (time.Duration, error) {
	if program.Type() == ebpf.XDP {
		_, each, err := program.Benchmark(frame, times, nil)
		if err != nil {
			return 0, fmt.Errorf("run a frame of %d bytes %d times: %w", len(frame), times, err)
		}
		return each * time.Duration(times), nil
	}
	started := time.Now()
	_, err := program.Run(&ebpf.RunOptions{Data: frame, Context: &in, Repeat: uint32(times)})
	took := time.Since(started)
	if err != nil {
		return 0, fmt.Errorf("run a frame of %d bytes %d times: %w", len(frame), times, err)
	}
	return took, nil
}

// Steps of a calibration: many small changes of length one way and one large one
// back, so that the two times can be separated.
const (
	calibrationSteps = 8
	calibrationBytes = 8
)

// adjustments are the times of one change of a frame's length, in ns.
type adjustments struct{ Grow, Shrink float64 }

// MeasureAdjustments solves 8g + s and g + 8s for g and s.
func (r *Restorer) MeasureAdjustments(keep bool, times int) (adjustments, error) {
	frame := Plain(Destination, 142)
	step := func(growths, shrinkings uint32) (float64, error) {
		f := restoreFrame{Length: uint32(len(frame)), Growths: growths, Shrinkings: shrinkings}
		if growths > 0 {
			f.Growth = calibrationSteps * calibrationBytes / growths
			f.Shrinking = calibrationSteps * calibrationBytes / shrinkings
		}
		if keep {
			f.Keep = 1
		}
		if err := r.collection.Maps[restoreMapFrames].Put(uint32(0), f); err != nil {
			return 0, fmt.Errorf("set the calibration: %w", err)
		}
		took, err := timeRuns(r.calibrate, frame, SKB{}, times)
		return float64(took.Nanoseconds()) / float64(times), err
	}
	var took [3]float64
	for i, steps := range [3][2]uint32{{0, 0}, {calibrationSteps, 1}, {1, calibrationSteps}} {
		var err error
		if took[i], err = step(steps[0], steps[1]); err != nil {
			return adjustments{}, err
		}
	}
	const n = calibrationSteps
	grows, shrinks := took[1]-took[0], took[2]-took[0]
	return adjustments{
		Grow:   (n*grows - shrinks) / (n*n - 1),
		Shrink: (n*shrinks - grows) / (n*n - 1),
	}, nil
}

// Cost is how long the restoration's change of length takes.
func (a adjustments) Cost(what Restoration, frame []byte) float64 {
	switch {
	case what.Length > len(frame):
		return a.Shrink
	case what.Length < len(frame):
		return a.Grow
	}
	return 0
}

// ArrivedAt is the context of a packet that arrived on an interface.
func ArrivedAt(i model.IfIndex) SKB { return SKB{IngressIfindex: uint32(i)} }

// MiddleAdjustments is the middle of several measurements of adjustments; each
// measurement averages some runs.
func (r *Restorer) MiddleAdjustments(keep bool, times, runs int) (adjustments, error) {
	var grow, shrink []float64
	for range times {
		a, err := r.MeasureAdjustments(keep, runs)
		if err != nil {
			return adjustments{}, err
		}
		grow, shrink = append(grow, a.Grow), append(shrink, a.Shrink)
	}
	return adjustments{Grow: Middle(grow), Shrink: Middle(shrink)}, nil
}
