// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"
	"strings"
)

// traceFields are the names of the bits of a trace type, each with all bits that it means.
var traceFields = []struct {
	name string
	bits []int
}{
	{"ids", []int{BitNode, BitInterfaces}},
	{"timestamps", []int{BitTimestampSeconds, BitTimestampFraction}},
	{"delay", []int{BitTransitDelay}},
	{"queue", []int{BitQueueDepth}},
	{"buffer", []int{BitBufferOccupancy}},
	{"ids-wide", []int{BitNodeWide, BitInterfacesWide}},
	{"node-id", []int{BitNode}},
	{"interface-ids", []int{BitInterfaces}},
	{"timestamp-seconds", []int{BitTimestampSeconds}},
	{"timestamp-fraction", []int{BitTimestampFraction}},
	{"namespace-data", []int{BitNamespaceData}},
	{"checksum-complement", []int{BitChecksumComplement}},
	{"node-id-wide", []int{BitNodeWide}},
	{"interface-ids-wide", []int{BitInterfacesWide}},
	{"namespace-data-wide", []int{BitNamespaceDataWide}},
	{"snapshot", []int{BitSnapshot}},
}

// TraceFieldNames are the names that ParseTraceType knows.
func TraceFieldNames() []string {
	list := make([]string, len(traceFields))
	for i, f := range traceFields {
		list[i] = f.name
	}
	return list
}

// parseTraceFields reads names of fields with commas between them, such as "ids,timestamps,queue".
func parseTraceFields(text string) (t TraceType, err error) {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		bits := bitsNamed(name)
		if bits == 0 {
			return 0, fmt.Errorf("%q is no field of a trace; want one of %s", name, strings.Join(TraceFieldNames(), ", "))
		}
		t |= bits
	}
	return t, nil
}

func bitsNamed(name string) (t TraceType) {
	for _, f := range traceFields {
		if f.name == name {
			for _, bit := range f.bits {
				t |= 1 << (23 - bit)
			}
		}
	}
	return t
}
