// SPDX-License-Identifier: Apache-2.0

package record

import "fmt"

// Source is the source of a report, with the numbers of IPFIX element
// ioamRecordSource. The zero value is Waymark's programs.
type Source uint8

// SourceKernel is the kernel's own IOAM.
const SourceKernel Source = 1

var sourceNames = map[Source]string{SourceKernel: "kernel"}

// String is the source in a word.
func (s Source) String() string { return named(sourceNames, s) }

// UnmarshalText reads a source's word.
func (s *Source) UnmarshalText(text []byte) (err error) {
	*s, err = lookUp(sourceNames, string(text))
	return err
}

// NodeRole is the role of a node for a packet (RFC 9197 §4.2), with the numbers of
// IPFIX element ioamNodeRole.
type NodeRole uint8

// Roles of nodes.
const (
	Encapsulating NodeRole = 1
	Transit       NodeRole = 2
	Decapsulating NodeRole = 3
)

var roleNames = map[NodeRole]string{Encapsulating: "encapsulating", Transit: "transit", Decapsulating: "decapsulating"}

// String is the role's name.
func (r NodeRole) String() string { return named(roleNames, r) }

// UnmarshalText reads a role's name.
func (r *NodeRole) UnmarshalText(text []byte) (err error) {
	*r, err = lookUp(roleNames, string(text))
	return err
}

// EndReason is why a flow record was written, with the numbers of IPFIX element
// flowEndReason.
type EndReason uint8

// Reasons for a flow record.
const (
	EndIdle     EndReason = 1 // no packet for a long time
	EndInterval EndReason = 2 // the flow continues
	EndOfFlow   EndReason = 3 // the flow or the agent has ended
	EndEvicted  EndReason = 5 // another flow needed its place
)

var endNames = map[EndReason]string{EndIdle: "idle", EndInterval: "interval", EndOfFlow: "end", EndEvicted: "evicted"}

// String is the reason in a word.
func (e EndReason) String() string { return named(endNames, e) }

// UnmarshalText reads a reason's word.
func (e *EndReason) UnmarshalText(text []byte) (err error) {
	*e, err = lookUp(endNames, string(text))
	return err
}

// PathReason is why a path is incomplete.
type PathReason uint8

// Reasons, by precedence.
const (
	PathComplete        PathReason = iota
	PathEvicted                    // emitted early for lack of memory
	PathSequenceReused             // the next packet with its numbers came before the wait was over
	PathEnded                      // the collector ended before the wait was over
	PathNotSeenFurther             // no decapsulating node reported it
	PathNoEncapsulating            // no encapsulating node reported it
	PathHopMissing                 // a hop limit between the ends was not reported
	PathHopLimitsUneven            // hop limits do not fall from the encapsulating to the decapsulating node

	// NumPathReasons is the number of reasons.
	NumPathReasons
)

// pathReasons are names for JSON and metrics, and meanings for operators.
var pathReasons = [NumPathReasons]struct{ name, meaning string }{
	PathComplete:        {"complete", "every node of the path reported the packet"},
	PathEvicted:         {"evicted", "printed early: too many postcards were waiting"},
	PathSequenceReused:  {"sequence_reused", "another packet with the same sequence number came too early"},
	PathEnded:           {"ended", "the collector ended before the wait was over"},
	PathNotSeenFurther:  {"not_seen_further", "no decapsulating node reported the packet"},
	PathNoEncapsulating: {"no_encapsulating", "no encapsulating node reported the packet"},
	PathHopMissing:      {"hop_missing", "a node between two that reported did not"},
	PathHopLimitsUneven: {"hop_limits_uneven", "hop limits do not decrease from the encapsulating to the decapsulating node"},
}

// String is the reason's name in JSON and metrics.
func (r PathReason) String() string {
	if r >= NumPathReasons {
		return "unknown"
	}
	return pathReasons[r].name
}

// Meaning is the reason in words.
func (r PathReason) Meaning() string {
	if r >= NumPathReasons {
		return "unknown"
	}
	return pathReasons[r].meaning
}

// UnmarshalText reads a reason's name. An unknown name, as of a later version, is not
// an error.
func (r *PathReason) UnmarshalText(text []byte) error {
	*r = NumPathReasons
	for i, reason := range pathReasons {
		if reason.name == string(text) {
			*r = PathReason(i)
		}
	}
	return nil
}

func named[T ~uint8](names map[T]string, v T) string {
	if name, ok := names[v]; ok {
		return name
	}
	return fmt.Sprintf("number-%d", v)
}

// lookUp finds the value with a name; it also reads the number that named writes.
func lookUp[T ~uint8](names map[T]string, text string) (v T, err error) {
	for v, name := range names {
		if name == text {
			return v, nil
		}
	}
	if _, err := fmt.Sscanf(text, "number-%d", &v); err != nil {
		return 0, fmt.Errorf("%q is not known", text)
	}
	return v, nil
}
