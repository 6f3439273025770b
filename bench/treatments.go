// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/agent"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// treatment is what a node does with the packets that it forwards; the zero
// value leaves them to the kernel. Treatments of one name are the same.
type treatment struct {
	name     string
	config   func(in, out model.IfIndex) model.NodeConfig // nil: no program of ours
	attach   datapath.AttachMode
	read     reading
	derive   bool // sources of tunnels are the agent's to find
	fast     bool // the node forwards without the stack
	asks     bool // and asks the kernel for the way of every packet
	nextHops int  // destinations that each CPU remembers then; 0: as configured by default

	kernel *namespaceRange // the kernel's own IOAM, with node id 2 and namespaces
	hooks  []emptyHook     // programs that do nothing
}

// namespaceRange is so many namespaces from one on.
type namespaceRange struct{ first, n int }

// emptyHook is where a program that does nothing is: at the interface that
// packets arrive at or at the one they leave by, at its ingress or egress.
type emptyHook struct{ out, egress bool }

// everyHook is where a node that passes traces on has our programs.
var everyHook = []emptyHook{{false, false}, {false, true}, {true, false}, {true, true}}

// errNoKernelIOAM says that a kernel has no IOAM of its own.
var errNoKernelIOAM = errors.New("this kernel has no IOAM of its own (Linux 5.15), or ip does not know it")

