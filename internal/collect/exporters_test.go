// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/ipfix"
)

// What is missing of an exporter, and how its clock differs, is known by exporter.
func TestExporters(t *testing.T) {
	c, _, send := offline(t, Config{}, ipfix.TCP)
	e := newExporter(t, ipfix.TCP, 7)
	message := func(at time.Time) []byte {
		return e.message(at, 0, postcard(1, 1, 64, 1, 0).with(field{"observationTimeNanoseconds", at}))
	}
	send(message(time.Now().Add(-time.Hour)))
	list, _ := c.Exporters()
	if len(list) != 1 || list[0].Domain != 7 || list[0].Messages != 1 || list[0].Records != 1 || list[0].Sessions[0].Transport != ipfix.TCP ||
		list[0].Sessions[0].Templates != 1 {
		t.Fatalf("%+v", list)
	}
	if behind := -list[0].Ahead; behind < time.Hour || behind > time.Hour+time.Minute || list[0].Lag < time.Hour {
		t.Errorf("an hour behind: %v, lag %v", list[0].Ahead, list[0].Lag)
	}
	message(time.Now()) // does not arrive
	send(message(time.Now().Add(time.Hour)))
	list, _ = c.Exporters()
	if one := list[0]; one.Missed != 1 || one.Messages != 2 || one.Ahead < time.Hour-time.Minute || one.Ahead > time.Hour ||
		one.Lag > -time.Hour+time.Minute {
		t.Errorf("%+v", one)
	}
}

// What is kept of exporters and of their sessions is bounded, and sums outlive sessions.
func TestExportersBounded(t *testing.T) {
	var e exporters
	at := start
	decoder := ipfix.NewDecoder(ipfix.DecoderConfig{})
	for i := range 3 * mostSessionsOfOne {
		session, err := decoder.Open(ipfix.SessionKey{Exporter: netip.AddrPortFrom(netip.IPv6LinkLocalAllNodes(), uint16(i))}, at)
		if err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second)
		m := &ipfix.Message{ExportTime: at, Counted: ipfix.SequenceState{Gaps: 5, Filled: 1, Missed: 2, Breaks: 1}}
		e.message(&arrival{session: session, at: at, message: m}, join.Exporter{})
	}
	one := e.all[join.Exporter{}]
	if over := uint64(2 * mostSessionsOfOne); len(one.sessions) != mostSessionsOfOne || one.before.Missed != 4*over ||
		one.before.Breaks != over {
		t.Errorf("%d sessions, %+v before", len(one.sessions), one.before)
	}
	for i := range mostExporters + 10 {
		e.message(&arrival{at: at, message: &ipfix.Message{ExportTime: at}}, join.Exporter{Domain: uint32(i)})
	}
	if len(e.all) != mostExporters || e.ignored != 10 {
		t.Errorf("%d exporters, %d messages of others", len(e.all), e.ignored)
	}
	at = at.Add(2 * time.Hour)
	if e.message(&arrival{at: at, message: &ipfix.Message{ExportTime: at}}, join.Exporter{Domain: 1 << 20}) == nil || len(e.all) != 1 {
		t.Errorf("%d exporters after two hours", len(e.all))
	}
}
