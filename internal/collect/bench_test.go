// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// BenchmarkCollect takes messages of ten postcards from three nodes in turn, joins them
// and writes JSON lines: everything except the socket.
// encoded is a sink that makes lines, and keeps none.
type encoded struct {
	memory
	line []byte
}

func (e *encoded) Offer(records ...record.Record) {
	for _, r := range records {
		e.line = record.AppendLine(e.line[:0], r)
	}
}

func BenchmarkCollect(b *testing.B) {
	const batch = 10
	c, _, _ := offline(b, Config{}, ipfix.UDP)
	c.output.sinks[0] = new(encoded)
	type node struct {
		x    *exporter
		card int
	}
	nodes := []node{{newExporter(b, ipfix.UDP, 1), 0}, {newExporter(b, ipfix.UDP, 2), 1}, {newExporter(b, ipfix.UDP, 3), 2}}
	s, now := session(b, c, 1), time.Now()
	var messages [][]byte
	const rounds = 500 // of messages, which then come again as other packets
	for round := range uint64(rounds) {
		for _, n := range nodes {
			var cards []fields
			for i := range uint64(batch) {
				card := packet(round*batch + i)[n.card].with(field{"observationTimeNanoseconds", now})
				cards = append(cards, card)
			}
			messages = append(messages, n.x.message(now, 0, cards...))
		}
	}
	b.ReportAllocs()
	count := 0
	for b.Loop() {
		if count == len(messages) {
			b.StopTimer()
			c.flush(time.Now().Add(time.Hour)) // forgets all
			c.flush(time.Now().Add(2 * time.Hour))
			count = 0
			b.StartTimer()
		}
		c.message(s, join.Exporter{}, messages[count])
		count++
	}
	b.ReportMetric(float64(c.stats.Data[record.DataPostcard])/b.Elapsed().Seconds(), "postcards/s")
	if p := c.Stats().Join; p.Paths[0] == 0 || p.Late > 0 {
		b.Fatalf("%+v", p)
	}
}
