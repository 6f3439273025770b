// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/pintest"
	"github.com/waymark-net/waymark/ioam"
)

// probe is one packet that the kernel's transit and ours must treat alike.
type probe struct {
	name   string
	option []byte // the IOAM option, as it is sent
	pad    int    // PadN in front, in bytes; 2 aligns the option
}

// traceOption is a trace of `size` bytes with the given second header word's
// flags and RemainingLen.
func traceOption(namespace uint16, kind ioam.TraceType, flags, remaining, size int) []byte {
	o := []byte{0x31, byte(10 + size), 0, 0}
	o = binary.BigEndian.AppendUint16(o, namespace)
	o = binary.BigEndian.AppendUint16(o, uint16(kind.NodeLen()<<11|flags<<7|remaining))
	o = binary.BigEndian.AppendUint32(o, uint32(kind)<<8)
	return append(o, make([]byte, size)...)
}

// hopByHop wraps options in a Hop-by-Hop header.
func hopByHop(pad int, options ...[]byte) []byte {
	h := []byte{59, 0}
	if pad == 1 {
		h = append(h, 0)
	} else if pad > 1 {
		h = append(h, 1, byte(pad-2))
		h = append(h, make([]byte, pad-2)...)
	}
	for _, o := range options {
		h = append(h, o...)
	}
	switch rest := (8 - len(h)%8) % 8; rest {
	case 0:
	case 1:
		h = append(h, 0)
	default:
		h = append(h, 1, byte(rest-2))
		h = append(h, make([]byte, rest-2)...)
	}
	h[1] = byte(len(h)/8 - 1)
	return h
}

const supported ioam.TraceType = 0xfff002

// probes are the trace types of the issue and every way in which the kernel
// looks at an option.
func probes() []probe {
	var out []probe
	add := func(name string, option []byte) { out = append(out, probe{name, option, 2}) }
	for bit := range 24 {
		kind := ioam.TraceType(1 << (23 - bit))
		add(fmt.Sprintf("bit %d", bit), traceOption(123, kind, 0, 20, 80))
		for other := range bit {
			both := kind | 1<<(23-other)
			add(fmt.Sprintf("bits %d and %d", other, bit), traceOption(123, both, 0, 20, 80))
		}
	}
	for _, ns := range []uint16{123, 456} { // without and with a schema
		add("all supported bits", traceOption(ns, supported, 0, 40, 160))
		add("all bits", traceOption(ns, 0xffffff, 0, 50, 200))
		for size := 0; size <= 100; size += 4 {
			add(fmt.Sprintf("all supported bits in %d bytes", size), traceOption(ns, supported, 0, size/4, size))
		}
		for remaining := range 21 {
			add(fmt.Sprintf("%d words left of 20", remaining), traceOption(ns, 0xc00002, 0, remaining, 80))
		}
		for flags := range 16 {
			add(fmt.Sprintf("flags %x", flags), traceOption(ns, 0x800000, flags, 20, 80))
		}
	}
	add("unknown namespace", traceOption(999, supported, 0, 40, 160))
	add("no trace type", traceOption(123, 0, 0, 20, 80))
	add("no trace type, no room", traceOption(123, 0, 0, 0, 0))
	add("RemainingLen beyond the option", traceOption(123, 0x800000, 0, 21, 80))
	wrong := traceOption(123, 0x800000, 0, 20, 80)
	wrong[6] = 2 << 3
	add("NodeLen inconsistent", wrong)
	for length := range 10 {
		short := append([]byte{0x31, byte(length), 0, 0}, make([]byte, 8)...)
		add(fmt.Sprintf("option of %d bytes", length), short[:2+length])
	}
	for _, kind := range []byte{1, 2, 3, 4, 5, 64, 255} {
		other := traceOption(123, 0x800000, 0, 1, 4)
		other[3] = kind
		add(fmt.Sprintf("IOAM option-type %d", kind), other)
	}
	for pad := range 8 {
		out = append(out, probe{fmt.Sprintf("%d bytes of padding in front", pad), traceOption(123, 0xc00000, 0, 2, 8), pad})
	}
	return out
}

func frames(probes []probe, hopLimit uint8) [][]byte {
	var out [][]byte
	for i, p := range probes {
		out = append(out, packet(i, hopLimit, hopByHop(p.pad, p.option), []byte("payload")))
	}
	return out
}

// setUpKernel makes the router a transit node of the kernel's own.
func setUpKernel(t *testing.T, n *lab.Node) {
	t.Helper()
	for name, value := range map[string]string{
		"net/ipv6/ioam6_id": "2", "net/ipv6/ioam6_id_wide": "22222222",
		"net/ipv6/conf/eth0/ioam6_id": "201", "net/ipv6/conf/eth0/ioam6_id_wide": "201201",
		"net/ipv6/conf/eth1/ioam6_id": "202", "net/ipv6/conf/eth1/ioam6_id_wide": "202202",
		"net/ipv6/conf/eth0/ioam6_enabled": "1",
	} {
		if err := n.Do(func() error { return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0) }); err != nil {
			t.Fatal(err)
		}
	}
	must(t, n, "ip", "ioam", "namespace", "add", "123", "data", "0xdeadbeef", "wide", "0xcafec0caf00dc0de")
	must(t, n, "ip", "ioam", "namespace", "add", "456", "data", "0x01020304", "wide", "0x05060708090a0b0c")
	must(t, n, "ip", "ioam", "schema", "add", "777", "rack 7, row 3")
	must(t, n, "ip", "ioam", "namespace", "set", "456", "schema", "777")
}

