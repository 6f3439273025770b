// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// StackReason says why fast forwarding left a packet to the stack.
type StackReason uint8

// The reasons; docs/how-to/forward-fast.md says what they mean.
const (
	StackNone             = StackReason(bpf.ABIStackReasonSTACK_NONE)
	StackAgent            = StackReason(bpf.ABIStackReasonSTACK_AGENT)
	StackLink             = StackReason(bpf.ABIStackReasonSTACK_LINK)
	StackPacket           = StackReason(bpf.ABIStackReasonSTACK_PACKET)
	StackHeaders          = StackReason(bpf.ABIStackReasonSTACK_HEADERS)
	StackControl          = StackReason(bpf.ABIStackReasonSTACK_CONTROL)
	StackHopLimit         = StackReason(bpf.ABIStackReasonSTACK_HOP_LIMIT)
	StackChecksum         = StackReason(bpf.ABIStackReasonSTACK_CHECKSUM)
	StackRoute            = StackReason(bpf.ABIStackReasonSTACK_ROUTE)
	StackNeighbour        = StackReason(bpf.ABIStackReasonSTACK_NEIGHBOUR)
	StackDevice           = StackReason(bpf.ABIStackReasonSTACK_DEVICE)
	StackMTU              = StackReason(bpf.ABIStackReasonSTACK_MTU)
	StackHeadroom         = StackReason(bpf.ABIStackReasonSTACK_HEADROOM)
	StackBoundary         = StackReason(bpf.ABIStackReasonSTACK_BOUNDARY)
	StackMarking          = StackReason(bpf.ABIStackReasonSTACK_MARKING)
	StackEncap            = StackReason(bpf.ABIStackReasonSTACK_ENCAP)
	StackSegmentTC        = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_TC)
	StackSegmentSuspended = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_SUSPENDED)
	StackSegmentAmbiguous = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_AMBIGUOUS)
	StackSegmentSetting   = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_SETTING)
	StackSegmentBehaviour = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_BEHAVIOUR)
	StackSegmentFlavour   = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_FLAVOUR)
	StackSegmentHMAC      = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_HMAC)
	StackSegmentTLV       = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_TLV)
	StackSegmentMalformed = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_MALFORMED)
	StackSegmentMismatch  = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_MISMATCH)
	StackSegmentChained   = StackReason(bpf.ABIStackReasonSTACK_SEGMENT_CHAINED)
	NumStackReasons       = StackReason(bpf.ABIStackReasonNUM_STACK_REASONS)
)

var stackReasons = [NumStackReasons]string{
	StackNone:             "none",
	StackAgent:            "agent",
	StackLink:             "link",
	StackPacket:           "packet",
	StackHeaders:          "headers",
	StackControl:          "control",
	StackHopLimit:         "hop_limit",
	StackChecksum:         "checksum",
	StackRoute:            "route",
	StackNeighbour:        "neighbour",
	StackDevice:           "device",
	StackMTU:              "mtu",
	StackHeadroom:         "headroom",
	StackBoundary:         "boundary",
	StackMarking:          "marking",
	StackEncap:            "encap",
	StackSegmentTC:        "segment_tc",
	StackSegmentSuspended: "segment_suspended",
	StackSegmentAmbiguous: "segment_ambiguous",
	StackSegmentSetting:   "segment_setting",
	StackSegmentBehaviour: "segment_behaviour",
	StackSegmentFlavour:   "segment_flavour",
	StackSegmentHMAC:      "segment_hmac",
	StackSegmentTLV:       "segment_tlv",
	StackSegmentMalformed: "segment_malformed",
	StackSegmentMismatch:  "segment_mismatch",
	StackSegmentChained:   "segment_chained",
}

// String returns the reason's name in metrics and JSON.
func (r StackReason) String() string {
	if r >= NumStackReasons {
		return fmt.Sprintf("stack_reason_%d", uint8(r))
	}
	return stackReasons[r]
}
