// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/stamp/sender"
	"github.com/waymark-net/waymark/test/e2e"
	"github.com/waymark-net/waymark/test/testnet"
)

// checkAnswers checks the answers to allTLVs, which are the same from every reflector.
func checkAnswers(t *testing.T, a *sender.Answers, port int) {
	t.Helper()
	if a == nil || a.Location == nil || a.Timestamps == nil || a.ClassOfService == nil || a.Direct == nil || a.AccessReport == nil ||
		a.FollowUp == nil || a.MicroSession == nil || a.DestinationNode == nil || a.ReturnPath == nil || a.Unrecognized != nil {
		t.Fatalf("%+v", a)
	}
	l := a.Location
	if l.Source == nil || *l.Source != netip.MustParseAddr(near) || l.Destination == nil || *l.Destination != netip.MustParseAddr(far) ||
		int(l.DestinationPort) != port ||
		l.SourcePort == 0 {
		t.Errorf("location %+v", l)
	}
	if want := (sender.ClassOfServiceAnswer{Forward: 10, Backward: 46, Permitted: true}); *a.ClassOfService != want {
		t.Errorf("class of service %+v, want %+v", *a.ClassOfService, want)
	}
	if m := a.Direct; m.SenderTransmitted != 8 || m.ReflectorReceived != 8 || m.ReflectorTransmitted < 7 {
		t.Errorf("direct measurement %+v", m)
	}
	if r := a.AccessReport; r.AccessID != 1 || r.ReturnCode != 2 {
		t.Errorf("access report %+v", r)
	}
	if f := a.FollowUp; f.Sequence != 6 || f.Time == nil || f.Method != "software" {
		t.Errorf("follow-up %+v", f)
	}
	if m := a.MicroSession; m.Sender != 3 || m.Reflector != 9 {
		t.Errorf("micro-session %+v", m)
	}
	if !*a.DestinationNode || !*a.ReturnPath {
		t.Errorf("destination node %v, return path %v", *a.DestinationNode, *a.ReturnPath)
	}
	if i := a.Timestamps; i.MethodIn != "software" || i.SourceOut == "" {
		t.Errorf("timestamps %+v", i)
	}
}

// Both our ends, in every mode.
func TestBothEnds(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	key := keyFile(t)
	for _, tt := range []struct {
		name         string
		theirs, ours []string
		tlvs         bool
	}{
		{"open", nil, nil, false},
		{"PTP", []string{"--timestamps", "ptp"}, []string{"--timestamps", "ptp"}, false},
		{"NTP and PTP", []string{"--timestamps", "ptp"}, nil, false},
		{"allowed", []string{"--allow", "2001:db8:1::/64", "--ssid", "5,6"}, []string{"--ssid", "6"}, false},
		{"full size", nil, []string{"--size", "1452", "--padding", "zero"}, false},
		{"TLVs", []string{"--stateful"}, allTLVs, true},
		{"authenticated, TLVs", []string{"--stateful", "--key-file", key}, append([]string{"--key-file", key}, allTLVs...), true},
		{"TLVs with HMAC", []string{"--stateful", "--key-file", key, "--protect", "tlvs"}, append([]string{"--key-file", key, "--protect", "tlvs"}, allTLVs...), true},
	} {
		t.Log(tt.name)
		r := reflect(t, append([]string{"--dscp", "46", "--micro-session", "9"}, tt.theirs...)...)
		report, err := send(t, append([]string{far, "--count", "8", "--interval", "10ms"}, tt.ours...)...)
		if err != nil {
			t.Error(err)
		}
		complete(t, report, 8)
		if tt.tlvs {
			checkAnswers(t, report.Answers, 862)
		}
		r.onlyReflected(t, 8)
	}
}

