// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
)

// clocksGiven are the errors that sinks get.
type clocksGiven []string

func (g *clocksGiven) add(r record.Record) {
	b := r.(*record.Block)
	*g = append(*g, fmt.Sprint(b.Node, " ", b.ClockError.Value))
}

// However many blocks there are, sinks get a record of each node in each interval, and the greatest error is among them.
func TestClockRecords(t *testing.T) {
	var given clocksGiven
	c := newClockRecords(10*time.Second, 1000, given.add)
	porthos, aramis := join.Exporter{Domain: 2}, join.Exporter{Domain: 3}
	said := func(from join.Exporter, node string, ns uint64, known bool, second int) {
		b := counted("gold", 1, 1, 2, 5)
		b.Node, b.ClockError = node, record.NewField(ns, known)
		c.add(from, b, start.Add(time.Duration(second)*time.Second))
	}
	is := func(want ...string) {
		t.Helper()
		if !slices.Equal(given, want) {
			t.Errorf("%q, want %q", given, want)
		}
		given = nil
	}
	said(porthos, "", 1, true, 0) // its name is not known yet
	said(porthos, "porthos", 1, false, 0)
	is()
	said(porthos, "porthos", 5, true, 0)
	is("porthos 5")
	for n := range 1000 { // a hundred flows
		said(porthos, "porthos", []uint64{7, 900, 8}[n%3], true, n/100)
	}
	said(aramis, "aramis", 6, true, 9)
	is("aramis 6")
	said(porthos, "porthos", 4, true, 10)
	is("porthos 900")
	said(porthos, "porthos", 3, true, 11)
	c.expire(start.Add(19 * time.Second))
	is()
	c.expire(start.Add(21 * time.Second)) // it is silent
	is("porthos 3")
	c.expire(start.Add(31 * time.Second))
	if len(c.nodes) != 0 {
		t.Errorf("%d nodes are kept", len(c.nodes))
	}
	said(porthos, "porthos", 2, true, 40)
	said(porthos, "porthos", 1, true, 41)
	c.finish()
	is("porthos 2", "porthos 1")
	for domain := range uint32(1010) {
		said(join.Exporter{Domain: domain}, "n", 1, true, 50)
	}
	if c.finish(); len(given) != 1000 {
		t.Errorf("%d records", len(given))
	}
	off := newClockRecords(0, 1000, given.add)
	off.add(porthos, counted("gold", 1, 1, 2, 5), start)
	if len(off.nodes) != 0 {
		t.Error("records were made without a reader")
	}
}
