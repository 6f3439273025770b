// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// dropper drops some of the arriving packets that carry a Hop-by-Hop header.
type dropper struct{ counts *ebpf.Map }

// Between packets dropFrom and dropUntil, one of each dropEvery is dropped.
// Losses at the very start or end of a flow cannot be detected.
const dropEvery, dropFrom, dropUntil = 50, 200, 1500

func startDropper(t *testing.T, n *lab.Node, name string) *dropper {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	// nothing is dropped before restart
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
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), // two CPUs may read the same count: each then drops and counts a packet
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
		// generic XDP runs before the kernel segments an offloaded packet; the
		// segments share a sequence number
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

func (d *dropper) seen(t *testing.T) uint64 { t.Helper(); return d.read(t)[0] }

func (d *dropper) read(t *testing.T) (counts [2]uint64) {
	t.Helper()
	if err := d.counts.Lookup(uint32(0), &counts); err != nil {
		t.Fatal(err)
	}
	return counts
}

// restart starts the count again.
func (d *dropper) restart(t *testing.T) {
	t.Helper()
	if err := d.counts.Put(uint32(0), [2]uint64{}); err != nil {
		t.Fatal(err)
	}
}

// moveTo pins the calling thread, which the goroutine has locked, to CPU i modulo
// their number: packets are handled where they are sent.
func moveTo(i int) error {
	var one unix.CPUSet
	one.Set(i % runtime.NumCPU())
	return unix.SchedSetaffinity(0, &one)
}

// spread sends over a connection from alpha to beta, from all CPUs in turn, and
// closes the connection.
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
			if err := conn.SetDeadline(time.Now().Add(patience.Of(time.Minute))); err != nil {
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

// discard reads and discards what beta receives by TCP and UDP.
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
