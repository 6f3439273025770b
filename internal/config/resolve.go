// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

// Link is a network interface of a host as it is now.
type Link struct {
	Index model.IfIndex
	MTU   int
	Up    bool
	Alias string // the kernel's ifalias
}

// Host is the machine, and the network namespace in it, that a configuration
// is for.
type Host interface {
	// Link finds an interface by name; ok is false when there is none now.
	Link(name string) (link Link, ok bool, err error)
	// Devices lists the interfaces that are members of another one (of a bridge, a VRF,
	// a bond), VLAN devices and bridges. Others may be in the list.
	Devices() ([]Device, error)
	// NodeID and NodeIDWide are net.ipv6.ioam6_id and ioam6_id_wide.
	NodeID() (ioam.NodeID, error)
	NodeIDWide() (ioam.NodeIDWide, error)
	// InterfaceID and InterfaceIDWide are net.ipv6.conf.NAME.ioam6_id and
	// ioam6_id_wide.
	InterfaceID(name string) (ioam.InterfaceID, error)
	InterfaceIDWide(name string) (ioam.InterfaceIDWide, error)
	// StackOptions is how many options the stack takes in one Hop-by-Hop header:
	// net.ipv6.max_hbh_opts_number.
	StackOptions() (int, error)
	// Peers lists the collectors to which sinks send now, whatever the configuration says.
	Peers() []model.Collector
	// SourceTo is the address from which the kernel would send to dst.
	SourceTo(dst netip.Addr) (netip.Addr, error)
	// ProofKey reads the key of a proof of transit from a file.
	ProofKey(file string) (*pot.Key, error)
	// Addresses looks up a host name; the result is empty when that fails.
	Addresses(name string) []netip.Addr
}

// Resolved is a configuration applied to one host.
type Resolved struct {
	Node model.NodeConfig
	// Planned are the encapsulations that mode full would have, in mode observe.
	Planned []model.Encapsulation
	// Attach is the hook that each interface asks for: auto, xdp, tcx or clsact.
	Attach map[model.IfIndex]string
	// Descriptions are what interfaces are for, where that is known.
	Descriptions map[model.IfIndex]string
	// Places are where the programs stand among those of others, if not the first.
	Places map[model.IfIndex]model.Place
	// Fast are the interfaces that forward fast.
	Fast map[model.IfIndex]bool
	// StackOptions is how many options the stack takes in one Hop-by-Hop header.
	StackOptions int
	// Derived are the sources of tunnels whose configuration gives none, by
	// destination; the address is invalid where this host has none. Sourceless are the
	// encapsulations without a source; they are not in Node.
	Derived    map[netip.Addr]netip.Addr
	Sourceless []Sourceless
	// Unspared are collectors whose addresses are not all in Node.
	Unspared []Unspared
	// Outside are the devices on which no packet from inside the domain arrives.
	Outside map[model.IfIndex]bool
	// Missing are the interfaces that the configuration names and the host
	// does not have now. They and their encapsulations are not in Node.
	Missing []string
}

// Sourceless is an encapsulation without a source for its tunnel.
type Sourceless struct {
	Encapsulation string
	Destination   netip.Addr
	Cause         string

	index int // of the encapsulation in the configuration
}

// Unspared is a configured collector whose packets may get a header.
type Unspared struct{ Collector, Cause string }

