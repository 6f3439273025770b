// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// nodeNamed is the options record of a node that says its name and id.
func nodeNamed(domain, id uint64, name string) fields {
	return fields{num("observationDomainId", domain), {"observationDomainName", name}, num("ioamNodeId", id), num("ioamNodeIdWide", 1<<56-1)}
}

// linkNamed is the options record of one of its interfaces.
func linkNamed(index, id uint64, name, description string) fields {
	return fields{
		num("ingressInterface", index),
		{"interfaceName", name},
		{"interfaceDescription", description},
		num("ioamIngressInterfaceId", id),
		num("ioamIngressInterfaceIdWide", 1<<32-1),
	}
}

// traceOf is a trace with one node, as another node reports it.
func traceOf(node uint64) fields {
	return fields{
		num("ioamNamespaceId", 123), num("ioamTraceType", 0xc00000), num("ioamReportId", node), num("ioamHopIndex", 0), num("ioamHopCount", 1),
		num("ioamHopLimit", 63), num("ioamNodeId", node), num("ioamIngressInterfaceId", 201), num("ioamEgressInterfaceId", 202),
	}
}

// The ids in a trace have the names that their nodes told the collector, whoever reports it.
func TestNamesByIDs(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	send(x.message(start, 1, nodeNamed(1, 2, "r2")))
	send(x.message(start, 1, linkNamed(7, 201, "west0", ""), linkNamed(8, 202, "east0", "to r3")))
	other := newExporter(t, ipfix.UDP, 3)
	send(other.message(start, 1, nodeNamed(3, 3, "r3")))
	send(other.message(start, 0, traceOf(2)))
	send(other.message(start, 0, traceOf(9)))
	lines := out.lines(t)
	if len(lines) != 2 || !strings.Contains(lines[0], `"node":"r3"`) || !strings.Contains(lines[0], `"node_id":2,`) ||
		!strings.Contains(lines[0], `"node_name":"r2","ingress_name":"west0","egress_name":"east0"`) || strings.Contains(lines[1], "_name") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
	if got := c.names.known.Description(2, 202); got != "to r3" {
		t.Errorf("description %q", got)
	}
	list := c.Names()
	if len(list) != 2 || list[0].Name != "r2" || len(list[0].Interfaces) != 2 || list[0].Interfaces[1].Description != "to r3" ||
		list[1].Name != "r3" {
		t.Errorf("%+v", list)
	}
	send(x.message(start, 1, nodeNamed(1, 2, "r2-new"))) // a new name of the same exporter
	send(other.message(start, 0, traceOf(2)))
	if lines = out.lines(t); !strings.Contains(lines[2], `"node_name":"r2-new"`) {
		t.Error(lines[2])
	}
	if list := c.names.list(c.names.asked.Add(listedFor)); list[0].Name != "r2-new" {
		t.Errorf("%+v", list)
	}
}

// Two nodes with one id are a warning with both names, once, and the id then means either.
func TestSharedID(t *testing.T) {
	_, out, send := offline(t, Config{}, ipfix.UDP)
	x, y := newExporter(t, ipfix.UDP, 1), newExporter(t, ipfix.UDP, 3)
	send(x.message(start, 1, nodeNamed(1, 2, "r2")))
	send(y.message(start, 1, nodeNamed(4, 2, "r2"))) // another sink of the same node
	for range 2 {
		send(y.message(start, 1, nodeNamed(3, 2, "\x1b[2Jr7")))
		send(y.message(start, 1, linkNamed(7, 201, "west0", "")))
	}
	send(y.message(start, 0, traceOf(2)))
	all := out.all()
	w, ok := all[0].(*record.Warning)
	if len(all) != 2 || !ok || w.Code != "node_id_shared" || !strings.Contains(w.Facts, `that of r2 (exporter`) ||
		!strings.Contains(w.Facts, `of "\x1b[2Jr7" (exporter`) {
		t.Fatalf("%+v", all)
	}
	if trace := all[1].(*record.Trace); trace.Nodes[0].NodeName != `r2 or "\x1b[2Jr7"` || trace.Nodes[0].IngressName != "" {
		t.Errorf("%+v", trace.Nodes[0])
	}
}
