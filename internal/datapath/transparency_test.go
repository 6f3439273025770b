// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// passing is what TestTransparency finds in a frame: whether a node that does
// everything must leave it alone, and what kind it is.
type passing struct {
	transparent bool
	kind        string
}

// protocols are the protocols that the test must have covered.
var protocols = map[byte]string{6: "TCP", 17: "UDP", 41: "IPv6", 58: "ICMPv6", 59: "nothing", 132: "SCTP", 253: "experiment"}

// lookAt reads a frame independently of the code under test: the node must not
// change frames without an IOAM option in their first Hop-by-Hop header, or in the
// Destination Options header that is first or follows it, that are no tunnel packets
// to tunnelDestination.
func lookAt(frame []byte, tunnelDestination netip.Addr) passing {
	at := 12
	for tags := 0; len(frame) >= at+4 && tags < 2 && (frame[at] == 0x81 && frame[at+1] == 0 || frame[at] == 0x88 &&
		frame[at+1] == 0xa8); tags++ {
		at += 4
	}
	if len(frame) < at+2+40 || binary.BigEndian.Uint16(frame[at:]) != 0x86dd || frame[at+2]>>4 != 6 {
		return passing{true, "not IPv6"}
	}
	packet := frame[at+2:]
	next, rest, options := packet[6], packet[40:], false
	inside := next // what follows the headers that a tunnel's end removes
	for depth := range 9 {
		size := 0 // of an extension header
		switch {
		case next == 44:
			size = 8
		case len(rest) < 8:
		case next == 51:
			size = 4 * (int(rest[1]) + 2)
		case next == 0 || next == 43 || next == 60:
			size = 8 * (int(rest[1]) + 1)
		}
		if size == 0 {
			break
		}
		if size > len(rest) {
			return passing{!(next == 0 && depth == 0), "cut short"}
		}
		if next == 0 && depth == 0 {
			if options = true; holdsIOAM(rest[2:size]) {
				return passing{false, "IOAM"}
			}
			inside = rest[0]
		}
		if next == 60 && inside == 60 && holdsIOAM(rest[2:size]) { // Edge-to-Edge
			return passing{false, "IOAM"}
		}
		next, rest = rest[0], rest[size:]
	}
	kind, known := protocols[next]
	if !known {
		kind = "another protocol"
	}
	if inside == 41 && bytes.Equal(packet[24:40], tunnelDestination.AsSlice()) {
		return passing{false, "tunnel"}
	}
	if options {
		kind += " behind other options"
	}
	return passing{true, kind}
}

// holdsIOAM reports whether a header's options include one of a type that RFC
// 9486 assigns to IOAM.
func holdsIOAM(options []byte) bool {
	for len(options) > 0 {
		kind := options[0]
		if kind == 0x31 || kind == 0x11 {
			return true
		}
		size := 1
		if kind != 0 {
			if len(options) < 2 {
				return false
			}
			size = min(2+int(options[1]), len(options))
		}
		options = options[size:]
	}
	return false
}

// TestTransparency sends random bytes and packets without IOAM through every
// program of a router that does everything: none is dropped or changed.
func TestTransparency(t *testing.T) {
	cfg := rightConfig()
	decapsulating(&cfg)
	cfg.Encapsulations = []model.Encapsulation{{
		Name: "elsewhere", Interface: 1, Match: model.Match{Destination: netip.MustParsePrefix("2001:db8:ffff::/48")},
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
	}}
	p := loadPrograms(t, cfg, 1, 0, hookIngressXDP, hookIngressTC, hookEgressTC)
	g := generator{rand.New(rand.NewPCG(7, 7))}
	const frames = 20_000
	met := make(map[string]int)
	for n := range frames {
		frame := g.frame()
		if n%3 == 0 {
			frame = g.bytes(14 + g.IntN(300))
		}
		seen := lookAt(frame, addresses[1])
		met[seen.kind]++
		if !seen.transparent {
			continue
		}
		for _, program := range []*ebpf.Program{p.xdp, p.tcIn, p.tcOut} {
			if program.Type() == ebpf.SchedCLS && len(frame) < atHBH {
				continue // the facility refuses an skb shorter than its protocol's header
			}
			verdict, out := run(t, program, frame, 0)
			if dropped(program, verdict) || !bytes.Equal(out, frame) {
				t.Fatalf("%v, %s: verdict %d\n%sbecame\n%s", program, seen.kind, int32(verdict), hex.Dump(frame), hex.Dump(out))
			}
		}
	}
	t.Log(met)
	for _, kind := range []string{"not IPv6", "cut short", "another protocol"} {
		if met[kind] < frames/200 {
			t.Errorf("%d frames with %s went through, want %d", met[kind], kind, frames/200)
		}
	}
	for _, protocol := range protocols {
		for kind, least := range map[string]int{protocol: frames / 200, protocol + " behind other options": frames / 1000} {
			if met[kind] < least {
				t.Errorf("%d frames with %s went through, want %d", met[kind], kind, least)
			}
		}
	}
	if met["IOAM"]+met["tunnel"] > frames/2 {
		t.Errorf("too many frames were skipped: %d with IOAM, %d with a tunnel", met["IOAM"], met["tunnel"])
	}
}
