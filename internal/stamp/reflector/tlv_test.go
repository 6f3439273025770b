// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/craft"
)

// tlvCase is TLVs of a packet, and what they become in the reply.
type tlvCase struct {
	name, sent, want string
	config           func(*Config)
}

func zeros(n int) string { return strings.Repeat("00", n) }

func checkTLVs(t *testing.T, cases []tlvCase) {
	t.Helper()
	for _, tt := range cases {
		r := newReflector(t, tt.config)
		d := packet(t, stamp.Unauthenticated, sent, nil, craft.Hex(t, tt.sent))
		_, got := answerOf(t, r, &d)
		want := craft.Hex(t, tt.want)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s, want\n%s", tt.name, hex.EncodeToString(got), hex.EncodeToString(want))
		}
	}
}

// Each TLV by itself.
func TestTLVs(t *testing.T) {
	stateful := func(c *Config) { c.Stateful = true }
	checkTLVs(t, []tlvCase{
		{"extra padding", "80010002 abcd", "00010002 abcd", nil},
		{"an unknown type", "800c0002 abcd", "800c0002 abcd", nil},
		{"private", "80fd0006 00007ed9 abcd", "80fd0006 00007ed9 abcd", nil},
		{"private, too short", "80fd0003 00007e", "40fd0003 00007e", nil},
		{"timestamp information", "80030004 00000000", "00030004 05020502", nil},
		{"timestamp information, too short", "80030003 000000", "40030003 000000", nil},
		{"class of service", "80040004 28000000", "00040004 28ac0000", nil},
		{"class of service, not permitted", "80040004 b8000000", "00040004 b8ad0000", nil},
		{"class of service, permitted", "80040004 b8000000", "00040004 b8ac0000", func(c *Config) { c.DSCPs = 1 << 46 }},
		{"class of service, too long", "80040005 b800000000", "40040005 b800000000", nil},
		{"direct measurement", "8005000c 00000009 00000000 00000000", "8005000c 00000009 00000000 00000000", nil},
		{"direct measurement of a session", "8005000c 00000009 00000000 00000000", "0005000c 00000009 00000001 00000001", stateful},
		{"direct measurement of a flow", "8005000c 00000009 ffffffff ffffffff", "0005000c 00000009 00000005 00000006", func(c *Config) {
			c.Measured = func(netip.AddrPort, stamp.SSID) (uint32, uint32, bool) { return 5, 6, true }
		}},
		{"access report", "80060004 10020000", "00060004 10020000", nil},
		{"access report, another access", "80060004 30020000", "80060004 30020000", nil},
		{"follow-up, first packet", "80070010" + strings.Repeat("ee", 16), "00070010" + zeros(16), stateful},
		{"follow-up, stateless", "80070010" + strings.Repeat("ee", 16), "00070010" + zeros(16), nil},
		{"follow-up, too short", "8007000d" + strings.Repeat("ee", 13), "4007000d" + zeros(12) + "ee", nil},
		{"HMAC without a key", "80040004 28000000 80080010" + zeros(16) + "80010002 abcd", "20040004 28000000 20080010" + zeros(16) + "20010002 abcd", nil},
		{"destination node, ours", "80090010 00000000000000000000000000000001", "00090010 00000000000000000000000000000001", nil},
		{"destination node, IPv4", "80090004 7f000001", "00090004 7f000001", nil},
		{"destination node, another", "80090010 20010db8000000000000000000000009", "80090010 20010db8000000000000000000000009", nil},
		{"destination node, malformed", "80090005 7f00000100", "40090005 7f00000100", nil},
		{"micro-session without one", "800b0004 00050000", "800b0004 00050000", nil},
		{"micro-session", "800b0004 00050000", "000b0004 00050009", func(c *Config) { c.MicroSession = 9 }},
		{"after a malformed one, the rest is a copy", "80040001 00 80030004 00000000", "40040001 00 80030004 00000000", nil},
		{"cut", "80030004 00000000 80040004 0000", "00030004 05020502 40040004 0000", nil},
		{"less than a header", "80", "40", nil},
		{"location", "80020004 00000000", "00020004 035e9c40", nil},
		{
			"location of everything", "80020038 00000000 80010008" + zeros(8) + "80040010" + zeros(16) + "80070010" + zeros(16),
			"00020038 035e9c40 00030008" + zeros(8) + "00060010 20010db8000200000000000000000001 00090010 20010db8000100000000000000000001", nil,
		},
		{"location of something else", "8002000a 00000000 800c0002 abcd", "0002000a 035e9c40 800c0002 abcd", nil},
		{"location, malformed inside", "8002000a 00000000 80010002 abcd", "4002000a 00000000 80010002 abcd", nil},
	})
}

