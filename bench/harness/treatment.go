// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/routing"
	"github.com/waymark-net/waymark/ioam"
)

// takenOptions is what the nodes' stacks take: see nodeSysctls.
var takenOptions = model.MaxOptionsPerPacket

// Treatment is what a node does with the packets that it forwards; the zero value
// leaves them to the kernel. Treatments of the same name are equal.
type Treatment struct {
	Name     string
	Config   func(in, out model.IfIndex) model.NodeConfig // nil: none of our programs
	Attach   datapath.AttachMode
	Read     Reading
	Derive   bool // the agent chooses the sources of tunnels
	Fast     bool // the node forwards without the stack
	Asks     bool // and looks every packet's next hop up in the kernel
	nextHops int  // destinations in each CPU's cache; 0: the default

	kernel *namespaceRange // the kernel's own IOAM, with node id 2 and namespaces
	Hooks  []EmptyHook     // programs that do nothing

	// Commands of `ip -6` come before all that: routes, on a node that takes segment
	// routing headers.
	Commands []string
	Search   *Search // a program to compare with
	bare     *Bare   // another one
}

// namespaceRange is n namespaces, starting at first.
type namespaceRange struct{ first, n int }

// EmptyHook is the place of a program that does nothing: the interface where
// packets arrive or the one where they leave, at its ingress or egress.
type EmptyHook struct{ Out, Egress bool }

// EveryHook lists the hooks where a transit node has our programs.
var EveryHook = []EmptyHook{{false, false}, {false, true}, {true, false}, {true, true}}

// errNoKernelIOAM is returned when a kernel has no IOAM of its own.
var errNoKernelIOAM = errors.New("this kernel has no IOAM of its own (Linux 5.15), or ip does not know it")

// treat starts a treatment; closing the line ends it.
func (n *Node) treat(t Treatment, pins string) error {
	if err := n.routeSegments(t.Commands); err != nil {
		return err
	}
	switch {
	case t.Search != nil:
		return n.search(*t.Search)
	case t.bare != nil:
		return n.doBare(*t.bare)
	case t.kernel != nil:
		return n.kernelIOAM(*t.kernel)
	case t.Hooks != nil:
		return n.attachEmpty(t.Hooks, t.Attach)
	case t.Config == nil:
		return nil
	}
	var d *datapath.Datapath
	in, out := n.InIndex(), n.OutIndex()
	config := t.Config(in, out)
	err := InNamespace(n.Namespace, func() (err error) {
		for i := range config.Encapsulations {
			if e := &config.Encapsulations[i]; t.Derive {
				if e.TunnelSource, err = service.TunnelSource(e.TunnelDestination); err != nil {
					return err
				}
			}
		}
		if d, err = datapath.Open(datapath.Options{PinPath: pins}); err != nil {
			return err
		}
		n.stops = append(n.stops, func() error { return InNamespace(n.Namespace, d.Remove) })
		cfg := datapath.Config{
			Node:         config,
			StackOptions: &takenOptions,
			Attach:       map[model.IfIndex]datapath.AttachMode{in: t.Attach, out: t.Attach},
		}
		if t.Fast {
			cfg.Fast, cfg.NextHops = map[model.IfIndex]bool{in: true}, t.nextHops
		}
		if err := cfg.Node.Validate(); err != nil {
			return err
		}
		return d.Apply(cfg)
	})
	if err != nil {
		return err
	}
	n.counters = d.Counters
	if m := config.Measurement; len(m.Flows) > 0 {
		n.measured, n.block = d.Blocks, m.WithDefaults().Block
	}
	if t.Fast {
		key := datapath.RouteByDestination
		if t.Asks {
			key = datapath.RouteByPorts
		}
		if err := n.keepWatch(d, key); err != nil {
			return err
		}
	}
	return n.read(d, config, t.Read)
}

// beat is how often the programs are told that the routes are being watched; the
// routes do not change here.
const beat = 20 * time.Millisecond

