// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// Only the ingress of a compared flow makes records of it.
func TestFlowsMakeRecords(t *testing.T) {
	const flow = "interfaces: [{name: eth0}]\nflows: [{name: red, direction: %s, source: 2001:db8::1, segments: [\"fc00:2::e\"]%s}]\n"
	for text, none := range map[string]bool{
		"interfaces: [{name: eth0}]\n":                                                                          true,
		"namespaces: [{id: 1, remove: true}]\n":                                                                 true, // nothing arrives
		"interfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 1, export: every}]\n":                    true,
		"interfaces: [{name: eth0, role: [ingress]}]\nnamespaces: [{id: 1, remove: true}]\n":                    false,
		"interfaces: [{name: eth0, role: [ingress]}]\nnamespaces: [{id: 1, export: aggregate}]\n":               false,
		"interfaces: [{name: eth0, role: [ingress]}]\nnamespaces: [{id: 1, e2e: true}]\n":                       false,
		"interfaces: [{name: eth0, role: [egress]}]\ndecapsulations: [{tunnel-destination: \"2001:db8::1\"}]\n": true,
		"namespaces: [{id: 1}]\nprobes: {destinations: [\"2001:db8::1\"]}\n":                                    false, // events
		fmt.Sprintf(flow, "in", ""):                                                                             true,
		fmt.Sprintf(flow, "out", ""):                                                                            true,
		fmt.Sprintf(flow, "out", ", points: [\"2001:db8::7\"]"):                                                 false,
	} {
		c, err := config.Parse("F", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if (whyNone(c) != "") != none {
			t.Errorf("%s makes no records: %v, want %v", text, !none, none)
		}
	}
}

// Records may be asked for as iproute2's monitor prints traces.
func TestRecordsAsMonitor(t *testing.T) {
	filter, line, err := recordQuery(httptest.NewRequest("GET", "/v1/records?form=monitor&namespace=5", nil))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[ioam.NamespaceID]bool{5: true, 6: false} {
		if is, err := filter.Match(&record.Trace{Namespace: id}); is != want || err != nil {
			t.Errorf("namespace %d: %v, %v", id, is, err)
		}
	}
	if got := string(line(&record.Trace{Namespace: 5, TraceType: 0x800000,
		Raw: []ioam.NodeData{{Type: 0x800000, Bytes: []byte{64, 0, 0,
			1}}}})); got != "[TRACE] Namespace=5 NodeLen=1 Type=0x80000000 Data=40000001\n" {
		t.Errorf("%q", got)
	}
	if got := line(&record.Flow{}); got != nil {
		t.Errorf("%q", got)
	}
	if got := string(line(&record.Lost{Count: 3})); !strings.Contains(got, `"kind":"lost"`) {
		t.Errorf("%q", got)
	}
	for _, query := range []string{"form=xml", "form=json&form=monitor", "colour=red", "where=spede+%3E+1", "kinds=traces"} {
		if _, _, err := recordQuery(httptest.NewRequest("GET", "/v1/records?"+query, nil)); err == nil {
			t.Errorf("%s is accepted", query)
		}
	}
}

func TestSlowObserverLosesAndIsTold(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, awake, reported := make(chan struct{}), make(chan struct{}), make(chan record.Lost, 1)
	go func() {
		_ = h.Client.Observe(ctx, api.RecordFilter{}, func() { close(ready) }, func(line []byte) error {
			<-awake
			if r, err := record.Parse(line); err == nil && r.Kind() == record.KindLost {
				reported <- *r.(*record.Lost)
				cancel()
			}
			return nil
		})
	}()
	<-ready
	r := agenttest.RemovedHeader(t, "2001:db8:2::2")
	for sent := 0; h.records.stream.Dropped() == 0; sent++ {
		h.Datapath.Records <- r // the observer does not read, but nothing waits for it
		if sent > 100*4096 {
			t.Fatal("the queue of an observer that does not read is not bounded")
		}
	}
	close(awake)
	select {
	case lost := <-reported:
		if lost.Count == 0 || lost.Count > h.records.stream.Dropped() {
			t.Errorf("%d lost records reported; %d were", lost.Count, h.records.stream.Dropped())
		}
	case <-time.After(patience.Of(30 * time.Second)):
		t.Error("the observer got no report of its loss within 30 s")
	}
}

func TestObserversAreBounded(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for range maxObservers {
		defer h.records.stream.Observe(sink.Filters{}, nil).Close()
	}
	if status, body := h.Request("GET", "/v1/records", ""); status != 422 || !strings.Contains(body, "64 observers are connected") {
		t.Errorf("one too many: %d %s", status, body)
	}
}
