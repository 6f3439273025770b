// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/ipfix"
)

// ipfixCollector decodes what arrives at a UDP port: "NAME=VALUE" of unsigned
// values and text, a line for each record.
type ipfixCollector struct {
	conn  *net.UDPConn
	mu    sync.Mutex
	lines []string
	from  map[string]bool
}

func newIPFIXCollector(t *testing.T, address string) *ipfixCollector {
	t.Helper()
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", a)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(ipfix.EnterpriseExample))
	if err != nil {
		t.Fatal(err)
	}
	c, done := &ipfixCollector{conn: conn, from: map[string]bool{}}, make(chan struct{})
	go func() {
		defer close(done)
		c.read(t, ipfix.NewDecoder(ipfix.DecoderConfig{Registry: registry}))
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return c
}

func (c *ipfixCollector) read(t *testing.T, d *ipfix.Decoder) {
	b := make([]byte, 65536)
	for {
		n, from, err := c.conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		s, err := d.Open(ipfix.SessionKey{Exporter: from}, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		m, err := s.Decode(b[:n], time.Now())
		if err != nil || len(m.Problems) > 0 {
			t.Errorf("%v %v", err, m)
			continue
		}
		c.mu.Lock()
		c.from[from.String()] = true
		for _, set := range m.Sets {
			for r := range set.Records() {
				var line []string
				for v := range r.Values() {
					if u, ok := v.Uint(); ok {
						line = append(line, fmt.Sprintf("%s=%d", v.Field.Element.Name, u))
					} else if text, ok := v.Text(); ok {
						line = append(line, v.Field.Element.Name+"="+text)
					}
				}
				c.lines = append(c.lines, strings.Join(line, " ")+fmt.Sprintf(" domain=%d", m.Domain))
			}
		}
		c.mu.Unlock()
	}
}

// count is how many records contain all of some parts.
func (c *ipfixCollector) count(parts ...string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		has := true
		for _, p := range parts {
			has = has && strings.Contains(line+" ", p+" ")
		}
		if has {
			n++
		}
	}
	return n
}

func (c *ipfixCollector) address() string { return "udp://" + c.conn.LocalAddr().String() }

func TestIPFIXExport(t *testing.T) {
	first, second := newIPFIXCollector(t, "[::1]:0"), newIPFIXCollector(t, "127.0.0.1:0")
	ipfixTo := func(lines ...string) string {
		return agenttest.BaseConfig + "export:\n  - " + strings.Join(lines, "\n  - ") + "\n"
	}
	one := fmt.Sprintf("{kind: ipfix, address: %q}", first.address())
	two := fmt.Sprintf("{kind: ipfix, address: %q, observation-domain: 99}", second.address())
	h := newHarness(t, ipfixTo(one))
	var counters datapath.Counters
	counters.Index, counters.Name, counters.RecordsLost, counters.ExportsSuppressed = 2, "eth0", 4, 5
	h.Datapath.SetCounters(counters)
	h.Start()
	domain := fmt.Sprintf("domain=%d", h.Status().Node.ID)
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "the trace has arrived", func() bool {
		return first.count("ingressInterface=2", "ioamHopIndex=0", "ioamHopCount=1", "ioamNodeId=2", "ipTotalLength=128",
			"destinationTransportPort=9", domain) == 1
	})
	for _, want := range []string{"observationDomainName=gamma ioamNodeId=2", "interfaceName=eth0", "ioamIngressInterfaceId=201",
		"ignoredPacketTotalCount=9 ioamSuppressedRecordTotalCount=5 ioamLostRecordTotalCount=4"} {
		if first.count(want) == 0 {
			t.Errorf("the collector did not get %s: %q", want, first.lines)
		}
	}
	agenttest.Eventually(t, "it is counted", func() bool { return h.Status().Records.Sinks[0].Written == 1 })

	h.Write(ipfixTo(one, two))
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "both have it", func() bool {
		return first.count("ioamHopIndex=0", "ioamNodeId=2", domain) == 2 && second.count("ioamHopIndex=0", "ioamNodeId=2", "domain=99") == 1
	})
	first.mu.Lock()
	if len(first.from) != 1 {
		t.Errorf("a reload that keeps an exporter made sessions from %v", first.from)
	}
	first.mu.Unlock()
	agenttest.Eventually(t, "it is counted, and nothing was refused", func() bool {
		e := h.Status().Records.Sinks
		return e[1].Written == 1 && *e[0].Connected && *e[1].Connected
	})
	e := h.Status().Records.Sinks
	if len(e) != 2 || e[0].Name != "ipfix:"+first.address() || e[0].Connected == nil || !*e[0].Connected || e[0].Messages == 0 ||
		e[0].Octets == 0 || e[0].Dropped+e[0].Failed != 0 {
		t.Errorf("status %+v", e)
	}
	metrics, err := h.Client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`waymark_export_written_total{exporter="ipfix:` + second.address() + `"} 1`,
		`waymark_export_dropped_total{cause="queue_full",exporter="ipfix:` + second.address() + `"} 0`,
		`waymark_export_dropped_total{cause="connection_lost",exporter="ipfix:` + second.address() + `"} 0`,
		`waymark_export_dropped_total{cause="encode",exporter="ipfix:` + second.address() + `"} 0`,
		`waymark_export_queued_records{exporter="ipfix:` + second.address() + `"} 0`,
		`waymark_export_unsure_total{exporter="ipfix:` + second.address() + `"} 0`,
		`waymark_export_unacknowledged_total{exporter="ipfix:` + second.address() + `"} 0`,
		`waymark_export_connected{exporter="ipfix:` + second.address() + `"} 1`,
		`waymark_export_messages_total{exporter="ipfix:` + second.address() + `"} `,
		`waymark_export_octets_total{exporter="ipfix:` + second.address() + `"} `,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	h.Write(ipfixTo(two))
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "the second has it", func() bool { return second.count("ioamHopIndex=0", "ioamNodeId=2") == 2 })
	if first.count("ioamHopIndex=0", "ioamNodeId=2") != 2 {
		t.Error("an exporter that is no longer configured still sends")
	}
}

