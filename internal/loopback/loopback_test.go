// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

var (
	source = netip.MustParseAddr("2001:db8:1::1")
	node   = netip.MustParseAddr("2001:db8:2::1")
	two    = Node{ID: 2, Returns: func(id ioam.NamespaceID, incremental bool) bool { return id == 123 || id == 124 && !incremental }}
)

// data are the hop limits and node ids that nodes wrote, in the order of the path.
func trace(flags ioam.TraceFlags, room int, data ...byte) ioam.Trace {
	t := ioam.Trace{Namespace: 123, NodeLen: 1, Flags: flags, RemainingLen: uint8(room), Type: model.LoopbackType, Data: make([]byte, 4*room)}
	for i := len(data) - 2; i >= 0; i -= 2 {
		t.Data = append(t.Data, data[i], 0, 0, data[i+1])
	}
	return t
}

// incremental is a trace in which nodes found room as they came.
func incremental(flags ioam.TraceFlags, room int, data ...byte) ioam.Trace {
	t := trace(flags, 0, data...)
	t.Incremental, t.RemainingLen = true, uint8(room)
	return t
}

func packet(t testing.TB, from netip.Addr, traces ...ioam.Trace) (ip, header []byte) {
	t.Helper()
	var options []ioam.Option
	for _, one := range traces {
		options = append(options, one.Option())
	}
	header, err := ioam.AppendExtensionHeader(nil, ioam.NextHeaderUDP, options...)
	if err != nil {
		t.Fatal(err)
	}
	h := craft.IPv6{
		Class:       1,
		Label:       0x12345,
		Next:        craft.HopByHop,
		HopLimit:    60,
		Source:      from,
		Destination: netip.MustParseAddr("2001:db8:9::9"),
	}
	return h.Header(len(header) + 1000), header
}

func TestCopy(t *testing.T) {
	flags := ioam.FlagLoopback | ioam.FlagActive
	ip, header := packet(t, source, trace(flags, 2, 64, 1, 60, 3), trace(ioam.FlagLoopback, 0))
	before := bytes.Clone(header)
	got, err := two.Copy(ip, header, node)
	if err != nil {
		t.Fatal(err)
	}
	_, want := packet(t, source, trace(ioam.FlagActive, 1, 64, 1, 60, 3, 59, 2), trace(0, 0))
	want[0] = 59
	h := craft.IPv6{Class: 1, Label: 0x12345, Next: craft.HopByHop, HopLimit: HopLimit, Source: node, Destination: source}
	if want = h.With(want); !bytes.Equal(got, want) {
		t.Errorf("the copy is\n%x, want\n%x", got, want)
	}
	if !bytes.Equal(header, before) {
		t.Error("the packet's header was changed")
	}
}

// Incremental traces that ask grow by this node's data, as packets do where they leave; what
// is before and behind them stays.
func TestCopyGrows(t *testing.T) {
	data := strings.Repeat(" 40000001", 61)
	for _, tt := range []struct{ name, header, want string }{
		{"one", "1102 0100 310e0001 007b0a03 80000000 40000001 01020000",
			"3b03 0104 00000000 31120001 007b0802 80000000 3b000002 40000001 01020000"},
		{"without data", "1101 0100 310a0001 007b0a01 80000000",
			"3b02 0104 00000000 310e0001 007b0800 80000000 3b000002"},
		{"grown before", "1103 0104 00000000 31120001 007b0a02 80000000 3f000003 40000001 01020000",
			"3b03 0100 31160001 007b0801 80000000 3b000002 3f000003 40000001 01020000"},
		{"two", "1104 0100 310e0001 007b0a03 80000000 40000001 31120001 007b0b09 80000000 3c000003 40000001",
			"3b05 0100 31120001 007b0802 80000000 3b000002 40000001 31160001 007b0908 80000000 3b000002 3c000003 40000001"},
		{"beside others", "1107 0100 31160000 007b0a02 80000000 00000000 00000000 40000001 310e0001 007b0a03 80000000 40000001 1e020000 310e0001 007c0a03 80000000 40000001",
			"3b08 0104 00000000 31160000 007b0801 80000000 00000000 3b000002 40000001 31120001 007b0802 80000000 3b000002 40000001 1e020000 310e0001 007c0803 80000000 40000001"},
		{"full", "1120 0100 31fe0001 007b0a03 80000000" + data + " 01020000", "3b20 0100 31fe0001 007b0c03 80000000" + data + " 01020000"},
		{"without padding in front", "1102 0000 310e0001 007b0a03 80000000 40000001 01020000", "3b02 0000 310e0001 007b0c03 80000000 40000001 01020000"},
	} {
		ip, _ := packet(t, source)
		got, err := two.Copy(ip, craft.Hex(t, tt.header), node)
		h := craft.IPv6{Class: 1, Label: 0x12345, Next: craft.HopByHop, HopLimit: HopLimit, Source: node, Destination: source}
		if want := h.With(craft.Hex(t, tt.want)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the copy is\n%x, want\n%x, %v", tt.name, got, want, err)
		}
	}
}

