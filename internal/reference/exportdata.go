// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"slices"
)

// ExportData is what the node tells in an export: node data as a trace of the
// option's trace type would have them (RFC 9326 §3.1.2, RFC 9197 §4.4.2). It
// only reads the node, so several goroutines may call it at once.
func (n *Node) ExportData(e model.Export) ioam.NodeData {
	namespace := n.namespaces[e.Option.Namespace]
	if namespace == nil {
		namespace = &model.Namespace{Data: ioam.DataUnavailable, DataWide: ioam.DataWideUnavailable}
	}
	from, _ := n.arrival(Frame{Ingress: e.Ingress})
	h := hop{
		hopLimit:  e.HopLimit,
		ingress:   from,
		egress:    n.interfaces[e.Egress],
		time:      e.Time,
		timeKnown: true,
		delay:     e.TransitDelay,
		queue:     e.QueueDepth,
	}
	data := slices.Grow([]byte(nil), 4*e.Option.Type.NodeLen())
	return ioam.NodeData{Type: e.Option.Type, Bytes: n.appendNodeData(data, e.Option.Type, namespace, h)}
}
