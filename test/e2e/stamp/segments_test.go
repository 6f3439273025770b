// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"encoding/json"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
	"github.com/waymark-net/waymark/test/testnet"
)

// SIDs of the third node: two with the behaviour End, and one of the way back. That of the
// reflector's node ends tunnels (End.DT6).
const (
	endSID   = "fc00:a::e"
	againSID = "fc00:a::2e"
	backSID  = "fc00:a::bac"
	exitSID  = "fc00:b::d6"
)

// forwardPath makes a way through segments to the reflector's node besides the link.
func forwardPath(t *testing.T) {
	t.Helper()
	thirdNode(t, backSID)
	testnet.Run(t, "ip -6 route add "+endSID+"/128 via 2001:db8:2::2; ip -6 route add "+exitSID+"/128 via "+far)
	run := func(node, lines string) {
		if err := testnet.DoIn(t, testnet.Other(node), func() error { testnet.Run(t, lines); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	run("-mid", "ip -6 route add "+far+"/128 via 2001:db8:3::1; ip -6 route add fc00:b::/32 via 2001:db8:3::1; "+
		"ip -6 route add "+endSID+"/128 encap seg6local action End count dev left; ip -6 route add "+againSID+
		"/128 encap seg6local action End count dev left")
	run(
		"-far",
		"ip -6 route add 2001:db8:2::/64 via 2001:db8:3::2; ip -6 route add "+exitSID+
			"/128 encap seg6local action End.DT6 table local count dev far2",
	)
	for _, node := range []struct{ name, link string }{{"-mid", "left"}, {"-far", "far2"}} {
		if err := testnet.DoIn(t, testnet.Other(node.name), func() error {
			testnet.Set(t, "ipv6/conf/all/seg6_enabled", "1")
			testnet.Set(t, "ipv6/conf/"+node.link+"/seg6_enabled", "1")
			testnet.Set(t, "ipv6/conf/all/forwarding", "1")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	r := reflect(t)
	for _, way := range [][]string{nil, {"--segments", endSID}} {
		awaitReply(t, append(way, far)...)
	}
	r.stop(t)
}

// visits is how many packets the kernel of a node has processed by a SID.
func visits(t *testing.T, node, sid string) (packets uint64) {
	t.Helper()
	if err := testnet.DoIn(t, testnet.Other(node), func() error {
		out, err := exec.Command("ip", "-s", "-j", "-6", "route", "show", sid+"/128").Output()
		if err != nil {
			return err
		}
		var routes []struct {
			Stats *struct{ Packets uint64 } `json:"stats64"`
		}
		if err := json.Unmarshal(out, &routes); err != nil || len(routes) != 1 || routes[0].Stats == nil {
			t.Fatalf("%s: %v: %s", sid, err, out)
		}
		packets = routes[0].Stats.Packets
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return packets
}

// Packets take the segments that the sender is given: the kernels on the way count each at
// each SID, and as many hops arrive.
func TestSendThroughSegments(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	forwardPath(t)
	key := keyFile(t)
	const n = 6
	for _, tt := range []struct {
		name, segments, mode string
		hops                 int
		both                 []string // flags of both ends
		theirs, ours         []string
	}{
		{"routed", "", "", 0, nil, nil, nil},
		{"inline", endSID, "", 1, nil, nil, nil},
		{"inline, stateful, authenticated, TLVs", endSID + "," + againSID, "inline", 1, []string{"--key-file", key}, []string{"--stateful"}, []string{"--direct-measurement", "--location"}},
		{"there and back", endSID, "inline", 1, []string{"--key-file", key}, []string{"--return-segments"}, []string{"--source", near, "--return-path", backSID}},
		{"encap", endSID + "," + exitSID, "encap", 0, nil, nil, nil}, // the outer hop limit counts hops
		{"encap.red, authenticated", endSID + "," + exitSID, "encap.red", 0, []string{"--key-file", key}, nil, []string{"--dscp", "46", "--reply-dscp", "46"}},
		{"one reduced segment", exitSID, "encap.red", 0, nil, []string{"--stateful"}, []string{"--source", near}},
	} {
		t.Log(tt.name)
		before := map[string]uint64{endSID: visits(t, "-mid", endSID), againSID: visits(t, "-mid", againSID), exitSID: visits(t, "-far", exitSID)}
		r := reflect(t, slices.Concat(tt.both, tt.theirs)...)
		args := slices.Concat([]string{far, "--count", "6", "--interval", "10ms"}, tt.both, tt.ours)
		if tt.segments != "" {
			args = append(args, "--segments", tt.segments)
		}
		if tt.mode != "" {
			args = append(args, "--mode", tt.mode)
		}
		report, err := send(t, args...)
		if err != nil {
			t.Error(err)
		}
		completeOver(t, report, n, tt.hops)
		if l := report.Answers.Location; l != nil &&
			(*l.Destination != netip.MustParseAddr(far) || *l.Source != netip.MustParseAddr("2001:db8:2::1")) {
			t.Errorf("location %+v", l)
		}
		if slices.Contains(tt.ours, "--return-path") && (*report.HopsBackward != 1 || !*report.Answers.ReturnPath) {
			t.Errorf("back by %d hops, %+v", *report.HopsBackward, report.Answers)
		}
		for sid, had := range before {
			node, want := "-mid", uint64(0)
			if sid == exitSID {
				node = "-far"
			}
			if slices.Contains(strings.Split(tt.segments, ","), sid) {
				want = n
			}
			if got := visits(t, node, sid) - had; got != want {
				t.Errorf("%s: %d packets at %s, want %d", tt.name, got, sid, want)
			}
		}
		r.onlyReflected(t, n)
	}
}

// The error says what is wrong: a closed port, an error from the way, or silence.
func TestNoReplyCauses(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	forwardPath(t)
	inFar(t, func() error { testnet.Run(t, "ip -6 route add prohibit 2001:db8:77::/64"); return nil })
	testnet.Run(t, "ip -6 route add 2001:db8:77::/64 via "+far)
	key := keyFile(t)
	for _, tt := range []struct {
		name         string
		theirs, ours []string
		want         string
	}{
		{"closed", []string{"--listen", "[::]:8620"}, []string{far}, "the node answers that UDP port 862 is closed (ICMPv6 port unreachable): start 'waymark stamp reflector'"},
		{"closed, through segments", []string{"--listen", "[::]:8620"}, []string{far, "--segments", endSID}, "UDP port 862 is closed"},
		{"closed, through a tunnel", []string{"--listen", "[::]:8620"}, []string{far, "--segments", endSID + "," + exitSID, "--mode", "encap"}, "UDP port 862 is closed"},
		{"prohibited", nil, []string{"2001:db8:77::1"}, far + " answers with an ICMPv6 error (prohibited): check the route to 2001:db8:77::1 from there"},
		{"another key", []string{"--key-file", key}, []string{far}, "nothing answers at all, so check for: another key or mode at the reflector (--key-file, --protect); a reflector that does not answer this address (--allow)"},
		{"a SID of nobody", nil, []string{far, "--segments", endSID + ",fc00:b::77"}, far2 + " answers with an ICMPv6 error"},
	} {
		r := reflect(t, tt.theirs...)
		text, err := sendText(t, append(tt.ours, "--count", "3", "--interval", "50ms", "--timeout", "500ms")...)
		if e2e.ExitCode(err) != 1 || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %v: %s\nwant %q", tt.name, err, text, tt.want)
		}
		r.stop(t)
	}
}
