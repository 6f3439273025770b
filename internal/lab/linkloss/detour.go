// SPDX-License-Identifier: Apache-2.0

package linkloss

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/kernelclock"
	"github.com/waymark-net/waymark/internal/problem"
)

// Selection says which frames a detour is about: invalid prefixes are all.
type Selection struct {
	Source      netip.Prefix `json:"source,omitzero"` // as of a Rule
	Destination netip.Prefix `json:"destination,omitzero"`
	FirstSID    netip.Prefix `json:"first_sid,omitzero"`
	LastSID     netip.Prefix `json:"last_sid,omitzero"`
}

// Validate checks that each prefix is one of IPv6, or none.
func (s Selection) Validate() error {
	for _, p := range []netip.Prefix{s.Source, s.Destination, s.FirstSID, s.LastSID} {
		if p.IsValid() && (!p.Addr().Is6() || p.Addr().Is4In6() || p != p.Masked()) {
			return problem.New(fmt.Sprintf("%v is not an IPv6 prefix without bits after it", p), "write one such as fc00:1::/32")
		}
	}
	return nil
}

// Detour sends frames of an interface, those that no rule loses, to another device instead
// of the link. A process has to read them there, and to say every now and then that it
// does: without it, frames go their way.
type Detour struct {
	filter *filter
	value  lossDetour
}

// DetourLease is how long frames take a detour after its process was last heard of.
const DetourLease = time.Second

// StartDetour attaches the filter if need be. An interface has one detour.
func StartDetour(device string, s Selection, to int) (*Detour, error) {
	f, err := findOrAttach(device)
	if err != nil {
		return nil, err
	}
	d := &Detour{filter: f, value: lossDetour{
		Source: kernelPrefix(s.Source), Destination: kernelPrefix(s.Destination), First: kernelPrefix(s.FirstSID), Last: kernelPrefix(s.LastSID),
		Device: uint32(to),
	}}
	before := lossDetour{}
	now, err := kernelclock.Monotonic()
	if err == nil {
		err = f.detours.Lookup(uint32(0), &before)
	}
	switch {
	case err != nil:
	case before.Device != 0 && before.Until > now:
		err = problem.New("another process already delays or reorders its frames", "end that first")
	default:
		err = errors.Join(f.counts.Put(uint32(0), lossDetoured{}), d.Renew())
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("divert the frames of %s: %w", device, err)
	}
	return d, nil
}

// Renew says that the process reads.
func (d *Detour) Renew() error {
	now, err := kernelclock.Monotonic()
	if err != nil {
		return err
	}
	d.value.Until = now + uint64(DetourLease)
	return d.filter.detours.Put(uint32(0), &d.value)
}

// Stop sends frames onto the link again. Those that are being sent to the device may still
// reach it.
func (d *Detour) Stop() error { return d.filter.detours.Put(uint32(0), lossDetour{}) }

// Counts are the frames, and the packets in them, that took the detour.
func (d *Detour) Counts() (frames, packets uint64, err error) {
	var c lossDetoured
	err = d.filter.counts.Lookup(uint32(0), &c)
	return c.Frames, c.Packets, err
}

// Close removes the filter if it has no rule either.
func (d *Detour) Close() error {
	defer d.filter.close()
	return errors.Join(d.Stop(), d.filter.detachIfIdle())
}

// findOrAttach opens the filter of an interface.
func findOrAttach(device string) (*filter, error) {
	f, err := find(device)
	if f == nil && err == nil {
		f, err = attach(device)
	}
	return f, err
}

// detachIfIdle removes the filter when it has neither rules nor a detour.
func (f *filter) detachIfIdle() error {
	rules, err := f.list()
	if err != nil {
		return err
	}
	var d lossDetour
	now, err := kernelclock.Monotonic()
	if err = errors.Join(err, f.detours.Lookup(uint32(0), &d)); err != nil {
		return err
	}
	if len(rules) > 0 || d.Device != 0 && d.Until > now {
		return nil
	}
	return netlink.FilterDel(f.filter)
}
