// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// skb is the kernel's struct __sk_buff as far as a run may set it.
type skb struct {
	_              [36]byte
	IngressIfindex uint32
	_              [124]byte
	GSOSegs        uint32
	_              [8]byte
	GSOSize        uint32
	_              [12]byte
}

// restorer runs a program under test behind the program that restores frames.
// It serves one program type: the kernel ties a map of programs to one.
type restorer struct {
	collection *ebpf.Collection
	restore    *ebpf.Program
	calibrate  *ebpf.Program
	held       []func()
	underTest  *ebpf.Program
}

func newRestorer(kind ebpf.ProgramType) (*restorer, error) {
	spec, err := loadRestore()
	if err != nil {
		return nil, err
	}
	for name, program := range spec.Programs {
		if program.Type != kind {
			delete(spec.Programs, name)
		}
	}
	r := &restorer{}
	if r.collection, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("load the restoring programs: %w", err)
	}
	r.restore, r.calibrate = r.collection.Programs[restoreProgRestoreTc], r.collection.Programs[restoreProgCalibrateTc]
	if kind == ebpf.XDP {
		r.restore, r.calibrate = r.collection.Programs[restoreProgRestoreXdp], r.collection.Programs[restoreProgCalibrateXdp]
	}
	if kind == ebpf.XDP {
		for _, program := range []*ebpf.Program{r.restore, r.calibrate} {
			release, err := hold(program)
			if err != nil {
				r.close()
				return nil, err
			}
			r.held = append(r.held, release)
		}
	}
	return r, nil
}

func (r *restorer) close() {
	for _, release := range r.held {
		release()
	}
	r.collection.Close()
}

// restoration is what has to be put back after a program has run.
type restoration struct {
	offset, size int  // of the bytes
	length       int  // of the frame that the program leaves behind
	keep         bool // the length changed behind the IPv6 header
}

// findRestoration runs the program once and sees what it changed.
func findRestoration(program *ebpf.Program, frame []byte, in skb) (restoration, error) {
	out, err := runOnce(program, frame, in)
	if err != nil {
		return restoration{}, err
	}
	r := restoration{length: len(out)}
	kept := ethernetHeader
	if len(out) != len(frame) && bytes.Equal(out[ethernetHeader+8:ethernetHeader+ipv6Header], frame[ethernetHeader+8:ethernetHeader+ipv6Header]) {
		r.keep, kept = true, ethernetHeader+ipv6Header
	}
	switch difference := len(out) - len(frame); {
	case difference < 0:
		r.size = kept - difference // made room holds nothing of the old header
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
		r.size = last + 1 - r.offset
	}
	return r, nil
}

func runOnce(program *ebpf.Program, frame []byte, in skb) ([]byte, error) {
	o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+1024)}
	if program.Type() == ebpf.SchedCLS {
		o.Context = &in
	}
	if _, err := program.Run(o); err != nil {
		return nil, fmt.Errorf("run a frame of %d bytes: %w", len(frame), err)
	}
	return o.DataOut, nil
}

// run repeats the program under test over the frame, restored before each
// time, and returns how long all of it took.
func (r *restorer) run(program *ebpf.Program, frame []byte, what restoration, in skb, times int) (time.Duration, error) {
	if err := r.set(program, frame, what); err != nil {
		return 0, err
	}
	return timeRuns(r.restore, frame, in, times)
}

// set says which frame is to be restored and which program gets it.
func (r *restorer) set(program *ebpf.Program, frame []byte, what restoration) error {
	f := restoreFrame{Length: uint32(len(frame)), Offset: uint32(what.offset), Size: uint32(what.size)}
	if what.keep {
		f.Keep = 1
	}
	if what.size > 0 && copy(f.Bytes[:], frame[what.offset:]) < what.size {
		return fmt.Errorf("%d bytes to restore are too many", what.size)
	}
	maps := r.collection.Maps
	if err := maps[restoreMapFrames].Put(uint32(0), f); err != nil {
		return fmt.Errorf("set the frame to restore: %w", err)
	}
	if r.underTest == program {
		return nil // a change makes the kernel patch its code, which takes long
	}
	if err := maps[restoreMapUnderTest].Put(uint32(0), program); err != nil {
		return fmt.Errorf("set the program to measure: %w", err)
	}
	r.underTest = program
	return nil
}

// timeRuns repeats a program over a frame. The kernel's own clock leaves out
// what it needs to get ready, which for XDP is far more than the runs; it
// counts whole nanoseconds per run. For tc, all of it is little and the same
// for every program.
func timeRuns(program *ebpf.Program, frame []byte, in skb, times int) (time.Duration, error) {
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

// Steps of a calibration: many small changes of length one way, one large one
// back, so that the time of one and of the other can be told apart.
const (
	calibrationSteps = 8
	calibrationBytes = 8
)

// adjustments is what one change of a frame's length takes, in ns.
type adjustments struct{ grow, shrink float64 }

// measureAdjustments solves 8g + s and g + 8s for g and s.
func (r *restorer) measureAdjustments(keep bool, times int) (adjustments, error) {
	frame := plain(destination, 142)
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
		took, err := timeRuns(r.calibrate, frame, skb{}, times)
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
		grow:   (n*grows - shrinks) / (n*n - 1),
		shrink: (n*shrinks - grows) / (n*n - 1),
	}, nil
}

// cost is what the restoration's change of length takes.
func (a adjustments) cost(what restoration, frame []byte) float64 {
	switch {
	case what.length > len(frame):
		return a.shrink
	case what.length < len(frame):
		return a.grow
	}
	return 0
}

// arrivedAt is the context of a packet that came in by an interface.
func arrivedAt(i model.IfIndex) skb { return skb{IngressIfindex: uint32(i)} }