// keepWatch does what an agent does for fast forwarding.
func (n *Node) keepWatch(d *datapath.Datapath, key datapath.RouteKey) error {
	f, err := d.Forwarding()
	if err != nil {
		return err
	}
	r := datapath.Routing{Key: key, MTU: datapath.AnyMTU}
	err = InNamespace(n.Namespace, func() error {
		segments, err := routing.Segments()
		if r.Segments = len(segments) > 0; r.Segments {
			err = f.SetSegments(segments)
		}
		return errors.Join(err, f.SetDevices([]model.IfIndex{n.InIndex(), n.OutIndex()}))
	})
	if err := errors.Join(err, f.Renew(r)); err != nil {
		return err
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-tick.C:
				if err := f.Beat(); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	n.stops = append([]func() error{func() error {
		close(stop)
		return <-done
	}}, n.stops...)
	return nil
}

// kernelIOAM makes the node a node of the kernel's IOAM with the ids of ours.
func (n *Node) kernelIOAM(in namespaceRange) error {
	return InNamespace(n.Namespace, func() error {
		for _, s := range []struct{ name, value string }{
			{"net/ipv6/ioam6_id", "2"},
			{"net/ipv6/ioam6_id_wide", "22222222"},
			{"net/ipv6/conf/n0/ioam6_id", "201"},
			{"net/ipv6/conf/n1/ioam6_id", "202"},
			{"net/ipv6/conf/n0/ioam6_enabled", "1"},
		} {
			if err := writeSysctl(s.name, s.value); err != nil {
				return errors.Join(errNoKernelIOAM, err)
			}
		}
		var commands []string
		for i := range in.n {
			commands = append(commands, fmt.Sprintf("ioam namespace add %d data 0xdeadbeef", in.first+i))
		}
		if err := runIP(commands); err != nil {
			return errors.Join(errNoKernelIOAM, err)
		}
		return nil
	})
}

// runIP runs commands of ip in this thread's namespace.
func runIP(commands []string) error {
	ip := exec.Command("ip", "-6", "-batch", "-")
	ip.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if out, err := ip.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -6 %s and so on: %w: %s", commands[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// EmptyPrograms returns programs that do nothing.
func EmptyPrograms() (xdp, tc *ebpf.Program, err error) {
	spec, err := loadHooks()
	if err != nil {
		return nil, nil, err
	}
	if xdp, err = ebpf.NewProgram(spec.Programs[hooksProgEmptyXdp]); err == nil {
		if tc, err = ebpf.NewProgram(spec.Programs[hooksProgEmptyTc]); err == nil {
			return xdp, tc, nil
		}
		xdp.Close()
	}
	return nil, nil, fmt.Errorf("load programs that do nothing: %w", err)
}

// attachEmpty attaches programs that do nothing; mode is how those at ingress are
// attached.
func (n *Node) attachEmpty(hooks []EmptyHook, mode datapath.AttachMode) error {
	xdp, tc, err := EmptyPrograms()
	if err != nil {
		return err
	}
	defer xdp.Close() // links keep the programs loaded
	defer tc.Close()
	return InNamespace(n.Namespace, func() error {
		for _, hook := range hooks {
			device := n.in
			if hook.Out {
				device = n.out
			}
			var l link.Link
			var err error
			switch index := device.Attrs().Index; {
			case hook.Egress:
				l, err = link.AttachTCX(link.TCXOptions{Program: tc, Interface: index, Attach: ebpf.AttachTCXEgress})
			case mode == datapath.AttachXDP:
				l, err = link.AttachXDP(link.XDPOptions{Program: xdp, Interface: index, Flags: link.XDPDriverMode})
			default:
				l, err = link.AttachTCX(link.TCXOptions{Program: tc, Interface: index, Attach: ebpf.AttachTCXIngress})
			}
			if err != nil {
				return fmt.Errorf("attach an empty program to %s: %w", device.Attrs().Name, err)
			}
			n.stops = append(n.stops, l.Close)
		}
		return nil
	})
}

// Asking makes a node that forwards without the stack use no cache.
func (t Treatment) Asking() Treatment {
	t.Name, t.Asks = "the kernel asked for each packet: "+t.Name, true
	return t
}

// Remembering makes a node that forwards without the stack cache this many
// destinations on each CPU.
func (t Treatment) Remembering(nextHops int) Treatment {
	t.Name, t.nextHops = fmt.Sprintf("%d next hops: %s", nextHops, t.Name), nextHops
	return t
}

// Called gives a node of a line, and its interfaces, ids of their own.
func (t Treatment) Called(id ioam.NodeID) Treatment {
	config := t.Config
	if config == nil {
		return t
	}
	t.Name = fmt.Sprintf("node %d: %s", id, t.Name)
	t.Config = func(in, out model.IfIndex) model.NodeConfig {
		c := config(in, out)
		c.ID = id
		for i := range c.Interfaces {
			c.Interfaces[i].ID += ioam.InterfaceID(id)*100 - 200
		}
		return c
	}
	return t
}

// KernelIn is the kernel's own IOAM in n namespaces.
func KernelIn(first, n int) Treatment {
	return Treatment{Name: fmt.Sprintf("kernel's own IOAM in %d namespaces from %d on", n, first), kernel: &namespaceRange{first, n}}
}
