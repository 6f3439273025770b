// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
)

// Control sets an option of a socket.
func Control(conn *net.UDPConn, level, option, value int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(err, set)
}

// SentHeaders collects the Hop-by-Hop headers of what an interface sends.
func SentHeaders(t *testing.T, l *lab.Lab, node, name string) (stop func() [][]byte) {
	t.Helper()
	var mu sync.Mutex
	var headers [][]byte
	c, err := l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
		const at, icmpv6, routerAlert = 14 + 40, 58, 5
		if !p.Outgoing || len(p.Data) < at+8 || p.Data[12] != 0x86 || p.Data[13] != 0xdd || p.Data[20] != 0 {
			return
		}
		if p.Data[at] == icmpv6 && p.Data[at+2] == routerAlert {
			return // a report of MLD (RFC 3810 §5), which the stack sends at any time
		}
		length := min(8+8*int(p.Data[at+1]), len(p.Data)-at)
		mu.Lock()
		defer mu.Unlock()
		headers = append(headers, bytes.Clone(p.Data[at:at+length]))
	}})
	if err != nil {
		t.Fatal(err)
	}
	return func() [][]byte {
		if _, err := c.Stop(); err != nil {
			t.Error(err)
		}
		return headers
	}
}

// Scan counts IOAM in what an interface receives until the test ends it.
type Scan struct {
	capture                    *lab.Capture
	Packets, Marked, IOAMBytes atomic.Int64
	Longest                    atomic.Int64 // bytes of an IPv6 packet
}

// StartScan scans what arrives at an interface of a node.
func StartScan(t *testing.T, l *lab.Lab, node, name string) *Scan {
	t.Helper()
	s := &Scan{}
	var err error
	s.capture, err = l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing {
			return
		}
		s.Packets.Add(1)
		s.Longest.Store(max(s.Longest.Load(), int64(p.Length-14)))
		if n := lab.IOAMBytes(p.Data); n > 0 {
			s.Marked.Add(1)
			s.IOAMBytes.Add(int64(n))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Stop ends the scan.
func (s *Scan) Stop(t *testing.T) lab.CaptureStats {
	t.Helper()
	stats, err := s.capture.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return stats
}
