// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// built is a node configuration made from a Config. Entries may be left out; the
// indices say which entry of the Config each one came from.
type built struct {
	node           model.NodeConfig
	interfaces     []int
	encapsulations []int
}

// build makes the node's configuration from the interfaces in links, by their index in
// the configuration, the derived tunnel sources, by destination, and the keys that are
// known. Encapsulations on other interfaces or without a source are left out; when all is set, they are kept
// without an interface or with anySource.
func (c *Config) build(
	node model.NodeConfig,
	links map[int]model.Interface,
	derived map[netip.Addr]netip.Addr,
	known keys,
	all bool,
) built {
	b := built{node: node}
	b.node.TimestampFormat = c.Node.TimestampFormat
	b.node.Compatibility = c.Node.Compatibility
	b.node.FlowSeed = uint64(c.Node.FlowSeed)
	b.node.FlowEntries = int(c.Node.Flows)
	b.node.ExportLimit = uint32(c.Node.ExportLimit)
	b.node.ExportRate = uint32(c.Node.ExportRate)
	b.node.Delays = uint32(c.Node.Delays)
	b.node.LoopbackLimit, b.node.LoopbackRate = uint32(c.Node.LoopbackLimit), uint32(c.Node.LoopbackRate)
	index := map[string]model.IfIndex{}
	for i, in := range c.Interfaces {
		link, ok := links[i]
		if !ok {
			continue
		}
		link.Name, link.Roles = in.Name, in.roles()
		link.Boundary, link.Policies = in.Boundary.Default, in.Boundary.Namespaces
		if _, twice := index[in.Name]; !twice {
			index[in.Name] = link.Index
		}
		b.node.Interfaces = append(b.node.Interfaces, link)
		b.interfaces = append(b.interfaces, i)
	}
	for _, ns := range c.Namespaces {
		b.node.Namespaces = append(b.node.Namespaces, ns.node(known))
	}
	for i, e := range c.Encapsulations {
		link, ok := index[e.Interface]
		rule := e.node(link)
		if e.derives() {
			rule.TunnelSource = derived[e.Tunnel.Destination]
			if all {
				rule.TunnelSource = anySource
			}
			ok = ok && rule.TunnelSource.IsValid()
		}
		if ok || all {
			b.node.Encapsulations = append(b.node.Encapsulations, rule)
			b.encapsulations = append(b.encapsulations, i)
		}
	}
	for _, d := range c.Decapsulations {
		b.node.Decapsulations = append(b.node.Decapsulations, d.node())
	}
	b.node.TunnelDestinations = c.tunnelDestinations(b.encapsulations)
	b.node.Measurement = c.measurement()
	return b
}

// validate lists the errors in the node's configuration, with the paths of the file.
func (b built) validate(s *yamlfile.Source) Faults {
	err := b.node.Validate()
	var all *model.ConfigError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &all):
		return Faults{s.Fault("", err.Error(), "")}
	}
	var faults Faults
	for _, field := range all.Faults {
		path := b.filePath(field.Path)
		fault := s.Fault(path, yamlfile.Named(path)+": "+b.renumber(field.Problem), field.Cure)
		fault.Code = field.Code
		faults = append(faults, fault)
	}
	return faults
}

// filePath turns a path of the node's configuration into the file's, which includes the
// kind of each option.
func (b built) filePath(path string) string {
	return b.renumber(b.optionPath(path))
}

var (
	optionKey = regexp.MustCompile(`^(encapsulations\[(\d+)\]\.options\[(\d+)\])\.([\w-]+)`)
	listIndex = regexp.MustCompile(`\b(interfaces|encapsulations)\[(\d+)\]`)
)

// renumber changes the indices in text to those of the file, which count the entries
// that were left out too.
func (b built) renumber(text string) string {
	return listIndex.ReplaceAllStringFunc(text, func(s string) string {
		m := listIndex.FindStringSubmatch(s)
		from := b.interfaces
		if m[1] == "encapsulations" {
			from = b.encapsulations
		}
		i, err := strconv.Atoi(m[2])
		if err != nil || i >= len(from) {
			return s
		}
		return fmt.Sprintf("%s[%d]", m[1], from[i])
	})
}

// check lists the errors in c that do not depend on the host. Ids that only a host
// knows count as not configured.
func (c *Config) check() Faults {
	own, of := c.rules()
	faults := own
	for _, f := range c.anywhere().validate(c.source) {
		if !slices.ContainsFunc(of, func(path string) bool { return yamlfile.Within(f.Path, path) }) {
			faults = append(faults, f)
		}
	}
	return faults
}

// Anywhere is the node as the configuration alone makes it. What only a host knows is a
// placeholder: ids, interface indices and MTUs, and derived tunnel sources.
func (c *Config) Anywhere() model.NodeConfig { return c.anywhere().node }

func (c *Config) anywhere() built {
	node := model.NodeConfig{ID: ioam.NodeIDUnavailable, IDWide: ioam.NodeIDWideUnavailable}
	c.identify(&node)
	links := map[int]model.Interface{}
	for i, in := range c.Interfaces {
		link := model.Interface{
			Index: model.IfIndex(i + 1), MTU: maxMTU,
			ID: ioam.InterfaceIDUnavailable, IDWide: ioam.InterfaceIDWideUnavailable,
		}
		in.identify(&link)
		links[i] = link
	}
	return c.build(node, links, nil, nil, true)
}

