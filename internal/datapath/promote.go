// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// The kernel waits for a grace period of RCU, several milliseconds, for each link that is
// attached to or taken off a tcx hook, one after the other. With this many hooks, the
// agent serves by clsact at once, and moves to tcx afterwards.
const manyHooks = 32

// quickly prefers clsact to tcx.
func quickly(modes []AttachMode) []AttachMode {
	tcx, clsact := slices.Index(modes, AttachTCX), slices.Index(modes, AttachClsact)
	if tcx < 0 || clsact < tcx {
		return modes
	}
	modes = slices.Clone(modes)
	modes[tcx], modes[clsact] = modes[clsact], modes[tcx]
	return modes
}

// hasMany reports whether many hooks get a program that may be in tcx.
func (t *transaction) hasMany() bool {
	hooks := 0
	for _, p := range t.interfaces {
		for ingress, a := range map[bool]*attachment{true: p.ingress, false: p.egress} {
			if a == nil && slices.Contains(p.modes(ingress), AttachTCX) {
				hooks++
			}
		}
	}
	return hooks >= manyHooks
}

// Promote moves programs from clsact to tcx where that is the better mode and attaching
// many of them would have taken long: those of edges first, for about as long as limit. It
// reports whether there are more. On an edge, both programs are there for a moment, so that
// it is never open. Elsewhere a packet must not meet both, and those between two system
// calls meet none.
func (d *Datapath) Promote(limit time.Duration) (more bool, err error) {
	end := time.Now().Add(limit)
	for _, edge := range []bool{true, false} {
		for _, index := range d.promotable(edge) {
			for _, ingress := range []bool{false, true} {
				if time.Now().After(end) {
					return true, nil
				}
				if err := d.promote(index, ingress, edge); err != nil {
					return false, err
				}
			}
		}
	}
	return false, nil
}

// promotable are the interfaces with such programs.
func (d *Datapath) promotable(edge bool) (list []model.IfIndex) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for index, s := range d.served {
		for at, a := range []*attachment{s.egress, s.ingress} {
			if a != nil && a.promotes && s.edge[at] == edge && !slices.Contains(list, index) {
				list = append(list, index)
			}
		}
	}
	return list
}

func (d *Datapath) promote(index model.IfIndex, ingress, edge bool) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.served[index]
	if s == nil {
		return nil
	}
	at, filters := &s.egress, s.edge[0]
	if ingress {
		at, filters = &s.ingress, s.edge[1]
	}
	a := *at
	if a == nil || !a.promotes || filters != edge {
		return nil
	}
	a.promotes = false // once: without tcx, the filter stays
	if !edge {
		d.countAs(d.counting, true)
	}
	b, err := a.promoted(d.directory(index), s.place, edge)
	if b != nil {
		*at = b
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("move the program of interface %d from clsact to tcx: %w", index, err)
	}
	return nil
}

// promoted is the attachment in tcx that replaces one in clsact; nil if that stays.
func (a *attachment) promoted(directory string, place model.Place, edge bool) (*attachment, error) {
	nothing, err := neutral()
	if err != nil {
		return nil, fmt.Errorf("load an empty program: %w", err)
	}
	defer nothing.Close()
	to, err := attachTCX(a.index, a.ingress, nothing, place)
	if err != nil {
		return nil, err
	}
	b := &attachment{index: a.index, ingress: a.ingress, mode: AttachTCX, link: to, program: a.program, id: a.id, left: a.left}
	if err := to.Pin(filepath.Join(directory, b.pinName())); err != nil {
		return nil, errors.Join(err, abandonLink(to))
	}
	steps := []func() error{
		func() error { return removeFilter(a.index, a.ingress) },
		func() error { return to.Update(a.program) },
	}
	if edge {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, errors.Join(err, a.addFilter(place), abandonLink(to))
		}
	}
	return b, nil
}

// releaseMany takes all programs off their hooks at once where there are many links in tcx: it
// replaces them by an empty program, and leaves it to the kernel to free the links, in the
// background, once their pins are gone.
func (d *Datapath) releaseMany() error {
	var links []*attachment
	for _, s := range d.served {
		for _, a := range append(s.leftovers, s.ingress, s.egress) {
			if a != nil && a.mode == AttachTCX && a.link != nil {
				links = append(links, a)
			}
		}
	}
	if len(links) < manyHooks {
		return nil
	}
	nothing, err := neutral()
	if err != nil {
		return fmt.Errorf("load an empty program: %w", err)
	}
	defer nothing.Close()
	for _, a := range links {
		if a.link.Update(nothing) == nil {
			a.emptied = true
		}
	}
	return nil
}

// abandon gives up a link with an empty program.
func (a *attachment) abandon(directory string) error {
	err := a.link.Close() // before the pin: the last one to go frees the link, and only a pin does so in the background
	for _, suffix := range []string{"", pinMoving} {
		if e := os.Remove(filepath.Join(directory, a.pinName()+suffix)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