// Resolve applies the configuration to a host as it is now. Call it again when the
// host's interfaces, addresses or routes change. The error holds Faults when the
// configuration does not suit the host.
func (c *Config) Resolve(h Host) (Resolved, error) {
	node := model.NodeConfig{}
	if err := c.nodeIdentity(h, &node); err != nil {
		return Resolved{}, err
	}
	out := Resolved{Attach: map[model.IfIndex]string{}, Places: map[model.IfIndex]model.Place{}, Fast: map[model.IfIndex]bool{}}
	var err error
	if out.StackOptions, err = h.StackOptions(); err != nil {
		return Resolved{}, err
	}
	links := map[int]model.Interface{}
	var faults Faults
	for i, in := range c.Interfaces {
		link, ok, err := h.Link(in.Name)
		switch {
		case err != nil:
			return Resolved{}, fmt.Errorf("look up interface %s: %w", in.Name, err)
		case !ok && c.Strict:
			faults = append(faults, c.missing(i))
			continue
		case !ok:
			out.Missing = append(out.Missing, in.Name)
			continue
		}
		served := model.Interface{Index: link.Index, MTU: link.MTU}
		if err := in.identity(h, &served); err != nil {
			return Resolved{}, err
		}
		links[i] = served
		out.Attach[link.Index] = string(in.Attach)
		if text := cmp.Or(in.Description, nodenames.Printable(link.Alias)); text != "" {
			if out.Descriptions == nil {
				out.Descriptions = map[model.IfIndex]string{}
			}
			out.Descriptions[link.Index] = text
		}
		if in.Place != (model.Place{}) {
			out.Places[link.Index] = in.Place
		}
		if in.Forwarding == ForwardingFast {
			out.Fast[link.Index] = true
		}
	}
	c.deriveSources(h, &out)
	if c.Strict {
		faults = append(faults, c.sourceless(out)...)
	}
	node.Collectors, out.Unspared = c.collectors(h)
	known, unusable := c.readKeys(h)
	if c.source == nil {
		unusable = c.atRuntime(unusable)
	}
	faults = append(faults, unusable...)
	b := c.build(node, links, out.Derived, known, false)
	faults = append(faults, b.validate(c.source)...)
	if err := faults.Err(); err != nil {
		return Resolved{}, err
	}
	out.Node = b.node
	var devices []Device
	if len(out.Node.Interfaces) > 0 {
		if devices, err = h.Devices(); err != nil {
			return Resolved{}, fmt.Errorf("look up masters and VLAN devices: %w", err)
		}
	}
	out.Node.Uppers = uppers(out.Node.Interfaces, devices)
	out.Outside = edgeDevices(out.Node.Interfaces, devices)
	if c.Node.Mode == ModeObserve {
		out.observe()
	}
	return out, nil
}

// observe takes from the node all that changes packets. Native XDP is not used, because drivers
// may reset the link for it.
func (r *Resolved) observe() {
	r.Node, r.Planned = r.Node.Observing(), r.Node.Encapsulations
	r.Fast = map[model.IfIndex]bool{}
	for index, hook := range r.Attach {
		if hook != "tcx" && hook != "clsact" {
			r.Attach[index] = "tc"
		}
	}
}

// missing is the error of a strict file whose interface i does not exist.
func (c *Config) missing(i int) *Fault {
	return c.source.Fault(fmt.Sprintf("interfaces[%d].name", i),
		fmt.Sprintf("there is no interface %q here", c.Interfaces[i].Name),
		"create it, correct its name, or set strict: false to serve it when it appears")
}

// unsuited reports why the configuration does not suit the host. Failures to read the
// host's state are left to Resolve.
func (d *decoder) unsuited(c *Config, h Host) {
	here := *c
	here.Sinks, here.Collectors = nil, nil // looking up their names takes time and gives no faults
	_, err := here.Resolve(h)
	var faults Faults
	if errors.As(err, &faults) {
		d.Add(faults...)
	}
}

// missing reports, for a strict file that cannot be resolved, the interfaces that the
// host lacks and the tunnels for which it has no source.
func (d *decoder) missing(c *Config, h Host) {
	if !c.Strict {
		return
	}
	for i, in := range c.Interfaces {
		f := c.missing(i)
		if d.followsFrom(f.Path) || !validInterfaceName(in.Name) {
			continue
		}
		if _, ok, err := h.Link(in.Name); err == nil && !ok {
			d.Add(f)
		}
	}
	var sources Resolved
	c.deriveSources(h, &sources)
	for _, f := range c.sourceless(sources) {
		if !d.followsFrom(f.Path) {
			d.Add(f)
		}
	}
}

// nodeIdentity takes the node's ids from the configuration, else from the host.
func (c *Config) nodeIdentity(h Host, node *model.NodeConfig) (err error) {
	if c.Node.ID == nil {
		if node.ID, err = h.NodeID(); err != nil {
			return problem.Wrap(fmt.Errorf("read the kernel's node id: %w", err), "set node.id")
		}
	}
	if c.Node.IDWide == nil {
		if node.IDWide, err = h.NodeIDWide(); err != nil {
			return problem.Wrap(fmt.Errorf("read the kernel's wide node id: %w", err), "set node.id-wide")
		}
	}
	c.identify(node)
	return nil
}

// identity takes the interface's ids from the configuration, else from the host.
func (in Interface) identity(h Host, link *model.Interface) (err error) {
	if in.ID == nil {
		if link.ID, err = h.InterfaceID(in.Name); err != nil {
			return problem.Wrap(fmt.Errorf("read the kernel's id of interface %s: %w", in.Name, err), "set its id")
		}
	}
	if in.IDWide == nil {
		if link.IDWide, err = h.InterfaceIDWide(in.Name); err != nil {
			return problem.Wrap(
				fmt.Errorf("read the kernel's wide id of interface %s: %w", in.Name, err),
				"set its id-wide",
			)
		}
	}
	in.identify(link)
	return nil
}
