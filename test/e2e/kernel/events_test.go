// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// hearKernel makes the chain's router a transit node of the kernel's own. Its
// agent serves no interface and exports the kernel's events.
func hearKernel(t *testing.T, l *lab.Lab, exporters string) *lab.Agent {
	t.Helper()
	e2e.SetUpKernel(t, l.Node("router"))
	a, err := l.Node("router").StartAgent(t.Context(), []byte("node: {kernel-events: true}\nmetrics: {listen: none}\nexport:\n"+exporters))
	if err != nil {
		t.Fatal(err)
	}
	family, err := netlink.GenlFamilyGet("IOAM6")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(family.Groups, func(g netlink.GenlMulticastGroup) bool { return g.Name == "ioam6_events" }) {
		e2e.Await(t, "the agent warns", 10*time.Second, func() bool { return slices.Contains(warned(t, a), health.KernelUnheard) })
		t.Skip("this kernel's IOAM sends no events, and the agent says so")
	}
	e2e.Await(t, "the agent hears", 10*time.Second, func() bool {
		log, err := os.ReadFile(a.Log)
		return err == nil && bytes.Contains(log, []byte("receiving the events"))
	})
	return a
}

func warned(t *testing.T, a *lab.Agent) (codes []health.Code) {
	t.Helper()
	warnings, err := api.NewClient(a.Instance.Socket()).Warnings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		codes = append(codes, w.Code)
	}
	return codes
}

