// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Viewpoint is what all postcards of one place in the node have in common.
type Viewpoint struct {
	namespace       *model.Namespace
	ingress, egress *model.Interface
}

// Viewpoint is the place between two interfaces, for a namespace.
func (n *Node) Viewpoint(ingress, egress model.IfIndex, namespace ioam.NamespaceID) Viewpoint {
	v := Viewpoint{namespace: n.namespaces[namespace], egress: n.interfaces[egress]}
	if v.namespace == nil {
		v.namespace = &model.Namespace{Data: ioam.DataUnavailable, DataWide: ioam.DataWideUnavailable}
	}
	v.ingress, _ = n.arrival(Frame{Ingress: ingress})
	return v
}

// PostcardData appends what the node puts into a postcard to dst: the node data that
// a trace of the option's trace type would have (RFC 9326 §3.1.2, RFC 9197
// §4.4.2). It only reads the node, so several goroutines may call it at once.
func (n *Node) PostcardData(dst []byte, e *model.Postcard, at Viewpoint) ioam.NodeData {
	h := hop{
		hopLimit:  e.HopLimit,
		ingress:   at.ingress,
		egress:    at.egress,
		time:      e.Time,
		timeKnown: true,
		delay:     e.TransitDelay,
		queue:     e.QueueDepth,
		buffer:    e.BufferOccupancy,
		// "not relevant for direct exporting" (RFC 9326 §3.2)
		complement: ioam.DataUnavailable,
	}
	return ioam.NodeData{Type: e.Option.Type, Bytes: n.appendNodeData(dst, e.Option.Type, at.namespace, h)}
}