// A stateful reflector restarts during a session: what is lost meanwhile has no
// direction, and the sender says so.
func TestReflectorRestart(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	first := reflect(t, "--stateful")
	type result struct {
		report sender.Report
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		report, err := send(t, far, "--count", "250", "--interval", "20ms", "--reflector", "stateful")
		ended <- result{report, err}
	}()
	// Not after a time: a busy machine starts the sender later.
	e2e.Await(t, "a part of the session", 20*time.Second, func() (is bool) {
		inFar(t, func() error { is = testnet.Counter(t, "Udp6OutDatagrams") >= 30; return nil })
		return is
	})
	before := first.counts(t).Outcomes["reflected"]
	second := reflect(t, "--stateful")
	got := <-ended
	after := second.counts(t).Outcomes["reflected"]
	r := got.report.Result
	if got.err != nil || before == 0 || after == 0 || r.Received != before+after || r.ReflectorRestarts == nil || *r.ReflectorRestarts != 1 {
		t.Fatalf("%v: %d answered before and %d after the restart, %+v", got.err, before, after, r)
	}
	if *r.LostForward != 0 || *r.LostBackward != 0 || r.LostUndirected != r.Lost {
		t.Errorf("forward %d, backward %d of %d", *r.LostForward, *r.LostBackward, r.Lost)
	}
}

// Link-local addresses: packets and replies take the link that the sender names.
func TestLinkLocal(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	testnet.SetUp(t, "near", "fe80::1/64")
	inFar(t, func() error { testnet.SetUp(t, "far", "fe80::2/64"); return nil })
	for _, args := range [][]string{
		{"fe80::2%near", "--source", "fe80::1"},
		{"fe80::2%near"},
		{"fe80::2%near", "--source", near}, // one address of a link, the other one global
		{far, "--source", "fe80::1%near"},
		{"fe80::2%near", "--source", near, "--destination-node", far},
		{"fe80::2%near", "--destination-node", "fe80::2"},
		{far, "--destination-node", "fe80::2"}, // a reply beyond the link cannot come from there
		{far, "--destination-node", "::1"},
	} {
		r := reflect(t)
		report, err := send(t, append(args, "--count", "8", "--interval", "10ms")...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
			r.stop(t)
			continue
		}
		complete(t, report, 8)
		if node := report.Answers.DestinationNode; slices.Contains(args, "--destination-node") != (node != nil && *node) {
			t.Errorf("%v: destination node %v", args, node)
		}
		r.onlyReflected(t, 8)
	}
}

// What a reflector does not answer: by prefix, SSID, key, length and rate.
func TestRefusals(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	key := keyFile(t)
	for outcome, tt := range map[string]struct{ theirs, ours []string }{
		"not_allowed":         {[]string{"--allow", "2001:db8:2::/64"}, nil},
		"ssid_unknown":        {[]string{"--ssid", "5"}, []string{"--ssid", "6"}},
		"truncated":           {[]string{"--key-file", key}, nil},
		"hmac_wrong":          {[]string{"--key-file", key}, []string{"--size", "112"}},
		"micro_session_wrong": {[]string{"--micro-session", "9"}, []string{"--micro-session", "3:8"}},
	} {
		r := reflect(t, tt.theirs...)
		before := readInFar(t)
		report, err := send(t, append([]string{far, "--count", "3", "--interval", "1ms", "--timeout", "200ms"}, tt.ours...)...)
		e2e.Await(t, "the reflector has read them", 20*time.Second, func() bool { return readInFar(t) >= before+3 })
		if e2e.ExitCode(err) != 1 || report.Received != 0 || report.Lost != 3 {
			t.Errorf("%s: %v, %+v", outcome, err, report.Result)
		}
		if c := r.counts(t); c.Outcomes[outcome] != 3 || c.Outcomes["reflected"] != 0 {
			t.Errorf("%s: %v", outcome, c.Outcomes)
		}
	}
	// 200 packets within some milliseconds at a rate of 100: a burst of 10, and what
	// the duration allows.
	r := reflect(t, "--rate", "100", "--stateful")
	report, _ := send(t, far, "--count", "200", "--interval", "1us", "--timeout", "500ms", "--reflector", "stateful")
	c := r.counts(t)
	if limited := c.Outcomes["rate_limited"]; limited == 0 || limited != report.Lost || c.Outcomes["reflected"] != report.Received ||
		report.Received < 10 {
		t.Errorf("%v, %+v", c.Outcomes, report.Result)
	}
	// What the rate refused is lost on the way there, in the sender's eyes.
	if report.LostBackward == nil || *report.LostBackward != 0 || *report.LostForward+report.LostUndirected != report.Lost {
		t.Errorf("forward %v, backward %v, %+v", report.LostForward, report.LostBackward, report.Result)
	}
}