// metric reads a metric without labels.
func metric(t *testing.T, a *lab.Agent, name string) int {
	t.Helper()
	text, err := api.NewClient(a.Instance.Socket()).Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("there is no metric %s", name)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// tracesToTell are traces of every field, with and without earlier nodes and free
// room.
func tracesToTell() [][]byte {
	var out [][]byte
	for _, ns := range []uint16{123, 456} { // without and with a schema
		for bit := range ioam.BitUndefinedFirst {
			out = append(out, e2e.TraceOption(ns, 1<<(23-bit), 0, 20, 80))
		}
		for _, kind := range []ioam.TraceType{supported, 0xfff000, 0xc00002, 0xf80000, 2} {
			words := kind.NodeLen()
			if kind.HasSnapshot() {
				words++
			}
			for before := range 3 { // nodes, which wrote zeros
				for _, room := range []int{0, 1, words, 24} {
					out = append(out, e2e.TraceOption(ns, kind, 0, room, 4*(room+before*words)))
				}
			}
		}
		for _, flags := range []int{8, 4, 2, 1} { // 8 is the overflow flag
			out = append(out, e2e.TraceOption(ns, 0x800000, flags, 20, 80))
		}
		before := e2e.TraceOption(ns, 0xc00000, 0, 2, 24) // room for one node, after two that wrote
		copy(before[20:], []byte{0x41, 0, 0, 1, 0, 101, 0, 102, 0x42, 0, 0, 9, 0, 91, 0, 92})
		out = append(out, before)
	}
	return append(out, e2e.TraceOption(999, supported, 0, 40, 160)) // a namespace that the router does not have
}

// listed is what an exporter of the kernel's events must report for packets that
// arrived after the router, in order: the JSON record without its time, and the
// data of each node.
func listed(t *testing.T, packets map[int][]byte, count int) (records []string, data [][]string) {
	t.Helper()
	for id := range count {
		p, ok := packets[id]
		if !ok {
			t.Fatalf("packet %d did not arrive", id)
		}
		header, err := ioam.DecodeExtensionHeader(p[40:])
		if err != nil {
			t.Fatal(err)
		}
		for option, err := range header.Options() {
			if err != nil {
				t.Fatal(err)
			}
			if !option.IsIOAM() {
				continue
			}
			carried, err := option.IOAM()
			if err != nil {
				t.Fatal(err)
			}
			trace, err := carried.Trace()
			if err != nil {
				t.Fatal(err)
			}
			if trace.Namespace == 999 {
				continue
			}
			trace.Flags &^= ioam.FlagLoopback | ioam.FlagActive // the kernel's events do not have them
			r, err := record.NewKernelTrace(time.Time{}, trace, record.Clock{})
			if err != nil {
				t.Fatal(err)
			}
			r.Node = "router"
			for i, n := range r.Nodes {
				if n.NodeID.Value == 2 || n.NodeIDWide.Value == 22222222 {
					r.Nodes[i].NodeName = "router" // these are its own
				}
			}
			records = append(records, e2e.Line(t, r))
			var nodes []string
			for _, n := range r.Raw {
				nodes = append(nodes, hex.EncodeToString(n.Bytes))
			}
			data = append(data, nodes)
		}
	}
	return records, data
}

// timeless returns JSON records without their time, and checks that the time is
// about now.
func timeless(t *testing.T, lines []string) (records []string) {
	t.Helper()
	for _, line := range lines {
		var r record.Trace
		if err := record.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if since := time.Since(r.Time.Time); since < 0 || since > time.Hour {
			t.Errorf("%s: its time is not about now", line)
		}
		r.Time = instant.Time{}
		records = append(records, e2e.Line(t, r))
	}
	return records
}

// TestKernelEvents compares the exports, in three formats, of an agent without
// our programs with what the kernel wrote into the packets.
func TestKernelEvents(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "chain", e2e.Chain)
	router := l.Node("router")
	received := receive(t, router, 4739)
	cmd := router.Command(t.Context(), e2e.Program, "collect", "--json", "--listen", "tcp://[::1]:4741")
	collector := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
	path := filepath.Join(t.TempDir(), "records.jsonl")
	a := hearKernel(t, l, fmt.Sprintf("  - {kind: jsonl, path: %q}\n"+`  - {kind: ipfix, address: "udp://[::1]:4739"}
  - {kind: ipfix, address: "tcp://[::1]:4741", observation-domain: 22}
`, path))
	var packets [][]byte
	for i, option := range tracesToTell() {
		packets = append(packets, e2e.Packet(i, 64, craft.Options(craft.NoNext, 2, option), []byte("payload")))
	}
	records, data := listed(t, e2e.Exchange(t, l, packets), len(packets))
	if len(records) != len(packets)-1 {
		t.Fatalf("%d traces of %d packets", len(records), len(packets))
	}

	var lines []string
	e2e.Await(t, "every record in the file", 10*time.Second, func() bool {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		return bytes.Count(b, []byte("\n")) >= len(records)
	})
	if diff := cmp.Diff(records, timeless(t, lines)); diff != "" {
		t.Errorf("JSON lines (-in the packets +reported):\n%s", diff)
	}
	e2e.Await(t, "every trace over UDP", 10*time.Second, func() bool {
		received.lock.Lock()
		defer received.lock.Unlock()
		n := len(received.traces)
		return n >= len(data) && len(received.traces[n-1]) >= len(data[len(data)-1])
	})
	received.lock.Lock()
	if diff := cmp.Diff(data, received.traces); diff != "" || len(received.faults) > 0 {
		t.Errorf("IPFIX: %v (-in the packets +reported):\n%s", received.faults, diff)
	}
	received.lock.Unlock()
	e2e.Await(t, "every trace at the collector", 10*time.Second, func() bool { return len(collector.Lines()) >= len(records) })
	collected, stats := collector.Stop()
	e2e.CheckNothingWrong(t, stats)
	if diff := cmp.Diff(lines, collected); diff != "" {
		t.Errorf("waymark collect (-JSON lines +collect):\n%s", diff)
	}

	for name, want := range map[string]int{"waymark_kernel_events_total": len(records), "waymark_kernel_events_malformed_total": 0,
		"waymark_kernel_events_lost_total": 0} {
		if got := metric(t, a, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if codes := warned(t, a); slices.Contains(codes, health.KernelUnheard) || slices.Contains(codes, health.RecordsLost) {
		t.Errorf("warnings %v", codes)
	}
}

// TestKernelEventsOverrun stops an agent while more events come than its socket
// has room for: each is exported or counted as lost.
func TestKernelEventsOverrun(t *testing.T) {
	t.Parallel()
	const count, batches = 2500, 10
	l := e2e.RaiseText(t, "chain", e2e.Chain)
	a := hearKernel(t, l, "  - {kind: jsonl, path: /dev/null}\n")
	if err := a.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := sync.OnceFunc(func() { _ = a.Process.Signal(unix.SIGCONT) })
	t.Cleanup(goOn)
	var packets [][]byte
	for i := range count {
		packets = append(packets, e2e.Packet(i, 64, craft.Options(craft.NoNext, 2, e2e.TraceOption(123, 0x800000, 0, 2, 8)), nil))
	}
	passed := 0
	for range batches {
		passed += len(e2e.Exchange(t, l, packets))
	}
	goOn()
	total := func() (read, lost int) {
		return metric(t, a, "waymark_kernel_events_total"), metric(t, a, "waymark_kernel_events_lost_total")
	}
	e2e.Await(t, "every event is read or lost", 20*time.Second, func() bool { read, lost := total(); return read+lost >= passed })
	read, lost := total()
	if lost == 0 || read == 0 || read+lost != passed || passed != count*batches {
		t.Errorf("%d read, %d lost of %d that passed and %d that were sent", read, lost, passed, count*batches)
	}
	if !slices.Contains(warned(t, a), health.RecordsLost) {
		t.Error("no warning records_lost")
	}
	if n := metric(t, a, "waymark_kernel_events_malformed_total"); n != 0 {
		t.Errorf("%d events are malformed", n)
	}
	more := len(e2e.Exchange(t, l, packets[:10])) // the agent continues
	e2e.Await(t, "events after the overrun are read", 10*time.Second, func() bool { again, _ := total(); return again == read+more })
	e2e.Await(t, "every event is written or dropped", 5*time.Second, func() bool {
		status, err := api.NewClient(a.Instance.Socket()).Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		e := status.Records.Sinks[0]
		return e.Written+e.Dropped == uint64(read+more)
	})
}
