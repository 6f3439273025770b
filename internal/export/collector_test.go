// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/ipfix"
)

const testEnterprise = ipfix.EnterpriseExample

func newIPFIX(t testing.TB) *IPFIX {
	t.Helper()
	x, err := NewIPFIX(testEnterprise)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func testFacts() Facts {
	return Facts{Node: "porthos", Interfaces: []Link{{2, "eth0"}, {3, "eth1"}}, Suppressed: 11, Lost: 12}
}

func newCollector(t testing.TB, x *IPFIX, c CollectorConfig) *Collector {
	t.Helper()
	if c.Refresh == 0 {
		c.Refresh = time.Minute
	}
	out, err := NewCollector(c, x, testFacts, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs an exporter; the function it returns ends it.
func run(c *Collector) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// receiver is a collector of our own, which decodes what arrives.
type receiver struct {
	t       testing.TB
	decoder *ipfix.Decoder

	mu       sync.Mutex
	messages []*ipfix.Message
	data     int // data records that are not options
	missed   uint64
	opened   int
	closers  []io.Closer
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

func (r *receiver) take(s *ipfix.Session, b []byte) {
	m, err := s.Decode(b, time.Now())
	if err != nil {
		r.t.Errorf("message of %d octets: %v", len(b), err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range m.Problems {
		if p.Cause == ipfix.CauseSequenceGap {
			r.missed += uint64(p.Count)
		} else {
			r.t.Errorf("message of %d octets: %v", len(b), &p)
		}
	}
	for _, set := range m.Sets {
		if set.Template.Scope() == 0 {
			for range set.Records() {
				r.data++
			}
		}
	}
	r.messages = append(r.messages, m)
}

func (r *receiver) records() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data
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
			r.take(sessions[from], b[:n])
		}
	}()
	return local.String()
}

func (r *receiver) open(transport ipfix.Transport, from, to netip.AddrPort) *ipfix.Session {
	s, err := r.decoder.Open(ipfix.SessionKey{Transport: transport, Exporter: from, Collector: to}, time.Now())
	if err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened++
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
					r.take(s, b)
				}
			}()
		}
	}()
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

func TestCollectorUDP(t *testing.T) {
	for _, address := range []string{"[::1]:0", "127.0.0.1:0"} {
		r := newReceiver(t)
		x := newIPFIX(t)
		c := newCollector(t, x, CollectorConfig{Transport: UDP, Address: r.udp(address), Domain: 2, MessageSize: 1400})
		stop := run(c)
		p := postcard(t)
		for range 1000 {
			x.Offer(p, []*Collector{c})
			time.Sleep(time.Microsecond)
		}
		x.Offer(flow(), []*Collector{c})
		waitFor(t, "all", func() bool { return r.records() == 1001 && c.Stats().Written == 1001 })
		stop()
		r.close()
		t.Logf("%+v", c.Stats())
	}
}

// BenchmarkCollectorUDP is the whole way of a record: encoded, queued, packed,
// and sent over the loopback interface, where nobody reads it.
func BenchmarkCollectorUDP(b *testing.B) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	x := newIPFIX(b)
	c := newCollector(b, x, CollectorConfig{Transport: UDP, Address: conn.LocalAddr().String(), MessageSize: 1452})
	to := []*Collector{c}
	stop := run(c)
	p := postcard(b)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		x.Offer(p, to)
	}
	stop()
	spent := cpuTime(b) - before
	s := c.Stats()
	if s.Written+s.Missed() != s.Offered || s.Offered != uint64(b.N) {
		b.Errorf("%d records were offered, and %+v", b.N, s)
	}
	b.ReportMetric(float64(s.Written)/spent.Seconds(), "sent/cpu-s") // other work of the machine does not count
	b.ReportMetric(float64(s.Octets)/float64(s.Messages), "octets/message")
	b.ReportMetric(100*float64(s.Missed())/float64(s.Offered), "%missed")
}

// cpuTime is what the process has used of any CPU.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