// treat starts a treatment; close of the line ends it.
func (n *node) treat(t treatment, pins string) error {
	switch {
	case t.kernel != nil:
		return n.kernelIOAM(*t.kernel)
	case t.hooks != nil:
		return n.attachEmpty(t.hooks, t.attach)
	case t.config == nil:
		return nil
	}
	var d *datapath.Datapath
	in, out := n.inIndex(), n.outIndex()
	config := t.config(in, out)
	err := inNamespace(n.ns, func() (err error) {
		for i := range config.Encapsulations {
			if e := &config.Encapsulations[i]; t.derive {
				if e.TunnelSource, err = agent.TunnelSource(e.TunnelDestination); err != nil {
					return err
				}
			}
		}
		if d, err = datapath.Open(datapath.Options{PinPath: pins}); err != nil {
			return err
		}
		n.stops = append(n.stops, func() error { return inNamespace(n.ns, d.Remove) })
		cfg := datapath.Config{Node: config, Attach: map[model.IfIndex]datapath.AttachMode{in: t.attach, out: t.attach}}
		if t.fast {
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
	if t.fast {
		key := datapath.RouteByDestination
		if t.asks {
			key = datapath.RouteByPorts
		}
		if err := n.keepWatch(d, key); err != nil {
			return err
		}
	}
	return n.read(d, config, t.read)
}

// beat is how often the programs are told that somebody watches the routes,
// which do not change here.
const beat = 20 * time.Millisecond

// keepWatch does for fast forwarding what an agent does.
func (n *node) keepWatch(d *datapath.Datapath, key datapath.RouteKey) error {
	f, err := d.Forwarding()
	if err != nil {
		return err
	}
	err = inNamespace(n.ns, func() error { return f.SetDevices([]model.IfIndex{n.inIndex(), n.outIndex()}) })
	if err := errors.Join(err, f.Renew(datapath.Routing{Key: key, MTU: datapath.AnyMTU})); err != nil {
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

// kernelIOAM makes the node a kernel IOAM node with the ids of ours.
func (n *node) kernelIOAM(in namespaceRange) error {
	return inNamespace(n.ns, func() error {
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
		var commands strings.Builder
		for i := range in.n {
			fmt.Fprintf(&commands, "ioam namespace add %d data 0xdeadbeef\n", in.first+i)
		}
		ip := exec.Command("ip", "-batch", "-")
		ip.Stdin = strings.NewReader(commands.String())
		if out, err := ip.CombinedOutput(); err != nil {
			return errors.Join(errNoKernelIOAM, fmt.Errorf("ip ioam namespace add: %w: %s", err, strings.TrimSpace(string(out))))
		}
		return nil
	})
}

// attachEmpty puts programs that do nothing into hooks; the mode is that of
// ingress.
func (n *node) attachEmpty(hooks []emptyHook, mode datapath.AttachMode) error {
	spec, err := loadHooks()
	if err != nil {
		return err
	}
	programs, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load programs that do nothing: %w", err)
	}
	defer programs.Close() // links keep them
	xdp, tc := programs.Programs[hooksProgEmptyXdp], programs.Programs[hooksProgEmptyTc]
	return inNamespace(n.ns, func() error {
		for _, hook := range hooks {
			device := n.in
			if hook.out {
				device = n.out
			}
			var l link.Link
			var err error
			switch index := device.Attrs().Index; {
			case hook.egress:
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

// Treatments of several experiments.
var (
	untreated = treatment{name: "untreated"}
	kernelOwn = kernelIn(namespace, mostOptions)
	// emptyArrival and emptyDeparture have one hook alone on the packets' way.
	emptyArrival   = treatment{name: "empty program at xdp ingress", hooks: []emptyHook{{}}, attach: datapath.AttachXDP}
	emptyDeparture = treatment{name: "empty program at tcx egress", hooks: []emptyHook{{out: true, egress: true}}, attach: datapath.AttachTCX}
)

// kernelIn is the kernel's own IOAM in so many namespaces.
func kernelIn(first, n int) treatment {
	return treatment{name: fmt.Sprintf("kernel's own IOAM in %d namespaces from %d on", n, first), kernel: &namespaceRange{first, n}}
}

func emptyHooks(mode datapath.AttachMode) treatment {
	return treatment{name: "empty programs at " + string(mode), hooks: everyHook, attach: mode}
}

// transit passes traces on in every namespace of the experiments.
func transit(mode datapath.AttachMode) treatment {
	return treatment{name: "transit at " + string(mode), attach: mode, config: func(in, out model.IfIndex) model.NodeConfig {
		return place(nodeConfig(), in, out)
	}}
}

// place says which interfaces a configuration of ours and other is for.
func place(c model.NodeConfig, in, out model.IfIndex) model.NodeConfig {
	c.Interfaces[0].Index, c.Interfaces[0].Name = in, "n0"
	c.Interfaces[1].Index, c.Interfaces[1].Name = out, "n1"
	for i := range c.Encapsulations {
		c.Encapsulations[i].Interface = out
	}
	return c
}

// encapsulate adds options to packets that come from outside the domain: only
// the interface that they leave by is served.
func encapsulate(mode model.Mode, frequency model.Frequency, options ...model.TraceOption) treatment {
	name := fmt.Sprintf("encapsulation mode %d, %d of %d, %v", mode, frequency.K, frequency.N, options)
	return treatment{name: name, attach: datapath.AttachTCX, config: func(in, out model.IfIndex) model.NodeConfig {
		c := place(encapsulation(mode, options...), in, out)
		c.Encapsulations[0].Frequency = frequency
		c.Interfaces = c.Interfaces[1:]
		return c
	}}
}

// decapsulate takes the tunnel off, or inline options in any namespace.
func decapsulate(mode model.Mode, read bool) treatment {
	name, by := fmt.Sprintf("decapsulation mode %d, records read: %v", mode, read), unread
	if read {
		by = readOnly
	}
	return treatment{name: name, attach: datapath.AttachXDP, read: by, config: func(in, out model.IfIndex) model.NodeConfig {
		c := place(nodeConfig(), in, out)
		if mode == model.ModeInline {
			for i := range c.Namespaces {
				c.Namespaces[i].Remove = true
			}
			return c
		}
		c.Decapsulations = []model.Decapsulation{{TunnelDestination: tunnelEnd}}
		return c
	}}
}

// forwardingFast has the node forward without the stack. Both interfaces are
// served then: one that packets arrive at from outside the domain has no role.
func (t treatment) forwardingFast() treatment {
	config := t.config
	t.name, t.fast, t.attach = "fast forwarding, "+t.name, true, datapath.AttachXDP
	t.config = func(in, out model.IfIndex) model.NodeConfig {
		c := config(in, out)
		if len(c.Interfaces) == 1 {
			outside := place(nodeConfig(), in, out).Interfaces[0]
			outside.Roles = 0
			c.Interfaces = append([]model.Interface{outside}, c.Interfaces...)
		}
		return c
	}
	return t
}

// asking has a node that forwards without the stack use no cache.
func (t treatment) asking() treatment {
	t.name, t.asks = "the kernel asked for each packet: "+t.name, true
	return t
}

// remembering has a node that forwards without the stack remember so many
// destinations for each CPU.
func (t treatment) remembering(nextHops int) treatment {
	t.name, t.nextHops = fmt.Sprintf("%d next hops: %s", nextHops, t.name), nextHops
	return t
}

// called gives a node of a line an id of its own, and its interfaces.
func (t treatment) called(id ioam.NodeID) treatment {
	config := t.config
	if config == nil {
		return t
	}
	t.name = fmt.Sprintf("node %d: %s", id, t.name)
	t.config = func(in, out model.IfIndex) model.NodeConfig {
		c := config(in, out)
		c.ID = id
		for i := range c.Interfaces {
			c.Interfaces[i].ID += ioam.InterfaceID(id)*100 - 200
		}
		return c
	}
	return t
}
