// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// Two equal paths from r1 to r3: by r2, and direct. Packets to 2001:db8:2::/64 get traces, those to
// 2001:db8:21::/64 are a measured SRv6 flow by r2. beta's answers go back directly.
const triangle = `
name: triangle
description: alpha - r1 = r2 or direct = r3 - beta
permanent-neighbours: true
nodes:
  - name: alpha
    routes: [{to: "::/0", via: 2001:db8:1::1}]
  - name: r1
    addresses: 2001:db8:ff::1/128
    segment-routing: true
    tunnel-source: 2001:db8:ff::1
    routes:
      - {to: 2001:db8:2::/64, via: ["2001:db8:12::2", "2001:db8:13::2"]}
      - {to: 2001:db8:21::/64, via: 2001:db8:12::2, encap: "seg6 mode encap segs fc00:2::e,fc00:3::d6"}
      - {to: 2001:db8:ff::3/128, via: ["2001:db8:12::2", "2001:db8:13::2"]}
      - {to: "fc00:2::/32", via: 2001:db8:12::2}
    agent:
      node: {id: 1, timestamp-format: ptp}
      interfaces:
        - {name: eth0, id: 100, role: []}
        - {name: eth1, id: 101, role: [ingress, egress]}
        - {name: eth2, id: 102, role: [ingress, egress]}
      namespaces: [{id: 123}]
      encapsulations:
        - name: by-r2
          interface: eth1
          match: {destination: 2001:db8:2::/64}
          mode: encap
          tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}
          options: [{trace: {namespace: 123, type: 0xfa0000, size: 72}}]
        - name: direct
          interface: eth2
          match: {destination: 2001:db8:2::/64}
          mode: encap
          tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}
          options: [{trace: {namespace: 123, type: 0xfa0000, size: 72}}]
      measurement: {block: 1s, guard: 450ms, clock-error: 1ms}
      flows:
        - {name: red, direction: out, source: "2001:db8:ff::1", segments: ["fc00:2::e", "fc00:3::d6"], points: ["r2=2001:db8:12::2", "r3=2001:db8:13::2"]}
  - name: r2
    addresses: 2001:db8:ff::2/128
    segment-routing: true
    routes:
      - {to: "fc00:2::e/128", encap: seg6local action End}
      - {to: "fc00:3::/32", via: 2001:db8:23::2}
      - {to: 2001:db8:2::/64, via: 2001:db8:23::2}
      - {to: 2001:db8:ff::3/128, via: 2001:db8:23::2}
      - {to: 2001:db8:ff::1/128, via: 2001:db8:12::1}
    agent:
      node: {id: 2, timestamp-format: ptp, queue-delay: true}
      metrics: {listen: "[::1]:9598"}
      interfaces:
        - {name: eth0, id: 201, role: [ingress, egress]}
        - {name: eth1, id: 202, role: [ingress, egress]}
      namespaces: [{id: 123}]
      measurement: {block: 1s, guard: 450ms, clock-error: 1ms}
      stamp: {allow: ["2001:db8::/32"]}
      flows:
        - {name: red, direction: transit, source: "2001:db8:ff::1", segments: ["fc00:2::e", "fc00:3::d6"]}
  - name: r3
    addresses: 2001:db8:ff::3/128
    segment-routing: true
    routes:
      - {to: "fc00:3::d6/128", encap: seg6local action End.DT6 table 254}
      - {to: 2001:db8:1::/64, via: 2001:db8:13::1}
      - {to: 2001:db8:ff::1/128, via: 2001:db8:13::1}
      - {to: 2001:db8:12::/64, via: 2001:db8:13::1}
    agent:
      node: {id: 3, timestamp-format: ptp}
      interfaces:
        - {name: eth0, id: 301, role: [ingress, egress]}
        - {name: eth1, id: 302, role: [ingress, egress]}
        - {name: eth2, id: 303, role: []}
      namespaces: [{id: 123}]
      decapsulations: [{tunnel-destination: 2001:db8:ff::3}]
      history: {rate: 0, prefixes: [{name: cust7, prefix: "2001:db8:2::/64"}]} # records of what the test wants alone
      measurement: {block: 1s, guard: 450ms, clock-error: 1ms}
      stamp: {allow: ["2001:db8::/32"]}
      flows:
        - {name: red, direction: in, source: "2001:db8:ff::1", segments: ["fc00:2::e", "fc00:3::d6"]}
  - name: beta
    routes: [{to: "::/0", via: 2001:db8:2::1}]
links:
  - ends:
      - {node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: r1, interface: eth0, addresses: 2001:db8:1::1/64}
  - mtu: 1700
    ends:
      - {node: r1, interface: eth1, addresses: 2001:db8:12::1/64}
      - {node: r2, interface: eth0, addresses: 2001:db8:12::2/64}
  - mtu: 1700
    ends:
      - {node: r2, interface: eth1, addresses: 2001:db8:23::1/64}
      - {node: r3, interface: eth0, addresses: 2001:db8:23::2/64}
  - mtu: 1700
    ends:
      - {node: r1, interface: eth2, addresses: 2001:db8:13::1/64}
      - {node: r3, interface: eth1, addresses: 2001:db8:13::2/64}
  - ends:
      - {node: r3, interface: eth2, addresses: ["2001:db8:2::1/64", "2001:db8:21::1/64"]}
      - {node: beta, interface: eth0, addresses: ["2001:db8:2::2/64", "2001:db8:21::2/64"]}
`

