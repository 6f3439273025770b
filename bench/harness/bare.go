// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
)

// Bare is a program that does one thing to all packets, and nothing else: it has no
// rules, no counters, and none of the checks that nodes need. What it takes is the
// least that a node can be expected to take for the same packets.
type Bare struct {
	// Stack leaves forwarding to the kernel; else the program forwards, with a cache
	// of next hops.
	Stack bool
	// Asks looks each packet's next hop up in the kernel, without a cache.
	Asks bool

	// Traces is how many it fills, in Namespace and those after it.
	Traces    int
	Namespace ioam.NamespaceID
	Words     int // of a node's data: the node's id, the interfaces' ids, and a timestamp in two

	Removed int // bytes of a tunnel's headers
	// Added is the header that each packet gets: a Hop-by-Hop header, or with Tunnel
	// an IPv6 header as well.
	Added  []byte
	Tunnel bool
}

// DoBare makes a node of the program.
func DoBare(name string, b Bare) Treatment { return Treatment{Name: "bare: " + name, bare: &b} }

// variables are the program's read-only data.
func (b Bare) variables() (map[string]any, error) {
	const word = 8
	var header [40]uint64
	if len(b.Added)%word != 0 || len(b.Added) > len(header)*word {
		return nil, fmt.Errorf("a header of %d bytes: it has to be a multiple of %d, and at most %d", len(b.Added), word, len(header)*word)
	}
	for i := range len(b.Added) / word {
		header[i] = binary.NativeEndian.Uint64(b.Added[i*word:])
	}
	flag := func(is bool) uint32 {
		if is {
			return 1
		}
		return 0
	}
	const node, in, out = 2, 201, 202
	return map[string]any{
		bareVarStack: flag(b.Stack), bareVarAsks: flag(b.Asks),
		bareVarTraces: uint32(b.Traces), bareVarWords: uint32(b.Words), bareVarFirst: uint32(b.Namespace),
		bareVarNode: uint32(node), bareVarInterfaces: uint32(in<<16 | out),
		bareVarRemoved: uint32(b.Removed), bareVarAdded: uint32(len(b.Added)), bareVarTunnel: flag(b.Tunnel), bareVarHeader: header,
	}, nil
}

// Program loads the program for XDP.
func (b Bare) Program() (*ebpf.Program, error) {
	c, err := b.load()
	if err != nil {
		return nil, err
	}
	defer c.Close() // the program keeps its map
	return c.DetachProgram(bareProgBare), nil
}

func (b Bare) load() (*ebpf.Collection, error) {
	spec, err := loadBare()
	if err != nil {
		return nil, err
	}
	variables, err := b.variables()
	if err != nil {
		return nil, err
	}
	for name, value := range variables {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s of the bare program: %w", name, err)
		}
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the bare program: %w", err)
	}
	return c, nil
}

// doBare attaches the program where packets arrive; with a header to add and the stack
// to forward, where they leave. Where the stack forwards what the program has changed
// on arrival, programs that do nothing are in the other hooks of a node.
func (n *Node) doBare(b Bare) error {
	c, err := b.load()
	if err != nil {
		return err
	}
	defer c.Close() // the link keeps program and map
	err = InNamespace(n.Namespace, func() error {
		var l link.Link
		if b.Stack && len(b.Added) > 0 {
			l, err = link.AttachTCX(link.TCXOptions{Program: c.Programs[bareProgBareTc], Interface: int(n.OutIndex()), Attach: ebpf.AttachTCXEgress})
		} else {
			l, err = link.AttachXDP(link.XDPOptions{Program: c.Programs[bareProgBare], Interface: int(n.InIndex()), Flags: link.XDPDriverMode})
		}
		if err != nil {
			return fmt.Errorf("attach the bare program: %w", err)
		}
		n.stops = append(n.stops, l.Close)
		return nil
	})
	if err != nil || !b.Stack || len(b.Added) > 0 {
		return err
	}
	return n.attachEmpty(EveryHook[1:], datapath.AttachXDP)
}