// Records that the agent has when it ends are sent.
func TestIPFIXExportAtTheEnd(t *testing.T) {
	c := newIPFIXCollector(t, "[::1]:0")
	h := newHarness(t, agenttest.BaseConfig+fmt.Sprintf("export: [{kind: ipfix, address: %q}]\n", c.address()))
	h.Start()
	for range 100 {
		h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	}
	agenttest.Eventually(t, "all are read", func() bool { return h.Status().Records.Read == 100 })
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "all have arrived", func() bool { return c.count("ioamHopIndex=0", "ioamNodeId=2") == 100 })
}

// Records in a data plane that is removed are sent; in one that stays, they are left
// for the next agent.
func TestIPFIXExportAtTheRemoval(t *testing.T) {
	for _, removing := range []bool{true, false} {
		c := newIPFIXCollector(t, "[::1]:0")
		h := newHarness(t, agenttest.BaseConfig+fmt.Sprintf("export: [{kind: ipfix, address: %q}]\n", c.address()))
		h.Datapath.Waiting = []datapath.Record{agenttest.RemovedHeader(t, "2001:db8:2::2")}
		h.Start()
		if _, err := h.Client.Stop(t.Context(), api.Stop{Remove: removing}); err != nil {
			t.Fatal(err)
		}
		if err := <-h.Done; err != nil {
			t.Fatal(err)
		}
		h.Done <- nil
		if removing {
			agenttest.Eventually(t, "it has arrived", func() bool { return c.count("ioamHopIndex=0", "ioamNodeId=2") == 1 })
		} else if n := c.count("ioamHopIndex=0", "ioamNodeId=2"); n != 0 || !h.Datapath.Wanted.Load() {
			t.Errorf("%d records were sent that are the next agent's", n)
		}
	}
}

func TestCollectorAway(t *testing.T) {
	gone := newIPFIXCollector(t, "[::1]:0")
	address := gone.conn.LocalAddr().String()
	gone.conn.Close()
	h := newHarness(t, agenttest.BaseConfig+"export: [{kind: ipfix, address: \"udp://"+address+"\"}]\n")
	h.Start()
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "a warning", func() bool { return h.Warned(health.CollectorAway) })
	if log := h.Log.String(); !strings.Contains(log, "the collector cannot be reached") || !strings.Contains(log, "connection refused") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	// between two attempts: during one, the record is in flight
	agenttest.Eventually(t, "the record waits", func() bool {
		e := h.Status().Records.Sinks[0]
		return e.Queued == 1 && !*e.Connected && e.Error != ""
	})
	back := newIPFIXCollector(t, address)
	agenttest.Eventually(t, "the record arrives", func() bool { return back.count("ioamHopIndex=0", "ioamNodeId=2") == 1 })
	agenttest.Eventually(t, "no warning", func() bool { return !h.Warned(health.CollectorAway) })
}

// A session that cannot be prepared is an error in the configuration.
func TestIPFIXExportRefused(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	h.Write(agenttest.BaseConfig + "export: [{kind: ipfix, address: \"tls://[::1]\", tls: {ca: /nowhere.pem}}]\n")
	var refused *api.Error
	if _, err := h.Client.Reload(context.Background()); !errors.As(err, &refused) || len(refused.Faults) != 1 {
		t.Fatalf("reloaded with credentials that cannot be read: %v", err)
	}
	if f := refused.Faults[0]; f.Line == 0 || f.Path != "export[0].tls.ca" || !strings.Contains(f.Problem, "open /nowhere.pem: no such file") {
		t.Errorf("fault %+v", f)
	}
	if n := len(h.Status().Records.Sinks); n != 0 {
		t.Errorf("%d exporters", n)
	}
}

// If a collector's certificate is not trusted, the cure is not "start it".
func TestIPFIXCollectorUntrusted(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	h := newHarness(t, agenttest.BaseConfig+"export: [{kind: ipfix, address: \"tls://"+server.Listener.Addr().String()+"\"}]\n")
	h.Start()
	agenttest.Eventually(t, "a warning", func() bool { return h.Warned(health.CollectorAway) })
	for _, w := range h.Status().Warnings {
		if w.Code == health.CollectorAway && (!strings.Contains(w.Text, "unknown authority") ||
			!strings.HasPrefix(w.Cure, "set tls.ca to the authority ")) {
			t.Errorf("%+v", w)
		}
	}
}