func clearKernel(t *testing.T, n *lab.Node) {
	t.Helper()
	err := n.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/ioam6_enabled", []byte("0"), 0) })
	if err != nil {
		t.Fatal(err)
	}
}

// serve puts our programs on the router.
func serve(t *testing.T, n *lab.Node, mode datapath.AttachMode, cfg func(index func(string) model.IfIndex) model.NodeConfig) *datapath.Datapath {
	t.Helper()
	var d *datapath.Datapath
	err := n.Do(func() (err error) {
		if d, err = datapath.Open(datapath.Options{PinPath: pintest.Directory(t)}); err != nil {
			return err
		}
		// programs count in UTC here, as the kernel does
		if err := d.SetTAIOffset(kernelTAIOffset()); err != nil {
			return err
		}
		node := cfg(func(name string) model.IfIndex {
			device, err := netlink.LinkByName(name)
			if err != nil {
				t.Fatal(err)
			}
			return model.IfIndex(device.Attrs().Index)
		})
		attach := make(map[model.IfIndex]datapath.AttachMode)
		for _, i := range node.Interfaces {
			attach[i.Index] = mode
		}
		if err := node.Validate(); err != nil {
			return err
		}
		return d.Apply(datapath.Config{Node: node, Attach: attach})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Do(d.Remove); err != nil {
			t.Error(err)
		}
	})
	return d
}

func kernelTAIOffset() time.Duration {
	var tai, utc unix.Timespec
	unix.ClockGettime(unix.CLOCK_TAI, &tai)
	unix.ClockGettime(unix.CLOCK_REALTIME, &utc)
	return time.Duration(tai.Nano() - utc.Nano()).Round(time.Second)
}

// mainlineRouter is setUpKernel in our configuration.
func mainlineRouter(index func(string) model.IfIndex) model.NodeConfig {
	return model.NodeConfig{
		ID: 2, IDWide: 22222222, Compatibility: model.CompatibilityMainline,
		Interfaces: []model.Interface{
			{Index: index("eth0"), Name: "eth0", ID: 201, IDWide: 201201, Roles: model.RoleIngress | model.RoleEgress, MTU: 1500},
			{Index: index("eth1"), Name: "eth1", ID: 202, IDWide: 202202, Roles: model.RoleIngress | model.RoleEgress, MTU: 1500},
		},
		Namespaces: []model.Namespace{
			{ID: 123, Data: 0xdeadbeef, DataWide: 0xcafec0caf00dc0de},
			{ID: 456, Data: 0x01020304, DataWide: 0x05060708090a0b0c, Schema: &model.Schema{ID: 777, Data: []byte("rack 7, row 3")}},
		},
	}
}

// TestKernelTransit compares our transit with the kernel's, byte by byte.
func TestKernelTransit(t *testing.T) {
	t.Parallel()
	l := raiseText(t, "chain", chain)
	router := l.Node("router")
	all := probes()
	for _, hopLimit := range []uint8{64, 2} {
		setUpKernelOnce := fmt.Sprintf("hop limit %d", hopLimit)
		t.Run(setUpKernelOnce, func(t *testing.T) {
			if hopLimit == 64 {
				setUpKernel(t, router)
			} else if err := router.Do(func() error {
				return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/ioam6_enabled", []byte("1"), 0)
			}); err != nil {
				t.Fatal(err)
			}
			kernel := exchange(t, l, frames(all, hopLimit))
			clearKernel(t, router)
			for _, mode := range append([]config.Attach{"xdp"}, tcModes()...) {
				t.Run(string(mode), func(t *testing.T) {
					serve(t, router, datapath.AttachMode(mode), mainlineRouter)
					compare(t, all, kernel, exchange(t, l, frames(all, hopLimit)))
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
	queues := readsQueues(t)
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

// The fields of a trace type that node looks for.
const (
	timeFields = 0x300000
	queueField = 0x020000
)

// node finds the newest node's data in a packet of the test that has any of
// the fields.
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

// checkTime wants a filled time to be about now.
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

// masked blanks the fields that differ from one packet to the next, and the
// queue's depth where this kernel keeps it from programs (before Linux 6.2).
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

// readsQueues tells whether the kernel has what programs read queues with.
func readsQueues(t *testing.T) bool {
	t.Helper()
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(symbols, []byte(" bpf_cast_to_kern_ctx\n"))
}
