// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// reasonTrial is a packet that the stack alone has because of its segments, or of what its
// route does with them.
type reasonTrial struct {
	name     string
	routes   []string   // of both routers, or rules
	settings [][]string // commands in both
	undo     [][]string // what undoes them
	packet   func(w *twins) trial
	reason   string
	arrives  bool // the kernel forwards it
}

const (
	routeEnd  = "route add fc00:1::e encap seg6local action End dev eth1"
	routeDT6  = "route add fc00:1::d6 encap seg6local action End.DT6 table 254 dev eth1"
	routePut  = "route add 2001:db8:e1::/48 encap seg6 mode encap segs fc00:2::1,fc00:3::1 dev eth1"
	hmacKey   = 7
	hmacWords = "a secret of the test"
)

// to sends a good packet to a destination.
func to(destination string) func(w *twins) trial {
	return func(w *twins) trial { return good(w, destination) }
}

// with changes the SRH of a packet that is good for End, or for End.DT6.
func with(destination string, change func(srh []byte) []byte) func(w *twins) trial {
	return func(w *twins) trial {
		return segmented(w, destination, func(inner []byte) (byte, []byte) {
			left := byte(1)
			if destination != "fc00:1::e" {
				left = 0
			}
			return 43, append(change(header(left)), inner...)
		})
	}
}

// octet changes an octet of an SRH.
func octet(i int, value byte) func(srh []byte) []byte {
	return func(srh []byte) []byte { srh[i] = value; return srh }
}

// tlvs adds TLVs to an SRH.
func tlvs(b ...byte) func(srh []byte) []byte {
	return func(srh []byte) []byte { srh[1] += byte(len(b) / 8); return append(srh, b...) }
}

// protected adds an HMAC as the kernel checks it (RFC 8754 §2.1.2), made with a secret.
func protected(secret string) func(srh []byte) []byte {
	return func(srh []byte) []byte {
		const flagHMAC = 1 << 3 // the kernel still asks for it
		srh[5] |= flagHMAC
		id := binary.BigEndian.AppendUint32(nil, hmacKey)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(slices.Concat(netip.MustParseAddr("2001:db8:5:1::1").AsSlice(), srh[4:6], id, srh[8:]))
		return tlvs(slices.Concat([]byte{5, 38, 0, 0}, id, mac.Sum(nil))...)(srh)
	}
}

// before puts a header in front of the SRH of a packet that is good for End.
func before(kind byte, options ...byte) func(w *twins) trial {
	return func(w *twins) trial {
		return segmented(w, "fc00:1::e", func(inner []byte) (byte, []byte) {
			return kind, slices.Concat([]byte{43, byte((len(options)+2)/8 - 1)}, options, header(1), inner)
		})
	}
}

// bare is a packet with something else than an SRH.
func bare(destination string, next byte, body ...byte) func(w *twins) trial {
	return func(w *twins) trial { return w.newTrial("2001:db8:5:1::1", destination, 0, next, body) }
}

// traceOptions are the options of a header with a trace.
func traceOptions(t *testing.T) []byte {
	t.Helper()
	trace := ioam.Trace{Namespace: 123, NodeLen: 2, Type: 0xc00000, RemainingLen: 2, Data: make([]byte, 8)}
	b, err := ioam.AppendExtensionHeader(nil, 43, trace.Option())
	if err != nil {
		t.Fatal(err)
	}
	return b[2:]
}

