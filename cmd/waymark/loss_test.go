// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/record"
)

// lossLines are records as the agent gives them: of a flow's way, of its delay there, and
// of another flow.
var lossLines = []string{
	`{"kind":"loss","flow":"red","flow_id":7,"scope":"whole","from":0,"to":2,"block":5,"start":"2026-11-23T12:00:05.000000000Z","length_ns":1000000000,"verdict":"measured","sent":1000,"received":990,"lost":10,"duplicated":0,"ratio":0.01,"sent_bytes":96000,"received_bytes":95040,"lost_bytes":960,"duplicated_bytes":0,"warning":"flow_loss_high","from_node":"ingress","to_node":"2001:db8:ff::3"}`,
	`{"kind":"delay","flow":"red","flow_id":7,"scope":"whole","from":0,"to":2,"block":5,"start":"2026-11-23T12:00:05.000000000Z","length_ns":1000000000,"method":"mean-of-sums","samples":1,"min_ns":18400,"mean_ns":18400,"p95_ns":18400,"jitter_ns":null,"from_clock_error_ns":5000,"to_clock_error_ns":null,"warning":"flow_delay_high","from_node":"ingress","to_node":"2001:db8:ff::3"}`,
	`{"kind":"loss","flow":"blue","flow_id":8,"scope":"whole","from":0,"to":1,"block":5,"start":"2026-11-23T12:00:05.000000000Z","length_ns":1000000000,"verdict":"uncertain","to_reasons":["missing"],"sent":7,"received":null,"lost":null,"duplicated":null,"ratio":null}`,
	`{"kind":"loss","flow":"north","flow_id":9,"scope":"whole","from":0,"to":2,"block":5,"start":"2026-11-23T12:00:05.000000000Z","length_ns":1000000000,"verdict":"uncertain","to_reasons":["other_selection"],"sent":7,"received":3,"lost":null,"duplicated":null,"ratio":null,"to_difference":"traffic class 0x00 instead of any","from_node":"ingress","to_node":"egress"}`,
	`{"kind":"loss","flow":"north","flow_id":9,"scope":"segment","from":1,"to":2,"block":5,"start":"2026-11-23T12:00:05.000000000Z","length_ns":1000000000,"verdict":"measured","sent":7,"received":7,"lost":0,"duplicated":0,"ratio":0,"assumed":["selection"],"from_node":"middle","to_node":"egress"}`,
	`{"kind":"trace"}`,
}

const csvHead = "kind,flow,block,start,length_ns,from,to,verdict," +
	"sent,received,lost,duplicated,ratio,sent_bytes,received_bytes,lost_bytes,duplicated_bytes," +
	"method,samples,min_ns,mean_ns,p95_ns,jitter_ns,from_clock_error_ns,to_clock_error_ns," +
	"from_reasons,to_reasons,warning,from_node,to_node,assumed,from_difference,to_difference,lost_min\n"

func TestLossList(t *testing.T) {
	for _, tt := range []struct {
		name      string
		json, csv bool
		flow      string
		want      string
	}{
		{"table", false, false, "", "" +
			"FLOW   BLOCK  START      FROM     TO              VERDICT    SENT  RECEIVED  LOST  RATIO  DUPLICATED  DELAY   CLOCKS   REASONS            WARNING\n" +
			"red    5      12:00:05Z  ingress  2001:db8:ff::3  measured   1000  990       10    0.01   0           -       -        -                  flow_loss_high\n" +
			"red    5      12:00:05Z  ingress  2001:db8:ff::3  delay      -     -         -     -      -           18.4µs  unknown  mean-of-sums       flow_delay_high\n" +
			"blue   5      12:00:05Z  0        1               uncertain  7     -         -     -      -           -       -        missing            -\n" +
			"north  5      12:00:05Z  ingress  egress          uncertain  7     3         -     -      -           -       -        other_selection    -\n" +
			"north  5      12:00:05Z  middle   egress          measured   7     7         0     0      0           -       -        selection_assumed  -\n" +
			"other_selection of flow north at egress: traffic class 0x00 instead of any\n"},
		{"values", false, true, "red", "" +
			csvHead +
			"loss,red,5,2026-11-23T12:00:05.000000000Z,1000000000,0,2,measured,1000,990,10,0,0.01,96000,95040,960,0,,,,,,,,,,,flow_loss_high,ingress,2001:db8:ff::3,,,,\n" +
			"delay,red,5,2026-11-23T12:00:05.000000000Z,1000000000,0,2,,,,,,,,,,,mean-of-sums,1,18400,18400,18400,,5000,,,,flow_delay_high,ingress,2001:db8:ff::3,,,,\n"},
		{"values that are not known", false, true, "blue", "" +
			csvHead +
			"loss,blue,5,2026-11-23T12:00:05.000000000Z,1000000000,0,1,uncertain,7,,,,,,,,,,,,,,,,,,missing,,,,,,,\n"},
		{"records", true, false, "blue", lossLines[2] + "\n"},
	} {
		var out, notes bytes.Buffer
		l := newLossList(&out, &notes, tt.json, tt.csv, tt.flow)
		for _, line := range lossLines {
			if err := l.add([]byte(line)); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		if err := l.flush(); err != nil || out.String() != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, out.String(), tt.want)
		}
	}
}

