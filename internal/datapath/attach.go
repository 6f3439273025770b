// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// Our filter's place in clsact; the handle distinguishes it from others' filters.
const (
	clsactHandle   = 0x77617900
	clsactPriority = 0x7761
)

// attachment is one program on one hook of an interface.
type attachment struct {
	index   model.IfIndex
	ingress bool
	mode    AttachMode
	link    link.Link     // nil for clsact
	program *ebpf.Program // what is attached now; it belongs to its set
	left    *ebpf.Program // left by an earlier agent, kept until the change has succeeded
}

func (a *attachment) pinName() string {
	if a.ingress {
		return "ingress_" + string(a.mode)
	}
	return "egress_" + string(a.mode)
}

// attach puts a program on the hook and pins its link.
func attach(directory string, index model.IfIndex, ingress bool, mode AttachMode, program *ebpf.Program) (*attachment, error) {
	a := &attachment{index: index, ingress: ingress, mode: mode, program: program}
	var err error
	switch mode {
	case AttachXDP:
		a.link, err = link.AttachXDP(link.XDPOptions{
			Program: program, Interface: int(index), Flags: link.XDPDriverMode,
		})
	case AttachTCX:
		kind := ebpf.AttachTCXEgress
		if ingress {
			kind = ebpf.AttachTCXIngress
		}
		a.link, err = link.AttachTCX(link.TCXOptions{Program: program, Interface: int(index), Attach: kind})
	case AttachClsact:
		err = replaceFilter(index, ingress, program)
	default:
		err = fmt.Errorf("no such mode")
	}
	if err != nil {
		return nil, attachError(index, ingress, mode, err)
	}
	if a.link == nil {
		return a, nil
	}
	if err := a.link.Pin(filepath.Join(directory, a.pinName())); err != nil {
		a.link.Close()
		return nil, fmt.Errorf("pin %s of interface %d: %w", a.pinName(), index, err)
	}
	return a, nil
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
	var err error
	if a.link != nil {
		err = a.link.Update(program)
	} else {
		err = replaceFilter(a.index, a.ingress, program)
	}
	if err != nil {
		return attachError(a.index, a.ingress, a.mode, err)
	}
	a.program = program
	return nil
}

// detach removes the program and its pin. An interface that was deleted took its
// programs along.
func (a *attachment) detach() error {
	if a.link == nil {
		return removeFilter(a.index, a.ingress)
	}
	err := a.link.Unpin()
	if d := a.link.Detach(); d != nil && !errors.Is(d, ebpf.ErrNotSupported) && !errors.Is(d, unix.ENOLINK) {
		err = errors.Join(err, d)
	}
	return errors.Join(err, a.link.Close())
}

// alive reports whether the program is still on the hook.
func (a *attachment) alive() bool {
	if a.link == nil {
		filter, err := findFilter(a.index, a.ingress)
		return filter != nil && err == nil
	}
	info, err := a.link.Info()
	return err == nil && linkInterface(info) == a.index
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
			a := &attachment{index: index, ingress: ingress, mode: mode}
			path := filepath.Join(directory, a.pinName())
			l, err := link.LoadPinnedLink(path, nil)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return found, fmt.Errorf("open pinned link %s: %w", path, err)
			}
			info, err := l.Info()
			if err != nil || linkInterface(info) != index {
				err = l.Unpin()
				l.Close()
				if err != nil {
					return found, fmt.Errorf("forget link %s: %w", path, err)
				}
				continue
			}
			a.link = l
			if a.left, err = ebpf.NewProgramFromID(info.Program); err != nil {
				l.Close()
				return found, fmt.Errorf("open program of %s: %w", path, err)
			}
			a.program = a.left
			found = append(found, a)
		}
		if a, err := recoverFilter(index, ingress); err != nil {
			return found, err
		} else if a != nil {
			found = append(found, a)
		}
	}
	return found, nil
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

func filterParent(ingress bool) uint32 {
	if ingress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

// replaceFilter installs or swaps our clsact filter in one step.
func replaceFilter(index model.IfIndex, ingress bool, program *ebpf.Program) error {
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: int(index), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		},
		QdiscType: "clsact",
	}
	if err := netlink.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact: %w", err)
	}
	return netlink.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: int(index), Parent: filterParent(ingress), Handle: clsactHandle,
			Priority: clsactPriority, Protocol: unix.ETH_P_ALL,
		},
		Fd: program.FD(), Name: "waymark", DirectAction: true,
	})
}

func findFilter(index model.IfIndex, ingress bool) (*netlink.BpfFilter, error) {
	device, err := netlink.LinkByIndex(int(index))
	if err != nil {
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return nil, nil
		}
		return nil, fmt.Errorf("look up interface %d: %w", index, err)
	}
	filters, err := netlink.FilterList(device, filterParent(ingress))
	if err != nil {
		return nil, nil // no clsact
	}
	for _, f := range filters {
		if bpf, ok := f.(*netlink.BpfFilter); ok && bpf.Handle == clsactHandle && bpf.Priority == clsactPriority {
			return bpf, nil
		}
	}
	return nil, nil
}

func recoverFilter(index model.IfIndex, ingress bool) (*attachment, error) {
	filter, err := findFilter(index, ingress)
	if filter == nil || err != nil {
		return nil, err
	}
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(filter.Id))
	if err != nil {
		return nil, fmt.Errorf("open the program of the filter on interface %d: %w", index, err)
	}
	return &attachment{index: index, ingress: ingress, mode: AttachClsact, program: program, left: program}, nil
}

func removeFilter(index model.IfIndex, ingress bool) error {
	filter, err := findFilter(index, ingress)
	if filter == nil || err != nil {
		return err
	}
	return netlink.FilterDel(filter)
}
