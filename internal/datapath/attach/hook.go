// SPDX-License-Identifier: Apache-2.0

// Package attach puts programs on the hooks of interfaces, looks whether they are still there
// and in their places among those of others, and takes them off.
package attach

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

// Hook is one program on one hook of an interface.
type Hook struct {
	index    model.IfIndex
	Ingress  bool
	Mode     Mode
	link     link.Link     // nil for clsact
	linkID   link.ID       // of it
	Program  *ebpf.Program // what is attached now; it belongs to its set
	id       ebpf.ProgramID
	priority uint16        // of a clsact filter
	left     *ebpf.Program // left by an earlier agent, kept until the change has succeeded
	chain    chain         // of tcx, when it was looked at or changed here
	looked   bool          // at the chain before our filter
}

func (a *Hook) pinName() string {
	if a.Ingress {
		return "ingress_" + string(a.Mode)
	}
	return "egress_" + string(a.Mode)
}

// New puts a program on the hook, in its place among others, and pins its link.
func New(directory string, index model.IfIndex, ingress bool, mode Mode, program *ebpf.Program, place model.Place) (*Hook, error) {
	a := &Hook{index: index, Ingress: ingress, Mode: mode, Program: program}
	var err error
	if a.id, err = programID(program); err != nil {
		return nil, Error(index, ingress, mode, err)
	}
	var l link.Link
	switch mode {
	case XDP:
		l, err = link.AttachXDP(link.XDPOptions{
			Program: program, Interface: int(index), Flags: link.XDPDriverMode,
		})
	case TCX:
		l, err = attachTCX(index, ingress, program, place)
	case Clsact:
		err = a.addFilter(place)
	default:
		err = fmt.Errorf("no such mode")
	}
	if err != nil {
		return nil, Error(index, ingress, mode, err)
	}
	if l == nil {
		return a, nil
	}
	info, err := l.Info()
	if err != nil {
		l.Close()
		return nil, Error(index, ingress, mode, fmt.Errorf("look up the link's id: %w", err))
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
func (a *Hook) changed() {
	if a.Mode != TCX {
		return
	}
	var query Query
	a.chain = chain{}
	if query.ask(a.index, a.Ingress) == nil {
		a.chain = query.found()
	}
}

// Error says what could not be attached, and what else can.
func Error(index model.IfIndex, ingress bool, mode Mode, err error) error {
	direction := "egress"
	if ingress {
		direction = "ingress"
	}
	failed := fmt.Errorf("attach %s %s to interface %d: %w", mode, direction, index, err)
	switch {
	case errors.Is(err, ebpf.ErrNotSupported) && mode == TCX:
		return problem.Wrap(fmt.Errorf("%w (needs Linux 6.6)", failed), "set attach: clsact")
	case errors.Is(err, unix.EBUSY) && mode == XDP:
		return problem.Append(failed, "another XDP program is there: remove it, or set attach: tcx")
	case mode == XDP:
		return problem.Append(failed, "set attach: tcx")
	}
	return failed
}

// Update swaps the program; no packet passes without a program.
func (a *Hook) Update(program *ebpf.Program) error {
	id, err := programID(program)
	switch {
	case err != nil:
	case a.link != nil:
		err = a.link.Update(program)
	default:
		err = a.replaceFilter(program)
	}
	if err != nil {
		return Error(a.index, a.Ingress, a.Mode, err)
	}
	a.Program, a.id = program, id
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

// Detach removes the program and its pin. An interface that was deleted took its
// programs along.
func (a *Hook) Detach() error {
	if a.link == nil {
		return removeFilter(a.index, a.Ingress)
	}
	return errors.Join(a.link.Unpin(), DetachLink(a.link))
}

// Alive reports whether the program is still on the hook; of a hook that an earlier agent
// left, any program.
func (a *Hook) Alive() bool {
	if a.link == nil {
		filter, err := findFilter(a.index, a.Ingress)
		return filter != nil && err == nil && (a.id == 0 || ebpf.ProgramID(filter.Id) == a.id)
	}
	info, err := a.link.Info()
	return err == nil && linkInterface(info) == a.index && (a.id == 0 || info.Program == a.id)
}

// Unpin makes room for the pin of another attachment; this one is no longer alive.
func (a *Hook) Unpin() {
	if a.link != nil {
		_ = a.link.Unpin() // the pin may be gone as well
	}
}

// Close releases the attachment in this process only.
func (a *Hook) Close() {
	if a.link != nil {
		a.link.Close()
	}
	a.Release()
}

// Release closes the program that an earlier agent left.
func (a *Hook) Release() {
	if a.left != nil {
		a.left.Close()
		a.left = nil
	}
}

// Recover finds the attachments that an earlier agent left on an
// interface. Links whose interface is gone are dropped.
func Recover(directory string, index model.IfIndex) ([]*Hook, error) {
	var found []*Hook
	for _, ingress := range []bool{true, false} {
		for _, mode := range []Mode{XDP, TCX} {
			kept := false
			for _, suffix := range []string{"", pinMoving} {
				a := &Hook{index: index, Ingress: ingress, Mode: mode}
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
func (a *Hook) recoverLink(path string) (ok bool, err error) {
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
	if name := ProgramName(info.Program); name == neutralName ||
		name == endedName { // the agent ended in the middle of a move, or while it left the hook
		a.Release()
		if err := abandonLink(l); err != nil {
			return false, fmt.Errorf("forget link %s: %w", path, err)
		}
		return false, nil
	}
	a.link, a.linkID, a.Program, a.id = l, info.ID, a.left, info.Program
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
