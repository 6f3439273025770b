// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

func TestMetrics(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig+"\nhistory: {rate: 0}\n") // which loses no record that anybody misses
	h.Start()
	var c datapath.Counters
	c.Index, c.Name, c.RecordsWritten, c.RecordsLost = 2, "eth0", 5, 3
	c.Postcards, c.ExportsSuppressed, c.FlowsEvicted, c.SequencesEvicted = 7, 8, 9, 10
	c.SRHMalformed[datapath.SRHSegmentsLeft], c.Unmarked[datapath.UnmarkedMTU] = 11, 12
	c.Loopback = datapath.LoopbackCounters{Asked: 13, Returned: 14, Suppressed: 15}
	c.Ingress[model.OutcomeTraceFilled], c.Egress[model.OutcomeEncapInserted] = 11, 22
	c.IngressOptions[model.OutcomeTraceFilled] = 33
	h.Datapath.SetCounters(c)
	h.System.SetIOAM6(true)
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "the record is read", func() bool { return h.Status().Records.Read == 1 })
	h.Write("{")
	if _, err := h.Client.Reload(context.Background()); err == nil {
		t.Fatal("a broken file was reloaded")
	}
	b, err := h.Client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		`waymark_packets_total{hook="ingress",interface="eth0",outcome="trace_filled"} 11`,
		`waymark_packets_total{hook="egress",interface="eth0",outcome="encap_inserted"} 22`,
		`waymark_packets_total{hook="egress",interface="eth0",outcome="trace_filled"} 0`,
		`waymark_options_total{hook="ingress",interface="eth0",outcome="trace_filled"} 33`,
		`waymark_options_total{hook="egress",interface="eth0",outcome="trace_filled"} 0`,
		`waymark_records_written_total{interface="eth0"} 5`,
		`waymark_records_lost_total{interface="eth0"} 3`,
		`waymark_postcards_total{interface="eth0"} 7`,
		`waymark_exports_suppressed_total{interface="eth0"} 8`,
		`waymark_flows_evicted_total{interface="eth0"} 9`,
		`waymark_sequences_evicted_total{interface="eth0"} 10`,
		`waymark_srh_malformed_total{fault="segments_left",interface="eth0"} 11`,
		`waymark_srh_malformed_total{fault="tlv",interface="eth0"} 0`,
		`waymark_unmarked_total{cause="mtu",interface="eth0"} 12`,
		`waymark_loopback_total{interface="eth0",what="asked"} 13`,
		`waymark_loopback_total{interface="eth0",what="returned"} 14`,
		`waymark_loopback_total{interface="eth0",what="suppressed"} 15`,
		`waymark_records_read_total 1`,
		`waymark_reloads_total{result="failed"} 1`,
		`waymark_reloads_total{result="ok"} 0`,
		`waymark_interface_info{egress_hook="tcx",ingress_hook="tcx",interface="eth1"} 1`,
		`waymark_health_warnings{code="kernel_ioam6_enabled",severity="error"} 2`,
		`waymark_health_warnings{code="records_lost",severity="warning"} 1`,
		`waymark_health_warnings{code="exports_suppressed",severity="warning"} 1`,
		`waymark_health_warnings{code="tunnel_unroutable",severity="warning"} 0`,
		`waymark_counters_readable 1`,
		"go_goroutines",
	} {
		if !strings.Contains(text, want+"\n") && !strings.Contains(text, want+" ") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, `severity="hint"`) {
		t.Error("hints are among the warnings in force")
	}
	if n, want := strings.Count(text, "waymark_packets_total{"), 2*int(model.NumOutcomes); n != want {
		t.Errorf("%d packet series, want %d: every outcome from the start", n, want)
	}
}

func TestHealthz(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if status, body := h.Request("GET", "/healthz", ""); status != 200 || !strings.Contains(body, `"ok"`) {
		t.Errorf("healthy: %d %s", status, body)
	}
	h.System.SetIOAM6(true)
	if status, body := h.Request("GET", "/healthz", ""); status != 503 || !strings.Contains(body, `"error"`) {
		t.Errorf("with an error: %d %s", status, body)
	}
	if !h.Warned(health.KernelIOAM6) {
		t.Error("no warning kernel_ioam6_enabled")
	}
}

func TestMetricsListener(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := func(address string) string {
		return strings.Replace(agenttest.BaseConfig, "listen: none", `listen: "`+address+`"`, 1)
	}
	h := newHarness(t, listen(taken.Addr().String()))
	h.Start() // the packets do not depend on it
	if !h.Warned(health.MetricsUnavailable) || h.Status().Metrics != "" {
		t.Errorf("no warning that the address is taken; metrics at %q", h.Status().Metrics)
	}
	only[*metricsServer](h).retry()
	logged := func() int { return strings.Count(h.Log.String(), "warning=metrics_unavailable") }
	if log := h.Log.String(); logged() != 1 || !strings.Contains(log, "address already in use") || !strings.Contains(log, "cure=") {
		t.Errorf("two attempts; the log says\n%s", log)
	}
	taken.Close()
	only[*metricsServer](h).retry()
	url := h.Status().Metrics
	if h.Warned(health.MetricsUnavailable) || url == "" {
		t.Fatalf("not served after the address was free: %q", url)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	private, err := http.Get(strings.Replace(url, "/metrics", "/v1/status", 1))
	if err != nil {
		t.Fatal(err)
	}
	private.Body.Close()
	if resp.StatusCode != 200 || private.StatusCode != 404 {
		t.Errorf("metrics %d, API over the network %d; want 200 and 404", resp.StatusCode, private.StatusCode)
	}
	m := only[*metricsServer](h)
	m.mu.Lock()
	server := m.server
	m.mu.Unlock()
	server.Close()
	m.failed(server, errors.New("accept: too many open files"))
	if !h.Warned(health.MetricsUnavailable) || logged() != 2 || !strings.Contains(h.Log.String(), "too many open files") {
		t.Errorf("a server that ended by itself; the log says\n%s", h.Log)
	}
	h.Write(agenttest.BaseConfig)
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(url); err == nil {
		resp.Body.Close()
		t.Error("still served after listen: none")
	}
}
