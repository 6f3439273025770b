// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ipfix"
)

// Several readers share an endpoint: what each exporter sends stays in its order, whichever socket has it, so that
// data follow their templates and no message counts as missing.
func TestReaders(t *testing.T) {
	const exporters, messages = 32, 20
	c, _, at := run(t, Config{Readers: 4}, "udp://[::1]:0")
	d := c.sockets[0].(*datagrams)
	if len(d.sockets) != 4 || len(at) != 1 {
		t.Fatalf("%d sockets, %d endpoints", len(d.sockets), len(at))
	}
	for _, s := range d.sockets[1:] {
		if got, want := s.conn.LocalAddr().String(), d.sockets[0].conn.LocalAddr().String(); got != want {
			t.Errorf("a socket is at %s, want %s", got, want)
		}
	}
	type node struct {
		x    *exporter
		conn net.Conn
	}
	var nodes []node
	for i := range exporters {
		nodes = append(nodes, node{newExporter(t, ipfix.UDP, uint32(i+1)), dial(t, at[0])})
	}
	for k := range messages { // only the first message of each has the templates
		for i := range nodes {
			card := packet(uint64(k*exporters + i))[0].with(field{"observationTimeNanoseconds", time.Now()})
			send(t, nodes[i].conn, nodes[i].x.message(time.Now(), 0, card))
		}
		eventually(t, "a round", func() bool { return c.Stats().Messages == uint64((k+1)*exporters) })
	}
	s := c.Stats()
	for _, cause := range s.Malformed() {
		if cause.Value > 0 {
			t.Errorf("%s: %d", cause.Name, cause.Value)
		}
	}
	if s.Records != exporters*messages || s.SocketDropped > 0 {
		t.Errorf("%d records of %d, %d dropped", s.Records, exporters*messages, s.SocketDropped)
	}

	e := at[0]
	other, err := New(Config{Listen: []Endpoint{e}, Enterprise: enterprise, Readers: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Open(); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a second collector shares the sockets of the first: %v", err)
	}
}

// BenchmarkReaders sends datagrams from eight exporters over loopback, and waits for what is not read yet.
func BenchmarkReaders(b *testing.B) {
	for _, readers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			c, _, at := run(b, Config{Readers: readers}, "udp://[::1]:0")
			const exporters, batch, outstanding = 8, 10, 512
			var messages [exporters][]byte
			var conns [exporters]net.Conn
			for i := range exporters {
				var cards []fields
				for k := range uint64(batch) {
					cards = append(cards, packet(k)[0].with(field{"observationTimeNanoseconds", time.Now()}))
				}
				conns[i] = dial(b, at[0])
				messages[i] = newExporter(b, ipfix.UDP, uint32(i+1)).message(time.Now(), 0, cards...)
			}
			sent := uint64(0)
			b.ResetTimer()
			for b.Loop() {
				send(b, conns[sent%exporters], messages[sent%exporters])
				if sent++; sent%outstanding == 0 {
					for c.Stats().Messages+outstanding < sent {
						time.Sleep(50 * time.Microsecond)
					}
				}
			}
			for c.Stats().Messages < sent {
				time.Sleep(50 * time.Microsecond)
			}
			b.ReportMetric(float64(c.Stats().Records)/b.Elapsed().Seconds(), "postcards/s")
		})
	}
}
