// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// randomOption returns an option that the kernel may know or not, well-formed or
// broken.
func randomOption(r *rand.Rand) []byte {
	data := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	with := func(kind byte, body []byte) []byte { return append([]byte{kind, byte(len(body))}, body...) }
	switch r.IntN(8) {
	case 0: // any IOAM option-type, short ones as well
		body := data(r.IntN(16))
		if len(body) > 1 {
			body[0], body[1] = 0, byte([]int{0, 1, 2, 3, 4, 5, 64}[r.IntN(7)])
		}
		return with([]byte{0x31, 0x31, 0x11}[r.IntN(3)], body)
	case 1, 2: // Direct Export, complete or with fields missing
		body := append(
			[]byte{0, 4, 0, 123, byte(r.IntN(2)), []byte{0, 0x80, 0xc0, 0x01, byte(r.Uint32())}[r.IntN(5)]},
			data(4+4*r.IntN(3)+r.IntN(2)*r.IntN(4))...)
		return with([]byte{0x31, 0x11}[r.IntN(2)], body)
	case 3: // an unknown option, which may ask nodes to discard the packet
		kind := byte(0x1e)
		if r.IntN(8) == 0 {
			kind = []byte{0x5e, 0x9e, 0xde}[r.IntN(3)]
		}
		return with(kind, data(r.IntN(8)))
	}
	kind := []ioam.TraceType{0x800000, 0xc00000, 0x400000, 0x840000, 0x808000, 0xfff002, 0x000002, 0,
		ioam.TraceType(r.Uint32() & 0xffffff)}[r.IntN(9)]
	words := r.IntN(24)
	remaining := words
	if r.IntN(3) == 0 {
		remaining = r.IntN(words + 2)
	}
	flags := 0
	if r.IntN(4) == 0 {
		flags = r.IntN(16)
	}
	o := e2e.TraceOption([]uint16{123, 123, 456, 999}[r.IntN(4)], kind, flags, remaining, 4*words)
	if r.IntN(12) == 0 {
		binary.BigEndian.PutUint16(o[6:], uint16(r.IntN(32)<<11)|binary.BigEndian.Uint16(o[6:])&0x7ff)
	}
	return o
}

// randomHeader has options that mostly begin where they should.
func randomHeader(r *rand.Rand) []byte {
	h := []byte{59, 0}
	pad := func(n int) {
		switch {
		case n == 1 || n > 1 && r.IntN(4) == 0:
			h = append(h, make([]byte, n)...)
		case n > 1:
			h = append(append(h, 1, byte(n-2)), make([]byte, n-2)...)
		}
	}
	for range r.IntN(5) + r.IntN(2)*r.IntN(8) {
		if r.IntN(25) > 0 {
			pad((4 - len(h)%4) % 4)
		} else {
			pad(r.IntN(9))
		}
		h = append(h, randomOption(r)...)
	}
	pad((8 - len(h)%8) % 8)
	h[1] = byte(len(h)/8 - 1)
	if r.IntN(30) == 0 {
		h[2+r.IntN(len(h)-2)] = byte(r.Uint32())
	}
	return h
}

// isWithinLimits reports whether a Waymark node reads the whole header.
func isWithinLimits(header []byte) bool {
	h, err := ioam.DecodeExtensionHeader(header)
	if err != nil {
		return false
	}
	options, own := 0, 0
	for o, err := range h.Options() {
		if err != nil {
			return false
		}
		options++
		if o.IsIOAM() {
			own++
		}
	}
	return options <= model.MaxOptionsPerHeader && own <= model.MaxOptionsPerPacket
}

// TestKernelVerdicts sends thousands of random headers through the kernel's
// transit node and ours: the same packets go on, with the same bytes.
func TestKernelVerdicts(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "chain", e2e.Chain)
	router := l.Node("router")
	r := rand.New(rand.NewPCG(9486, 6))
	const count = 4000
	var headers, packets [][]byte
	for i := range count {
		headers = append(headers, randomHeader(r))
		packets = append(packets, e2e.Packet(i, 64, headers[i], []byte("payload")))
	}
	e2e.SetUpKernel(t, router)
	// more than the default of 8, so that the kernel does not drop headers for
	// their number of options
	e2e.Must(t, router, "sysctl", "-w", "net.ipv6.max_hbh_opts_number=100")
	kernel := exchangeAll(t, l, packets)
	clearKernel(t, router)
	if len(kernel) < count/4 || len(kernel) > 3*count/4 {
		t.Fatalf("the kernel let %d of %d packets through: too many or too few", len(kernel), count)
	}
	for _, mode := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
		t.Run(string(mode), func(t *testing.T) {
			e2e.Serve(t, router, datapath.AttachMode(mode), e2e.MainlineRouter)
			ours := exchangeAll(t, l, packets)
			differ, compared := 0, 0
			for id, header := range headers {
				if !isWithinLimits(header) {
					continue // a Waymark node passes such a packet unread, and the stack decides
				}
				compared++
				k, passed := kernel[id]
				o, ourPassed := ours[id]
				if passed == ourPassed && bytes.Equal(unread(k), unread(o)) {
					continue
				}
				if differ++; differ <= 5 {
					t.Errorf("header\n%spassed the kernel %v, passed ours %v\nthe kernel\n%sours\n%s", hex.Dump(header), passed, ourPassed,
						hex.Dump(unread(k)), hex.Dump(unread(o)))
				}
			}
			t.Logf("%d of %d headers compared, %d passed the kernel, %d ours", compared, count, len(kernel), len(ours))
			if differ > 0 || compared < count/2 {
				t.Errorf("%d of %d headers are treated differently", differ, compared)
			}
		})
	}
}

// exchangeAll calls Exchange for many packets, a few at a time.
func exchangeAll(t *testing.T, l *lab.Lab, packets [][]byte) map[int][]byte {
	t.Helper()
	got := make(map[int][]byte)
	for at := 0; at < len(packets); at += 500 {
		for id, p := range e2e.Exchange(t, l, packets[at:min(at+500, len(packets))]) {
			got[id] = p
		}
	}
	return got
}

// unread blanks what differs between packets in every trace: times, and the queue
// depth, which is not always known.
func unread(p []byte) []byte {
	if p == nil {
		return nil
	}
	p = bytes.Clone(p)
	header, err := ioam.DecodeExtensionHeader(p[40:])
	if err != nil {
		return p
	}
	for option, err := range header.Options() {
		if err != nil {
			return p
		}
		o, err := option.IOAM()
		if err != nil {
			continue
		}
		trace, err := o.Trace()
		if err != nil {
			continue
		}
		start := min(4*int(trace.RemainingLen), len(trace.Data))
		data := ioam.NodeData{Type: trace.Type, Bytes: trace.Data[start:]}
		clear(data.Field(ioam.BitTimestampSeconds))
		clear(data.Field(ioam.BitTimestampFraction))
		clear(data.Field(ioam.BitQueueDepth))
	}
	return p
}
