// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// mostTCX is how many programs the kernel takes at most on one hook (bpf_mprog_max), and one.
const mostTCX = 64

// Query asks which programs a tcx hook has. That is one system call, because every hook is
// looked at every second.
type Query struct {
	attributes struct { // of BPF_PROG_QUERY in union bpf_attr of linux/bpf.h
		target, attach, flags, attachFlags       uint32
		programs                                 uint64
		count, _                                 uint32
		programFlags, links, linkFlags, revision uint64
	}
	programs [mostTCX]ebpf.ProgramID
	links    [mostTCX]link.ID
	own      [mostTCX]bool // see [AttachOwn]
	changes  uint64        // of these
}

// ask asks for the programs of a hook, in the order in which they run; after an error there are none.
func (q *Query) ask(index model.IfIndex, ingress bool) error {
	var pinner runtime.Pinner // the kernel writes to it
	pinner.Pin(q)
	defer pinner.Unpin()
	a := &q.attributes
	a.target, a.attach, a.flags, a.attachFlags = uint32(index), uint32(tcxAttach(ingress)), 0, 0
	a.programs, a.links = uint64(uintptr(unsafe.Pointer(&q.programs))), uint64(uintptr(unsafe.Pointer(&q.links)))
	a.programFlags, a.linkFlags, a.revision = 0, 0, 0
	a.count = mostTCX
	own.mu.RLock()
	defer own.mu.RUnlock()
	q.changes = own.changes[hookOf{index, ingress}]
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(a)), unsafe.Sizeof(*a))
	if errno == 0 {
		for i, id := range q.programs[:a.count] {
			q.own[i] = own.programs[id] > 0
		}
		return nil
	}
	a.count, a.revision = 0, 0
	if errors.Is(errno, unix.ENOENT) {
		return nil // of a hook without programs
	}
	return os.NewSyscallError("list the programs of a hook", errno)
}

// chain lists the programs that were found.
func (q *Query) chain(name func(ebpf.ProgramID) string) []OtherProgram {
	chain := make([]OtherProgram, 0, q.attributes.count)
	for _, id := range q.programs[:q.attributes.count] {
		chain = append(chain, OtherProgram{Program: uint32(id), Name: name(id), Kind: string(TCX)})
	}
	return chain
}

// others are some programs that were found, from a place to another one, without those of this process.
func (q *Query) others(chain []OtherProgram, from, to int) (list []OtherProgram) {
	for i := from; i < to; i++ {
		if !q.own[i] {
			list = append(list, chain[i])
		}
	}
	return list
}

// chain is a chain as one look found it. Its revision grows by one with each change.
type chain struct {
	revision uint64 // 0: not known
	own      uint64 // changes by this process besides those of hooks
	programs []tcxEntry
}

// tcxEntry is a program of a chain, with its link, if it has one.
type tcxEntry struct {
	link    link.ID
	program ebpf.ProgramID
}

// found is the chain that was found.
func (q *Query) found() chain {
	c := chain{revision: q.attributes.revision, own: q.changes}
	for i, id := range q.programs[:q.attributes.count] {
		if !q.own[i] {
			c.programs = append(c.programs, tcxEntry{q.links[i], id})
		}
	}
	return c
}

// isExplained reports whether what differs between two looks is all that was changed: no program
// came and went between them.
func (c chain) isExplained(later chain) bool {
	if c.revision == 0 || later.revision == c.revision {
		return true
	}
	differences := later.own - c.own
	for _, e := range c.programs {
		if !slices.Contains(later.programs, e) {
			differences++ // it has gone, or its link has another program
		}
	}
	for _, e := range later.programs {
		replaced := e.link != 0 && slices.ContainsFunc(c.programs, func(o tcxEntry) bool { return o.link == e.link })
		if !replaced && !slices.Contains(c.programs, e) {
			differences++
		}
	}
	return later.revision-c.revision == differences
}

// isSame reports whether all changes since the earlier look were counted as those of this process.
func (c chain) isSame(later chain) bool { return later.revision-c.revision == later.own-c.own }

// isLink reports whether the program at a place belongs to a link.
func (q *Query) isLink(at int, id link.ID) bool { return q.links[at] == id }
