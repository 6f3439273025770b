// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
)

// StackReason says why fast forwarding left a packet to the stack.
type StackReason uint8

// The reasons; docs/how-to/forward-fast.md says what they mean.
const (
	StackNone             = StackReason(ABIStackReasonSTACK_NONE)
	StackAgent            = StackReason(ABIStackReasonSTACK_AGENT)
	StackLink             = StackReason(ABIStackReasonSTACK_LINK)
	StackPacket           = StackReason(ABIStackReasonSTACK_PACKET)
	StackHeaders          = StackReason(ABIStackReasonSTACK_HEADERS)
	StackControl          = StackReason(ABIStackReasonSTACK_CONTROL)
	StackHopLimit         = StackReason(ABIStackReasonSTACK_HOP_LIMIT)
	StackChecksum         = StackReason(ABIStackReasonSTACK_CHECKSUM)
	StackRoute            = StackReason(ABIStackReasonSTACK_ROUTE)
	StackNeighbour        = StackReason(ABIStackReasonSTACK_NEIGHBOUR)
	StackDevice           = StackReason(ABIStackReasonSTACK_DEVICE)
	StackMTU              = StackReason(ABIStackReasonSTACK_MTU)
	StackHeadroom         = StackReason(ABIStackReasonSTACK_HEADROOM)
	StackBoundary         = StackReason(ABIStackReasonSTACK_BOUNDARY)
	StackMarking          = StackReason(ABIStackReasonSTACK_MARKING)
	StackEncap            = StackReason(ABIStackReasonSTACK_ENCAP)
	StackSegmentTC        = StackReason(ABIStackReasonSTACK_SEGMENT_TC)
	StackSegmentSuspended = StackReason(ABIStackReasonSTACK_SEGMENT_SUSPENDED)
	StackSegmentAmbiguous = StackReason(ABIStackReasonSTACK_SEGMENT_AMBIGUOUS)
	StackSegmentSetting   = StackReason(ABIStackReasonSTACK_SEGMENT_SETTING)
	StackSegmentBehaviour = StackReason(ABIStackReasonSTACK_SEGMENT_BEHAVIOUR)
	StackSegmentFlavour   = StackReason(ABIStackReasonSTACK_SEGMENT_FLAVOUR)
	StackSegmentHMAC      = StackReason(ABIStackReasonSTACK_SEGMENT_HMAC)
	StackSegmentTLV       = StackReason(ABIStackReasonSTACK_SEGMENT_TLV)
	StackSegmentMalformed = StackReason(ABIStackReasonSTACK_SEGMENT_MALFORMED)
	StackSegmentMismatch  = StackReason(ABIStackReasonSTACK_SEGMENT_MISMATCH)
	StackSegmentChained   = StackReason(ABIStackReasonSTACK_SEGMENT_CHAINED)
	NumStackReasons       = StackReason(ABIStackReasonNUM_STACK_REASONS)
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
