// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/model"
)

// derives reports whether the host determines the source of the tunnel.
func (e Encapsulation) derives() bool {
	return e.Tunnel != nil && e.Mode != model.ModeInline && !e.Tunnel.Source.IsValid()
}

// deriveSources asks the host for the tunnel sources that the configuration does not
// give, once for each destination.
func (c *Config) deriveSources(h Host, out *Resolved) {
	out.Derived = map[netip.Addr]netip.Addr{}
	causes := map[netip.Addr]string{}
	for i, e := range c.Encapsulations {
		if !e.derives() || !e.Tunnel.Destination.IsValid() {
			continue
		}
		to := e.Tunnel.Destination
		if _, asked := out.Derived[to]; !asked {
			var err error
			if out.Derived[to], err = SourceOf(h, to); err != nil {
				causes[to] = err.Error()
			}
		}
		if cause := causes[to]; cause != "" {
			out.Sourceless = append(out.Sourceless, Sourceless{e.Name, to, cause, i})
		}
	}
}

// SourceOf is the source of a tunnel whose configuration gives none: the kernel's
// choice, if a tunnel can use it.
func SourceOf(h Host, to netip.Addr) (netip.Addr, error) {
	from, err := h.SourceTo(to)
	switch {
	case err != nil:
		return netip.Addr{}, err
	case from == to:
		return netip.Addr{}, fmt.Errorf("%s is an address of this node", to)
	case !from.Is6() || from.Is4In6() || from.IsUnspecified() || from.IsLoopback() || from.IsLinkLocalUnicast():
		return netip.Addr{}, fmt.Errorf("this node would send to %s from %s, which cannot be reached from beyond the link", to, from)
	}
	return from.WithZone(""), nil
}

// sourceless lists the errors of a strict file whose tunnels have no source on this
// host.
func (c *Config) sourceless(r Resolved) (faults Faults) {
	for _, s := range r.Sourceless {
		path := fmt.Sprintf("encapsulations[%d].tunnel", s.index)
		faults = append(faults, c.source.Fault(path, fmt.Sprintf("%s has no source: %s", path, s.Cause),
			"set source to an address of this node, make the destination reachable, or set strict: false to serve it once it has a source"))
	}
	return faults
}
