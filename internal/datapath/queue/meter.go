// SPDX-License-Identifier: Apache-2.0

// Package queue measures how long packets wait in the queues of devices. Its programs are attached while a
// Meter is open, and leave no trace: no packet is treated in another way.
package queue

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

// Waits is what was counted at one device since it was added.
type Waits struct {
	Packets uint64 // that were timed
	Total   uint64 // nanoseconds, of all these
	// Untimed packets reached the driver without our time: their senders pace them, such as TCP, or
	// another program ended the chain of the hook before ours.
	Untimed uint64
	Buckets []exponential.Bucket // of seconds, at exponential.DelayScale
}

// below is how many buckets of the programs lie below that of OTLP's index 0, which begins at a second.
const below = 30<<exponential.DelayScale + 1

// Quantile is the middle of the bucket with the packet of this rank, from 0 to 1; 0: there are no packets.
func (w *Waits) Quantile(rank float64) time.Duration {
	left := uint64(math.Ceil(rank * float64(w.Packets)))
	for _, b := range w.Buckets {
		if left <= b.Count {
			return time.Duration(math.Exp2((float64(b.Index)+0.5)/(1<<exponential.DelayScale)) * float64(time.Second))
		}
		left -= b.Count
	}
	return 0
}

// mostDevices bounds the memory: 5 kB for each device and CPU.
const mostDevices = 1024

// Meter times the packets of devices. It is not for several goroutines at once.
type Meter struct {
	objects bpf.QueueObjects
	end     link.Link
	begins  map[model.IfIndex]link.Link
	room    int
}

// Open loads the programs for the calling thread's network namespace, which has the cookie, and attaches
// them at devices. It needs Linux 6.6, because the programs end with the process only at a tcx hook.
func Open(cookie uint64, devices []model.IfIndex) (*Meter, error) {
	m := &Meter{begins: make(map[model.IfIndex]link.Link), room: room(len(devices))}
	if m.room > mostDevices {
		return nil, problem.New(
			fmt.Sprintf("the queues of %d interfaces are too many", len(devices)),
			fmt.Sprintf("measure at most %d", mostDevices),
		)
	}
	spec, err := bpf.LoadQueue()
	if err != nil {
		return nil, err
	}
	var parts bpf.QueueSpecs
	if err := spec.Assign(&parts); err != nil {
		return nil, err
	}
	if err := parts.NetworkNamespace.Set(cookie); err != nil {
		return nil, err
	}
	parts.QueueDelays.MaxEntries = uint32(m.room)
	if err := spec.LoadAndAssign(&m.objects, nil); err != nil {
		return nil, fmt.Errorf("load the programs that time packets in queues: %w", err)
	}
	if err := m.Follow(devices); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if m.end, err = link.AttachTracing(link.TracingOptions{Program: m.objects.QueueEnd}); err != nil {
		err = fmt.Errorf("trace packets that reach a driver: %w", err)
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// room is how many devices the map takes: some more may come.
func room(devices int) int {
	room := 16
	for room < devices {
		room *= 2
	}
	return room
}

// ErrRoom says that a meter has no room for that number of devices: a new one has.
var ErrRoom = errors.New("there is no room for more devices")

// Follow times the packets of these devices from now on, and no longer those of others. A device that
// has gone is left out.
func (m *Meter) Follow(devices []model.IfIndex) error {
	var errs []error
	for index, l := range m.begins {
		if !slices.Contains(devices, index) || !attached(l) {
			errs = append(errs, m.remove(index))
		}
	}
	for _, index := range devices {
		if m.begins[index] != nil {
			continue
		}
		if len(m.begins) == m.room {
			return errors.Join(append(errs, ErrRoom)...)
		}
		if err := m.add(index); err != nil {
			errs = append(errs, fmt.Errorf("device %d: %w", index, err))
		}
	}
	return errors.Join(errs...)
}

// attached reports whether a link still has its device.
func attached(l link.Link) bool {
	info, err := l.Info()
	return err == nil && info.TCX() != nil && info.TCX().Ifindex != 0
}

// add has the map's entry before any packet is timed.
func (m *Meter) add(index model.IfIndex) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	if err := m.objects.QueueDelays.Put(uint32(index), make([]bpf.QueueQueueWaits, cpus)); err != nil {
		return fmt.Errorf("make room for its times: %w", err)
	}
	var l link.Link
	err = attach.AttachOwn(index, false, m.objects.QueueBegin, func() (err error) {
		l, err = link.AttachTCX(link.TCXOptions{
			Program: m.objects.QueueBegin, Interface: int(index), Attach: ebpf.AttachTCXEgress, Anchor: link.Tail(),
		})
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("attach a program before its queue: %w", err), m.objects.QueueDelays.Delete(uint32(index)))
	}
	m.begins[index] = l
	return nil
}

func (m *Meter) remove(index model.IfIndex) error {
	l := m.begins[index]
	delete(m.begins, index)
	err := m.objects.QueueDelays.Delete(uint32(index))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	return errors.Join(attach.DetachOwn(index, false, m.objects.QueueBegin, l.Close), err)
}

// Read is what was counted at each device.
func (m *Meter) Read() (map[model.IfIndex]Waits, error) {
	all := make(map[model.IfIndex]Waits, len(m.begins))
	var perCPU []bpf.QueueQueueWaits
	for index := range m.begins {
		if err := m.objects.QueueDelays.Lookup(uint32(index), &perCPU); err != nil {
			return nil, fmt.Errorf("read the times of device %d: %w", index, err)
		}
		all[index] = sum(perCPU)
	}
	return all, nil
}

func sum(perCPU []bpf.QueueQueueWaits) (w Waits) {
	var buckets [len(bpf.QueueQueueWaits{}.Buckets)]uint64
	for i := range perCPU {
		w.Total += perCPU[i].Total
		w.Untimed += perCPU[i].Untimed
		for k, n := range &perCPU[i].Buckets {
			buckets[k] += n
		}
	}
	for k, n := range buckets {
		if w.Packets += n; n > 0 {
			w.Buckets = append(w.Buckets, exponential.Bucket{Index: k - below, Count: n})
		}
	}
	return w
}

// Devices are those whose packets are timed.
func (m *Meter) Devices() []model.IfIndex { return slices.Sorted(maps.Keys(m.begins)) }

// Close ends the measurement.
func (m *Meter) Close() error {
	var errs []error
	if m.end != nil {
		errs = append(errs, m.end.Close())
	}
	for index := range m.begins {
		errs = append(errs, m.remove(index))
	}
	return errors.Join(append(errs, m.objects.Close())...)
}
