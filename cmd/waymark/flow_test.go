// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
)

// measuredFlows are two flows as an agent gives them: one with all that its text can have, and
// one of which no block has been counted.
const measuredFlows = `[{"flow":{"name":"red","direction":"in","source":"2001:db8::1","segments":["fc00:2::e","fc00:3::d6"],` +
	`"mode":"encap.red","psp":true,"destination":"fc00:3::d6","traffic_class":184,"flow_label":703710,"session":7},` +
	`"last":{"number":5,"start":"2026-11-23T12:00:50.000000000Z","length":"10s","complete":false,"packets":1000,"octets":96000,"late":1,` +
	`"early":2,"unmarked":3,"unsized":4}},` +
	`{"flow":{"name":"blue","direction":"out","source":"2001:db8::2","segments":["fc00:2::e"]}},` +
	`{"flow":{"name":"green","direction":"transit","source":"2001:db8::3","segments":["fc00:2::e"]},` +
	`"last":{"number":5,"start":"2026-11-23T12:00:50.000000000Z","length":"10s","complete":true,"packets":7,"octets":672,"late":0,"early":0,` +
	`"unmarked":0,"unsized":0}}]`

// Flows are added and removed at the agent.
func TestFlowRequests(t *testing.T) {
	f := newFakeAgent(t, nil)
	const rest = `,"psp":false,"container":"none","session":0,"probes":"none","point":0,"metrics":false}`
	for _, tt := range []struct{ args, want string }{
		{"flow add red out src 2001:db8::1 segs fc00:2::e,fc00:3::d6", `POST /v1/flows {"name":"red","direction":"out","source":"2001:db8::1","segments":["fc00:2::e","fc00:3::d6"],"mode":"encap"` + rest},
		{"flow add blue transit src 2001:db8::1 segs fc00:2::e mode inline dst 2001:db8::9 tclass 0xb8 flowlabel 7 flowmonid 9 session 6 psp container 32/16 point 1 lastpoint 2",
			`POST /v1/flows {"name":"blue","direction":"transit","source":"2001:db8::1","segments":["fc00:2::e"],"mode":"inline","psp":true,"container":"32/16","destination":"2001:db8::9","traffic_class":184,"flow_label":7,"session":6,"probes":"none","flow_mon_id":"0x00009","point":1,"last_point":2,"metrics":false}`},
		{"flow del red", "DELETE /v1/flows/red"},
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(tt.args)...)...)
		if code != commandline.ExitOK || stdout != "" || stderr != "" || f.last() != tt.want {
			t.Errorf("%s: code %d, stdout %q, stderr %q, asked\n%s\nwant\n%s", tt.args, code, stdout, stderr, f.last(), tt.want)
		}
	}
	refused := newFakeAgent(
		t,
		map[string]string{
			"POST /v1/flows":       `{"error":"flow \"red\" exists already"}`,
			"DELETE /v1/flows/red": `404 {"error":"there is no flow \"red\""}`,
		},
	)
	for _, args := range []string{"flow add red out src 2001:db8::1 segs fc00:2::e", "flow del red"} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", refused.socket}, strings.Fields(args)...)...)
		if code != commandline.ExitFailure || stdout != "" || !strings.Contains(stderr, `flow "red"`) {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// Flows are shown as the words that add them, with what was counted below.
func TestFlowShow(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/flows": measuredFlows})
	const red = "red in src 2001:db8::1 segs fc00:2::e,fc00:3::d6 mode encap.red psp dst fc00:3::d6 tclass 184 flowlabel 703710 session 7\n" +
		"    block 5, 12:00:50.000Z of 10s: 1000 packets, 96000 octets, 1 late, 2 early, 3 without a mark, " +
		"4 of unknown length (counting began within it)\n"
	const blue = "blue out src 2001:db8::2 segs fc00:2::e mode encap\n    no block has been counted yet\n"
	const green = "green transit src 2001:db8::3 segs fc00:2::e mode encap\n    block 5, 12:00:50.000Z of 10s: 7 packets, 672 octets\n"
	const flowTable = "FLOW   DIRECTION  PACKETS/S  PACKETS  BLOCK         NOTE\n" +
		"red    in               100     1000  12:00:50 10s  partial block, 1 late, 2 ea…\n" +
		"blue   out                -        -  -             no block has been counted y…\n" +
		"green  transit            0        7  12:00:50 10s  -\n"
	const folded = "red in src 2001:db8::1 segs fc00:2::e,fc00:3::d6 mode encap.red psp dst \\\n" +
		"      fc00:3::d6 tclass 184 flowlabel 703710 session 7\n" +
		"    block 5, 12:00:50.000Z of 10s: 1000 packets, 96000 octets, 1 late, 2 early,\n" +
		"      3 without a mark, 4 of unknown length (counting began within it)\n"
	for _, tt := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"flow show", commandline.ExitOK, flowTable, ""},
		{"flow", commandline.ExitOK, flowTable, ""},
		{"flow show --verbose --wide", commandline.ExitOK, red + blue + green, ""},
		{"flow show --wide red", commandline.ExitOK, red, ""},
		{"flow show red", commandline.ExitOK, folded, ""},
		{"flow show blue", commandline.ExitOK, blue, ""},
		{"flow show none", commandline.ExitFailure, "", "waymark: there is no flow \"none\"; list them with: waymark flow show\n"},
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(tt.args)...)...)
		if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
			t.Errorf("%s: code %d, stderr %q, stdout\n%s\nwant\n%s", tt.args, code, stderr, stdout, tt.stdout)
		}
	}
	code, stdout, _ := runCLI(t, "", "--socket", f.socket, "--json", "flow", "show", "green")
	if code != commandline.ExitOK || strings.Count(stdout, `"name":`) != 1 || !strings.Contains(stdout, `"packets":7`) {
		t.Errorf("flow show --json: code %d, %s", code, stdout)
	}
}

