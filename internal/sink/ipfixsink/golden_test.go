// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// goldenAt is a time with every digit.
var goldenAt = time.Date(2026, 11, 21, 5, 21, 0, 123456789, time.UTC)

// The options records: names of the node and its interfaces, and statistics.
func TestGoldenOptions(t *testing.T) {
	x := newEncoder(t)
	c, err := New(Config{Transport: TCP, Address: "[::1]:4739", Domain: 2, Refresh: time.Minute}, x, testEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	c.now = func() time.Time { return goldenAt }
	c.process = 77
	c.exported.Store(1001)
	c.messages.Store(1002)
	c.octets.Store(1003)
	c.lost.Store(1004)
	c.unencodable.Store(1005)
	c.queue.dropped, c.queue.offered = 1006, 5000
	c.unsent.unsent = unsent{record.Weight{Packets: 1007, Octets: 1008}, goldenAt.Add(-time.Hour), goldenAt.Add(-time.Minute)}
	l := &recorded{}
	s, err := newSession(c, l)
	if err != nil {
		t.Fatal(err)
	}
	s.encoder.Start(s.out)
	if err := s.sendTemplatesAndFacts(goldenAt); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/options.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x\n", l.octets); got != string(want) {
		t.Errorf("got  %swant %s", got, want)
	}
}

// recorded is a link that records what is written.
type recorded struct{ octets []byte }

func (l *recorded) peer() net.Addr { return &net.TCPAddr{} }
func (l *recorded) limit() int     { return 1400 }
func (l *recorded) write(out []byte, _ []int) error {
	l.octets = append(l.octets, out...)
	return nil
}
func (l *recorded) confirmed() (uint64, []uint64, error) { return 0, nil, nil }
func (l *recorded) unread() uint64                       { return 0 }
func (l *recorded) gone() <-chan struct{}                { return nil }
func (l *recorded) ended() error                         { return nil }
func (l *recorded) finish()                              {}
func (l *recorded) close()                               {}