func TestReturnPaths(t *testing.T) {
	checkTLVs(t, []tlvCase{
		{"return path, same link", "800a0008 80010004 00000001", "000a0008 00010004 00000001", nil},
		{"return path, another address", "800a0014 80020010 20010db8000000000000000000000009", "800a0014 80020010 20010db8000000000000000000000009", nil},
		{"return path, its own address", "800a0014 80020010 20010db8000100000000000000000001", "000a0014 00020010 20010db8000100000000000000000001", nil},
		{"return path, MPLS", "800a0008 80030004 000010ff", "800a0008 80030004 000010ff", nil},
		{"return path, segments", "800a0014 80040010 20010db8000a00000000000000000000", "800a0014 80040010 20010db8000a00000000000000000000", nil},
		{"return path, segments allowed", "800a0014 80040010 20010db8000a00000000000000000000", "000a0014 00040010 20010db8000a00000000000000000000", func(c *Config) { c.ReturnSegments = true }},
		{"return path, not followed, U clear inside", "800a0014 00040010 20010db8000a00000000000000000000", "800a0014 80040010 20010db8000a00000000000000000000", nil},
		{"return path, not all of it used", "800a0014 80010004 00000001 000c0000 20010004 00000000", "000a0014 00010004 00000001 800c0000 80010004 00000000", nil},
		{"return path, control code and address", "800a001c 80010004 00000001 00020010 20010db8000100000000000000000001", "000a001c 00010004 00000001 80020010 20010db8000100000000000000000001", nil},
		{"return path, empty", "800a0000", "800a0000", nil},
		{"two return paths", "800a0008 80010004 00000001 800a0008 80010004 00000000", "000a0008 00010004 00000001 800a0008 80010004 00000000", nil},
	})
}

// What synchronizes the clock is what the operator says, and nothing if nothing does:
// the kernel knows no protocol (RFC 8972 §4.3).
func TestSynchronizationSource(t *testing.T) {
	for _, tt := range []struct {
		said, want stamp.SyncSource
		synced     bool
	}{
		{stamp.SyncUnknown, stamp.SyncUnknown, true},
		{stamp.SyncPTP, stamp.SyncPTP, true},
		{stamp.SyncPTP, stamp.SyncFreeRunning, false},
	} {
		r := newReflector(t, func(c *Config) { c.Source = tt.said })
		r.synced = func() bool { return tt.synced }
		d := packet(t, stamp.Unauthenticated, sent, nil, tlv(t, stamp.TypeTimestampInformation, 0, 0, 0, 0))
		_, got := answerOf(t, r, &d)
		i, err := stamp.DecodeTimestampInformation(got[stamp.TLVHeaderLen:])
		if err != nil || i.SourceIn != tt.want || i.SourceOut != tt.want {
			t.Errorf("%+v, %v; want %v", i, err, tt.want)
		}
	}
}

