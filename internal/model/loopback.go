// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"github.com/waymark-net/waymark/ioam"
)

// LoopbackType is the only trace type with which the Loopback flag has a meaning: hop
// limit and node id (RFC 9322 §4.1).
const LoopbackType ioam.TraceType = 0x800000

// LoopbackHeader is how many bytes the Hop-by-Hop header of a packet may have of which a
// copy is returned.
const LoopbackHeader = 536

// Recognises reports whether the node recognises copies of its own packets: by its node
// id, so without one no packet gets the Loopback flag.
func (c NodeConfig) Recognises() bool { return c.ID != ioam.NodeIDUnavailable }

// AsksLoopback reports whether an encapsulation sets the Loopback flag of traces of a
// namespace.
func (c NodeConfig) AsksLoopback(id ioam.NamespaceID) bool {
	for _, e := range c.Encapsulations {
		for _, o := range e.Options {
			if o.Trace != nil && o.Trace.Loopback > 0 && o.Trace.Namespace == id {
				return c.Recognises()
			}
		}
	}
	return false
}

func (c NodeConfig) validateLoopback(root faults) {
	f := root.in("node")
	if c.LoopbackLimit > MaxFrequency {
		f.add("loopback-limit", fmt.Sprintf("use 1/n with n ≤ %d", MaxFrequency), "1/%d is not possible", c.LoopbackLimit)
	}
	if c.LoopbackRate > MaxLoopbackRate {
		f.add("loopback-rate", fmt.Sprintf("use at most %d", MaxLoopbackRate), "%d copies per second are too many", c.LoopbackRate)
	}
}

// validateLoopbackTrace checks a trace that gets the Loopback flag.
func (c NodeConfig) validateLoopbackTrace(f faults, o TraceOption) {
	known := false
	for _, namespace := range c.Namespaces {
		known = known || namespace.ID == o.Namespace
	}
	switch {
	case o.Loopback > MaxFrequency:
		f.add("loopback", fmt.Sprintf("use 1/n with n ≤ %d", MaxFrequency), "1/%d is not possible", o.Loopback)
	case o.Type != LoopbackType:
		f.add(
			"loopback",
			fmt.Sprintf("use type %v, or remove loopback", LoopbackType),
			"nodes return no copies of packets with another trace type than %v",
			LoopbackType,
		)
	case !known: // the copy would not begin with this node's id
		f.add(
			"loopback",
			fmt.Sprintf("add %d to namespaces, or remove loopback", o.Namespace),
			"namespace %d is not configured, so the copies could not be recognised",
			o.Namespace,
		)
	}
}
