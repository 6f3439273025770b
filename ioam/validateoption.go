// SPDX-License-Identifier: Apache-2.0

package ioam

import "fmt"

func (e Encapsulation) validateOptions(f faults, namespaces map[NamespaceID]*Namespace) {
	if len(e.Options) < 1 || len(e.Options) > MaxOptionsPerPacket {
		f.add("options", fmt.Sprintf("give 1…%d", MaxOptionsPerPacket), "%d options", len(e.Options))
	}
	triggers := map[NamespaceID]int{}
	for i, o := range e.Options {
		at := f.in(".options[%d]", i)
		switch {
		case o.Trace != nil && o.DirectExport != nil:
			at.add("trace", "give each its own entry of the list", "a trace and a Direct Export in one option")
		case o.Trace != nil:
			o.Trace.validate(at, namespaces)
		case o.DirectExport != nil:
			o.DirectExport.validate(at, namespaces)
			// A collector joins postcards by namespace, Flow-ID and Sequence Number.
			if j, dup := seen(triggers, o.DirectExport.Namespace, i); dup {
				at.add("namespace", "give each Direct Export of a header its own namespace",
					"%d is the namespace of options[%d] too", o.DirectExport.Namespace, j)
			}
		default:
			at.add("trace", "add trace: {…} or dex: {…}", "neither a trace nor a Direct Export")
		}
	}
	if length := insertedHeaderLen(e.Options); length > MaxHeaderInsertion {
		f.add("options", fmt.Sprintf("use smaller sizes: the header may have %d bytes", MaxHeaderInsertion),
			"they need a header of %d bytes", length)
	}
}

func (o TraceOption) validate(f faults, namespaces map[NamespaceID]*Namespace) {
	namespace := validateNamespaceOf(f, o.Namespace, namespaces)
	unusable := o.Type.Validate()
	if unusable != nil {
		f.add("type", fmt.Sprintf("use bits of %v", TraceTypeSupported), "%v", unusable)
	}
	if o.Size < 4 || o.Size > MaxTraceDataSize || o.Size%4 != 0 {
		f.add("size", fmt.Sprintf("use a multiple of 4 in 4…%d", MaxTraceDataSize), "%d bytes are not possible", o.Size)
		return
	}
	if unusable == nil {
		o.validateRoom(f, namespace)
	}
}

func validateNamespaceOf(f faults, id NamespaceID, namespaces map[NamespaceID]*Namespace) *Namespace {
	namespace := namespaces[id]
	if namespace == nil {
		f.add("namespace", "configure it under namespaces", "namespace %d is not configured", id)
	}
	return namespace
}

// validateRoom refuses a trace in which not even this node's own data fit.
func (o TraceOption) validateRoom(f faults, namespace *Namespace) {
	own := 4 * o.Type.NodeLen()
	if o.Type.HasSnapshot() && namespace != nil {
		own += len(appendSnapshot(nil, namespace.Schema))
	}
	switch {
	case own > MaxTraceDataSize:
		f.add("type", "use fewer bits, or a shorter schema", "this node's own data take %d bytes, and a trace has at most %d", own, MaxTraceDataSize)
	case own > o.Size:
		f.add("size", fmt.Sprintf("use %d bytes for each node of the path", own), "%d bytes do not even hold this node's own data of %d", o.Size, own)
	}
}

func (o DirectExportOption) validate(f faults, namespaces map[NamespaceID]*Namespace) {
	validateNamespaceOf(f, o.Namespace, namespaces)
	if err := o.Type.Validate(); err != nil {
		f.add("trace-type", fmt.Sprintf("use bits of %v", DirectExportTypeSupported), "%v", err)
	} else if o.Type.Has(BitChecksumComplement) { // RFC 9326 §3.2, IOAM-Trace-Type
		f.add("trace-type", fmt.Sprintf("use bits of %v", DirectExportTypeSupported),
			"%v has the checksum complement (bit 7), which means nothing in a Direct Export", o.Type)
	}
	if unknown := o.ExtensionFlags &^ (ExtensionFlowID | ExtensionSequence); unknown != 0 {
		f.add("extension-flags", "use flow-id and sequence", "unknown Extension-Flags 0x%02x", unknown)
	}
	switch {
	case o.FlowID.Kind > FlowIDFixed:
		f.add("flow-id", "use hash, flow-label or a number", "unknown source %d of the Flow-ID", o.FlowID.Kind)
	case o.FlowID.Kind != FlowIDFixed && o.FlowID.Fixed != 0:
		f.add("flow-id", "use hash, flow-label or a number", "both a source of the Flow-ID and its value")
	}
	if o.OptionType != 0 && o.OptionType != OptionIOAMStatic && o.OptionType != OptionIOAM {
		f.add("option-type", "use 0x11, or 0x31", "0x%02x is not an option type of IOAM", uint8(o.OptionType))
	}
}
