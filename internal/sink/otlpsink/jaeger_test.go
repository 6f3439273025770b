// SPDX-License-Identifier: Apache-2.0

//go:build interop

package otlpsink

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// jaegerTrace is a trace as Jaeger's API has it.
type jaegerTrace struct {
	TraceID   string       `json:"traceID"`
	Spans     []jaegerSpan `json:"spans"`
	Processes map[string]struct {
		Service string `json:"serviceName"`
	} `json:"processes"`
}

// jaegerSpan is one of its spans, with times in microseconds.
type jaegerSpan struct {
	Name       string            `json:"operationName"`
	Start      int64             `json:"startTime"`
	Duration   int64             `json:"duration"`
	Process    string            `json:"processID"`
	References []json.RawMessage `json:"references"`
	Tags       []struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	} `json:"tags"`
	Warnings []string `json:"warnings"`
}

// TestJaeger asks a Jaeger for the traces that an agent sent it (scripts/interop/jaeger.sh), and compares
// them with the agent's records: nodes, their times, and how long they held the packet.
func TestJaeger(t *testing.T) {
	base, file := os.Getenv("WAYMARK_JAEGER"), os.Getenv("WAYMARK_RECORDS")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range bytes.Lines(content) {
		r, err := record.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if trace, is := r.(*record.Trace); is {
			want = append(want, expected(t, trace))
		}
	}
	if len(want) < 5 {
		t.Fatalf("only %d traces in %s", len(want), file)
	}
	slices.Sort(want)
	var got []string
	for end := time.Now().Add(patience.Of(30 * time.Second)); len(got) < len(want) &&
		time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		got = got[:0]
		for _, found := range ask(t, base+"/api/traces?service=aramis&limit=1000") {
			// As it was sent: Jaeger moves spans whose clocks seem to differ.
			one := ask(t, base+"/api/traces/"+found.TraceID+"?raw=true")
			if len(one) != 1 {
				t.Fatalf("%d traces with the id %s", len(one), found.TraceID)
			}
			got = append(got, one[0].describe(t))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("Jaeger has %d traces:\n%s\nthe records %d:\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
	t.Logf("%d traces are in Jaeger as in the records; one is %s", len(got), got[0])
}

func ask(t *testing.T, url string) []jaegerTrace {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var found struct{ Data []jaegerTrace }
	decoder := json.NewDecoder(answer.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&found); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, answer.Status, err)
	}
	return found.Data
}

// describe is a trace of Jaeger: its root, then its hops by time.
func (j *jaegerTrace) describe(t *testing.T) string {
	var root string
	var hops []string
	slices.SortFunc(j.Spans, func(a, b jaegerSpan) int { return cmp.Compare(a.Start, b.Start) })
	for _, s := range j.Spans {
		tags := make(map[string]string)
		for _, one := range s.Tags {
			tags[one.Key] = fmt.Sprint(one.Value)
		}
		if len(s.Warnings) > 0 {
			t.Errorf("%s %s: %v", j.TraceID, s.Name, s.Warnings)
		}
		if len(s.References) == 0 {
			root = fmt.Sprintf("%s of %s, %s > %s by %s in %s:", s.Name, j.Processes[s.Process].Service,
				tags["source.address"], tags["destination.address"], tags["network.transport"], tags["waymark.namespace"])
			continue
		}
		hops = append(
			hops,
			fmt.Sprintf(
				"%s (%s, id %s) at %d for %dus, %sns",
				s.Name,
				j.Processes[s.Process].Service,
				tags["waymark.node.id"],
				s.Start,
				s.Duration,
				tags["waymark.hop.held_ns"],
			),
		)
	}
	return root + " " + strings.Join(hops, ", ")
}

// expected is the same of a record, without the sink's own mapping.
func expected(t *testing.T, r *record.Trace) string {
	if len(r.Nodes) != 3 {
		t.Fatalf("a trace of %d nodes", len(r.Nodes))
	}
	transport := map[uint8]string{6: "tcp", 17: "udp"}[uint8(r.Packet.NextHeader)]
	out := fmt.Sprintf("path %s>%s of %s, %v > %v by %s in %d: ", nameOf(r.Nodes[0].NodeName, "node ", r.Nodes[0].NodeID.Value),
		nameOf(r.Nodes[2].NodeName, "node ", r.Nodes[2].NodeID.Value), r.Node,
		r.Packet.Source, r.Packet.Destination, transport, r.Namespace)
	var hops []string
	for _, n := range r.Nodes {
		name, egress, held := nameOf(n.NodeName, "node ", n.NodeID.Value), "", ""
		if n.EgressID.Valid { // not of a node that removes
			egress = nameOf(n.EgressName, "", n.EgressID.Value)
		}
		if n.TransitDelay.Valid { // of a node that forwards
			held = fmt.Sprint(n.TransitDelay.Value)
		}
		hops = append(hops, fmt.Sprintf("%s %s>%s (%s, id %d) at %d for %dus, %sns", name, nameOf(n.IngressName, "", n.IngressID.Value), egress,
			name, n.NodeID.Value, n.Timestamp.Value.UnixMicro(), n.TransitDelay.Value/1000, held))
	}
	return out + strings.Join(hops, ", ")
}

// nameOf is a record's name for a node or an interface, and its id where there is none.
func nameOf[N ~uint16 | ~uint32 | ~uint64](name, before string, id N) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("%s%d", before, id)
}
