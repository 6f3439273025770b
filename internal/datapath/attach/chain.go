// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/undo"
	"github.com/waymark-net/waymark/internal/model"
)

// OtherProgram is what someone else has on a hook of an interface.
type OtherProgram struct {
	Program uint32 // the kernel's id; 0 for a filter that is no program
	Name    string
	Kind    string // xdp, tcx or clsact
}

// String gives its name, and the kernel's id if it is a program.
func (n OtherProgram) String() string {
	if n.Program == 0 {
		return n.Name
	}
	return fmt.Sprintf("%s (%s, id %d)", n.Name, n.Kind, n.Program)
}

func namesOf(list []OtherProgram) []string {
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = n.Name
	}
	return names
}

// ProgramName is a program's name; a program that has just gone has none.
func ProgramName(id ebpf.ProgramID) string {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return ""
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return ""
	}
	return info.Name
}

func tcxAttach(ingress bool) ebpf.AttachType {
	if ingress {
		return ebpf.AttachTCXIngress
	}
	return ebpf.AttachTCXEgress
}

// anchorTries is how often a place is looked for again whose neighbour has just gone.
const anchorTries = 3

// attachTCX puts a program into a place of a tcx hook; others are all but ours.
func attachTCX(index model.IfIndex, ingress bool, program *ebpf.Program, place model.Place, ours ...ebpf.ProgramID) (link.Link, error) {
	options := link.TCXOptions{Program: program, Interface: int(index), Attach: tcxAttach(ingress)}
	for try := 1; ; try++ {
		anchor, err := anchorOf(index, ingress, place, ours)
		if err != nil {
			return nil, err
		}
		options.Anchor = anchor
		l, err := link.AttachTCX(options)
		if err == nil || try == anchorTries || !errors.Is(err, unix.ENOENT) {
			return l, err
		}
	}
}

func anchorOf(index model.IfIndex, ingress bool, place model.Place, ours []ebpf.ProgramID) (link.Anchor, error) {
	switch place.Kind {
	case model.PlaceFirst:
		return link.Head(), nil
	case model.PlaceLast:
		return link.Tail(), nil
	}
	var query Query
	err := query.ask(index, ingress)
	if errors.Is(err, unix.EINVAL) {
		return link.Head(), nil // attaching finds out that there is no tcx
	}
	if err != nil {
		return nil, fmt.Errorf("list the programs of the hook: %w", err)
	}
	others := slices.DeleteFunc(
		query.chain(ProgramName),
		func(n OtherProgram) bool { return slices.Contains(ours, ebpf.ProgramID(n.Program)) },
	)
	if seat := place.Seat(namesOf(others)); seat > 0 {
		return link.AfterProgramByID(ebpf.ProgramID(others[seat-1].Program)), nil
	}
	return link.Head(), nil
}

// pinMoving ends the name of a link's pin while it replaces another one.
const pinMoving = "_moving"

// actUnspecified is TC_ACT_UNSPEC of linux/pkt_cls.h: the next program decides.
const actUnspecified = -1

// neutralName is the name of the empty program of a link that is being moved.
const neutralName = "waymark_moves"

// neutral is a program that leaves every packet to the next one. The kernel accepts a
// program only once in a chain.
func neutral(name string) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, actUnspecified), asm.Return()},
	})
}

// Move takes the program to its place. The kernel cannot move a program, nor have it twice
// in a chain: a second link takes the place with a program that does nothing, and then the
// two links exchange their programs. No packet meets the program twice, and only those
// between two system calls do not meet it.
func (a *Hook) Move(directory string, place model.Place) (err error) {
	if a.Mode == Clsact {
		if err := removeFilter(a.index, a.Ingress); err != nil {
			return err
		}
		return a.addFilter(place)
	}
	var nothing [2]*ebpf.Program
	for i := range nothing {
		p, err := neutral(neutralName)
		if err != nil {
			return fmt.Errorf("load an empty program: %w", err)
		}
		defer p.Close()
		nothing[i] = p
	}
	var change undo.Stack
	defer change.OnError(&err)
	to, err := attachTCX(a.index, a.Ingress, nothing[0], place, a.id)
	if err != nil {
		return err
	}
	change.Add(func() error { return abandonLink(to) })
	info, err := to.Info()
	if err != nil {
		return fmt.Errorf("look up the link's id: %w", err)
	}
	if err := to.Pin(filepath.Join(directory, a.pinName()+pinMoving)); err != nil {
		return err
	}
	if err := a.link.Update(nothing[1]); err != nil {
		return err
	}
	change.Add(func() error { return a.link.Update(a.Program) })
	if err := to.Update(a.Program); err != nil {
		return err
	}
	change.Keep()
	from := a.link
	a.link, a.linkID = to, info.ID
	err = errors.Join(abandonLink(from), to.Pin(filepath.Join(directory, a.pinName())))
	a.changed()
	return err
}

// abandonLink takes a link off its hook.
func abandonLink(l link.Link) error {
	return errors.Join(l.Unpin(), l.Detach(), l.Close())
}