// reasonTrials has every reason but those of routes alone, which TestForwardBehaviours has.
func reasonTrials(t *testing.T) []reasonTrial {
	t.Helper()
	end, decapsulate, put := []string{routeEnd}, []string{routeDT6}, []string{routePut}
	command := func(text string) [][]string { return [][]string{strings.Fields(text)} }
	multicast := func(srh []byte) []byte { copy(srh[8:], []byte{0xff, 0x0e}); return srh }
	chained := func(srh []byte) []byte { copy(srh[8:], []byte{0x20, 0x01, 0x0d, 0xb8, 0, 0xe1}); return srh }
	long := func(w *twins) trial {
		p := good(w, "fc00:1::d6")
		p.frame = append(p.frame, 0, 0)
		binary.BigEndian.PutUint16(p.frame[14+4:], uint16(len(p.frame)-14-40))
		return p
	}
	return []reasonTrial{
		{"End", end, nil, nil, to("fc00:1::e"), "", true},
		{"End.DT6", decapsulate, nil, nil, to("fc00:1::d6"), "", true},
		{"H.Encaps", put, nil, nil, to("2001:db8:e1::1"), "", true},

		{"HMAC", end, nil, nil, with("fc00:1::e", protected(hmacWords)), "segment_hmac", true},
		{"HMAC at the last segment", decapsulate, nil, nil, with("fc00:1::d6", protected(hmacWords)), "segment_hmac", true},
		{"HMAC of another secret", end, nil, nil, with("fc00:1::e", protected("another")), "segment_hmac", false},
		{"route adds an HMAC", []string{"route add 2001:db8:e1::/48 encap seg6 mode encap segs fc00:2::1,fc00:3::1 hmac 7 dev eth1"}, nil, nil, to("2001:db8:e1::1"), "segment_hmac", true},
		{"PadN", end, nil, nil, with("fc00:1::e", tlvs(4, 6, 0, 0, 0, 0, 0, 0)), "segment_tlv", true},
		{"an unknown TLV", decapsulate, nil, nil, with("fc00:1::d6", tlvs(77, 6, 1, 2, 3, 4, 5, 6)), "segment_tlv", true},

		{"Segments Left beyond the list", end, nil, nil, with("fc00:1::e", octet(3, 3)), "segment_malformed", false},
		{"Last Entry beyond the header", end, nil, nil, with("fc00:1::e", octet(4, 2)), "segment_malformed", false},
		{"header beyond the packet", end, nil, nil, with("fc00:1::e", octet(1, 200)), "segment_malformed", false},
		{"TLV beyond the header", end, nil, nil, with("fc00:1::e", tlvs(4, 7, 0, 0, 0, 0, 0, 0)), "segment_malformed", false},
		{"malformed at the last segment", decapsulate, nil, nil, with("fc00:1::d6", octet(4, 2)), "segment_malformed", true},

		{"End without an SRH", end, nil, nil, bare("fc00:1::e", 17, datagram(1, 2, 100)...), "segment_mismatch", false},
		{"End with no segment left", end, nil, nil, with("fc00:1::e", octet(3, 0)), "segment_mismatch", false},
		{"another routing header", end, nil, nil, with("fc00:1::e", octet(2, 3)), "segment_mismatch", false},
		{"End.DT6 with a segment left", decapsulate, nil, nil, with("fc00:1::d6", octet(3, 1)), "segment_mismatch", false},
		{"End.DT6 without a tunnel", decapsulate, nil, nil, bare("fc00:1::d6", 17, datagram(1, 2, 100)...), "segment_mismatch", false},
		{"End.DT6 with IPv4", decapsulate, nil, nil, with("fc00:1::d6", octet(0, 4)), "segment_mismatch", false},

		{"Destination Options", end, nil, nil, before(60, 1, 4, 0, 0, 0, 0), "headers", true},
		{"Hop-by-Hop", end, nil, nil, before(0, 1, 4, 0, 0, 0, 0), "headers", true},
		{"IOAM", end, nil, nil, before(0, traceOptions(t)...), "headers", true},
		{"next segment is multicast", end, nil, nil, with("fc00:1::e", multicast), "packet", false},
		{"tunnel longer than its packet", decapsulate, nil, nil, long, "packet", true},
		{"next segment is encapsulated", append(end, routePut), nil, nil, with("fc00:1::e", chained), "segment_chained", true},

		{"twice", append(end, routeEnd+" metric 7"), nil, nil, to("fc00:1::e"), "segment_ambiguous", true},
		{"multipath", append(put, "route add 2001:db8:9::/64 nexthop via 2001:db8:11::2 dev eth1 nexthop via 2001:db8:12::2 dev eth2"), nil, nil, to("2001:db8:e1::1"), "segment_ambiguous", true},
		{"no source", put, command("ip sr tunsrc set ::"), command("ip sr tunsrc set 2001:db8:ff::1"), to("2001:db8:e1::1"), "segment_setting", true},
		{"another encap", []string{"route add 2001:db8:e9::/48 encap ip6 id 1 dst 2001:db8:9::1 via 2001:db8:11::2 dev eth1"}, nil, nil, to("2001:db8:e9::1"), "encap", true},

		{"a rule", append(end, "rule add pref 100 from 2001:db8:77::/64 lookup 100"), nil, nil, to("fc00:1::e"), "segment_suspended", true},
		{"HMAC required", end, command("sysctl -qw net.ipv6.conf.eth3.seg6_require_hmac=1"), command("sysctl -qw net.ipv6.conf.eth3.seg6_require_hmac=0"), to("fc00:1::e"), "segment_suspended", true},
	}
}