// rules lists the errors that are clearest in the words of the file, and the paths
// whose other errors they replace.
func (c *Config) rules() (faults Faults, of []string) {
	addCoded := func(code problem.Code, path, problem, cure string) {
		if len(faults) < yamlfile.MostCounted {
			fault := c.source.Fault(path, path+": "+problem, cure)
			fault.Code = code
			faults = append(faults, fault)
		}
	}
	add := func(path, problem, cure string) { addCoded("", path, problem, cure) }
	for i, in := range c.Interfaces {
		if !validInterfaceName(in.Name) {
			add(fmt.Sprintf("interfaces[%d].name", i), fmt.Sprintf("%q cannot be the name of an interface", in.Name),
				"write 1 to 15 characters without spaces, / and :")
		}
		if in.passesQueues() && c.Node.Compatibility == model.CompatibilityMainline {
			add(
				fmt.Sprintf("interfaces[%d].forwarding", i),
				fmt.Sprintf(
					"fast with attach %s bypasses the queue whose depth Linux writes, so it is not possible with compatibility mainline",
					in.Attach,
				),
				"use attach: tcx (clsact before Linux 6.6), forwarding: stack, or compatibility: default",
			)
		}
	}
	c.nameRules(add)
	c.namesFromRules(add)
	c.sinkRules(add)
	c.collectorRules(add)
	c.tunnelRules(add)
	c.measurementRules(add)
	c.historyRules(add)
	c.probingRules(add)
	if format := c.Node.TimestampFormat; c.Node.KernelEvents && format != ioam.TimestampPOSIX {
		add("node.timestamp-format", fmt.Sprintf("the kernel's IOAM writes only posix, so %v is not possible with kernel-events", format),
			"use posix, or kernel-events: false")
	}
	for i, e := range c.Encapsulations {
		path := fmt.Sprintf("encapsulations[%d]", i)
		if strings.ContainsFunc(e.Name, unicode.IsControl) {
			add(path+".name", fmt.Sprintf("%q has control characters", e.Name), "remove them: the name appears in status and metrics")
		}
		if e.Tunnel == nil && e.Mode != model.ModeInline {
			of = append(of, path+".tunnel")
			faults = append(faults, c.source.Fault(path+".mode", fmt.Sprintf("%s has mode %v and no tunnel", path, e.Mode),
				"add tunnel: {destination: ADDRESS}, or set mode: inline"))
		}
		for j, o := range e.Options {
			if d := o.DirectExport; d != nil && d.FlowID.Kind != model.FlowIDHash && len(d.ExtensionFlags) == 0 {
				addCoded(codeFlowIDUnused, fmt.Sprintf("%s.options[%d].dex.flow-id", path, j),
					"the option does not carry a flow-id or number packets by it",
					"add extension-flags: [flow-id], or remove flow-id")
			}
		}
		if !slices.ContainsFunc(c.Interfaces, func(in Interface) bool { return in.Name == e.Interface }) {
			of = append(of, path+".interface")
			addCoded(
				model.CodeInterfaceUnserved,
				path+".interface",
				fmt.Sprintf("%q is not an interface that this node serves", e.Interface),
				"add it to interfaces, with the role egress",
			)
		}
	}
	return faults, of
}

// anySource stands for a tunnel source that only a host can determine. No host has it
// (RFC 6666: the discard-only block), so no check refuses it.
var anySource = netip.MustParseAddr("100::1")

// maxMTU is assumed for an interface that is not known yet.
const maxMTU = 65535

// influences lists the values whose errors can make others look wrong: until the first
// is valid, the second is not judged. Both are paths without indices; own means in the
// same entry of the outermost list.
var influences = []struct {
	from, to string
	own      bool
}{
	{"interfaces", "encapsulations.interface", false},
	{"node.compatibility", "interfaces.forwarding", false},
	{"interfaces.attach", "interfaces.forwarding", true},
	{"node.compatibility", "encapsulations.options.trace.size", false},
	{"node.compatibility", "encapsulations.options.trace.type", false},
	{"encapsulations.options", "encapsulations.options.dex.namespace", true},
	{"encapsulations.flows", "encapsulations.options.dex.flow-id", true},
	{"encapsulations.options", "encapsulations.options.pot.namespace", true},
	{"namespaces", "encapsulations.options.pot.namespace", false},
	{"encapsulations.options.dex.extension-flags", "encapsulations.options.dex.flow-id", true},
	{"namespaces.export", "namespaces.sample", true},
	{"namespaces.id", "namespaces.id", false},
	{"encapsulations.mode", "encapsulations.tunnel", true},
	{"encapsulations.tunnel", "encapsulations.mode", true},
	{"encapsulations.match", "encapsulations.match.destination", false},
	{"export.path", "export.path", false},
	{"export.address", "export.address", false},
	{"export.kind", "export", true},
}

// semantics reports the errors in a decoded configuration, except those that may follow
// from an earlier one.
func (d *decoder) semantics(c *Config) {
	for _, f := range c.check() {
		if d.Full() {
			return
		}
		if !d.followsFrom(f.Path) {
			d.Add(f)
		}
	}
}

// followsFrom reports whether an error at path may be the consequence of one that
// was reported before.
func (d *decoder) followsFrom(path string) bool {
	if d.FollowsFrom(path) {
		return true
	}
	for bad := range d.Bad() {
		from, to := anyIndex.ReplaceAllString(bad, ""), anyIndex.ReplaceAllString(path, "")
		for _, i := range influences {
			touched := yamlfile.Within(from, i.from) || yamlfile.Within(i.from, from)
			if touched && yamlfile.Within(to, i.to) && (!i.own || entry(bad) == entry(path)) {
				return true
			}
		}
	}
	return false
}

var anyIndex = regexp.MustCompile(`\[\d+\]`)

// entry is the part of a path that names the entry of the outermost list.
func entry(path string) string { return path[:strings.Index(path, "]")+1] }
