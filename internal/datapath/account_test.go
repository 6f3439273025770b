// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/pintest"
)

// The kernel's TCP joins received packets whose data are only in pages, and warns
// (skb_try_coalesce) when such a packet accounts for fewer bytes than it holds.
// The kernel makes such packets from a socket's own packets when it replaces
// their head by a larger one. Packets that grow here must not become such
// packets, and neither must the next node's treatment make one while the socket
// is still charged.
func TestAccountOfOwnPackets(t *testing.T) {
	const bytes = 16 << 20
	l := raise(t, "wm-dp-account")
	for _, mode := range tcModes(t) {
		for _, size := range []int{20, 240} { // a head has room for the first
			for _, far := range []string{"receives", "fills", "removes"} {
				if far != "receives" && mode != datapath.AttachTCX {
					continue // only the order of tcx and clsact is known
				}
				t.Run(fmt.Sprintf("%s/%d/%s", mode, size, far), func(t *testing.T) {
					// Ethernet, IPv6, TCP with time stamps: no data
					headers := 14 + 40 + 32
					if insertion := 4 + 12 + size; far != "removes" {
						headers += insertion + -insertion&7
					}
					packets, short := countShort(t, l.Node("far"), headers)
					if far != "receives" {
						serve(t, l.Node("far"), mode, func(c *datapath.Config) {
							c.Node.Namespaces[0].Remove = far == "removes"
						})
					}
					grown := serve(t, l.Node("near"), mode, func(c *datapath.Config) {
						c.Node.Encapsulations = []model.Encapsulation{{
							Name: "own", Interface: c.Node.Interfaces[0].Index, Mode: model.ModeInline,
							Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: size}),
						}}
					})
					stream(t, l, bytes)
					if n := grown(model.OutcomeEncapInserted); n < 100 {
						t.Errorf("%d packets grew", n)
					}
					if total, failing := packets(), short(); total < 100 || failing > 0 {
						t.Errorf("%d of %d packets with data in pages account for less than they hold", failing, total)
					}
				})
			}
		}
	}
}

// serve runs a data plane on a node until the test ends; outcome is how many
// packets left with an outcome.
func serve(t *testing.T, n *lab.Node, mode datapath.AttachMode, change func(*datapath.Config)) (outcome func(model.Outcome) uint64) {
	t.Helper()
	path := pintest.Directory(t)
	do := func(f func() error) {
		if err := n.Do(f); err != nil {
			t.Error(err)
		}
	}
	var d *datapath.Datapath
	do(func() (err error) {
		if d, err = datapath.Open(datapath.Options{PinPath: path}); err != nil {
			return err
		}
		c := configuration(index(t), mode)
		change(&c)
		return d.Apply(c)
	})
	t.Cleanup(func() { do(d.Remove) })
	return func(o model.Outcome) (count uint64) {
		counters, err := d.Counters()
		if err != nil {
			t.Error(err)
		}
		for _, c := range counters {
			count += c.Egress[o]
		}
		return count
	}
}

