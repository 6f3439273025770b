// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// taker receives, at a node, what is sent to beta's port.
type taker struct {
	conn    *net.UDPConn
	done    sync.WaitGroup
	numbers []int
}

func startTaker(t *testing.T, n *lab.Node, s *stream) *taker {
	t.Helper()
	k := &taker{}
	err := e2e.Bind(n, func() (err error) {
		k.conn, err = net.ListenUDP("udp6", &net.UDPAddr{Port: 9000})
		return err
	})
	if err == nil {
		err = e2e.Control(k.conn, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.conn.Close() })
	k.done.Go(func() {
		for b := make([]byte, 2*s.size); ; {
			n, err := k.conn.Read(b)
			if err != nil {
				return
			}
			if number, ok := s.number(b[:n]); ok {
				k.numbers = append(k.numbers, number)
			}
		}
	})
	return k
}

// stop returns the numbers of the datagrams that it received.
func (k *taker) stop() []int {
	_ = k.conn.SetReadDeadline(time.Now().Add(patience.Of(300 * time.Millisecond)))
	k.done.Wait()
	return k.numbers
}

// tooBig is the MTU of each Packet Too Big, by the number of the datagram that it
// quotes.
type tooBig struct {
	mu   sync.Mutex
	mtus map[int][]uint32
}

func watchTooBig(t *testing.T, l *lab.Lab, s *stream, from string) (*tooBig, *lab.Capture) {
	t.Helper()
	b := &tooBig{mtus: map[int][]uint32{}}
	router := netip.MustParseAddr(from).As16()
	capture, err := l.Capture("alpha", "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing || len(p.Data) < 14+48 || p.Data[14+6] != 58 || p.Data[14+40] != 2 || [16]byte(p.Data[14+8:]) != router {
			return
		}
		if number, ok := s.quoted(p.Data[14:]); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.mtus[number] = append(b.mtus[number], binary.BigEndian.Uint32(p.Data[14+44:]))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b, capture
}