// The words of a flow, as they are shown, add the same flow.
func TestFlowWordsAddFlows(t *testing.T) {
	shown := newFakeAgent(t, map[string]string{"GET /v1/flows": measuredFlows})
	_, stdout, _ := runCLI(t, "", "--socket", shown.socket, "flow", "show", "red", "--wide")
	words, _, _ := strings.Cut(stdout, "\n")
	f := newFakeAgent(t, nil)
	if code, _, stderr := runCLI(t, "", append([]string{"--socket", f.socket, "flow", "add"},
		strings.Fields(words)...)...); code != commandline.ExitOK {
		t.Fatalf("%s: code %d, %s", words, code, stderr)
	}
	for _, part := range []string{`"mode":"encap.red"`, `"psp":true`, `"destination":"fc00:3::d6"`, `"traffic_class":184`,
		`"flow_label":703710`, `"session":7`} {
		if !strings.Contains(f.last(), part) {
			t.Errorf("%s is missing in %s", part, f.last())
		}
	}
}

// The status has what was wrong with messages about flows, without zeros.
func TestStatusOfMeasurement(t *testing.T) {
	s := api.Status{Measurement: api.Measurement{
		StampPackets: map[string]uint64{"reflected": 9, "hmac_wrong": 2}, StampNotes: map[string]uint64{"sequence_repeated": 3}, StampDropped: 4,
		QuestionReplies: map[string]uint64{"accepted": 5}, ProbeReplies: map[string]uint64{"foreign": 6},
		ResponderQueries: map[string]map[string]uint64{"twamp-light": {"answered": 3, "short": 1}, "rfc6374-loss": {"malformed": 2}},
		QuestionsUnsent:  map[string]uint64{"no_source": 1}, ProbesUnsent: map[string]uint64{"no_path": 2},
		BlockAnswers: map[string]uint64{"not_yet": 7}, Readings: map[string]uint64{"past": 8},
	}}
	var b strings.Builder
	if err := printStatus(&b, s, nil, time.Now(), columns.Screen{}, true); err != nil {
		t.Fatal(err)
	}
	const want = `STAMP packets that came to this node: hmac_wrong 2, reflected 9
what was wrong with them besides: sequence_repeated 3
questions about measured flows that could not be sent: no_source 1
replies to questions about measured flows: accepted 5
test packets that could not be sent: no_path 2
replies to test packets: foreign 6
answers about blocks of flows: not_yet 7
counters of blocks: past 8
queries to the responder of rfc6374-loss: malformed 2
queries to the responder of twamp-light: answered 3, short 1
STAMP packets for which the socket had no room: 4
`
	if !strings.Contains(b.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