// How a reply is sent, where a TLV says so.
func TestWayBack(t *testing.T) {
	all := func(c *Config) { c.DSCPs, c.ReturnSegments = 1<<46, true }
	sid := netip.MustParseAddr("2001:db8:a::")
	segments, err := stamp.AppendSegmentList(nil, []netip.Addr{sid, local})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		tlv   []byte
		check func(udp.Datagram) bool
	}{
		{"class", tlv(t, stamp.TypeClassOfService, 46<<2, 0, 0, 0), func(d udp.Datagram) bool { return d.TrafficClass == 46<<2 }},
		{"same link", tlv(t, stamp.TypeReturnPath, stamp.AppendControlCode(nil, stamp.ReplySameLink)...), func(d udp.Datagram) bool { return d.Interface == 3 }},
		{"segments", tlv(t, stamp.TypeReturnPath, segments...), func(d udp.Datagram) bool {
			return bytes.Equal(d.Segments, append(sid.AsSlice(), local.AsSlice()...))
		}},
	} {
		d := packet(t, stamp.Unauthenticated, sent, nil, tt.tlv)
		if _, _ = answerOf(t, newReflector(t, all), &d); !tt.check(d) {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
	for outcome, one := range map[Outcome][]byte{
		ReplyDeclined: tlv(t, stamp.TypeReturnPath, stamp.AppendControlCode(nil, stamp.ReplyNone)...),
		WrongMicro:    tlv(t, stamp.TypeMicroSession, 0, 1, 0, 2),
	} {
		d := packet(t, stamp.Unauthenticated, sent, nil, one)
		r := newReflector(t, func(c *Config) { c.MicroSession, c.Stateful = 9, true })
		if got := reflect(r, &d, &reply{}, now); got != outcome {
			t.Errorf("%v, want %v", got, outcome)
		}
		if n := r.Counts().Sessions; outcome == WrongMicro && n != 0 {
			t.Errorf("%d sessions of packets for another link", n)
		}
	}
}

// A reply comes from the node address that the sender names, if it can (RFC 9503 §3).
func TestSourceOfNodeAddress(t *testing.T) {
	far, near := netip.MustParseAddr("2001:db8:7::7"), netip.MustParseAddr("fe80::7")
	for _, tt := range []struct {
		node, peer string
		own        bool // the node address becomes the source
	}{
		{far.String(), "2001:db8:1::1", true},
		{"fd00::7", "2001:db8:1::1", true},
		{far.String(), "fe80::1", true},
		{near.String(), "fe80::1", true},
		{near.String(), "2001:db8:1::1", false},
		{"fe80::8", "fe80::1", false}, // of another interface
		{"::1", "2001:db8:1::1", false},
		{"ff02::1", "2001:db8:1::1", false},
		{"::ffff:192.0.2.1", "2001:db8:1::1", false},
		{"192.0.2.1", "2001:db8:1::1", false},
	} {
		node := netip.MustParseAddr(tt.node)
		r := newReflector(t, nil)
		r.local = localAddresses{
			list:   map[netip.Addr]bool{node.Unmap(): true, near: true},
			onLink: map[uint32]map[netip.Addr]bool{4: {near: true}},
			at:     now,
		}
		d := packet(t, stamp.Unauthenticated, sent, nil, tlv(t, stamp.TypeDestinationNodeAddress, node.AsSlice()...))
		d.Peer, d.Scope = netip.AddrPortFrom(netip.MustParseAddr(tt.peer), 9), 4
		want := local
		if tt.own {
			want = node
		}
		if got := reflect(r, &d, &reply{}, now); got != Reflected || d.Local != want || d.Data[44] != 0 {
			t.Errorf("%s for %s: %v from %v with flags %#x, want %v", tt.node, tt.peer, got, d.Local, d.Data[44], want)
		}
	}
	var l localAddresses
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if own := netip.IPv6Loopback(); !l.hasOn(uint32(loopback.Index), own, now) || l.hasOn(1<<30, own, now) || !l.has(own, now) {
		t.Error("the loopback address is not on the loopback interface, or on another one")
	}
}

// A reply with a link-local address at either end goes back over the link of its packet.
func TestLinkLocal(t *testing.T) {
	r := newReflector(t, nil)
	d := packet(t, stamp.Unauthenticated, sent, nil)
	d.Peer, d.Scope = netip.MustParseAddrPort("[fe80::1]:9"), 4
	if got := reflect(r, &d, &reply{}, now); got != Reflected || d.Interface != 4 {
		t.Errorf("%v by interface %d", got, d.Interface)
	}
	d = packet(t, stamp.Unauthenticated, sent, nil)
	d.Local = netip.MustParseAddr("fe80::2")
	if got := reflect(r, &d, &reply{}, now); got != Reflected || d.Interface != 3 {
		t.Errorf("to a global address: %v by interface %d", got, d.Interface)
	}
}

// TLVs with an HMAC: the reply has a new one, or the I flag in every TLV.
func TestTLVIntegrity(t *testing.T) {
	cos := func() []byte { return tlv(t, stamp.TypeClassOfService, 10<<2, 0, 0, 0) }
	padding := tlv(t, stamp.TypeExtraPadding, 1, 2)
	authenticated, open := func(c *Config) { c.Key, c.Stateful = key, true },
		func(c *Config) { c.Key, c.KeyForTLVs, c.Stateful = key, true, true }
	for _, tt := range []struct {
		name   string
		config func(*Config)
		tlvs   [][]byte
		change func(tlvs []byte)
		intact bool
	}{
		{"right", authenticated, [][]byte{cos(), hmacTLV(t), padding}, nil, true},
		{"only padding", authenticated, [][]byte{padding}, nil, true},
		{"none", authenticated, [][]byte{cos()}, nil, false},
		{"changed", authenticated, [][]byte{cos(), hmacTLV(t), padding}, func(b []byte) { b[4] ^= 4 }, false},
		{"not last", authenticated, [][]byte{hmacTLV(t), cos()}, nil, false},
		{"cut", authenticated, [][]byte{cos(), {0x80, 8, 0, 16, 1}}, nil, false},
		{"right, unauthenticated", open, [][]byte{cos(), hmacTLV(t)}, nil, true},
		{"none, unauthenticated", open, [][]byte{cos()}, nil, false},
		{"changed, unauthenticated", open, [][]byte{cos(), hmacTLV(t)}, func(b []byte) { b[4] ^= 4 }, false},
	} {
		r := newReflector(t, tt.config)
		d := packet(t, r.mode, sent, key, tt.tlvs...)
		if tt.change != nil {
			tt.change(d.Data[r.mode.BaseLen():])
		}
		original := bytes.Clone(d.Data[r.mode.BaseLen():])
		p, got := answerOf(t, r, &d)
		a := stamp.NewAuthenticator(key)
		if tt.intact != stamp.Intact(a.VerifyTLVs(p.Sequence, got), stamp.Authenticated, got) || p.Sequence != 0 {
			t.Errorf("%s: reply %d with %x", tt.name, p.Sequence, got)
		}
		for one := range stamp.TLVs(got) {
			if (one.Flags()&stamp.FlagIntegrity != 0) == tt.intact || one.Flags()&stamp.FlagUnrecognized != 0 {
				t.Errorf("%s: flags %#x of %v", tt.name, one.Flags(), one.Type())
			}
			if !tt.intact && !bytes.Equal(one.Value(), original[one.Offset:][min(4, len(original)-one.Offset):][:len(one.Value())]) {
				t.Errorf("%s: the value of %v changed", tt.name, one.Type())
			}
		}
		if failed := r.Counts().Notes[TLVIntegrity]; (failed == 0) != tt.intact {
			t.Errorf("%s: counted %d times", tt.name, failed)
		}
	}
}

// The second reply of a session says when the first one was sent.
func TestFollowUp(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Stateful = true })
	ask := func() []byte { return tlv(t, stamp.TypeFollowUpTelemetry, make([]byte, 16)...) }
	d := packet(t, stamp.Unauthenticated, sent, nil, ask())
	state := reply{}
	if got := reflect(r, &d, &state, now); got != Reflected {
		t.Fatal(got)
	}
	r.account(&d, &state, now+9000)
	d = packet(t, stamp.Unauthenticated, sent, nil, ask())
	p, tlvs := answerOf(t, r, &d)
	f, err := stamp.DecodeFollowUpTelemetry(tlvs[stamp.TLVHeaderLen:])
	if want := (stamp.FollowUpTelemetry{Sequence: 0, Timestamp: r.clock.Timestamp(now + 9000), Method: stamp.MethodSoftware}); err != nil ||
		f != want ||
		p.Sequence != 1 {
		t.Errorf("%+v, %v in reply %d, want %+v", f, err, p.Sequence, want)
	}
	d.Err = unix.ENETUNREACH
	r.account(&d, &state, now+9999)
	if c := r.Counts(); c.Outcomes[Reflected] != 1 || c.Outcomes[SendFailed] != 1 || c.Octets != uint64(len(d.Data)) {
		t.Errorf("%+v", c)
	}
}

