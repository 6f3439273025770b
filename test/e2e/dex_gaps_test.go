// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/lab"
)

// dropper drops, where they arrive, some packets that carry a Hop-by-Hop header.
type dropper struct{ counts *ebpf.Map }

// Of each dropEvery packets one is dropped, behind the first dropFrom and before
// the last of dropUntil: what is lost at the ends of a flow nobody can know.
const dropEvery, dropFrom, dropUntil = 50, 200, 1500

func startDropper(t *testing.T, n *lab.Node, name string) *dropper {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	// none until restart
	if err := counts.Put(uint32(0), [2]uint64{dropUntil}); err != nil {
		t.Fatal(err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 14+40),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
		asm.JNE.Imm(asm.R5, 0xdd86, "pass"),
		asm.LoadMem(asm.R5, asm.R2, 14+6, asm.Byte),
		asm.JNE.Imm(asm.R5, 0, "pass"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Imm(asm.R2, 1),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), // two CPUs may drop the same one, and count both
		asm.AddAtomic.Mem(asm.R0, asm.R2, asm.DWord, 0),
		asm.JLT.Imm(asm.R1, dropFrom, "pass"),
		asm.JGE.Imm(asm.R1, dropUntil, "pass"),
		asm.Mod.Imm(asm.R1, dropEvery),
		asm.JNE.Imm(asm.R1, 0, "pass"),
		asm.AddAtomic.Mem(asm.R0, asm.R2, asm.DWord, 8),
		asm.Mov.Imm(asm.R0, 1), // XDP_DROP
		asm.Return(),
		asm.Mov.Imm(asm.R0, 2).WithSymbol("pass"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	err = n.Do(func() error {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		// before the kernel cuts an offloaded packet, whose segments share a number
		l, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: device.Index, Flags: link.XDPGenericMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return &dropper{counts}
}

func (d *dropper) dropped(t *testing.T) uint64 { t.Helper(); return d.read(t)[1] }
func (d *dropper) seen(t *testing.T) uint64    { t.Helper(); return d.read(t)[0] }

func (d *dropper) read(t *testing.T) (counts [2]uint64) {
	t.Helper()
	if err := d.counts.Lookup(uint32(0), &counts); err != nil {
		t.Fatal(err)
	}
	return counts
}

// restart lets it begin to count again.
func (d *dropper) restart(t *testing.T) {
	t.Helper()
	if err := d.counts.Put(uint32(0), [2]uint64{}); err != nil {
		t.Fatal(err)
	}
}

// moveTo moves the calling thread, which is the goroutine's own, to one CPU after
// the other: packets are handled where they are sent.
func moveTo(i int) error {
	var one unix.CPUSet
	one.Set(i % runtime.NumCPU())
	return unix.SchedSetaffinity(0, &one)
}

// spread sends over a connection from alpha to beta, from all CPUs in turn, and
// closes it.
func spread(l *lab.Lab, network string, port, writes, size int, every time.Duration) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		failed <- l.Node("alpha").Do(func() error {
			conn, err := net.Dial(network, fmt.Sprintf("[%s]:%d", betaAddress, port))
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				return err
			}
			b := make([]byte, size)
			for i := range writes {
				if err := moveTo(i); err != nil {
					return err
				}
				if _, err := conn.Write(b); err != nil {
					return err
				}
				time.Sleep(every)
			}
			return nil
		})
	}()
	return <-failed
}

// discard takes what comes to beta, by TCP and UDP.
func discard(t *testing.T, l *lab.Lab, port int) {
	t.Helper()
	err := l.Node("beta").Do(func() error {
		tcp, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		t.Cleanup(func() { tcp.Close() })
		udp, err := net.ListenPacket("udp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		t.Cleanup(func() { udp.Close() })
		go func() {
			b := make([]byte, 65536)
			for err := error(nil); err == nil; {
				_, _, err = udp.ReadFrom(b)
			}
		}()
		go func() {
			for {
				conn, err := tcp.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(io.Discard, conn)
					conn.Close()
				}()
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// gaps is what a node tells of missing packets, and of packets that came.
type gaps struct {
	packets, missing uint64
	unknown          int
}

// gapsTo sums flow records to a port by node.
func gapsTo(flows []export.Flow, port uint16) map[string]gaps {
	sums := map[string]gaps{}
	for _, f := range flows {
		if portOf(f.Packet) != port {
			continue
		}
		g := sums[f.Node]
		g.packets += f.Packets
		g.missing += f.SequenceGaps.Value
		if !f.SequenceGaps.Valid {
			g.unknown++
		}
		sums[f.Node] = g
	}
	return sums
}

// Packets of connections that several CPUs handle, and that end there, are
// missing where they were lost, and nowhere else.
func TestDirectExportGaps(t *testing.T) {
	t.Parallel()
	top := directExports(t, "export: every}", "export: aggregate}")
	for _, node := range routers {
		reconfigure(t, top, node, ", role:", ", attach: "+string(tcModes()[0])+", role:")
	}
	l, c := raiseCollecting(t, top)
	const port = 9100
	discard(t, l, port)
	time.Sleep(2 * time.Second) // what came before programs were attached is not known
	type traffic struct {
		name, network string
		connections   int
		writes, size  int
		every         time.Duration
		drops         bool
	}
	drops := startDropper(t, l.Node("porthos"), "eth0")
	for _, tt := range []traffic{
		{"TCP", "tcp", 12, 300, 1200, 100 * time.Microsecond, false},
		{"UDP", "udp", 3, 2000, 200, time.Millisecond, false},
		{"TCP with losses", "tcp", 1, 4000, 1200, 300 * time.Microsecond, true},
		{"UDP with losses", "udp", 1, 2000, 200, time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(c.lines())
			if tt.drops {
				drops.restart(t)
			}
			lost := drops.dropped(t)
			for range tt.connections {
				if err := spread(l, tt.network, port, tt.writes, tt.size, tt.every); err != nil {
					t.Fatal(err)
				}
			}
			lost = drops.dropped(t) - lost
			if lost == 0 != !tt.drops {
				t.Fatalf("%d packets were dropped of %d", lost, drops.seen(t))
			}
			var sums map[string]gaps
			settled := time.Now()
			await(t, "the last flow records", 30*time.Second, func() bool {
				now := gapsTo(readCollected(t, c.lines()[before:]).flows, port)
				if !maps.Equal(now, sums) {
					sums, settled = now, time.Now()
				}
				return time.Since(settled) > 3*time.Second // intervals have one
			})
			t.Logf("%d dropped: %+v", lost, sums)
			for _, node := range routers {
				want := gaps{packets: sums["athos"].packets}
				if node != "athos" {
					want.missing = lost
				}
				// of offloaded packets, segments are counted, and numbers are missing
				if got := sums[node]; got.missing != want.missing || got.unknown > 0 || tt.network == "udp" && got.packets != want.packets-want.missing {
					t.Errorf("%s: %+v, want %+v", node, got, want)
				}
			}
		})
	}
	if _, err := os.Stat("/sys/devices/system/cpu/cpu1"); err != nil {
		t.Log("this machine has one CPU: packets could not come over several")
	}
}
