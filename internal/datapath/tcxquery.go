// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// mostTCX is how many programs the kernel takes at most on one hook (bpf_mprog_max), and one.
const mostTCX = 64

// tcxQuery asks which programs a tcx hook has. That is one system call, because every hook is
// looked at every second.
type tcxQuery struct {
	attributes struct { // of BPF_PROG_QUERY in union bpf_attr of linux/bpf.h
		target, attach, flags, attachFlags       uint32
		programs                                 uint64
		count, _                                 uint32
		programFlags, links, linkFlags, revision uint64
	}
	programs [mostTCX]ebpf.ProgramID
	links    [mostTCX]link.ID
}

// ask asks for the programs of a hook, in the order in which they run; after an error there are none.
func (q *tcxQuery) ask(index model.IfIndex, ingress bool) error {
	var pinner runtime.Pinner // the kernel writes to it
	pinner.Pin(q)
	defer pinner.Unpin()
	a := &q.attributes
	a.target, a.attach, a.flags, a.attachFlags = uint32(index), uint32(tcxAttach(ingress)), 0, 0
	a.programs, a.links = uint64(uintptr(unsafe.Pointer(&q.programs))), uint64(uintptr(unsafe.Pointer(&q.links)))
	a.programFlags, a.linkFlags, a.revision = 0, 0, 0
	a.count = mostTCX
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(a)), unsafe.Sizeof(*a))
	if errno == 0 {
		return nil
	}
	a.count, a.revision = 0, 0
	if errors.Is(errno, unix.ENOENT) {
		return nil // of a hook without programs
	}
	return os.NewSyscallError("list the programs of a hook", errno)
}

// chain lists the programs that were found.
func (q *tcxQuery) chain(name func(ebpf.ProgramID) string) []OtherProgram {
	chain := make([]OtherProgram, 0, q.attributes.count)
	for _, id := range q.programs[:q.attributes.count] {
		chain = append(chain, OtherProgram{Program: uint32(id), Name: name(id), Kind: string(AttachTCX)})
	}
	return chain
}

// revision changes with each change of the hook's chain; 0: it is not known.
func (q *tcxQuery) revision() uint64 { return q.attributes.revision }

// isLink reports whether the program at a place belongs to a link.
func (q *tcxQuery) isLink(at int, id link.ID) bool { return q.links[at] == id }
