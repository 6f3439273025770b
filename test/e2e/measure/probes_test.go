// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// lastBlock are the records of the last block at the ingress.
func lastBlock(t *testing.T, l *lab.Lab) (list []record.Record) {
	t.Helper()
	instance, err := l.Node("ingress").Instance()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := api.NewClient(instance.Socket()).Loss(context.Background(), api.RecordFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		r, err := record.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// delaysOf are the delays of a flow's test packets in the last block, by method.
func delaysOf(t *testing.T, l *lab.Lab, flow string) map[loss.Method]*record.Delay {
	t.Helper()
	found := make(map[loss.Method]*record.Delay)
	for _, r := range lastBlock(t, l) {
		if d, ok := r.(*record.Delay); ok && !d.Block.Valid && d.Flow == flow {
			found[d.Method] = d
		}
	}
	return found
}

// soundDelays are the delays of a flow's test packets in the first block in which no method
// has one of more than 100 ms. A machine that is busy holds a packet for longer now and then,
// but not in every block; its shortest delay is below that in each.
func soundDelays(t *testing.T, l *lab.Lab, flow string) (found map[loss.Method]*record.Delay) {
	t.Helper()
	const longest = int64(100 * time.Millisecond)
	e2e.Await(t, "a block of short delays of "+flow, closeTime, func() bool {
		found = delaysOf(t, l, flow)
		for method, d := range found {
			if d.Min < 0 && method != loss.OneWay || d.Min > longest {
				t.Fatalf("%v: %+v", method, d)
			}
			if d.P95 > longest {
				return false
			}
		}
		return len(found) == 3
	})
	return found
}

// backSID is a segment of the way back, at the same node as one of the way there.
const backSID = "fc00:2::f"

func addBackSID(t *testing.T, l *lab.Lab) {
	t.Helper()
	e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "add", backSID, "encap", "seg6local", "action", "End", "dev", "eth0")
}

func addWayBack(t *testing.T, l *lab.Lab) {
	t.Helper()
	e2e.Must(t, l.Node("egress"), "ip", "-6", "route", "add", backSID, "via", "2001:db8:23::2")
}

// probed are flows with test packets, and the class of both, in each lab.
var probed = map[string][]struct {
	form
	class int
}{
	"tcx": {
		{form{name: "encap", mode: "encap", segments: "fc00:2::71,fc00:3::1", octets: ip6 + srh + 2*sid, out: ", probes: in-band"}, 0xb0},
		{form{name: "reduced", mode: "encap.red", segments: "fc00:2::72,fc00:3::2", octets: ip6 + srh + sid, out: ", probes: in-band-encap"}, 0},
	},
	"xdp": {
		{form{name: "encap", mode: "encap", segments: "fc00:2::71,fc00:3::1", octets: ip6 + srh + 2*sid, out: ", probes: in-band-encap"}, 0x40},
		{form{name: "inline", mode: "inline", segments: "fc00:2::72", octets: srh + 2*sid, end: "none", source: "2001:db8:1::2", out: ", probes: in-band"}, 0xb0},
	},
}

// TestProbes measures the delay of flows with test packets through their segments while
// packets of the flow are sent and lost: all nodes count the flow's packets, and no test
// packet. That they take the way is shown by an endpoint that stops forwarding them.
func TestProbes(t *testing.T) {
	t.Parallel()
	for attach, flows := range probed {
		t.Run(attach, func(t *testing.T) {
			var list []form
			for i, f := range flows {
				f.flow = fmt.Sprintf(", session: %d, traffic-class: %#02x", 7+i, f.class)
				f.out += fmt.Sprintf(", return-segments: [%q]", backSID)
				list = append(list, f.form)
			}
			l := raiseForms(t, attach, "", complete(list))
			var inClasses []func() []string
			for range flows {
				inClasses = append(inClasses, seenAt(t, l, "ingress", "eth1", true, inClass))
			}
			addBackSID(t, l)
			addWayBack(t, l)
			// End.DT6 looks into the table main alone
			e2e.Must(t, l.Node("egress"), "ip", "-6", "route", "add", "local", "2001:db8:23::3", "dev", "lo", "table", "254")
			for i, f := range flows {
				t.Run(f.name+f.out, func(t *testing.T) { probeFlow(t, l, list[i], i, f.class, inClasses[i]) })
			}
			all := func(what string, methods int, of ...form) {
				t.Helper()
				for _, f := range of {
					e2e.Await(t, what+" of "+f.name, closeTime, func() bool { return len(delaysOf(t, l, f.name)) == methods })
				}
			}
			e2e.Must(t, l.Node("egress"), "ip", "-6", "route", "del", backSID)
			all("no delays without the way back", 0, list...)
			addWayBack(t, l)
			all("delays again", 3, list...)
			for i, f := range list {
				first, _, _ := strings.Cut(f.segments, ",")
				e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "add", "blackhole", first)
				all("no delays without the way there", 0, f)
				all("delays by another way there", 3, list[i+1:]...)
			}
		})
	}
}

// probeFlow sends packets of a flow beside its test packets.
func probeFlow(t *testing.T, l *lab.Lab, f form, i, class int, inClasses func() []string) {
	t.Helper()
	e2e.Await(t, "delays", closeTime, func() bool { return len(delaysOf(t, l, f.name)) == 3 })
	c := countFlow(t, l, f.name)
	for _, r := range c.readers {
		if sum := r.sum(t); sum.Packets+sum.Unmarked > 0 {
			t.Fatalf("test packets were counted: %+v", sum)
		}
	}
	const count, size = 3000, 100
	sendTo(t, l, formTo(i).String(), class, count, size, 64, 64, 2)
	c.check(t, count, count/3, uint64(f.octets+40+8+size), 0)
	for method, d := range soundDelays(t, l, f.name) {
		if d.Samples < 10 {
			t.Errorf("%v: %+v", method, d)
		}
	}
	if seen := inClasses(); !slices.Contains(seen, strconv.Itoa(class)) {
		t.Errorf("test packets of classes %v, want %#x", seen, class)
	}
}