// stream sends bytes from near to far over TCP.
func stream(t *testing.T, l *lab.Lab, bytes int) {
	t.Helper()
	far, _ := l.Topology().Address("far")
	address := net.JoinHostPort(far.String(), "9001")
	deadline := time.Now().Add(patience.Of(20 * time.Second))
	var listener net.Listener
	if err := l.Node("far").Do(func() (err error) {
		listener, err = net.Listen("tcp6", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(deadline)
		count, _ := io.Copy(io.Discard, conn)
		received <- count
	}()
	if err := l.Node("near").Do(func() error {
		conn, err := net.DialTimeout("tcp6", address, time.Until(deadline))
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
		_, err = conn.Write(make([]byte, bytes))
		return err
	}); err != nil {
		listener.Close()
		t.Error(err)
	}
	if count := <-received; count != int64(bytes) {
		t.Errorf("%d of %d bytes arrived", count, bytes)
	}
}

// countShort counts the packets that arrive at a node with data in pages, and
// those of them whose head has only headers of at most some bytes and which
// account for fewer bytes than they hold.
func countShort(t *testing.T, n *lab.Node, headers int) (packets, short func() uint64) {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: shortPackets(t, counts, headers),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	filter := &netlink.BpfFilter{Fd: program.FD(), Name: "account", DirectAction: true}
	if err := n.Do(func() error {
		attributes := netlink.QdiscAttrs{LinkIndex: int(index(t)), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
		if err := netlink.QdiscReplace(&netlink.Clsact{QdiscAttrs: attributes}); err != nil {
			return err
		}
		filter.FilterAttrs = netlink.FilterAttrs{
			LinkIndex: attributes.LinkIndex, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: 0x0003, // ETH_P_ALL
		}
		return netlink.FilterAdd(filter)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Do(func() error { return netlink.FilterDel(filter) }); err != nil {
			t.Error(err)
		}
	})
	read := func(i int) func() uint64 {
		return func() uint64 {
			var value [2]uint64
			if err := counts.Lookup(uint32(0), &value); err != nil {
				t.Error(err)
			}
			return value[i]
		}
	}
	return read(0), read(1)
}

// shortPackets is the program of countShort. It reads the packet's kernel
// structure with the offsets of this kernel.
func shortPackets(t *testing.T, counts *ebpf.Map, headers int) asm.Instructions {
	t.Helper()
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	structure := func(name string) *btf.Struct {
		var s *btf.Struct
		if err := kernel.TypeByName(name, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	const line = 64 // what SKB_DATA_ALIGN rounds to on our platforms
	aligned := func(s *btf.Struct) int32 { return int32((s.Size + line - 1) &^ (line - 1)) }
	skb := structure("sk_buff")
	overhead := aligned(skb) + aligned(structure("skb_shared_info"))
	program := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.LoadMapValue(asm.R9, counts.FD(), 0)}
	for i, field := range []string{"data_len", "len", "end", "truesize"} {
		at, ok := offsetOf(skb.Members, field)
		if !ok {
			t.Fatalf("struct sk_buff has no %s", field)
		}
		slot := int16(-8 * (i + 1))
		program = append(program,
			asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, slot, asm.R1, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(slot)),
			asm.Mov.Imm(asm.R2, 4),
			asm.Mov.Reg(asm.R3, asm.R6), asm.Add.Imm(asm.R3, int32(at)),
			asm.FnProbeReadKernel.Call(),
		)
	}
	runtime.KeepAlive(counts)
	return append(program,
		asm.LoadMem(asm.R1, asm.RFP, -8, asm.DWord), // data_len
		asm.JEq.Imm(asm.R1, 0, "out"),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R9, asm.R2, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, -16, asm.DWord), // len
		asm.Sub.Reg(asm.R3, asm.R1),
		asm.JGT.Imm(asm.R3, int32(headers), "out"),
		asm.LoadMem(asm.R4, asm.RFP, -32, asm.DWord), // truesize
		asm.LoadMem(asm.R5, asm.RFP, -24, asm.DWord), // end
		asm.Sub.Reg(asm.R4, asm.R5),
		asm.Sub.Imm(asm.R4, overhead),
		asm.JSGE.Reg(asm.R4, asm.R1, "out"),
		asm.Add.Imm(asm.R9, 8),
		asm.StoreXAdd(asm.R9, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"), // TC_ACT_UNSPEC
		asm.Return(),
	)
}

// offsetOf finds a member, also inside unnamed structures and unions.
func offsetOf(members []btf.Member, name string) (uint32, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		if m.Name != "" {
			continue
		}
		var inside []btf.Member
		switch s := m.Type.(type) {
		case *btf.Struct:
			inside = s.Members
		case *btf.Union:
			inside = s.Members
		}
		if at, ok := offsetOf(inside, name); ok {
			return m.Offset.Bytes() + at, true
		}
	}
	return 0, false
}
