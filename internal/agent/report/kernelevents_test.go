// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/kernelevents"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// hearing is the configuration of a node that serves no interface.
const hearing = "node: {id: 2, kernel-events: true}\nmetrics: {listen: none}\n"

func exporting(path string) string {
	return hearing + "export: [{kind: jsonl, path: " + path + "}]\n"
}

// TestKernelEventsAreHeard checks that the agent subscribes only while configured and
// while records are wanted.
func TestKernelEventsAreHeard(t *testing.T) {
	h := newHarness(t, hearing)
	h.Start()
	listens := func(want int32) func() bool {
		return func() bool { return h.System.Events.Listeners.Load() == want }
	}
	if !listens(0)() {
		t.Error("the agent asks the kernel for events although no records are wanted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		client := api.NewClient(h.Instance.Socket())
		ended <- client.Observe(ctx, api.RecordFilter{}, func() { close(ready) }, func([]byte) error { return nil })
	}()
	<-ready
	agenttest.Eventually(t, "the agent listens for an observer", listens(1))
	cancel()
	<-ended
	agenttest.Eventually(t, "the agent stops listening without the observer", listens(0))

	path := filepath.Join(t.TempDir(), "records")
	h.Write(exporting(path))
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "the agent listens for an exporter", listens(1))
	h.Write(strings.Replace(exporting(path), "kernel-events: true", "kernel-events: false", 1))
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "the agent stops listening when events are not configured", listens(0))
	if got := h.Status().Records.KernelEvents; got != nil {
		t.Errorf("status counts events that are not configured: %+v", got)
	}
	h.Write(exporting(path))
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "the agent listens when events are configured again", listens(1))
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if !listens(0)() {
		t.Error("the agent listens after its end")
	}
}

// TestKernelEventRecord checks that only what the kernel reported is exported.
func TestKernelEventRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	h := newHarness(t, exporting(path))
	h.Start()
	h.System.Events.Traces <- ioam.Trace{Namespace: 123, NodeLen: 1, Type: 0x800000, Data: []byte{0x3e, 0, 0, 3, 0x3f, 0, 0, 2}}
	// cut
	h.System.Events.Traces <- ioam.Trace{Namespace: 123, NodeLen: 2, Type: 0xc00000, Data: []byte{0x3e, 0, 0, 3, 0, 1, 0, 2, 0x3f, 0, 0, 2}}
	var lines []string
	agenttest.Eventually(t, "the records are written", func() bool {
		b, err := os.ReadFile(path)
		lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		return err == nil && strings.Count(string(b), "\n") == 2
	})
	var r record.Trace
	if err := record.Unmarshal([]byte(lines[0]), &r); err != nil || r.Time.IsZero() {
		t.Fatalf("%s: %v", lines[0], err)
	}
	_, rest, _ := strings.Cut(lines[0], `Z",`)
	if want := `"node":"gamma","source":"kernel","option":"pre-allocated","namespace":123,"trace_type":"0x800000","nodes":[{"hop_limit":63,` +
		`"node_id":2,"node_name":"gamma"},{"hop_limit":62,"node_id":3}]}`; rest != want {
		t.Errorf("got  %s\nwant %s", rest, want)
	}
	if !strings.HasSuffix(lines[1], `"nodes":[{"hop_limit":62,"node_id":3,"ingress_id":1,"egress_id":2}]}`) {
		t.Errorf("of cut data: %s", lines[1])
	}
	if got := h.records.malformed.Load(); got != 1 || h.Status().Records.Read != 2 {
		t.Errorf("%d malformed of %d records, want 1 of 2", got, h.Status().Records.Read)
	}
	if got := h.Status().Records.KernelEvents; got == nil || *got != (api.KernelEvents{}) { // they are the package's to count
		t.Errorf("status has %+v", got)
	}
	b, err := h.Client.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"waymark_kernel_events_total", "waymark_kernel_events_malformed_total", "waymark_kernel_events_lost_total"} {
		if !strings.Contains(string(b), "\n"+want+" 0\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// TestKernelEventsCannotBeHeard checks for a warning with the cause, and another try.
func TestKernelEventsCannotBeHeard(t *testing.T) {
	h := newHarness(t, exporting(filepath.Join(t.TempDir(), "records")))
	h.System.Events.Unheard.Store(&kernelevents.ErrGroup)
	h.Start()
	agenttest.Eventually(t, "it is warned", func() bool { return h.Warned(health.KernelUnheard) })
	ws, err := h.Client.Warnings(t.Context())
	if err != nil || !strings.Contains(ws[0].Text, "6.9") {
		t.Errorf("%+v, %v", ws, err)
	}
	h.System.Events.Unheard.Store(nil)
	agenttest.Eventually(t, "events are heard", func() bool {
		return h.System.Events.Listeners.Load() == 1 && !h.Warned(health.KernelUnheard)
	})
	if n := strings.Count(h.Log.String(), "are not received"); n != 1 {
		t.Errorf("the log has it %d times, want once:\n%s", n, h.Log)
	}
}