// inClass is the traffic class of a packet that is sent to a reflector through segments.
func inClass(packet []byte) string {
	at, next := 40, packet[6]
	if next == 43 {
		next, at = packet[at], at+8+8*int(packet[at+1])
	}
	if next == 41 && len(packet) > at+6 {
		next, at = packet[at+6], at+40
	}
	if at == 40 || next != 17 || len(packet) < at+4 || packet[at+2] != 862>>8 || packet[at+3] != 862&0xff {
		return ""
	}
	return strconv.Itoa(int(packet[0]<<4 | packet[1]>>4))
}

// TestExchanges asks by the protocols of other nodes, through the flow's segments and back
// through others: the loss is exactly what was lost. Without the segments, nothing is called
// measured. Delay Measurement messages of RFC 6374 go the same way, there and back.
func TestExchanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ exchange, port, session string }{{"twamp-light", "1205", "1206"}, {"rfc6374", "6374", "77"}} {
		t.Run(tt.exchange, func(t *testing.T) {
			back := fmt.Sprintf(`, session: %s, return-segments: ["%s"]`, tt.session, backSID)
			l := raiseWith(t, "encap", "tcx", asking{exchange: tt.exchange, port: tt.port, out: back + ", probes: in-band", in: back})
			addBackSID(t, l)
			addWayBack(t, l)
			e2e.Await(t, "answers", closeTime, func() bool { return verdictOf(t, l) == loss.Idle })
			if tt.exchange == "rfc6374" {
				e2e.Await(t, "delays", closeTime, func() bool { return len(delaysOf(t, l, "red")) == 3 })
				for method, d := range soundDelays(t, l, "red") {
					if d.ToClockError.Value != uint64(time.Millisecond) {
						t.Errorf("%v: %+v", method, d)
					}
				}
			}
			const count, size = 3000, 100
			send(t, l, count, size, 64, 64, 2)
			var sent, lost map[string]uint64
			e2e.Await(t, "the loss", closeTime, func() bool {
				sent, lost, _ = losses(t, l)
				return sent["0-2"] >= count && sent["1-2"] >= count
			})
			if sent["0-2"] != count || sent["0-1"] != count || lost["0-2"] != count/3 || lost["0-1"] != 0 || lost["1-2"] != count/3 {
				t.Errorf("sent %v, lost %v", sent, lost)
			}
			e2e.Must(t, l.Node("egress"), "ip", "-6", "route", "del", backSID)
			e2e.Await(t, "uncertain without the way back", closeTime, func() bool { return verdictOf(t, l) == loss.Uncertain })
			e2e.Await(t, "no delays without the way back", closeTime, func() bool { return len(delaysOf(t, l, "red")) == 0 })
			addWayBack(t, l)
			e2e.Await(t, "answers again", closeTime, func() bool { return verdictOf(t, l) == loss.Idle })
			e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "del", endSID)
			e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "add", "blackhole", endSID)
			e2e.Await(t, "uncertain without the way there", closeTime, func() bool { return verdictOf(t, l) == loss.Uncertain })
		})
	}
}

// exchangeByIPFIX lets the nodes export what they counted: the collector finds the loss on
// each segment, and the delay.
func exchangeByIPFIX(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, node := range onTheWay {
		read(t, l, node).awaitComplete(t)
	}
	const count, size = 3000, 100
	send(t, l, count, size, 64, 64, 2)
	checkLoss(t, l, count, count/3)
}

// askInBand asks the points on the way through the segments before them, after a reload of the ingress:
// without the first endpoint, which is asked as packets to it are routed, the second one is not reached.
func askInBand(t *testing.T, l *lab.Lab) {
	t.Helper()
	top := l.Topology()
	e2e.Reconfigure(t, top, "ingress", `points: ["north1=2001:db8:12::2",`, `probes: in-band, points: ["north1=2001:db8:12::2",`)
	if err := l.Node("ingress").Reconfigure(t.Context(), top.Node("ingress").Agent.Config); err != nil {
		t.Fatal(err)
	}
	reloaded := time.Now()
	unanswered := func() (points []loss.PointID) {
		for _, r := range lastBlock(t, l) {
			if r, ok := r.(*record.Loss); ok && r.Flow == "north" && r.Scope != record.WholeWay && r.ToReasons&loss.Missing != 0 {
				points = append(points, r.To)
			}
		}
		return points
	}
	e2e.Await(t, "all answers", closeTime, func() bool {
		asked := slices.ContainsFunc(lastBlock(t, l), func(r record.Record) bool {
			each, ok := r.(*record.Loss)
			return ok && each.Flow == "north" && each.Start.After(reloaded)
		})
		return asked && len(unanswered()) == 0
	})
	e2e.Must(t, l.Node("north1"), "ip", "-6", "route", "del", "fc00:11::e")
	e2e.Must(t, l.Node("north1"), "ip", "-6", "route", "add", "blackhole", "fc00:11::e")
	e2e.Await(t, "no answer of the second and third point", closeTime, func() bool { return slices.Equal(unanswered(), []loss.PointID{2, 3}) })
}

// verdictOf is the verdict on the whole way in the last block.
func verdictOf(t *testing.T, l *lab.Lab) loss.Verdict {
	t.Helper()
	for _, r := range lastBlock(t, l) {
		if r, ok := r.(*record.Loss); ok && r.Scope == record.WholeWay {
			return r.Verdict
		}
	}
	return loss.NoData
}
