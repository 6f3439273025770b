// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
	"github.com/waymark-net/waymark/ioam"
)

// TraceOption is a trace of `size` bytes with the given second header word's
// flags and RemainingLen.
func TraceOption(namespace uint16, kind ioam.TraceType, flags, remaining, size int) []byte {
	o := []byte{0x31, byte(10 + size), 0, 0}
	o = binary.BigEndian.AppendUint16(o, namespace)
	o = binary.BigEndian.AppendUint16(o, uint16(kind.NodeLen()<<11|flags<<7|remaining))
	o = binary.BigEndian.AppendUint32(o, uint32(kind)<<8)
	return append(o, make([]byte, size)...)
}

// SetUpKernel makes the router a transit node of the kernel's own IOAM.
func SetUpKernel(t *testing.T, n *lab.Node) {
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
	Must(t, n, "ip", "ioam", "namespace", "add", "123", "data", "0xdeadbeef", "wide", "0xcafec0caf00dc0de")
	Must(t, n, "ip", "ioam", "namespace", "add", "456", "data", "0x01020304", "wide", "0x05060708090a0b0c")
	Must(t, n, "ip", "ioam", "schema", "add", "777", "rack 7, row 3")
	Must(t, n, "ip", "ioam", "namespace", "set", "456", "schema", "777")
}

// Serve attaches our programs on the router.
func Serve(
	t *testing.T,
	n *lab.Node,
	mode datapath.AttachMode,
	cfg func(index func(string) model.IfIndex) model.NodeConfig,
) *datapath.Datapath {
	t.Helper()
	var d *datapath.Datapath
	err := n.Do(func() (err error) {
		if d, err = datapath.Open(datapath.Options{PinPath: pintest.Directory(t)}); err != nil {
			return err
		}
		// programs use UTC here, as the kernel does
		if err := d.SetTAIOffset(KernelTAIOffset()); err != nil {
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

// KernelTAIOffset is TAI − UTC, as the kernel has it.
func KernelTAIOffset() time.Duration {
	var tai, utc unix.Timespec
	unix.ClockGettime(unix.CLOCK_TAI, &tai)
	unix.ClockGettime(unix.CLOCK_REALTIME, &utc)
	return time.Duration(tai.Nano() - utc.Nano()).Round(time.Second)
}

// MainlineRouter is the configuration of SetUpKernel for our programs.
func MainlineRouter(index func(string) model.IfIndex) model.NodeConfig {
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

// ReadsQueues reports whether programs can read queue depths on this kernel.
func ReadsQueues(t *testing.T) bool {
	t.Helper()
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(symbols, []byte(" bpf_cast_to_kern_ctx\n"))
}