// Packets that only the stack has because of their segments are counted by the reason, and
// the kernel does with them what it does without Waymark.
func TestForwardSegmentReasons(t *testing.T) {
	e2e.NeedRedirection(t)
	w := raiseSegmentTwins(t, "xdp")
	for _, n := range []string{"fast", "plain"} {
		if err := w.lab.Node(n).Do(setHMAC); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range reasonTrials(t) {
		t.Run(r.name, func(t *testing.T) { w.checkReason(t, r) })
	}
}

func (w *twins) checkReason(t *testing.T, r reasonTrial) {
	t.Helper()
	var undo []string
	for _, route := range slices.Backward(r.routes) {
		undo = append(undo, strings.Replace(route, " add ", " del ", 1))
	}
	w.both(t, r.routes...)
	defer w.both(t, undo...)
	w.setAll(t, r.settings)
	defer w.setAll(t, r.undo)
	if r.reason == "segment_suspended" {
		e2e.Await(t, "the agent to suspend segments", 5*time.Second, func() bool { return !e2e.KnowsSegments(t, w.state) })
	} else {
		e2e.AwaitSegments(t, w.lab, "fast")
	}
	const count = 4
	w.checkWay(t, r.reason, func() (trials []trial) {
		for range count {
			trials = append(trials, r.packet(w))
		}
		return trials
	})
	if arrives := w.used() > 0; arrives != r.arrives {
		t.Errorf("the packets arrive: %v, want %v", arrives, r.arrives)
	}
}

// In tc, the stack has all segments, also of packets with IOAM.
func TestForwardSegmentsInTC(t *testing.T) {
	w := raiseSegmentTwins(t, "tcx")
	for name, packet := range map[string]func(w *twins) trial{
		"alone": to("fc00:1::e"), "IOAM": before(0, traceOptions(t)...),
	} {
		t.Run(name, func(t *testing.T) {
			w.checkReason(t, reasonTrial{routes: []string{routeEnd}, packet: packet, reason: "segment_tc", arrives: true})
		})
	}
}

// setHMAC gives the kernel the secret of a key; ip asks a terminal for it.
func setHMAC() error {
	const setHMAC, keyID, secret, secretLength, algorithm, sha256Algorithm = 1, 3, 4, 5, 6, 2 // linux/seg6_genl.h, seg6_hmac.h
	family, err := netlink.GenlFamilyGet("SEG6")
	if err != nil {
		return err
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(&nl.Genlmsg{Command: setHMAC, Version: 1})
	request.AddData(nl.NewRtAttr(keyID, nl.Uint32Attr(hmacKey)))
	request.AddData(nl.NewRtAttr(secretLength, []byte{byte(len(hmacWords))}))
	request.AddData(nl.NewRtAttr(algorithm, []byte{sha256Algorithm}))
	request.AddData(nl.NewRtAttr(secret, bytes.Clone([]byte(hmacWords))))
	_, err = request.Execute(unix.NETLINK_GENERIC, 0)
	return err
}
