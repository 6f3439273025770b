// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// attachment is one program on one hook of an interface.
type attachment struct {
	index    model.IfIndex
	ingress  bool
	mode     AttachMode
	link     link.Link     // nil for clsact
	linkID   link.ID       // of it
	program  *ebpf.Program // what is attached now; it belongs to its set
	id       ebpf.ProgramID
	priority uint16        // of a clsact filter
	left     *ebpf.Program // left by an earlier agent, kept until the change has succeeded
	chain    tcxChain      // when it was looked at or changed here
}

func (a *attachment) pinName() string {
	if a.ingress {
		return "ingress_" + string(a.mode)
	}
	return "egress_" + string(a.mode)
}

// attach puts a program on the hook, in its place among others, and pins its link.
func attach(directory string, index model.IfIndex, ingress bool, mode AttachMode, program *ebpf.Program, place model.Place) (*attachment, error) {
	a := &attachment{index: index, ingress: ingress, mode: mode, program: program}
	var err error
	if a.id, err = programID(program); err != nil {
		return nil, attachError(index, ingress, mode, err)
	}
	var l link.Link
	switch mode {
	case AttachXDP:
		l, err = link.AttachXDP(link.XDPOptions{
			Program: program, Interface: int(index), Flags: link.XDPDriverMode,
		})
	case AttachTCX:
		l, err = attachTCX(index, ingress, program, place)
	case AttachClsact:
		err = a.addFilter(place)
	default:
		err = fmt.Errorf("no such mode")
	}
	if err != nil {
		return nil, attachError(index, ingress, mode, err)
	}
	if l == nil {
		return a, nil
	}
	info, err := l.Info()
	if err != nil {
		l.Close()
		return nil, attachError(index, ingress, mode, fmt.Errorf("look up the link's id: %w", err))
	}
	a.link, a.linkID = l, info.ID
	if err := a.link.Pin(filepath.Join(directory, a.pinName())); err != nil {
		a.link.Close()
		return nil, fmt.Errorf("pin %s of interface %d: %w", a.pinName(), index, err)
	}
	a.changed()
	return a, nil
}

// changed notes that the chain is as it was left here.
func (a *attachment) changed() {
	if a.mode != AttachTCX {
		return
	}
	var query tcxQuery
	a.chain = tcxChain{}
	if query.ask(a.index, a.ingress) == nil {
		a.chain = query.found()
	}
}

func attachError(index model.IfIndex, ingress bool, mode AttachMode, err error) error {
	direction := "egress"
	if ingress {
		direction = "ingress"
	}
	cure := ""
	switch {
	case errors.Is(err, ebpf.ErrNotSupported) && mode == AttachTCX:
		cure = " (needs Linux 6.6); set attach: clsact"
	case errors.Is(err, unix.EBUSY) && mode == AttachXDP:
		cure = "; another XDP program is there: remove it, or set attach: tcx"
	case mode == AttachXDP:
		cure = "; set attach: tcx"
	}
	return fmt.Errorf("attach %s %s to interface %d: %w%s", mode, direction, index, err, cure)
}

// update swaps the program; no packet passes without a program.
func (a *attachment) update(program *ebpf.Program) error {
	id, err := programID(program)
	switch {
	case err != nil:
	case a.link != nil:
		err = a.link.Update(program)
	default:
		err = a.replaceFilter(program)
	}
	if err != nil {
		return attachError(a.index, a.ingress, a.mode, err)
	}
	a.program, a.id = program, id
	a.changed()
	return nil
}

// programID is the kernel's number of a program.
func programID(program *ebpf.Program) (ebpf.ProgramID, error) {
	info, err := program.Info()
	if err != nil {
		return 0, fmt.Errorf("look up the program's id: %w", err)
	}
	id, _ := info.ID()
	return id, nil
}

// detach removes the program and its pin. An interface that was deleted took its
// programs along.
func (a *attachment) detach() error {
	if a.link == nil {
		return removeFilter(a.index, a.ingress)
	}
	return errors.Join(a.link.Unpin(), detachLink(a.link))
}

// alive reports whether the program is still on the hook; of a hook that an earlier agent
// left, any program.
func (a *attachment) alive() bool {
	if a.link == nil {
		filter, err := findFilter(a.index, a.ingress)
		return filter != nil && err == nil && (a.id == 0 || ebpf.ProgramID(filter.Id) == a.id)
	}
	info, err := a.link.Info()
	return err == nil && linkInterface(info) == a.index && (a.id == 0 || info.Program == a.id)
}

// forget drops an attachment that is no longer alive.
func (a *attachment) forget() {
	if a.link != nil {
		_ = a.link.Unpin() // the pin may be gone as well
	}
	a.close()
}

// close releases the attachment in this process only.
func (a *attachment) close() {
	if a.link != nil {
		a.link.Close()
	}
	a.release()
}

// release closes the program that an earlier agent left.
func (a *attachment) release() {
	if a.left != nil {
		a.left.Close()
		a.left = nil
	}
}

// recoverAttachments finds the attachments that an earlier agent left on an
// interface. Links whose interface is gone are dropped.
func recoverAttachments(directory string, index model.IfIndex) ([]*attachment, error) {
	var found []*attachment
	for _, ingress := range []bool{true, false} {
		for _, mode := range []AttachMode{AttachXDP, AttachTCX} {
			kept := false
			for _, suffix := range []string{"", pinMoving} {
				a := &attachment{index: index, ingress: ingress, mode: mode}
				ok, err := a.recoverLink(filepath.Join(directory, a.pinName()+suffix))
				if err != nil {
					return found, err
				}
				if !ok {
					continue
				}
				found = append(found, a)
				if suffix != "" && !kept { // the agent ended at the end of a move
					if err := a.link.Pin(filepath.Join(directory, a.pinName())); err != nil {
						return found, fmt.Errorf("pin %s of interface %d: %w", a.pinName(), index, err)
					}
				}
				kept = true
			}
		}
		if a, err := recoverFilter(index, ingress); err != nil {
			return found, err
		} else if a != nil {
			found = append(found, a)
		}
	}
	return found, nil
}

// recoverLink opens a pinned link; ok is false when there is none, its interface is gone, or it has
// a program that does nothing.
func (a *attachment) recoverLink(path string) (ok bool, err error) {
	l, err := link.LoadPinnedLink(path, nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open pinned link %s: %w", path, err)
	}
	info, err := l.Info()
	if err != nil || linkInterface(info) != a.index {
		err = l.Unpin()
		l.Close()
		if err != nil {
			return false, fmt.Errorf("forget link %s: %w", path, err)
		}
		return false, nil
	}
	if a.left, err = ebpf.NewProgramFromID(info.Program); err != nil {
		l.Close()
		return false, fmt.Errorf("open program of %s: %w", path, err)
	}
	if name := nameOf(info.Program); name == neutralName || name == endedName { // the agent ended in the middle of a move, or while it left the hook
		a.release()
		if err := abandonLink(l); err != nil {
			return false, fmt.Errorf("forget link %s: %w", path, err)
		}
		return false, nil
	}
	a.link, a.linkID, a.program, a.id = l, info.ID, a.left, info.Program
	return true, nil
}

// linkInterface is where a link is attached; 0 when its interface is gone.
func linkInterface(info *link.Info) model.IfIndex {
	if x := info.XDP(); x != nil {
		return model.IfIndex(x.Ifindex)
	}
	if x := info.TCX(); x != nil {
		return model.IfIndex(x.Ifindex)
	}
	return 0
}