// flows choose one of both paths each by a hash: one of both stays empty in a test of 32,000.
const flows = 16

// sendInterval is the time between two datagrams of a flow.
const sendInterval = 20 * time.Millisecond

// send sends datagrams of all flows to an address of beta for a time.
func send(t *testing.T, l *lab.Lab, address string, flows int, last time.Duration) *sync.WaitGroup {
	group := &sync.WaitGroup{}
	for i := range flows {
		group.Go(func() {
			_, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Address: netip.MustParseAddr(address),
				Port: uint16(9100 + i), Count: int(last / sendInterval), Interval: sendInterval, Size: 400})
			if err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
	}
	return group
}

// top asks with the command, as an operator's script does.
func top(t *testing.T, l *lab.Lab, node string, args ...string) *insight.Report {
	t.Helper()
	out := e2e.MustIn(t, l, node, append([]string{"top", "--json", "--count", "1"}, args...)...)
	r := &insight.Report{}
	if err := json.Unmarshal([]byte(out), r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// kept are the times from r2 to r3 that an observer of r3 sees.
type kept struct {
	mu     sync.Mutex
	toNext []int64
	held   []int64
	all    uint64
}

func (k *kept) add(line []byte) error {
	parsed, err := record.Parse(line)
	if err != nil {
		return err
	}
	r, ok := parsed.(*record.Trace)
	if !ok {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all++
	if len(r.Nodes) == 3 && r.Nodes[1].NodeID.Value == ioam.NodeID(2) {
		held := int64(r.Nodes[1].TransitDelay.Value)
		k.held = append(k.held, held)
		k.toNext = append(k.toNext, int64(r.Nodes[2].Timestamp.Value.Sub(r.Nodes[1].Timestamp.Value))-held)
	}
	return nil
}

// TestTop is the newcomer's question: where does the time go, and where are packets lost? The table names
// the slow queue at its router and the losing link at its router, each within ten seconds, and its
// quantiles are those of the packets. Events name both, too, and a Prometheus the queue, by its 99th percentile.
func TestTop(t *testing.T) {
	l := e2e.RaiseText(t, "triangle", triangle)
	instance, err := l.Node("r3").Instance()
	if err != nil {
		t.Fatal(err)
	}
	var exact kept
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- api.NewClient(instance.Socket()).Observe(ctx, api.RecordFilter{}, func() { close(ready) }, exact.add)
	}()
	<-ready

	ofR1, ofR2, ofR3 := follow(t, l, "r1"), follow(t, l, "r2"), follow(t, l, "r3")
	scraped := scrape(t, l, "r2")
	// Usual is what two whole intervals have seen. The one that is open when packets begin is not whole.
	const interval = 10 * time.Second
	last := time.Until(time.Now().Truncate(interval).Add(3*interval + time.Second)).Round(sendInterval)
	usual := send(t, l, "2001:db8:2::2", flows, last)
	measured := send(t, l, "2001:db8:21::2", 1, 12*time.Second)
	if _, err := l.AddLoss("r2", "eth1", linkloss.Rule{Burst: 1, Every: 10, LastSID: netip.MustParsePrefix("fc00:3::d6/128")}); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the losing link at its router", 10*time.Second, func() bool { return losing(top(t, l, "r1")) == "red: r2" })
	ofR1.await(t, record.EventLoss, "r2 > r3", 10*time.Second)
	usual.Wait()
	measured.Wait()
	checkQuantiles(t, l, &exact, flows*uint64(last/sendInterval))
	cancel()
	<-ended

	// From here on nothing but the table and who follows events wants records.
	e2e.Must(t, l.Node("r2"), "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "300kbit", "burst", "3000", "limit", "20000000")
	again := send(t, l, "2001:db8:2::2", flows, 8*time.Second)
	e2e.Await(t, "the slow queue at its router", 10*time.Second, func() bool { return slices.Contains(slow(top(t, l, "r3")), "2 201>202") })
	ofR3.await(t, record.EventSegmentSlow, "node 2 202 > r3 eth0", 10*time.Second)
	ofR2.await(t, record.EventQueueSlow, "eth1", 10*time.Second)
	checkTable(t, l)
	scraped.await(t, "instance_interface:waymark_queue_delay_seconds:p99_5m > 0.05", `interface="eth1"`, 10*time.Second)
	scraped.await(t, `ALERTS{alertname="WaymarkSlow"}`, `kind="queue_slow"`, 10*time.Second)
	e2e.Must(t, l.Node("r2"), "tc", "qdisc", "del", "dev", "eth1", "root")
	again.Wait()
	checkRestart(t, l)
}

// losing names the flows and hops after which packets are lost.
func losing(r *insight.Report) string {
	var list []string
	for _, p := range r.Pairs {
		for _, path := range p.Paths {
			for _, h := range path.Hops {
				if slices.Contains(h.Verdicts, insight.Loses) {
					list = append(list, path.Flow+": "+h.Node)
				}
			}
		}
	}
	return strings.Join(list, ", ")
}

// slow names the hops that are slow, by their ids. On a busy machine, others may be slow for a while.
func slow(r *insight.Report) (list []string) {
	for _, p := range r.Pairs {
		for _, path := range p.Paths {
			for _, h := range path.Hops {
				if slices.Contains(h.Verdicts, insight.Slow) {
					list = append(list, fmt.Sprintf("%d %d>%d", h.NodeID, h.IngressID, h.EgressID))
				}
			}
		}
	}
	return list
}

// checkQuantiles compares those of the path by r2 with the exact ones of the packets that an observer saw. A
// busy machine may lose some of those that were sent.
func checkQuantiles(t *testing.T, l *lab.Lab, exact *kept, sent uint64) {
	t.Helper()
	r := top(t, l, "r3", "--last", "10m")
	since, before := time.Now(), uint64(0)
	for end := since.Add(patience.Of(5 * time.Second)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		exact.mu.Lock()
		all := exact.all
		exact.mu.Unlock()
		if r = top(t, l, "r3", "--last", "10m"); all != before {
			since, before = time.Now(), all
		}
		if r.Records == all && (all == sent || time.Since(since) > time.Second) { // no more come
			break
		}
	}
	exact.mu.Lock()
	defer exact.mu.Unlock()
	if r.Records != exact.all || exact.all < sent*9/10 || len(r.Pairs) != 1 || r.LeftOut != 0 {
		t.Fatalf("%d records of %d packets, and an observer saw %d: %+v", r.Records, sent, exact.all, r)
	}
	pair := r.Pairs[0]
	if pair.Source != "2001:db8:1::/64" || pair.Destination != "cust7" || pair.Packets != exact.all || len(pair.Paths) != 2 ||
		pair.Paths[0].Share+pair.Paths[1].Share != 1 {
		t.Fatalf("%+v", pair)
	}
	i := slices.IndexFunc(pair.Paths, func(p insight.PathReport) bool { return len(p.Hops) == 3 })
	if i < 0 || len(pair.Paths[1-i].Hops) != 2 {
		t.Fatalf("%+v", pair.Paths)
	}
	hop := pair.Paths[i].Hops[1]
	if hop.Queue == nil || hop.Queue.Count != hop.Packets || hop.HeldIncluded {
		t.Errorf("%+v", hop)
	}
	held, toNext := histograms(t, l)
	for name, one := range map[string]struct {
		got  exponential.Delays
		want []int64
	}{"held": {held, exact.held}, "to next": {toNext, exact.toNext}} {
		slices.Sort(one.want)
		if one.got.Count() != uint64(len(one.want)) || len(one.want) == 0 {
			t.Errorf("%s: %d, want %d", name, one.got.Count(), len(one.want))
			continue
		}
		for _, q := range []float64{0.5, 0.95, 0.99, 1} {
			want := one.want[int(math.Ceil(q*float64(len(one.want))))-1]
			if got := one.got.Quantile(q); math.Abs(float64(got-want)) > 0.022*float64(want)+1 { // and whole nanoseconds
				t.Errorf("%s: quantile %v is %d, exactly %d", name, q, got, want)
			}
		}
	}
	// The lab's agents know that they read one clock.
	if got := hop.ToNext; *r.ClockError != 0 || got.P50 == nil || *got.P50 != toNext.Quantile(0.5) || *got.P99 != toNext.Quantile(0.99) ||
		*hop.Held.P95 != held.Quantile(0.95) {
		t.Errorf("%+v, %+v", r, got)
	}
}

// histograms are those of r2, over all intervals.
func histograms(t *testing.T, l *lab.Lab) (held, toNext exponential.Delays) {
	t.Helper()
	instance, err := l.Node("r3").Instance()
	if err != nil {
		t.Fatal(err)
	}
	err = api.NewClient(instance.Socket()).HistoryIntervals(t.Context(), api.HistoryTime{Last: time.Hour}, false,
		func(v *insight.Interval) error {
			for _, p := range v.Pairs {
				for _, path := range p.Paths {
					if len(path.Hops) == 3 {
						held.Merge(&path.Hops[1].Held)
						toNext.Merge(&path.Hops[1].ToNext)
					}
				}
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return held, toNext
}

// checkTable looks at the text as a script gets it: the answer is in 80 columns, in ASCII.
func checkTable(t *testing.T, l *lab.Lab) {
	t.Helper()
	command := l.Node("r3").Command(t.Context(), e2e.Program, "top", "--count", "1", "--prefix", "office=2001:db8:1::/64")
	command.Env = append(command.Environ(), "LC_ALL=C", "COLUMNS=80")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := false
	for line := range strings.Lines(string(out)) {
		found = found || strings.Contains(line, "2 201>202") && strings.Contains(line, "SLOW")
		if line = strings.TrimSuffix(line, "\n"); len(line) > 80 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q", line)
		}
	}
	if !found || !strings.Contains(string(out), "office > cust7") {
		t.Errorf("%s", out)
	}
}

// checkRestart kills the agent that has the history: what was in intervals that had ended is there again.
func checkRestart(t *testing.T, l *lab.Lab) {
	t.Helper()
	before := top(t, l, "r3", "--last", "10m")
	e2e.Restart(t, l, "r3", syscall.SIGTERM)
	after := top(t, l, "r3", "--last", "10m")
	if after.Records < before.Records || before.Records == 0 || len(after.Pairs) != 1 {
		t.Errorf("%d records before the restart, %d after it", before.Records, after.Records)
	}
}