func TestNoCopy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		from   string
		flags  ioam.TraceFlags
		change func(ip, header []byte) ([]byte, []byte)
		want   error
	}{
		{"multicast", "ff02::1", ioam.FlagLoopback, nil, ErrSource},
		{"unspecified", "::", ioam.FlagLoopback, nil, ErrSource},
		{"loopback", "::1", ioam.FlagLoopback, nil, ErrSource},
		{"link-local", "fe80::1", ioam.FlagLoopback, nil, ErrSource},
		{"this node", node.String(), ioam.FlagLoopback, nil, ErrSource},
		{"a copy", source.String(), 0, nil, ErrFlag},
		{"no room", source.String(), ioam.FlagLoopback, func(ip, header []byte) ([]byte, []byte) { header[11] = 0; return ip, header }, ErrFlag},
		{"another namespace", source.String(), ioam.FlagLoopback, func(ip, header []byte) ([]byte, []byte) { header[9] = 1; return ip, header }, ErrFlag},
		{"another type", source.String(), ioam.FlagLoopback, func(ip, header []byte) ([]byte, []byte) { header[12] = 0x40; return ip, header }, ErrFlag},
		{"incremental, without agreement", source.String(), ioam.FlagLoopback, func(ip, header []byte) ([]byte, []byte) { header[7], header[9] = 1, 124; return ip, header }, ErrFlag},
		{"cut", source.String(), ioam.FlagLoopback, func(ip, header []byte) ([]byte, []byte) { return ip[:39], header }, ErrPacket},
		{"no header", source.String(), ioam.FlagLoopback, func(ip, _ []byte) ([]byte, []byte) { return ip, nil }, ErrPacket},
		{"more than the header", source.String(), ioam.FlagLoopback, func(ip, header []byte) ([]byte, []byte) { return ip, append(header, 0) }, ErrPacket},
		{"another header", source.String(), ioam.FlagLoopback, func(ip, header []byte) ([]byte, []byte) { ip[6] = 60; return ip, header }, ErrPacket},
	} {
		ip, header := packet(t, netip.MustParseAddr(tt.from), trace(tt.flags, 1, 64, 1))
		if tt.change != nil {
			ip, header = tt.change(ip, header)
		}
		if got, err := two.Copy(ip, header, node); !errors.Is(err, tt.want) {
			t.Errorf("%s: %x, %v; want %v", tt.name, got, err, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name        string
		data        []byte
		there, back int
	}{
		{"returned by the first hop", []byte{64, 1, 63, 2}, 2, 0},
		{"by the third", []byte{64, 1, 63, 2, 62, 3, 61, 4, 254, 3, 253, 2}, 4, 2},
		{"hops without IOAM", []byte{64, 1, 62, 2, 59, 4, 252, 2}, 3, 1},
		{"sent with the greatest hop limit", []byte{255, 1, 254, 2, 253, 3, 254, 2}, 3, 1},
		{"nothing written", nil, 0, 0},
	} {
		w, err := Read(trace(0, 3, tt.data...))
		if err != nil || len(w.There) != tt.there || len(w.Back) != tt.back {
			t.Errorf("%s: %d there, %d back, %v", tt.name, len(w.There), len(w.Back), err)
		}
	}
	if w, err := Read(incremental(0, 3, 64, 1, 63, 2, 254, 3)); err != nil || len(w.There) != 2 || len(w.Back) != 1 {
		t.Errorf("incremental: %+v, %v", w, err)
	}
	other := trace(0, 3, 64, 1)
	other.Type = 0x400000
	if _, err := Read(other); err == nil {
		t.Error("another trace type is read")
	}
}

// A copy is as long as the headers of its packet, or longer by 8 octets where incremental
// traces have grown, has no Loopback flag, and asks for no other copy.
func FuzzCopy(f *testing.F) {
	ip, header := packet(f, source, trace(ioam.FlagLoopback, 2, 64, 1), trace(ioam.FlagLoopback, 0))
	f.Add(ip, header)
	f.Add(ip[:30], header[:7])
	f.Add(ip, header[:16])
	ip, header = packet(f, source, incremental(ioam.FlagLoopback, 2, 64, 1), trace(ioam.FlagLoopback, 1), incremental(ioam.FlagLoopback, 1))
	f.Add(ip, header)
	f.Fuzz(func(t *testing.T, ip, header []byte) {
		out, err := two.Copy(ip, header, node)
		if err != nil {
			return
		}
		if more := len(out) - 40 - len(header); more < 0 || more > 8*bytes.Count(header, []byte{byte(ioam.IOAMIncrementalTrace)}) || more%8 != 0 {
			t.Fatalf("%d octets of a header of %d", len(out), len(header))
		}
		if again, err := two.Copy(out, out[40:], source); err == nil {
			t.Fatalf("a copy of a copy: %x", again)
		}
		h, err := ioam.DecodeExtensionHeader(out[40:])
		if err != nil {
			t.Fatal(err)
		}
		for option, err := range h.Options() {
			if err != nil {
				return
			}
			if o, err := option.IOAM(); err == nil && o.Type.IsTrace() {
				if one, err := o.Trace(); err == nil {
					if one.Flags&ioam.FlagLoopback != 0 {
						t.Fatalf("the flag is set in %x", out)
					}
					_, _ = Read(one)
				}
			}
		}
	})
}