// readInFar is how many datagrams programs there have read.
func readInFar(t *testing.T) (n uint64) {
	t.Helper()
	inFar(t, func() error { n = testnet.Counter(t, "Udp6InDatagrams"); return nil })
	return n
}

// A reply goes through the SRv6 segment that the sender asks for, which is on another
// node, so it takes a hop more than the direct way.
func TestReturnThroughSegments(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	const sid = "fc00:a::1"
	thirdNode(t, sid)
	r := reflect(t, "--return-segments", "--allow", "::/0")
	awaitReply(t, far, "--return-path", sid)
	r.stop(t)
	r = reflect(t, "--return-segments", "--allow", "::/0")
	for _, tt := range []struct {
		path string
		hops int
	}{{sid, 1}, {"", 0}} { // replies after it take the direct way again
		args := []string{far, "--count", "4", "--interval", "10ms"}
		if tt.path != "" {
			args = append(args, "--return-path", tt.path)
		}
		report, err := send(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		complete(t, report, 4)
		if report.HopsBackward == nil || *report.HopsBackward != tt.hops {
			t.Errorf("return path %q: %v hops backward, want %d", tt.path, report.HopsBackward, tt.hops)
		}
		if used := report.Answers.ReturnPath; (used != nil && *used) != (tt.path != "") {
			t.Errorf("return path %q: used %v", tt.path, used)
		}
	}
	r.onlyReflected(t, 8)
	r = reflect(t) // not allowed: the U flag, and the direct way
	report, err := send(t, far, "--count", "4", "--interval", "10ms", "--return-path", sid)
	if err != nil {
		t.Fatal(err)
	}
	if a := report.Answers; a.ReturnPath == nil || *a.ReturnPath || !slices.Equal(a.Unrecognized, []string{"return-path"}) ||
		*report.HopsBackward != 0 {
		t.Errorf("%+v, %d hops backward", a, *report.HopsBackward)
	}
	if c := r.counts(t); c.Notes["tlv_unrecognized"] != 4 {
		t.Errorf("%v", c.Notes)
	}
}

// thirdNode makes a node with links to both ends, and a SID with the behaviour End.
func thirdNode(t *testing.T, sid string) {
	t.Helper()
	in := func(name string, f func()) {
		if err := testnet.DoIn(t, testnet.Other(name), func() error { f(); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	testnet.Run(t, "ip link add near2 type veth peer name left netns "+testnet.Other("-mid"))
	testnet.SetUp(t, "near2", "2001:db8:2::1/64")
	testnet.Set(t, "ipv6/conf/all/seg6_enabled", "1")
	testnet.Set(t, "ipv6/conf/near2/seg6_enabled", "1")
	in("-far", func() {
		testnet.Run(t, "ip link add far2 type veth peer name right netns "+testnet.Other("-mid"))
		testnet.SetUp(t, "far2", far2+"/64")
		testnet.Run(t, "ip -6 route add "+sid+"/128 via 2001:db8:3::2")
	})
	in("-mid", func() {
		testnet.SetUp(t, "left", "2001:db8:2::2/64")
		testnet.SetUp(t, "right", "2001:db8:3::2/64")
		testnet.Set(t, "ipv6/conf/all/forwarding", "1")
		testnet.Set(t, "ipv6/conf/all/seg6_enabled", "1")
		testnet.Set(t, "ipv6/conf/right/seg6_enabled", "1")
		testnet.Run(t, "ip -6 route add "+near+"/128 via 2001:db8:2::1; ip -6 route add "+sid+"/128 encap seg6local action End dev right")
	})
}