// Packets of one session that arrive together: each reply names the one right before it,
// which is therefore sent first.
func TestFollowUpInOneBatch(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Stateful, c.Local = true, netip.MustParseAddrPort("[::1]:0") })
	moment := now
	r.now = func() clock.Instant { moment += 1000; return at(moment) }
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := udp.Listen(udp.Config{Local: netip.MustParseAddrPort("[::1]:0"), Batch: 8, Size: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var list []udp.Datagram
	for i := range uint32(3) {
		d := packet(t, stamp.Unauthenticated, stamp.SenderPacket{Sequence: i}, nil, tlv(t, stamp.TypeFollowUpTelemetry, make([]byte, 16)...))
		d.Peer, d.Local = s.Local(), netip.IPv6Loopback()
		list = append(list, d)
	}
	if err := r.serve(list); err != nil {
		t.Fatal(err)
	}
	var before stamp.ReflectorPacket
	for i := range list { // replies are written over the packets
		b := list[i].Data
		p, _ := stamp.DecodeReflector(b, stamp.Unauthenticated)
		f, err := stamp.DecodeFollowUpTelemetry(b[44+stamp.TLVHeaderLen:])
		want := stamp.FollowUpTelemetry{}
		if i > 0 {
			want = stamp.FollowUpTelemetry{Sequence: before.Sequence, Timestamp: f.Timestamp, Method: stamp.MethodSoftware}
		}
		if err != nil || f != want || p.Sequence != uint32(i) || f.Timestamp >= p.Timestamp || i > 0 && f.Timestamp <= before.Timestamp {
			t.Errorf("reply %d: %+v, %v; want %+v, after %v", p.Sequence, f, err, want, before.Timestamp)
		}
		before = p
	}
	if c := r.Counts(); c.Outcomes[Reflected] != 3 {
		t.Errorf("%v", c.Outcomes)
	}
}

// Replies that the kernel refuses to send are not transmitted: the next one has the
// number of the last such ones, and the Direct Measurement counts none of them.
func TestUnsentReplies(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Stateful, c.Local = true, netip.MustParseAddrPort("[::1]:0") })
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	batchOf := func(unsent ...bool) (list []udp.Datagram) {
		for _, fails := range unsent {
			d := packet(t, stamp.Unauthenticated, sent, nil, tlv(t, stamp.TypeDirectMeasurement, make([]byte, 12)...))
			d.Peer, d.Local = r.Local(), netip.IPv6Loopback()
			if fails {
				d.Local = netip.MustParseAddr("2001:db8::77") // not this machine's
			}
			list = append(list, d)
		}
		return list
	}
	number := func(d udp.Datagram) (uint32, uint32) {
		p, _ := stamp.DecodeReflector(d.Data, stamp.Unauthenticated)
		m, _ := stamp.DecodeDirectMeasurement(d.Data[44+stamp.TLVHeaderLen:])
		return p.Sequence, m.ReflectorTransmitted
	}
	d := batchOf(false)[0]
	state := reply{}
	if got := reflect(r, &d, &state, now); got != Reflected {
		t.Fatal(got)
	}
	s := state.session
	failed := udp.Datagram{Err: unix.ENETUNREACH}
	s.next = 5 // of the numbers 0 to 4, 1, 3 and 4 were refused
	for _, n := range []uint32{4, 3, 1} {
		r.takeBack(&failed, &reply{session: s, packet: stamp.ReflectorPacket{Sequence: n}})
	}
	r.takeBack(&udp.Datagram{}, &reply{session: s, packet: stamp.ReflectorPacket{Sequence: 2}})
	d = batchOf(false)[0]
	if got := reflect(r, &d, &reply{}, now); got != Reflected {
		t.Fatal(got)
	}
	if n, transmitted := number(d); n != 3 || transmitted != 3 {
		t.Errorf("number %d, %d transmitted, want 3 and 3", n, transmitted)
	}
	// A whole batch that the kernel refuses.
	for range 2 {
		list := batchOf(true, true)
		if err := r.serve(list); err != nil {
			t.Fatal(err)
		}
		if n, transmitted := number(list[0]); n != 0 || transmitted != 1 {
			t.Errorf("number %d, %d transmitted, want 0 and 1", n, transmitted)
		}
	}
	if c := r.Counts(); c.Outcomes[SendFailed] != 4 {
		t.Errorf("%v", c.Outcomes)
	}
}

// A type that the reflector does not know can be given to an extension.
func TestExtension(t *testing.T) {
	r := newReflector(t, func(c *Config) {
		c.Extension = func(one stamp.TLV) bool {
			enterprise, data, err := stamp.DecodePrivate(one.Value())
			if one.Type() != 253 || err != nil || enterprise != 32473 {
				return false
			}
			data[0]++
			return true
		}
	})
	d := packet(t, stamp.Unauthenticated, sent, nil, craft.Hex(t, "80fd0005 00007ed9 01 80fe0005 00007ed9 01"))
	if _, got := answerOf(t, r, &d); !bytes.Equal(got, craft.Hex(t, "00fd0005 00007ed9 02 80fe0005 00007ed9 01")) {
		t.Errorf("%x", got)
	}
	if n := r.Counts().Notes[TLVUnknown]; n != 1 {
		t.Errorf("counted %d times", n)
	}
}
