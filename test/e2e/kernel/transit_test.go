// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// probe is one packet that the kernel's transit node and ours must treat alike.
type probe struct {
	name   string
	option []byte // the IOAM option as sent
	pad    int    // PadN in front, in bytes; 2 aligns the option
}

// probes covers every trace type of one or two fields, and every check that the
// kernel makes of an option.
func probes() []probe {
	var out []probe
	add := func(name string, option []byte) { out = append(out, probe{name, option, 2}) }
	for bit := range 24 {
		kind := ioam.TraceType(1 << (23 - bit))
		add(fmt.Sprintf("bit %d", bit), e2e.TraceOption(123, kind, 0, 20, 80))
		for other := range bit {
			both := kind | 1<<(23-other)
			add(fmt.Sprintf("bits %d and %d", other, bit), e2e.TraceOption(123, both, 0, 20, 80))
		}
	}
	for _, ns := range []uint16{123, 456} { // without and with a schema
		add("all supported bits", e2e.TraceOption(ns, supported, 0, 40, 160))
		add("all bits", e2e.TraceOption(ns, 0xffffff, 0, 50, 200))
		for size := 0; size <= 100; size += 4 {
			add(fmt.Sprintf("all supported bits in %d bytes", size), e2e.TraceOption(ns, supported, 0, size/4, size))
		}
		for remaining := range 21 {
			add(fmt.Sprintf("%d words left of 20", remaining), e2e.TraceOption(ns, 0xc00002, 0, remaining, 80))
		}
		for flags := range 16 {
			add(fmt.Sprintf("flags %x", flags), e2e.TraceOption(ns, 0x800000, flags, 20, 80))
		}
	}
	add("unknown namespace", e2e.TraceOption(999, supported, 0, 40, 160))
	add("no trace type", e2e.TraceOption(123, 0, 0, 20, 80))
	add("no trace type, no room", e2e.TraceOption(123, 0, 0, 0, 0))
	add("RemainingLen beyond the option", e2e.TraceOption(123, 0x800000, 0, 21, 80))
	wrong := e2e.TraceOption(123, 0x800000, 0, 20, 80)
	wrong[6] = 2 << 3
	add("NodeLen inconsistent", wrong)
	for length := range 10 {
		short := append([]byte{0x31, byte(length), 0, 0}, make([]byte, 8)...)
		add(fmt.Sprintf("option of %d bytes", length), short[:2+length])
	}
	for _, kind := range []byte{1, 2, 3, 4, 5, 64, 255} {
		other := e2e.TraceOption(123, 0x800000, 0, 1, 4)
		other[3] = kind
		add(fmt.Sprintf("IOAM option-type %d", kind), other)
	}
	for pad := range 8 {
		out = append(out, probe{fmt.Sprintf("%d bytes of padding in front", pad), e2e.TraceOption(123, 0xc00000, 0, 2, 8), pad})
	}
	return out
}

func frames(probes []probe, hopLimit uint8) [][]byte {
	var out [][]byte
	for i, p := range probes {
		out = append(out, e2e.Packet(i, hopLimit, craft.Options(craft.NoNext, p.pad, p.option), []byte("payload")))
	}
	return out
}

// TestKernelTransit compares our transit with the kernel's, byte by byte.
func TestKernelTransit(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "chain", e2e.Chain)
	router := l.Node("router")
	all := probes()
	for _, hopLimit := range []uint8{64, 2} {
		setUpKernelOnce := fmt.Sprintf("hop limit %d", hopLimit)
		t.Run(setUpKernelOnce, func(t *testing.T) {
			if hopLimit == 64 {
				e2e.SetUpKernel(t, router)
			} else if err := router.Do(func() error {
				return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/ioam6_enabled", []byte("1"), 0)
			}); err != nil {
				t.Fatal(err)
			}
			kernel := e2e.Exchange(t, l, frames(all, hopLimit))
			clearKernel(t, router)
			for _, mode := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
				t.Run(string(mode), func(t *testing.T) {
					e2e.Serve(t, router, datapath.AttachMode(mode), e2e.MainlineRouter)
					compare(t, all, kernel, e2e.Exchange(t, l, frames(all, hopLimit)))
				})
			}
		})
	}
}

func compare(t *testing.T, all []probe, kernel, ours map[int][]byte) {
	t.Helper()
	if len(kernel) < len(all)/2 {
		t.Fatalf("the kernel let only %d of %d packets through", len(kernel), len(all))
	}
	queues := e2e.ReadsQueues(t)
	for id, p := range all {
		k, passed := kernel[id]
		o, ourPassed := ours[id]
		if passed != ourPassed {
			t.Errorf("%s: passed the kernel %v, passed ours %v", p.name, passed, ourPassed)
			continue
		}
		if !passed {
			continue
		}
		checkTime(t, p.name, k)
		checkTime(t, p.name, o)
		if !bytes.Equal(masked(k, queues), masked(o, queues)) {
			t.Errorf("%s: the kernel\n%sours\n%s", p.name, hex.Dump(k[40:]), hex.Dump(o[40:]))
		}
	}
}

// These trace types select the fields that node can look for.
const (
	timeFields = 0x300000
	queueField = 0x020000
)

// node finds the newest node's data in a test packet whose trace has any of the
// fields.
func node(p []byte, fields ioam.TraceType) (ioam.NodeData, bool) {
	header, err := ioam.DecodeExtensionHeader(p[40:])
	if err != nil {
		return ioam.NodeData{}, false
	}
	for option, err := range header.Options() {
		if err != nil {
			return ioam.NodeData{}, false
		}
		o, err := option.IOAM()
		if err != nil {
			continue
		}
		trace, err := o.Trace()
		if err != nil || trace.Namespace == 999 || trace.Type&fields == 0 {
			continue
		}
		if nodes, err := trace.Nodes(); err == nil && len(nodes) > 0 {
			return nodes[len(nodes)-1], true
		}
	}
	return ioam.NodeData{}, false
}

// checkTime checks that a filled time is about now.
func checkTime(t *testing.T, name string, p []byte) {
	t.Helper()
	data, ok := node(p, timeFields)
	if !ok {
		return
	}
	seconds, ok := data.TimestampSeconds()
	if !ok || seconds == 0 {
		return
	}
	if d := time.Since(time.Unix(int64(seconds), 0)); d < -2*time.Second || d > patience.Of(time.Minute) {
		t.Errorf("%s: the time is off by %v", name, d)
	}
	if micros, ok := data.TimestampFraction(); ok && micros >= 1_000_000 {
		t.Errorf("%s: %d µs", name, micros)
	}
}

// masked blanks the fields that differ between packets, and the queue depth where
// the kernel does not show it to programs (before Linux 6.2).
func masked(p []byte, queues bool) []byte {
	p = append([]byte(nil), p...)
	if data, ok := node(p, timeFields); ok {
		clear(data.Field(2))
		clear(data.Field(3))
	}
	if data, ok := node(p, queueField); ok && !queues {
		clear(data.Field(6))
	}
	return p
}
