// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// module is one IOAM option-type. The data plane has the same modules with the
// same steps, in bpf/lib/option.
type module interface {
	// check returns the error of an option of this option-type, with sound false,
	// if it has one.
	check(option ioam.Option) (fault model.Outcome, sound bool)
	// ingress treats an option of an arriving packet.
	ingress(n *Node, option ioam.Option, v *visit) model.Outcome
	// egress completes an option with what is only known at egress.
	egress(n *Node, option ioam.Option, v *visit) model.Outcome
	// remove reports an option before its header is removed.
	remove(n *Node, option ioam.Option, v *visit)
	// insert returns an option to insert, and the outcome if it lacks this
	// node's data, else 0.
	insert(n *Node, o model.InsertedOption, v *visit) (ioam.Option, model.Outcome)
}

// visit is a packet at a hook, as modules see it.
type visit struct {
	hop
	packet    packet
	hash      uint32         // of the packet's flow, for inserted options
	postcard  model.Postcard // the common part of all postcards about the packet
	postcards []model.Postcard
	recorded  bool    // a removed option is of a type that has records
	proved    bool    // a proof was updated or verified
	refused   bool    // by its proof: the packet is to be dropped
	outer     *packet // of inserted options: the tunnel's header, nil without one
	room      int     // bytes that the path carries besides the packet with its insertion
	asks      bool    // an inserted trace gets the Loopback flag, if it is one of those
}

// moduleOf returns the module of an IOAM option of at least 2 bytes, nil if there
// is none.
func moduleOf(option ioam.Option) module {
	switch {
	case isPreallocatedTrace(option):
		return traceModule{}
	case ioam.IOAMType(option.Data[1]) == ioam.IOAMDirectExport:
		return dexModule{}
	case isProofOfTransit(option):
		return potModule{}
	case isIncrementalTrace(option):
		return incrementalModule{}
	}
	return nil
}

// insertingModule returns the module of an option to insert.
func insertingModule(o model.InsertedOption) module {
	if o.DirectExport != nil {
		return dexModule{}
	}
	if o.Proof != nil {
		return potModule{}
	}
	if o.Trace.Incremental {
		return incrementalModule{}
	}
	return traceModule{}
}

// check returns the error of the first invalid IOAM option (docs/data-plane/ingress.md, step 3).
func (p *packet) check(as model.Compatibility) (fault model.Outcome, sound bool) {
	for _, option := range p.options {
		// The header starts 40 bytes into the packet, so its own offsets have the
		// packet's alignment.
		if option.Offset%4 != 0 { // RFC 9486 §3
			return model.OutcomeMalformedAlignment, false
		}
		if len(option.Data) < 2 {
			return model.OutcomeMalformedOptionLength, false
		}
		m := moduleOf(option)
		if m == nil {
			continue
		}
		if fault, sound := m.check(option); !sound && !isForgiven(option, as) {
			return fault, false
		}
	}
	return 0, true
}

// isForgiven reports whether Linux ignores the error in an option: it has a module for
// traces alone.
func isForgiven(option ioam.Option, as model.Compatibility) bool {
	return as == model.CompatibilityMainline && !isPreallocatedTrace(option)
}

// soundModuleOf is moduleOf for options of a checked packet; it is also nil if
// the option is invalid.
func soundModuleOf(option ioam.Option) module {
	m := moduleOf(option)
	if m == nil {
		return nil
	}
	if _, sound := m.check(option); !sound {
		return nil
	}
	return m
}

// treat runs one step of every option's module. The outcomes are in the order of
// the options.
func (p *packet) treat(step func(module, ioam.Option) model.Outcome) []model.Outcome {
	outcomes := make([]model.Outcome, 0, len(p.options))
	for _, option := range p.options {
		outcome := model.OutcomeOptionUnsupported
		if m := soundModuleOf(option); m != nil {
			outcome = step(m, option)
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes
}

// namespaceOf returns the configured namespace of a checked packet's option, nil
// without one. Every option with a module begins with its namespace's ID.
func (n *Node) namespaceOf(option ioam.Option) *model.Namespace {
	if soundModuleOf(option) == nil {
		return nil
	}
	return n.namespaces[ioam.NamespaceID(binary.BigEndian.Uint16(option.Data[2:]))]
}
