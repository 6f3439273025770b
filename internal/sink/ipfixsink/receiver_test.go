// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/elements"
)

// receiver is our own collector, which decodes what arrives.
type receiver struct {
	t       testing.TB
	decoder *ipfix.Decoder

	mu       sync.Mutex
	messages []*ipfix.Message
	data     int // data records that are not options
	missed   uint64
	lacking  map[*ipfix.Session]uint64
	seen     int // octets of template sets
	closers  []io.Closer
	conns    []*net.TCPConn
	ended    sync.WaitGroup
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(testEnterprise))
	if err != nil {
		t.Fatal(err)
	}
	return &receiver{t: t, decoder: ipfix.NewDecoder(ipfix.DecoderConfig{Registry: registry})}
}

func (r *receiver) decodeMessage(s *ipfix.Session, b []byte) {
	m, err := s.Decode(b, time.Now())
	if err != nil {
		r.t.Errorf("message of %d octets: %v", len(b), err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range m.Problems {
		if p.Cause != ipfix.CauseSequenceGap {
			r.t.Errorf("message of %d octets: %v", len(b), &p)
		}
	}
	if r.lacking == nil {
		r.lacking = map[*ipfix.Session]uint64{}
	}
	lacking := m.Counted.Awaited() + m.Counted.Missed // nothing changes places here
	r.missed, r.lacking[s] = r.missed+lacking-r.lacking[s], lacking
	for _, set := range m.Sets {
		if set.Template.Scope() == 0 {
			for range set.Records() {
				r.data++
			}
		}
	}
	r.messages = append(r.messages, m)
	r.seen += templateOctets(b)
}

func (r *receiver) records() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data
}

// listen serves a transport.
func (r *receiver) listen(transport Transport, address string) string {
	r.t.Helper()
	if transport == UDP {
		return r.udp(address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.stream(l)
	return l.Addr().String()
}

// accounted is how many data records were received, or are known to be missing.
func (r *receiver) accounted() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return uint64(r.data) + r.missed
}

// udp listens on an address; the one it returns has the port.
func (r *receiver) udp(address string) string {
	r.t.Helper()
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", a)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = conn.SetReadBuffer(8 << 20) // as much as the system allows
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	r.closers = append(r.closers, conn)
	r.ended.Add(1)
	go func() {
		defer r.ended.Done()
		sessions := map[netip.AddrPort]*ipfix.Session{}
		for {
			b := make([]byte, 65536)
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if sessions[from] == nil {
				sessions[from] = r.open(ipfix.UDP, from, local)
			}
			r.decodeMessage(sessions[from], b[:n])
		}
	}()
	return local.String()
}

func (r *receiver) open(transport ipfix.Transport, from, to netip.AddrPort) *ipfix.Session {
	s, err := r.decoder.Open(ipfix.SessionKey{Transport: transport, Exporter: from, Collector: to}, time.Now())
	if err != nil {
		r.t.Error(err)
	}
	return s
}

// stream serves a listener of connections.
func (r *receiver) stream(l net.Listener) {
	r.closers = append(r.closers, l)
	r.ended.Add(1)
	go func() {
		defer r.ended.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.closers = append(r.closers, conn)
			if tcp, ok := conn.(*net.TCPConn); ok {
				r.conns = append(r.conns, tcp)
			}
			r.mu.Unlock()
			r.ended.Add(1)
			go func() {
				defer r.ended.Done()
				defer conn.Close()
				var s *ipfix.Session
				for {
					b, err := ipfix.ReadMessage(conn, nil)
					if err != nil {
						if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
							r.t.Logf("connection ended: %v", err)
						}
						return
					}
					if s == nil {
						s = r.open(ipfix.TCP, conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort())
					}
					r.decodeMessage(s, b)
				}
			}()
		}
	}()
}

// templateOctets counts the octets of template sets.
func templateOctets(b []byte) (octets int) {
	for b = b[16:]; len(b) >= 4; {
		length := int(binary.BigEndian.Uint16(b[2:]))
		if id := binary.BigEndian.Uint16(b); id == 2 || id == 3 {
			octets += length
		}
		b = b[length:]
	}
	return octets
}

// shutdown ends like a well-behaved collector: it accepts no more data, and reads what
// has arrived.
func (r *receiver) shutdown() {
	r.mu.Lock()
	r.closers[0].Close()
	conns := r.conns
	r.mu.Unlock()
	for _, c := range conns {
		_ = c.CloseWrite() // the exporter ends then
	}
	r.ended.Wait()
}

// kill ends like a killed process: unread data is lost.
func (r *receiver) kill() {
	r.mu.Lock()
	for _, c := range r.conns {
		_ = c.SetLinger(0) // a reset, as for unread octets
	}
	r.mu.Unlock()
	r.close()
}

func (r *receiver) close() {
	r.mu.Lock()
	for _, c := range r.closers {
		c.Close()
	}
	r.closers = nil
	r.mu.Unlock()
	r.ended.Wait()
}

// options are the values of options records, with ELEMENT=VALUE, scope first.
func (r *receiver) options() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.messages {
		for _, set := range m.Sets {
			if set.Template.Scope() == 0 {
				continue
			}
			for record := range set.Records() {
				list = append(list, strings.Join(elements.Of(record), " "))
			}
		}
	}
	return list
}

// templates is how many octets of templates arrived.
func (r *receiver) templates() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}