// Rows that come one by one stand below each other, and the names of columns come again when
// a column has grown.
func TestLossFollows(t *testing.T) {
	of := func(flow, block, warning string) string {
		return strings.NewReplacer(`"red"`, strconv.Quote(flow), `"block":5`, `"block":`+block, "flow_loss_high", warning).Replace(lossLines[0])
	}
	var out bytes.Buffer
	l := newLossList(&out, io.Discard, false, false, "")
	l.table = newLossTable(true)
	lines := append(
		slices.Clone(lossLines[:3]),
		of("red", "179543746", "flow_loss_high"),
		of("rouge-et-bleu", "6", ""),
		of("café-au-lait", "7", ""),
		strings.Replace(lossLines[1], `"to_clock_error_ns":null`, `"to_clock_error_ns":1500000`, 1),
		strings.Replace(lossLines[1], "mean-of-sums", "two-way", 1),
	)
	for _, line := range lines {
		if err := l.line([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	const want = `
FLOW   BLOCK        START      FROM     TO              VERDICT    SENT      RECEIVED  LOST  RATIO  DUPLICATED  DELAY      CLOCKS    REASONS       WARNING
red    5            12:00:05Z  ingress  2001:db8:ff::3  measured   1000      990       10    0.01   0           -          -         -             flow_loss_high
red    5            12:00:05Z  ingress  2001:db8:ff::3  delay      -         -         -     -      -           18.4µs     unknown   mean-of-sums  flow_delay_high
blue   5            12:00:05Z  0        1               uncertain  7         -         -     -      -           -          -         missing       -
red    179543746    12:00:05Z  ingress  2001:db8:ff::3  measured   1000      990       10    0.01   0           -          -         -             flow_loss_high
FLOW           BLOCK        START      FROM     TO              VERDICT    SENT      RECEIVED  LOST  RATIO  DUPLICATED  DELAY      CLOCKS    REASONS       WARNING
rouge-et-bleu  6            12:00:05Z  ingress  2001:db8:ff::3  measured   1000      990       10    0.01   0           -          -         -             -
café-au-lait   7            12:00:05Z  ingress  2001:db8:ff::3  measured   1000      990       10    0.01   0           -          -         -             -
red            5            12:00:05Z  ingress  2001:db8:ff::3  delay      -         -         -     -      -           18.4µs     1.505ms   mean-of-sums  flow_delay_high
red            5            12:00:05Z  ingress  2001:db8:ff::3  delay      -         -         -     -      -           18.4µs     -         two-way       flow_delay_high
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got%swant%s", got, want)
	}
	out.Reset()
	l = newLossList(&out, io.Discard, false, false, "")
	l.table, l.screen = newLossTable(true), columns.Screen{Width: 80}
	for _, line := range lines {
		if err := l.line([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if columns.Width(line) > 80 || !strings.Contains(line, "12:00:05Z") && !strings.Contains(line, "START") {
			t.Errorf("%q", line)
		}
	}
	// With names as nodes have them, a row says why a result is uncertain, and how long packets took.
	out.Reset()
	l = newLossList(&out, io.Discard, false, false, "")
	l.table, l.screen = newLossTable(true), columns.Screen{Width: 80}
	for _, line := range lossLines {
		line = strings.ReplaceAll(line, `"to_node":"2001:db8:ff::3"`, `"to_node":"north1"`)
		if err := l.line([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"DELAY", "REASONS", "18.4µs", "missing"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %s", &out, want)
		}
	}
}

// What is known only at least is shown as such, and several blocks in one record as such.
func TestLossBounds(t *testing.T) {
	const duplicated = `{"kind":"loss","flow":"red","flow_id":7,"scope":"whole","from":0,"to":2,"block":1764000005,` +
		`"start":"2025-11-24T16:00:05.000000000Z","length_ns":1000000000,"verdict":"duplicated","sent":1000,"received":1005,"lost":null,` +
		`"lost_min":3,"duplicated":5,"ratio":null,"sent_bytes":96000,"received_bytes":95040,"lost_bytes":null,"duplicated_bytes":0,` +
		`"warning":"flow_duplicated"}`
	const bound = `{"kind":"delay","flow":"red","flow_id":7,"scope":"whole","from":0,"to":2,"block":1764000006,` +
		`"start":"2025-11-24T16:00:06.000000000Z","length_ns":1000000000,"method":"mean-at-least","samples":1,"min_ns":18400,"mean_ns":18400,` +
		`"p95_ns":18400,"jitter_ns":null,"from_clock_error_ns":5000,"to_clock_error_ns":5000}`
	const gap = `{"kind":"loss","flow":"red","flow_id":7,"scope":"whole","from":0,"to":2,"block":1764000007,` +
		`"start":"2025-11-24T16:00:07.000000000Z","length_ns":90000000000,"verdict":"no-data","from_reasons":["missing"],` +
		`"to_reasons":["missing"],"sent":null,"received":null,"lost":null,"duplicated":null,"ratio":null}`
	const want = `
FLOW  BLOCK                  START      FROM  TO  VERDICT     SENT  RECEIVED  LOST  RATIO  DUPLICATED  DELAY     CLOCKS  REASONS        WARNING
red   1764000005             16:00:05Z  0     2   duplicated  1000  1005      >=3   -      >=5         -         -       -              flow_duplicated
red   1764000006             16:00:06Z  0     2   delay       -     -         -     -      -           >=18.4µs  10µs    mean-at-least  -
red   1764000007-1764000096  16:00:07Z  0     2   no-data     -     -         -     -      -           -         -       missing        -
`
	var out, notes bytes.Buffer
	l := newLossList(&out, &notes, false, false, "")
	for _, line := range []string{duplicated, bound, gap, `{"kind":"lost","count":7}`} {
		if err := l.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.flush(); err != nil || "\n"+out.String() != want {
		t.Errorf("%v: got\n%swant%s", err, out.String(), want)
	}
	if want := "waymark: 7 records are missing here: "; !strings.HasPrefix(notes.String(), want) {
		t.Errorf("notes %q", notes.String())
	}
	out.Reset()
	l = newLossList(&out, &notes, true, false, "red")
	if err := l.add([]byte(`{"kind":"lost","count":7}`)); err != nil || out.String() != "{\"kind\":\"lost\",\"count\":7}\n" {
		t.Errorf("%v: %q", err, out.String())
	}
}

// Blocks that begin or end within a second show it.
func TestStartText(t *testing.T) {
	for line, want := range map[string]string{
		lossLines[0]: "12:00:05Z",
		strings.Replace(lossLines[0], "05.000000000Z", "05.500000000Z", 1):                  "12:00:05.500Z",
		strings.Replace(lossLines[0], `"length_ns":1000000000`, `"length_ns":500000000`, 1): "12:00:05.000Z",
	} {
		r, err := record.Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if got := startText(&r.(*record.Loss).Measurement); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Without a result, the command says why, and what to do.
func TestNoLoss(t *testing.T) {
	const (
		flow    = `{"flow":{"name":"NAME","direction":"DIRECTION","source":"2001:db8::1","segments":["fc00::1"]POINTS}}`
		generic = "a node has results of flows with direction: out and points, half a block after"
		points  = "loss needs a flow's points, the nodes after this one that count it; list them under flows in the configuration"
		ingress = "results are at a flow's ingress, which is another node; run 'waymark loss' there"
	)
	of := func(name, direction, points string) string {
		return strings.NewReplacer("NAME", name, "DIRECTION", direction, "POINTS", points).Replace(flow)
	}
	blue := of("blue", "out", `,"points":["2001:db8::2"]`)
	for _, tt := range []struct {
		flows, args string
		code        int
		says        string
	}{
		{of("red", "out", ""), "loss", commandline.ExitOK, "waymark: no result: " + points},
		{of("red", "out", ""), "loss --flow red", commandline.ExitOK, `waymark: no result of flow "red": ` + points},
		{of("red", "in", ""), "loss", commandline.ExitOK, "waymark: no result: " + ingress},
		{of("red", "transit", "") + "," + blue, "loss --csv --flow red", commandline.ExitOK, `waymark: no result of flow "red": ` + ingress},
		{of("red", "in", "") + "," + blue, "loss", commandline.ExitOK, "waymark: no result: " + generic},
		{blue, "loss --verbose", commandline.ExitOK, "waymark: no result: " + generic},
		{"", "loss", commandline.ExitOK, "waymark: no result: no flow is measured here; run 'waymark loss' at a flow's ingress, or measure one"},
		{blue, "loss --last 5m --flow gone", commandline.ExitOK, `waymark: no result of flow "gone": ` + generic},
		{blue, "loss --flow nosuch", commandline.ExitFailure, `waymark: no flow "nosuch" is measured here; list the flows with: waymark flow show`},
		{blue, "loss --follow --flow nosuch", commandline.ExitFailure, `waymark: no flow "nosuch" is measured here`},
		{blue, "loss --csv --flow -x", commandline.ExitFailure, `waymark: no flow "-x" is measured here`},
	} {
		f := newFakeAgent(t, map[string]string{"GET /v1/loss": "[]", "GET /v1/flows": "[" + tt.flows + "]"})
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(tt.args)...)...)
		if code != tt.code || stdout != "" || !strings.HasPrefix(stderr, tt.says) {
			t.Errorf("%s, %s: code %d, stdout %q, stderr %q, want %q", tt.flows, tt.args, code, stdout, stderr, tt.says)
		}
	}
}
