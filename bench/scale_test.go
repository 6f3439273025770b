// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
)

// What is called the default is what a configuration has by default.
func TestDefaultNextHops(t *testing.T) {
	c, err := config.Parse("node.yaml", []byte("node: {id: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if int(c.Node.NextHops) != defaultNextHops {
		t.Errorf("%d next hops by default", c.Node.NextHops)
	}
}

// All benchmarks in short have to fit into ten minutes, with the lines raised
// and between the measurements: on a quiet machine, a line takes about a quarter
// of a second, and what is around a measurement 15 ms.
func TestShortFormIsShort(t *testing.T) {
	const perLine, perBurst, footprint, most = 250 * time.Millisecond, 15 * time.Millisecond, time.Minute, 8 * time.Minute
	all := footprint
	for _, b := range All() {
		all += b.Short.Duration
		if b.make == nil {
			continue
		}
		e, lines := b.make().brief(), make(map[string]bool)
		for _, v := range e.variants {
			for _, member := range (turn{v}).members() {
				lines[member.lineKey()] = true
			}
		}
		all += time.Duration(len(lines))*perLine + time.Duration(b.Short.Rounds*e.bursts())*perBurst
	}
	if all > most {
		t.Errorf("%v", all)
	} else {
		t.Logf("%v", all)
	}
}
