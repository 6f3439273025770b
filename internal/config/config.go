// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration of one node: a YAML file that is checked as a
// whole, with every error reported at its line and column. It uses the terms of RFC
// 9197 and RFC 9617 where they exist.
//
// The structs of this package are the file's only description. Their tags carry each key and its
// default, and the table after each says what its keys mean. From these, internal/yamlfile reads and
// writes files, and makes docs/reference/configuration.md. It says which tags there are. Each section of
// the file has its keys, its rules and its changes at run time in a file of its own.
package config

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// Config is the configuration of one node.
type Config struct {
	Node               Node                         `key:"node"`
	Interfaces         []Interface                  `key:"interfaces"`
	Namespaces         []Namespace                  `key:"namespaces"`
	Encapsulations     []Encapsulation              `key:"encapsulations"`
	Decapsulations     []Decapsulation              `key:"decapsulations"`
	TunnelDestinations []netip.Addr                 `key:"tunnel-destinations" optional:"true"`
	Sinks              []Sink                       `key:"export"`
	Collectors         []ipfixsink.CollectorAddress `key:"collectors" optional:"true"`
	Measurement        *Measurement                 `key:"measurement" optional:"true"`
	Names              []NodeNames                  `key:"names" optional:"true"`
	NamesFrom          *NamesFrom                   `key:"names-from" optional:"true"`
	Flows              []Flow                       `key:"flows" optional:"true"`
	Stamp              *Stamp                       `key:"stamp" optional:"true"`
	Responders         []Responder                  `key:"responders" optional:"true"`
	Trace              *Trace                       `key:"path-trace" was:"trace" optional:"true"`
	Probes             *Probes                      `key:"probes" optional:"true"`
	Metrics            Metrics                      `key:"metrics"`
	History            *History                     `key:"history" optional:"true"`
	Strict             bool                         `key:"strict" default:"false"`

	source  *yamlfile.Source
	renamed Faults
}

// Renamed are keys of the file that have the name that they had before. They are accepted, and
// a user should be warned.
func (c *Config) Renamed() Faults { return c.renamed }

// Metrics is where counters are served.
type Metrics struct {
	Listen      Listen      `key:"listen" default:"[::1]:9598"`
	DelaySeries DelaySeries `key:"delay-series" default:"256"`
}

// DelaySeries is a number of series.
type DelaySeries uint32

// MaxDelaySeries is how many series of a kind of delay the metrics may have.
const MaxDelaySeries = 4096

// fileTexts say what the keys of the file and of metrics mean.
var fileTexts = yamlfile.KeyTexts{
	"node":       "The node's identity, the format of its data, and limits.",
	"interfaces": "The interfaces that the node serves. Other interfaces are never touched.",
	"namespaces": "The IOAM namespaces that the node takes part in (RFC 9197 §4.3). Options of other namespaces are " +
		"forwarded untouched.",
	"encapsulations": "Which packets get an IOAM header here. Of the rules of an interface that match a packet, the one " +
		"with the longest destination prefix applies, among equals the first.",
	"decapsulations": "The tunnels that end at this node.",
	"tunnel-destinations": "Tunnel destinations of the IOAM domain besides those under encapsulations and " +
		"decapsulations. At the domain's edge (an interface without the role ingress whose boundary is drop), " +
		"packets from outside that are, or may be, in an IPv6-in-IPv6 tunnel to any of all these are dropped; other " +
		"packets to the same address pass. At most 1024.",
	"tunnel-destinations, absent": "no others",
	"export": `Sinks for records: traces of removed headers, postcards and flows. "waymark observe" shows records ` +
		"without a sink, too.",
	"collectors": "Collectors of the IOAM domain besides those under export, to which other nodes export; each as in " +
		"export.address. Packets to any of all these never get an IOAM header here, whatever their sender (RFC 9326 " +
		"§3.1.2). [] says that there are no others.",
	"collectors, absent":  "not known",
	"measurement":         "How the SRv6 flows under flows are marked and counted (alternate marking, RFC 9341).",
	"measurement, absent": "the defaults of its keys",
	"names": "Names of other nodes and their interfaces, by the ids that they write into packets: whatever shows a node " +
		"then shows its name. One list may serve all nodes; what it says of this node itself is not used. At most " +
		"4096.",
	"names, absent": "no others",
	"names-from": "A collector that is asked for names which are not under names: exporters told it those of their " +
		"nodes and interfaces. What it said is used further, also by the next agent, while it does not answer.",
	"names-from, absent": "from names alone",
	"flows":              "The SRv6 flows whose loss and delay are measured.",
	"flows, absent":      "none",
	"stamp": "A STAMP reflector in the agent (RFC 8762, RFC 8972): other nodes measure delays with it, and ask it what " +
		"this node counted of measured flows.",
	"stamp, absent": "no reflector",
	"responders": "Responders in other protocols than STAMP, for nodes that ask what this one counted of measured " +
		"flows, or measure delays, in these.",
	"responders, absent": "none",
	"path-trace": `Answers probes of "waymark trace" that are addressed to this node, with the trace that they came ` +
		"with.",
	"path-trace, absent": "probes are not answered",
	"probes": "Probes to other nodes that never stop, in many flows: they show all equal paths, keep round trips and " +
		"losses of each, and name the hop after which probes vanish.",
	"probes, absent":  "no probes are sent",
	"metrics":         "Counters for Prometheus.",
	"history":         "What the agent keeps of the last hour: paths between prefixes, the times of each hop, losses.",
	"history, absent": "the defaults of its keys",
	"strict":          "When true, an interface that does not exist is an error. When false, it is served as soon as it appears.",
	"metrics.listen":  "Address and port of the HTTP server of /metrics and /healthz; none serves nothing.",
	"metrics.delay-series": "How many series of each kind of delay (held, segment, path) have labels of their own, 1 to 4096: those " +
		"that counted most, chosen anew every minute. The rest is one series whose labels are other.",
}

// Listen is an address and port to listen on, or ListenNone.
type Listen string

// ListenNone serves nothing.
const ListenNone Listen = "none"
