// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

const testEnterprise = ipfix.EnterpriseExample

func testEnvironment() sink.Environment {
	return sink.Environment{Log: slog.New(slog.DiscardHandler), Facts: testFacts, Changes: &sink.Changes{}, Shared: &sync.Map{}}
}

func newEncoder(t testing.TB) *Encoder {
	t.Helper()
	x, err := NewEncoder(testEnterprise)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func testFacts() sink.Facts {
	links := []sink.Interface{
		{Index: 2, Name: "eth0", ID: 201, IDWide: ioam.InterfaceIDWideUnavailable},
		{Index: 3, Name: "eth1", Description: "to aramis", ID: 202, IDWide: 202202},
	}
	return sink.Facts{Node: "porthos", NodeID: 2, NodeIDWide: 22222222, Interfaces: links, Suppressed: 11, Lost: 12, Ignored: 123,
		FirstLoss: time.Date(2026, 11, 21, 5, 0, 1, 500, time.UTC), LastLoss: time.Date(2026, 11, 21, 5, 20, 59, 0, time.UTC)}
}

func newCollector(t testing.TB, x *Encoder, c Config) *Sink {
	t.Helper()
	if c.Refresh == 0 {
		c.Refresh = time.Minute
	}
	out, err := New(c, x, testEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs an exporter; the function it returns ends it.
func run(c *Sink) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// check fails unless the sums agree: every offered record was sent or lost.
func check(t testing.TB, c *Sink) sink.Stats {
	t.Helper()
	s := c.Stats()
	if s.Offered != s.Written+s.Missed() {
		t.Errorf("the sums do not agree: %+v", s)
	}
	return s
}

func offer(x *Encoder, c *Sink, r record.Record, n int) {
	for range n {
		x.offer([]record.Record{r}, []*Sink{c})
	}
}

func TestUDP(t *testing.T) {
	for _, address := range []string{"[::1]:0", "127.0.0.1:0"} {
		r, x := newReceiver(t), newEncoder(t)
		c := newCollector(t, x, Config{Transport: UDP, Address: r.udp(address), Domain: 2, MessageSize: 1400})
		stop := run(c)
		offer(x, c, postcard(t), 1000)
		offer(x, c, flow(), 10)
		offer(x, c, pathOfTwo(t), 10) // a record for each node
		waitFor(t, "receiving all", func() bool { return r.records() == 1030 })
		stop()
		s := check(t, c)
		r.close()
		if s.Written != 1030 || r.missed != 0 || s.Messages != uint64(len(r.messages)) {
			t.Errorf("%+v; received %d messages, missed %d", s, len(r.messages), r.missed)
		}
		full := 0
		for _, m := range r.messages {
			if m.Length > 1400 || m.Domain != 2 {
				t.Errorf("a message of %d octets of domain %d", m.Length, m.Domain)
			}
			if m.Length > 1400-150 {
				full++
			}
		}
		if full < 1000*130/1400 {
			t.Errorf("%d of %d messages are full", full, len(r.messages))
		}
	}
}

// What RFC 7011 §4 wants a collector to know, and the names.
func TestOptions(t *testing.T) {
	r, x := newReceiver(t), newEncoder(t)
	c := newCollector(t, x, Config{Transport: UDP, Address: r.udp("[::1]:0"), Domain: 2, Refresh: time.Second})
	cut := postcard(t)
	cut.Raw.Bytes = nil
	began := time.Now()
	offer(x, c, cut, 3)
	u := c.unsent.read()
	if u.first.Before(began) || u.last.Before(u.first) || u.last.After(time.Now()) {
		t.Errorf("given up between %v and %v", u.first, u.last)
	}
	stop := run(c)
	offer(x, c, postcard(t), 50)
	waitFor(t, "receiving all", func() bool { return r.records() == 50 })
	before := r.templates()
	waitFor(t, "templates again", func() bool { return r.templates() > before })
	waitFor(t, "statistics", func() bool { return len(r.options()) >= 12 })
	stop()
	r.close()
	list := r.options()
	name := hex.EncodeToString([]byte("porthos"))
	want := []string{
		"observationDomainId=2 observationDomainName=" + name + " ioamNodeId=2 ioamNodeIdWide=22222222",
		"ingressInterface=2 interfaceName=" + hex.EncodeToString(
			[]byte("eth0"),
		) + " interfaceDescription= ioamIngressInterfaceId=201 ioamIngressInterfaceIdWide=4294967295",
		"ingressInterface=3 interfaceName=" + hex.EncodeToString(
			[]byte("eth1"),
		) + " interfaceDescription=" + hex.EncodeToString(
			[]byte("to aramis"),
		) +
			" ioamIngressInterfaceId=202 ioamIngressInterfaceIdWide=202202",
		"observationDomainId=2 exportedMessageTotalCount=0 exportedFlowRecordTotalCount=0 exportedOctetTotalCount=0",
		"observationDomainId=2 ignoredPacketTotalCount=123 observationTimeSeconds=2026-11-21T05:00:01Z observationTimeSeconds=2026-11-21T05:20:59Z " +
			"ioamSuppressedRecordTotalCount=11 ioamLostRecordTotalCount=12",
		fmt.Sprintf(
			"exportingProcessId=%d notSentFlowTotalCount=3 notSentPacketTotalCount=3 notSentOctetTotalCount=384 "+
				"observationTimeMilliseconds=%s observationTimeMilliseconds=%s "+
				"ioamQueueFullRecordTotalCount=0 ioamConnectionLostRecordTotalCount=0 ioamUnencodableRecordTotalCount=3",
			c.process,
			u.first.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano),
			u.last.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano),
		),
	}
	if !slices.Equal(list[:6], want) {
		t.Errorf("at first\n%s\nwant\n%s", strings.Join(list[:6], "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(list[9], "exportedFlowRecordTotalCount=50 exportedOctetTotalCount=") {
		t.Errorf("then\n%s", list[9])
	}
}

// An unreachable collector costs only the records that the queue has no room for.
func TestCollectorAway(t *testing.T) {
	for _, transport := range []Transport{UDP, TCP} {
		r, x := newReceiver(t), newEncoder(t)
		address := r.listen(transport, "[::1]:0")
		r.close()
		c := newCollector(t, x, Config{Transport: transport, Address: address, MessageSize: 1400, Refresh: time.Second})
		stop := run(c)
		waitFor(t, "a refusal", func() bool { return strings.Contains(c.Stats().Error, "refused") })
		p := postcard(t)
		began := time.Now()
		for c.Stats().Dropped == 0 {
			offer(x, c, p, 1000)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the one who offers waited: %v", took)
		}
		if s := c.Stats(); s.Connected || s.Written != 0 || s.Waiting()*100 > maxBlocks*blockLen {
			t.Errorf("%s: %+v", transport, s)
		}
		offered := c.Stats().Offered
		back := newReceiver(t)
		back.listen(transport, address)
		waitFor(t, "reaching it again", func() bool { s := c.Stats(); return s.Connected && s.Waiting() == 0 })
		// On a busy machine, a refusal may come when its datagram counts as delivered.
		isAll := func(s sink.Stats) bool {
			n := back.accounted()
			return n == s.Written || transport == UDP && n < s.Written && n+s.Unsure >= s.Written
		}
		// The next statistics report to a collector what it has missed.
		all := func() bool { return isAll(c.Stats()) }
		if !reached(all) {
			t.Errorf("%s: accounted for %d of %+v", transport, back.accounted(), c.Stats())
		}
		stop()
		s := check(t, c)
		back.close()
		if s.Offered != offered || s.Lost != 0 || s.Error != "" || !isAll(s) {
			t.Errorf("%s: received %d, missed %d, of %+v", transport, back.records(), back.missed, s)
		}
		if transport == TCP && back.missed != 0 {
			t.Errorf("missed %d over TCP", back.missed)
		}
	}
}

// A collector that reads everything before its restart gets every record.
func TestRestarts(t *testing.T) {
	x := newEncoder(t)
	r := newReceiver(t)
	address := r.listen(TCP, "[::1]:0")
	c := newCollector(t, x, Config{Transport: TCP, Address: address})
	stop := run(c)
	p := postcard(t)
	received := 0
	for n := range 6 {
		waitFor(t, "reaching it", func() bool { return c.Stats().Connected })
		offer(x, c, p, 5000)
		if n%2 == 0 {
			want := received + 1
			waitFor(t, "receiving some", func() bool { return r.records() >= want-received })
		}
		r.shutdown()
		received += r.records()
		if r.missed != 0 {
			t.Errorf("missed %d", r.missed)
		}
		offer(x, c, p, 100) // while it is away
		r = newReceiver(t)
		r.listen(TCP, address)
	}
	waitFor(t, "sending all", func() bool { return c.Stats().Waiting() == 0 })
	stop()
	s := check(t, c)
	r.shutdown()
	received += r.records()
	// a collector that is too slow to close breaks the connection
	if s.Offered != 30600 || received+int(s.Unsure) < int(s.Written) || received > int(s.Written+s.Unacknowledged) || s.Missed() != 0 {
		t.Errorf("received %d of %+v", received, s)
	}
	t.Logf("received %d, %d of them twice", received, received-int(s.Written))
}

// Collectors that are killed at full rate, with unread data: the sums agree, and every
// record that arrives was offered.
func TestKilledCollectors(t *testing.T) {
	for _, transport := range []Transport{UDP, TCP} {
		x, r := newEncoder(t), newReceiver(t)
		address := r.listen(transport, "[::1]:0")
		c := newCollector(t, x, Config{Transport: transport, Address: address})
		stop := run(c)
		p, over, offering := postcard(t), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(offering)
			for {
				select {
				case <-over:
					return
				default:
					offer(x, c, p, 100)
					time.Sleep(100 * time.Microsecond)
				}
			}
		}()
		received := 0
		for range 5 {
			before := c.Stats().Messages
			waitFor(t, "sending", func() bool { return c.Stats().Connected && c.Stats().Messages > before+100 })
			r.kill()
			received += r.records()
			waitFor(t, "noticing it", func() bool { return !c.Stats().Connected })
			r = newReceiver(t)
			r.listen(transport, address)
		}
		waitFor(t, "reaching it", func() bool { return c.Stats().Connected })
		close(over)
		<-offering
		waitFor(t, "sending all", func() bool { return c.Stats().Waiting() == 0 })
		stop()
		s := check(t, c)
		r.close()
		received += r.records()
		if s.Lost+s.Unencodable != 0 || received == 0 || received > int(s.Offered) || s.Messages == 0 {
			t.Errorf("%s: received %d of %+v", transport, received, s)
		}
		if transport == TCP && (s.Unsure == 0 || int(s.Written) > received+int(s.Unsure) || received > int(s.Written+s.Unacknowledged)) {
			t.Errorf("received %d of %+v, beyond its bounds", received, s)
		}
		t.Logf("%s: received %d of %+v", transport, received, s)
	}
}

// A collector that reads nothing does not make callers wait, and no record that was
// counted as lost is delivered.
func TestStalledCollector(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x := newEncoder(t)
	c := newCollector(t, x, Config{Transport: TCP, Address: l.Addr().String()})
	stop := run(c)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := postcard(t)
	for c.Stats().Dropped == 0 {
		offer(x, c, p, 1000)
	}
	if q := c.queue; len(q.blocks)+q.blocksTaken > maxBlocks+1 {
		t.Errorf("%d blocks, %d taken", len(q.blocks), q.blocksTaken)
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took > 2*closingTime+time.Second {
		t.Errorf("the end took %v", took)
	}
	if s := check(t, c); s.Lost == 0 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkCollectorUDP is the whole way of a record: encoded, queued, packed,
// and sent over the loopback interface, where no one reads it.
func BenchmarkCollectorUDP(b *testing.B) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	x := newEncoder(b)
	c := newCollector(b, x, Config{Transport: UDP, Address: conn.LocalAddr().String(), MessageSize: 1452})
	to := []*Sink{c}
	stop := run(c)
	p := postcard(b)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		x.offer([]record.Record{p}, to)
	}
	stop()
	spent := cpuTime(b) - before
	s := c.Stats()
	if s.Written+s.Missed() != s.Offered || s.Offered != uint64(b.N) {
		b.Errorf("%d records were offered, and %+v", b.N, s)
	}
	b.ReportMetric(float64(s.Written)/spent.Seconds(), "sent/cpu-s") // other work of the machine does not count
	b.ReportMetric(float64(s.Octets)/float64(s.Messages), "octets/message")
	b.ReportMetric(float64(usage(b).Maxrss)/1024, "MiB-resident") // with the test's own
	b.ReportMetric(100*float64(s.Missed())/float64(s.Offered), "%missed")
}

// cpuTime is what the process has used of any CPU.
func cpuTime(t testing.TB) time.Duration {
	u := usage(t)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func usage(t testing.TB) (u unix.Rusage) {
	t.Helper()
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return u
}

// An exporter that ends before it has a session exports what is queued: as it starts, and where the
// collector came back between two attempts.
func TestEndsWithoutSession(t *testing.T) {
	t.Parallel()
	for _, transport := range []Transport{UDP, TCP} {
		for _, away := range []bool{false, true} {
			x, r := newEncoder(t), newReceiver(t)
			address := r.listen(transport, "[::1]:0")
			if away {
				r.kill()
			}
			c := newCollector(t, x, Config{Transport: transport, Address: address})
			offer(x, c, postcard(t), 100)
			ctx, cancel := context.WithCancel(t.Context())
			if away {
				ended := make(chan struct{})
				go func() { defer close(ended); c.Run(ctx) }()
				waitFor(t, "noticing that it is away", func() bool { return c.Stats().Error != "" })
				r = newReceiver(t)
				r.listen(transport, address)
				cancel()
				<-ended
			} else {
				cancel()
				c.Run(ctx)
			}
			waitFor(t, "receiving all", func() bool { return r.records() >= 100 })
			if s := c.Stats(); s.Written != 100 || s.Missed() != 0 {
				t.Errorf("%s, away at first: %v: %+v", transport, away, s)
			}
			r.shutdown()
		}
	}
}
