// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const (
	liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	batchSize  = 64     // frames; what NAPI takes at once

	firstBurst = 20_000
	looked     = 256 // packets that are sent to be looked at
)

// traffic sends frames through a network and counts what arrives.
type traffic struct {
	network    *network
	collection *ebpf.Collection
	sink       link.Link
	release    func()
	pace       float64 // packets per second, as last seen
}

func newTraffic(n *network) (*traffic, error) {
	spec, err := loadTraffic()
	if err != nil {
		return nil, err
	}
	t := &traffic{network: n}
	if t.collection, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("load the programs of source and sink: %w", err)
	}
	if t.release, err = hold(t.collection.Programs[trafficProgSource]); err != nil {
		t.collection.Close()
		return nil, err
	}
	err = inNamespace(n.sink, func() (err error) {
		t.sink, err = link.AttachTCX(link.TCXOptions{
			Program: t.collection.Programs[trafficProgSink], Interface: n.k0.Attrs().Index, Attach: ebpf.AttachTCXIngress,
		})
		return err
	})
	if err != nil {
		t.release()
		t.collection.Close()
		return nil, fmt.Errorf("attach the sink: %w; this benchmark needs Linux 6.6", err)
	}
	return t, nil
}

func (t *traffic) close() {
	t.sink.Close()
	t.release()
	t.collection.Close()
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

// send sends a frame many times, all on one CPU.
func (t *traffic) send(frame []byte, times uint32) error {
	frame = t.network.addressed(frame)
	headers := trafficHeaders{To: uint32(t.network.s0.Attrs().Index)}
	headers.Size = uint32(copy(headers.Bytes[:min(len(frame), rewritten)], frame))
	if err := t.collection.Maps[trafficMapSending].Put(uint32(0), headers); err != nil {
		return fmt.Errorf("set what to send: %w", err)
	}
	return inNamespace(t.network.source, func() error {
		release, err := pinThread()
		if err != nil {
			return err
		}
		defer release()
		_, err = t.collection.Programs[trafficProgSource].Run(&ebpf.RunOptions{
			Data: frame, Repeat: times, Flags: liveFrames, BatchSize: batchSize,
		})
		if err != nil {
			return fmt.Errorf("send live frames: %w; this benchmark needs Linux 5.18", err)
		}
		return nil
	})
}

// rewritten is how many bytes of a recycled frame are written anew: more than
// any node on the way changes.
const rewritten = 192

// window is how long packets are counted at a time.
const window = 10 * time.Millisecond

// rate sends for about as long as asked for: packets per second at the sink,
// in the middle half of the windows in which nothing but sending went on, and
// how many arrived in all.
func (t *traffic) rate(frame []byte, duration time.Duration) (pps float64, packets uint64, err error) {
	times := max(uint32(t.pace*duration.Seconds()), firstBurst)
	before, err := t.received()
	if err != nil {
		return 0, 0, err
	}
	started := time.Now()
	done := make(chan error, 1)
	go func() { done <- t.send(frame, times) }()
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
			if last > before && now > last { // the first window holds the start
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
		pps = middle(rates[:len(rates)-1]) // the last one may hold the end
	}
	t.pace = pps
	return pps, after - before, nil
}

// look sends a few packets and returns one as it arrived.
func (t *traffic) look(frame []byte) ([]byte, error) {
	if err := t.sink.Update(t.collection.Programs[trafficProgWitness]); err != nil {
		return nil, fmt.Errorf("attach the witness: %w", err)
	}
	maps := t.collection.Maps
	err := maps[trafficMapSamples].Put(uint32(0), trafficSample{})
	if err == nil {
		err = t.send(frame, looked)
	}
	var sample trafficSample
	for range 100 {
		if err != nil {
			return nil, err
		}
		if err = maps[trafficMapSamples].Lookup(uint32(0), &sample); err == nil && sample.Length > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond) // softirqs may lag behind
	}
	if err := t.sink.Update(t.collection.Programs[trafficProgSink]); err != nil {
		return nil, fmt.Errorf("attach the sink: %w", err)
	}
	if sample.Length == 0 {
		return nil, fmt.Errorf("none of %d packets arrived at the sink", looked)
	}
	out := make([]byte, sample.Length)
	copy(out, sample.Bytes[:])
	return out, nil
}

// privatePins mounts a BPF file system that only this process sees, by a path
// that leads through its open file; it goes with the process.
func privatePins(directory string) (path string, release func(), err error) {
	if err := unix.Mount("bpf", directory, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return "", nil, fmt.Errorf("mount a BPF file system: %w; run as root", err)
	}
	fd, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if unmount := unix.Unmount(directory, unix.MNT_DETACH); err == nil {
		err = unmount
	}
	if err != nil {
		return "", nil, fmt.Errorf("open the BPF file system: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { unix.Close(fd) }, nil
}
