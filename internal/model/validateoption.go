// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/ioam"
)

func (c NodeConfig) validateOptions(f faults, e Encapsulation) {
	if len(e.Options) < 1 || len(e.Options) > MaxOptionsPerPacket {
		f.add("options", fmt.Sprintf("give 1…%d", MaxOptionsPerPacket), "%d options", len(e.Options))
	}
	triggers, proofs, edges := map[ioam.NamespaceID]int{}, map[ioam.NamespaceID]int{}, map[ioam.NamespaceID]int{}
	looped := 0
	for i, o := range e.Options {
		at := f.in(".options[%d]", i)
		switch o.kinds() {
		case 0:
			at.add("trace", "add trace: {…}, dex: {…}, pot: {…} or e2e: {…}", "neither a trace, a Direct Export, a proof nor Edge-to-Edge")
			continue
		case 1:
		default:
			at.add("trace", "give each its own entry of the list", "several kinds in one option")
			continue
		}
		switch {
		case o.Trace != nil:
			c.validateTrace(at, *o.Trace)
			if o.Trace.Incremental {
				c.validateIncremental(at, *o.Trace)
			}
			if o.Trace.Loopback > 0 {
				if looped++; looped == 2 {
					at.add("loopback", "remove it from the others", "several traces of the header have it")
				}
				c.validateLoopbackTrace(at, *o.Trace)
			}
		case o.Proof != nil:
			c.validateProofOption(at, *o.Proof)
			if j, dup := seen(proofs, o.Proof.Namespace, i); dup {
				at.add("namespace", "insert one proof for each namespace", "%d is also the namespace of options[%d]", o.Proof.Namespace, j)
			}
		case o.EdgeToEdge != nil:
			o.EdgeToEdge.validate(at)
			if j, dup := seen(edges, o.EdgeToEdge.Namespace, i); dup {
				at.add(
					"namespace",
					"insert one Edge-to-Edge option for each namespace",
					"%d is also the namespace of options[%d]",
					o.EdgeToEdge.Namespace,
					j,
				)
			}
		default:
			o.DirectExport.validate(at)
			// A collector joins postcards by namespace, Flow-ID and Sequence Number.
			if j, dup := seen(triggers, o.DirectExport.Namespace, i); dup {
				at.add("namespace", "give each Direct Export of a header its own namespace",
					"%d is also the namespace of options[%d]", o.DirectExport.Namespace, j)
			}
		}
	}
	if length := e.HeaderLen(); length > MaxHeaderInsertion {
		f.add("options", fmt.Sprintf("use smaller sizes: the headers may have %d bytes", MaxHeaderInsertion),
			"they need headers of %d bytes", length)
	}
}

// kinds is how many kinds the option has; one is valid.
func (o InsertedOption) kinds() (n int) {
	for _, has := range []bool{o.Trace != nil, o.DirectExport != nil, o.Proof != nil, o.EdgeToEdge != nil} {
		if has {
			n++
		}
	}
	return n
}

func (c NodeConfig) validateTrace(f faults, o TraceOption) {
	unusable := o.Type.Validate()
	if unusable != nil {
		f.add("type", fmt.Sprintf("use bits of %v", ioam.TraceTypeSupported), "%v", unusable)
	}
	if o.Size < 4 || o.Size > MaxTraceDataSize || o.Size%4 != 0 {
		f.add("size", fmt.Sprintf("use a multiple of 4 in 4…%d", MaxTraceDataSize), "%d bytes are not possible", o.Size)
		return
	}
	linux := c.Compatibility == CompatibilityMainline && !o.Incremental // sends such a trace, too
	if unusable == nil && !linux {
		c.validateRoom(f, o)
	}
}

// validateIncremental checks what only incremental traces must not have.
func (c NodeConfig) validateIncremental(f faults, o TraceOption) {
	if !slices.ContainsFunc(c.Namespaces, func(ns Namespace) bool { return ns.ID == o.Namespace && ns.Incremental }) {
		f.add("incremental", fmt.Sprintf("set incremental: true for %d in namespaces, or remove it here", o.Namespace),
			"packets with traces of namespace %d may not grow", o.Namespace)
	}
	if o.Type.HasSnapshot() {
		f.add(
			"type",
			"use a pre-allocated trace, or remove bit 22",
			"an encapsulation inserts no incremental trace with the opaque state snapshot (bit 22)",
		)
	}
}

// OwnDataLen is how many bytes this node writes into a trace that it inserts.
// Without the namespace it writes none, known is false, and the length is the
// least that any node writes.
func (c NodeConfig) OwnDataLen(o TraceOption) (length int, known bool) {
	length = 4 * o.Type.NodeLen()
	for _, namespace := range c.Namespaces {
		if namespace.ID != o.Namespace {
			continue
		}
		if o.Type.HasSnapshot() {
			length += len(namespace.Schema.Append(nil))
		}
		return length, true
	}
	return length, false
}

// validateRoom refuses a trace without room for this node's own data or, if it
// writes none, for any node's.
func (c NodeConfig) validateRoom(f faults, o TraceOption) {
	own, known := c.OwnDataLen(o)
	whose := "this node's own data"
	if !known {
		whose = "one node's data"
	}
	switch {
	case own > MaxTraceDataSize:
		f.add("type", "use fewer bits, or a shorter schema", "%s take %d bytes, and a trace has at most %d", whose, own, MaxTraceDataSize)
	case own > o.Size:
		f.add("size", fmt.Sprintf("use %d bytes for each node of the path", own), "%d bytes are too small for %s of %d", o.Size, whose, own)
	}
}

func (o DirectExportOption) validate(f faults) {
	if err := o.Type.Validate(); err != nil {
		f.add("trace-type", fmt.Sprintf("use bits of %v", ioam.DirectExportTypeSupported), "%v", err)
	} else if o.Type.Has(ioam.BitChecksumComplement) { // RFC 9326 §3.2, IOAM-Trace-Type
		f.add("trace-type", fmt.Sprintf("use bits of %v", ioam.DirectExportTypeSupported),
			"%v has the checksum complement (bit 7), which has no meaning in a Direct Export", o.Type)
	}
	if unknown := o.ExtensionFlags &^ (ioam.ExtensionFlowID | ioam.ExtensionSequence); unknown != 0 {
		f.add("extension-flags", "use flow-id and sequence", "unknown Extension-Flags 0x%02x", unknown)
	}
	switch {
	case o.FlowID.Kind > FlowIDFixed:
		f.add("flow-id", "use hash, flow-label or a number", "unknown source %d of the Flow-ID", o.FlowID.Kind)
	case o.FlowID.Kind != FlowIDFixed && o.FlowID.Fixed != 0:
		f.add("flow-id", "use hash, flow-label or a number", "both a source of the Flow-ID and its value")
	}
	if o.OptionType != 0 && o.OptionType != ioam.OptionIOAMStatic && o.OptionType != ioam.OptionIOAM {
		f.add("option-type", "use 0x11, or 0x31", "0x%02x is not an option type of IOAM", uint8(o.OptionType))
	}
}
