// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// set is a set of a message: its id, then the body.
func set(id uint16, body ...byte) []byte {
	return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, id), uint16(4+len(body))), body...)
}

// rawMessage is a message of arbitrary sets.
func rawMessage(domain uint32, sets ...[]byte) []byte {
	body := slices.Concat(sets...)
	b := binary.BigEndian.AppendUint16(nil, ipfix.Version)
	b = binary.BigEndian.AppendUint16(b, uint16(16+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(start.Unix()))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, domain)
	return append(b, body...)
}

// Each error in a message is counted by its cause, and the exporter continues in the
// same session.
func TestMalformed(t *testing.T) {
	good := newExporter(t, ipfix.UDP, 1).message(start, 0, packet(0)...)
	template := set(2, 1, 0, 0, 1, 0, 8, 0, 4)
	for _, tt := range []struct {
		name   string
		octets []byte
		cause  ipfix.Cause
	}{
		{"nothing", nil, ipfix.CauseTruncatedMessage},
		{"a header cut short", good[:15], ipfix.CauseTruncatedMessage},
		{"cut within a record", good[:len(good)-1], ipfix.CauseTruncatedMessage},
		{"NetFlow 9", append([]byte{0, 9}, good[2:]...), ipfix.CauseVersion},
		{"longer than it says", append(bytes.Clone(good), 0), ipfix.CauseMessageLength},
		{"a set beyond the message", rawMessage(2, []byte{1, 0, 0, 200, 0, 0}), ipfix.CauseTruncatedSet},
		{"a set within its header", rawMessage(2, []byte{1, 0, 0, 3}), ipfix.CauseTruncatedSet},
		{"half a template", rawMessage(2, set(2, 1, 0, 0, 2, 0, 8, 0, 4)), ipfix.CauseTruncatedTemplate},
		{"half a record", rawMessage(2, template, set(256, 1, 2, 3)), ipfix.CauseTruncatedRecord},
		{"data before their template", rawMessage(2, set(999, 1, 2, 3, 4)), ipfix.CauseUnknownTemplate},
		{"reserved set", rawMessage(2, set(100, 1, 2, 3, 4)), ipfix.CauseReservedSet},
		{"template of number 1", rawMessage(2, set(2, 0, 1, 0, 1, 0, 8, 0, 4)), ipfix.CauseTemplateInvalid},
		{"withdrawal over UDP", rawMessage(2, set(2, 1, 0, 0, 0)), ipfix.CauseWithdrawalUDP},
		{"options about an unknown template", rawMessage(2, set(3, 1, 1, 0, 2, 0, 1, 0, 145, 0, 2, 0, 41, 0, 8), set(257, 3, 3, 0, 0, 0, 0, 0, 0, 0, 1)), ipfix.CauseOptionsBeforeTemplate},
		{"an address of three octets", rawMessage(2, set(2, 1, 0, 0, 1, 0, 8, 0, 3)), ipfix.CauseFieldLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, out, send := offline(t, Config{}, ipfix.UDP)
			send(tt.octets)
			problems := c.Stats().Problems
			if problems[tt.cause] != 1 {
				t.Errorf("problems %v, want one of %v", problems, tt.cause)
			}
			problems[tt.cause] = 0
			if problems != [ipfix.NumCauses]uint64{} {
				t.Errorf("further problems: %v", problems)
			}
			out.events = nil
			if send(good); len(out.all()) != 1 {
				t.Errorf("%d paths after it, want 1", len(out.all()))
			}
		})
	}
}

