// SPDX-License-Identifier: Apache-2.0

package kernelevents

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/ioam"
)

// Reasons for the absence of events.
var (
	ErrFamily = errors.New("the kernel has no IOAM (generic netlink family " + familyName + ")")
	ErrGroup  = errors.New("the kernel sends no events of its IOAM (multicast group " + groupName + ", needs Linux 6.9)")
	ErrRight  = errors.New("this process may not receive the kernel's events (lacks CAP_NET_ADMIN)")
)

// DefaultBuffer is the room for waiting events, in bytes as the kernel counts
// them: about 4,000 events.
const DefaultBuffer = 4 << 20

// datagramLength is more than the kernel's message about the largest event.
const datagramLength = 4096

// Counters count what happened to events, in any number of watches, of which at
// most one runs at a time.
type Counters struct {
	received  atomic.Uint64
	malformed atomic.Uint64
	lost      socketdrops.Counter
}

// Received is how many events were read, the malformed ones included.
func (c *Counters) Received() uint64 { return c.received.Load() }

// Malformed is how many of these could not be decoded.
func (c *Counters) Malformed() uint64 { return c.malformed.Load() }

// Lost is how many events found no room in the socket's buffer.
func (c *Counters) Lost() uint64 { return c.lost.Lost() }

// Watch subscribes to the events of the calling thread's network namespace, with
// a buffer of this many bytes. It calls listening, and then heard with each
// event's trace until the context ends. Flags and RemainingLen of a trace are
// unknown and 0. If a kernel has no events, the error is [ErrFamily], [ErrGroup]
// or [ErrRight].
func Watch(ctx context.Context, buffer int, count *Counters, listening func(), heard func(ioam.Trace)) error {
	family, group, err := find()
	if err != nil {
		return err
	}
	s, err := subscribe(group, buffer)
	if err != nil {
		return err
	}
	count.lost.Begin(s.dropped)
	stop := context.AfterFunc(ctx, s.interrupt)
	defer func() {
		stop()
		count.lost.End() // before the socket is closed, and its count of dropped datagrams lost
		s.close()
	}()
	listening()
	datagram := make([]byte, datagramLength)
	for {
		n, err := s.receive(datagram)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR):
			continue // Lost has counted
		case err != nil:
			return fmt.Errorf("read the kernel's events: %w", err)
		}
		readDatagram(datagram[:n], family, count, heard)
	}
}

// readDatagram reads the events of a datagram.
func readDatagram(datagram []byte, family uint16, count *Counters, heard func(ioam.Trace)) {
	err := messages(datagram, family, func(content []byte) {
		trace, err := decode(content)
		if errors.Is(err, errOther) {
			return
		}
		count.received.Add(1)
		if err != nil {
			count.malformed.Add(1)
			return
		}
		heard(trace)
	})
	if err != nil {
		count.received.Add(1)
		count.malformed.Add(1)
	}
}

// find asks the kernel for the numbers of family and group.
func find() (family uint16, group uint32, err error) {
	f, err := netlink.GenlFamilyGet(familyName)
	if errors.Is(err, unix.ENOENT) {
		return 0, 0, ErrFamily
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look up the kernel's family %s: %w", familyName, err)
	}
	for _, g := range f.Groups {
		if g.Name == groupName {
			return f.ID, g.ID, nil
		}
	}
	return 0, 0, ErrGroup
}
