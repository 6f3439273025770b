// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/delays"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/datapath/rings"
)

// What the packages below this one declare, and this one hands to its users.
type (
	// AttachMode says which hook handles the packets that arrive at an interface.
	AttachMode = attach.Mode
	// HookState is what one look at a hook found.
	HookState = attach.State
	// OtherProgram is what someone else has on a hook of an interface.
	OtherProgram = attach.OtherProgram

	// Record is one removed header, or one of which a copy is to be returned.
	Record = rings.Record
	// Postcard is what a program reports about one packet with a Direct Export.
	Postcard = rings.Postcard
	// Samples are the functions that take what programs write into rings.
	Samples = rings.Samples
	// Flow summarizes the exports of one flow in an interval.
	Flow = flows.Flow
	// FlowEnd is why a flow is reported.
	FlowEnd = flows.End
	// EdgeFlow is what was counted in an interval of a flow with Edge-to-Edge options.
	EdgeFlow = flows.EdgeFlow

	// Delays is a series of the histograms of delays.
	Delays = delays.Series
	// DelayKey is what the delays of a series have in common.
	DelayKey = delays.Key
	// DelayKind is what delays are of.
	DelayKind = delays.Kind

	// BlockCounts is what this node counted of a measured flow in one block.
	BlockCounts = measure.BlockCounts
	// Taps look at the packets of interfaces that are not served.
	Taps = measure.Taps
	// Unserved is where packets of a measured flow passed uncounted.
	Unserved = measure.Unserved

	// Forwarding gives fast forwarding what it needs to know about the kernel's routes.
	Forwarding = forward.Control
	// StackReason says why fast forwarding left a packet to the stack.
	StackReason = forward.StackReason
	// Routing is what routes depend on.
	Routing = forward.Routing
	// RouteKey says what determines a packet's route besides its destination.
	RouteKey = forward.RouteKey
	// Entrance is an interface that forwards fast.
	Entrance = forward.Entrance
	// Neighbour is a next hop that packets are sent to without the stack.
	Neighbour = forward.Neighbour
	// Behaviour is what programs do with the packets of a route with segments.
	Behaviour = forward.Behaviour
	// BehaviourKind is what programs do with the packets of a route.
	BehaviourKind = forward.BehaviourKind
	// SegmentRoute is a route with a behaviour.
	SegmentRoute = forward.SegmentRoute
)

// The modes of attachment.
const (
	AttachAuto   = attach.Auto
	AttachXDP    = attach.XDP
	AttachTCX    = attach.TCX
	AttachClsact = attach.Clsact
)

// What delays are of.
const (
	DelayHeld    = delays.Held
	DelaySegment = delays.Segment
	DelayPath    = delays.Path
)

// DelayKinds are all of them.
var DelayKinds = delays.Kinds

// Why a flow is reported.
const (
	FlowInterval = flows.EndOfInterval
	FlowEnded    = flows.EndOfConnection
	FlowEvicted  = flows.Eviction
)

// MostTaps is how many interfaces are looked at.
const MostTaps = measure.MostTaps

// What determines a packet's route besides its destination.
const (
	RouteByDestination = forward.RouteByDestination
	RouteByFlow        = forward.RouteByFlow
	RouteByPorts       = forward.RouteByPorts
	RouteByStack       = forward.RouteByStack

	// AnyMTU is for routes whose MTU the kernel's lookup returns.
	AnyMTU = forward.AnyMTU
)

// What programs do with the packets of a route with segments.
const (
	BehaviourStack       = forward.BehaviourStack
	BehaviourEnd         = forward.BehaviourEnd
	BehaviourDecapsulate = forward.BehaviourDecapsulate
	BehaviourEncapsulate = forward.BehaviourEncapsulate

	// MaxBehaviourHeader is the longest header that an encapsulation puts in front.
	MaxBehaviourHeader = forward.MaxBehaviourHeader
)

// ErrTooManySegments means that the routes need more room than there is.
var ErrTooManySegments = forward.ErrTooManySegments

// Why fast forwarding left a packet to the stack.
const (
	StackNone             = forward.StackNone
	StackAgent            = forward.StackAgent
	StackLink             = forward.StackLink
	StackPacket           = forward.StackPacket
	StackHeaders          = forward.StackHeaders
	StackControl          = forward.StackControl
	StackHopLimit         = forward.StackHopLimit
	StackChecksum         = forward.StackChecksum
	StackRoute            = forward.StackRoute
	StackNeighbour        = forward.StackNeighbour
	StackDevice           = forward.StackDevice
	StackMTU              = forward.StackMTU
	StackHeadroom         = forward.StackHeadroom
	StackBoundary         = forward.StackBoundary
	StackMarking          = forward.StackMarking
	StackEncap            = forward.StackEncap
	StackSegmentTC        = forward.StackSegmentTC
	StackSegmentSuspended = forward.StackSegmentSuspended
	StackSegmentAmbiguous = forward.StackSegmentAmbiguous
	StackSegmentSetting   = forward.StackSegmentSetting
	StackSegmentBehaviour = forward.StackSegmentBehaviour
	StackSegmentFlavour   = forward.StackSegmentFlavour
	StackSegmentHMAC      = forward.StackSegmentHMAC
	StackSegmentTLV       = forward.StackSegmentTLV
	StackSegmentMalformed = forward.StackSegmentMalformed
	StackSegmentMismatch  = forward.StackSegmentMismatch
	StackSegmentChained   = forward.StackSegmentChained
	NumStackReasons       = forward.NumStackReasons
)