// heap is the memory in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Senders who flood with templates, sessions, domains, names and postcards
// make memory grow up to a bound, and no further.
func TestFloods(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flood func(t *testing.T, c *Collector, n int)
		check func(t *testing.T, c *Collector)
	}{
		{"templates", func(t *testing.T, c *Collector, n int) {
			s := session(t, c, 1)
			for i := range n {
				fields := bytes.Repeat([]byte{0, 8, 0, 4}, 200)
				c.message(s, join.Exporter{}, rawMessage(uint32(i%70), set(2, append([]byte{byte(1 + i>>8), byte(i), 0, 200}, fields...)...)))
			}
		}, func(t *testing.T, c *Collector) {
			if n := c.decoder.Templates(); n > 1024 || c.Stats().Problems[ipfix.CauseTemplateLimit] == 0 ||
				c.Stats().Problems[ipfix.CauseDomainLimit] == 0 {
				t.Errorf("%d templates", n)
			}
		}},
		{"sessions", func(t *testing.T, c *Collector, n int) {
			d, message := &datagrams{receiving: c.receiving}, newExporter(t, ipfix.UDP, 1).message(start, 0, packet(0)[0])
			for i := range n {
				d.receiveDatagram(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 4739), message)
				c.join(<-c.arrivals, c.arrivals)
			}
		}, func(t *testing.T, c *Collector) {
			if n := c.decoder.Sessions(); n > 1024 || c.Stats().SessionsRefused == 0 {
				t.Errorf("%d sessions, %d refused", n, c.Stats().SessionsRefused)
			}
		}},
		{"names", func(t *testing.T, c *Collector, n int) {
			x, s := newExporter(t, ipfix.UDP, 1), session(t, c, 1)
			for i := range n {
				c.message(s, join.Exporter{}, x.message(start, 1,
					fields{num("observationDomainId", uint64(i)), {"observationDomainName", strings.Repeat("x", 250)}},
				))
				c.message(s, join.Exporter{}, x.message(start, 1, fields{num("ingressInterface", uint64(i+1)), {"interfaceName", "eth0"}}))
			}
		}, func(t *testing.T, c *Collector) {
			if len(c.names.nodes) != nodenames.MaxNodes || len(c.names.interfaces) > nodenames.MaxInterfaces ||
				c.Stats().NamesRefused == 0 {
				t.Errorf("%d names of nodes, %d of interfaces, %d refused", len(c.names.nodes), len(c.names.interfaces), c.Stats().NamesRefused)
			}
		}},
		{"postcards", func(t *testing.T, c *Collector, n int) {
			x, s := newExporter(t, ipfix.UDP, 1), session(t, c, 1)
			for i := range n {
				c.message(s, join.Exporter{}, x.message(start, 0, packet(uint64(i))[1]))
			}
		}, func(t *testing.T, c *Collector) {
			if c.shards.countKept() != 5000 || c.Stats().Join.Paths[record.PathEvicted] == 0 {
				t.Errorf("%d postcards are kept, %d paths evicted", c.shards.countKept(), c.Stats().Join.Paths[record.PathEvicted])
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New(Config{Enterprise: enterprise, Join: join.Config{Keep: 5000, Wait: time.Hour}, Sinks: []sink.Sink{new(discard)}})
			if err != nil {
				t.Fatal(err)
			}
			tt.flood(t, c, 6000)
			full := heap()
			tt.flood(t, c, 12000)
			const more = 4 << 20
			if now := heap(); now > full+more {
				t.Errorf("it holds %d bytes more than before", now-full)
			}
			tt.check(t, c)
		})
	}
}

// discard is a sink that keeps nothing.
type discard struct{ memory }

func (*discard) Offer(...record.Record) {}

func session(t testing.TB, c *Collector, n uint16) *ipfix.Session {
	t.Helper()
	s, err := c.decoder.Open(ipfix.SessionKey{Transport: ipfix.UDP, Exporter: netip.AddrPortFrom(netip.IPv6Loopback(), n)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Octets at random, and good messages with some octets changed, over real sockets: the
// receiver survives, and still serves an exporter.
func TestNoise(t *testing.T) {
	c, out, at := run(t, Config{MessageTimeout: 50 * time.Millisecond}, "udp://[::1]:0", "tcp://[::1]:0")
	r := rand.New(rand.NewPCG(1, 2))
	good := newExporter(t, ipfix.UDP, 1).message(start, 0, packet(0)...)
	datagrams := dial(t, at[0])
	for n := range 3000 {
		octets := bytes.Clone(good)
		if n%2 == 0 {
			octets = make([]byte, r.IntN(300))
			for i := range octets {
				octets[i] = byte(r.Uint32())
			}
		}
		for range 1 + r.IntN(8) {
			if len(octets) > 0 {
				octets[r.IntN(len(octets))] = byte(r.Uint32())
			}
		}
		send(t, datagrams, octets)
		if n%100 == 0 {
			conn := dial(t, at[1])
			send(t, conn, octets)
			conn.Close()
		}
	}
	conn := dial(t, at[1])
	send(t, conn, newExporter(t, ipfix.TCP, 1).message(start, 0, packet(1<<20)...))
	eventually(t, "a path", func() bool {
		for _, e := range out.all() {
			if p, ok := e.(*record.Path); ok && p.Sequence == 1<<20 && p.Complete {
				return true
			}
		}
		return false
	})
	eventually(t, "every datagram is accounted for", func() bool {
		s := c.Stats()
		return s.Octets > 0 && s.Problems[ipfix.CauseVersion] > 1000
	})
}

// Names are printed on terminals, which some characters control.
func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"athos": "athos", "größe": "größe", "a b": "a b", "a\x1b[2Jb": `"a\x1b[2Jb"`, "a\nb": `"a\nb"`, "\u202eabc": `"\u202eabc"`,
		strings.Repeat("ä", 100): strings.Repeat("ä", 32),
	} {
		if got := record.Printable(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}
