// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// SRHFault is what is wrong with a Segment Routing Header (RFC 8754 §2, §2.1).
type SRHFault uint8

// The faults; docs/how-to/measure-srv6-forms.md says what they mean.
const (
	SRHTruncated    = SRHFault(bpf.ABISrhFaultSRH_TRUNCATED)
	SRHLastEntry    = SRHFault(bpf.ABISrhFaultSRH_LAST_ENTRY)
	SRHSegmentsLeft = SRHFault(bpf.ABISrhFaultSRH_SEGMENTS_LEFT)
	SRHTLV          = SRHFault(bpf.ABISrhFaultSRH_TLV)
	NumSRHFaults    = SRHFault(bpf.ABISrhFaultNUM_SRH_FAULTS)
)

var srhFaults = [NumSRHFaults]string{
	SRHTruncated: "truncated", SRHLastEntry: "last_entry", SRHSegmentsLeft: "segments_left", SRHTLV: "tlv",
}

// String returns the fault's name in metrics and JSON.
func (f SRHFault) String() string {
	if f >= NumSRHFaults {
		return fmt.Sprintf("srh_fault_%d", uint8(f))
	}
	return srhFaults[f]
}
