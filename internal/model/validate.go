// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"github.com/waymark-net/waymark/ioam"
	"net/netip"
)

// Validate reports every error of the configuration, as a [*ConfigError] of
// [*FieldError] values, or nil. A node with an accepted configuration never sends
// anything that RFC 9197 does not allow, and its configuration fits the data
// plane's tables.
func (c NodeConfig) Validate() error {
	var list []*FieldError
	root := faults{list: &list}
	c.validateNode(root.in("node"))
	c.validateInterfaces(root)
	c.validateUppers(root)
	c.validateNamespaces(root)
	c.validateProofs(root)
	c.validateEncapsulations(root)
	c.validateDecapsulations(root)
	c.validateTunnelDestinations(root)
	c.validateExport(root)
	c.validateLoopback(root)
	c.validateMeasurement(root)
	if len(list) == 0 {
		return nil
	}
	return &ConfigError{Faults: list}
}

func (c NodeConfig) validateNode(f faults) {
	if c.ID > ioam.NodeIDUnavailable {
		f.add("id", "use 0…16777214, or remove it", "%d has more than 24 bits", c.ID)
	}
	if c.IDWide > ioam.NodeIDWideUnavailable {
		f.add("id-wide", "use 0…72057594037927934, or remove it", "%d has more than 56 bits", c.IDWide)
	}
	if c.TimestampFormat > ioam.TimestampNTP {
		f.add("timestamp-format", "use posix, ptp or ntp", "unknown format %d", c.TimestampFormat)
	}
	switch {
	case c.Compatibility > CompatibilityMainline:
		f.add("compatibility", "use default or mainline", "unknown profile %d", c.Compatibility)
	case c.Compatibility == CompatibilityMainline && c.TimestampFormat != ioam.TimestampPOSIX:
		f.add("timestamp-format", "use posix, or compatibility: default",
			"Linux writes only posix, so %v is not possible with compatibility mainline", c.TimestampFormat)
	}
}

func (c NodeConfig) validateInterfaces(root faults) {
	if len(c.Interfaces) > MaxInterfaces {
		root.add("interfaces", fmt.Sprintf("serve at most %d", MaxInterfaces), "%d interfaces", len(c.Interfaces))
		c.Interfaces = c.Interfaces[:MaxInterfaces]
	}
	indexes, names := map[IfIndex]int{}, map[string]int{}
	ids, wide := map[ioam.InterfaceID]int{}, map[ioam.InterfaceIDWide]int{}
	policies := 0
	for i, iface := range c.Interfaces {
		f := root.in("interfaces[%d]", i)
		if iface.Index == 0 {
			f.add("name", "name an interface that exists", "interface %q has no index", iface.Name)
		} else if j, dup := seen(indexes, iface.Index, i); dup {
			f.add("name", "list each interface once", "%q is the same interface as interfaces[%d]", iface.Name, j)
		} else if j, dup := seen(names, iface.Name, i); dup && iface.Name != "" {
			f.add("name", "list each interface once", "%q is also the name of interfaces[%d]", iface.Name, j)
		}
		if j, dup := seen(ids, iface.ID, i); dup && iface.ID != ioam.InterfaceIDUnavailable {
			f.add("id", "give each interface its own id", "%d is also the id of interfaces[%d]", iface.ID, j)
		}
		if j, dup := seen(wide, iface.IDWide, i); dup && iface.IDWide != ioam.InterfaceIDWideUnavailable {
			f.add("id-wide", "give each interface its own id", "%d is also the wide id of interfaces[%d]", iface.IDWide, j)
		}
		if iface.Roles&^(RoleIngress|RoleEgress) != 0 {
			f.add("role", "use ingress and egress", "unknown role %d", iface.Roles)
		}
		iface.validateBoundary(f)
		if policies += len(iface.Policies); policies > MaxNamespacePolicies && policies-len(iface.Policies) <= MaxNamespacePolicies {
			f.add("boundary", fmt.Sprintf("name at most %d in all, and leave those with the default policy out", MaxNamespacePolicies),
				"more than %d policies of namespaces at the node's interfaces", MaxNamespacePolicies)
		}
		if iface.MTU < 0 {
			f.add("mtu", "use 1280 or more, or 0 for no limit", "%d is not a size", iface.MTU)
		}
	}
}

func (c NodeConfig) validateUppers(root faults) {
	if len(c.Uppers) > MaxUppers {
		root.add("uppers", fmt.Sprintf("use at most %d", MaxUppers), "%d uppers", len(c.Uppers))
	}
	indexes := map[IfIndex]int{}
	for _, iface := range c.Interfaces {
		indexes[iface.Index] = -1
	}
	for i, m := range c.Uppers {
		f := root.in("uppers[%d]", i)
		switch j, dup := seen(indexes, m.Index, i); {
		case m.Index == 0:
			f.add("index", "name a device that exists", "no index")
		case dup && j < 0:
			f.add("index", "remove it: the interface itself is served", "interface %d is served", m.Index)
		case dup:
			f.add("index", "list each device once", "%d is also the index of uppers[%d]", m.Index, j)
		}
		if m.Roles&^(RoleIngress|RoleEgress) != 0 {
			f.add("role", "use ingress and egress", "unknown role %d", m.Roles)
		}
	}
}

// seen returns the index that had a key before; otherwise it records this one.
func seen[K comparable](keys map[K]int, key K, index int) (first int, dup bool) {
	if first, dup = keys[key]; !dup {
		keys[key] = index
	}
	return first, dup
}

func (c NodeConfig) validateNamespaces(root faults) {
	if len(c.Namespaces) > MaxNamespaces {
		root.as(CodeNamespaces).add("namespaces", fmt.Sprintf("use at most %d", MaxNamespaces), "%d namespaces", len(c.Namespaces))
		c.Namespaces = c.Namespaces[:MaxNamespaces]
	}
	ids := map[ioam.NamespaceID]int{}
	for i, namespace := range c.Namespaces {
		f := root.in("namespaces[%d]", i)
		if j, dup := seen(ids, namespace.ID, i); dup {
			f.add("id", "configure each namespace once", "%d is also the id of namespaces[%d]", namespace.ID, j)
		}
		switch {
		case namespace.Export > ExportSample:
			f.add("export", "use every, aggregate or sample", "unknown export mode %d", namespace.Export)
		case namespace.Export == ExportSample && namespace.Sample == 0:
			f.add(
				"sample",
				fmt.Sprintf("use n in 1…%d: a postcard for every n-th packet", MaxFrequency),
				"export sample needs the number n of packets",
			)
		case namespace.Sample > MaxFrequency:
			f.add("sample", fmt.Sprintf("use n in 1…%d: a postcard for every n-th packet", MaxFrequency), "%d is not possible", namespace.Sample)
		case namespace.Export != ExportSample && namespace.Sample != 0:
			f.add("sample", "remove it, or use export: sample", "export %v does not sample", namespace.Export)
		}
		if namespace.Schema == nil {
			continue
		}
		if namespace.Schema.ID >= ioam.SchemaIDNone {
			f.add("schema.id", "use 0…16777214", "%d is beyond 24 bits or means no schema", namespace.Schema.ID)
		}
		if length := len(namespace.Schema.Data); length > MaxSnapshotSize {
			f.add("schema.data", fmt.Sprintf("use at most %d bytes", MaxSnapshotSize), "%d bytes are too many", length)
		}
	}
}

func (c NodeConfig) validateExport(root faults) {
	f := root.in("node")
	if c.ExportLimit > MaxFrequency {
		f.add("export-limit", fmt.Sprintf("use 1/n with n ≤ %d", MaxFrequency), "1/%d is not possible", c.ExportLimit)
	}
	if c.ExportRate > MaxExportRate {
		f.add("export-rate", fmt.Sprintf("use at most %d", MaxExportRate), "%d exports per second are too many", c.ExportRate)
	}
	if c.FlowEntries < 0 || c.FlowEntries > MaxFlowEntries {
		f.add("flows", fmt.Sprintf("use 1…%d", MaxFlowEntries), "%d flows are not possible", c.FlowEntries)
	}
	if len(c.Collectors) > MaxCollectors {
		root.add("collectors", fmt.Sprintf("use at most %d", MaxCollectors), "%d collectors", len(c.Collectors))
	}
	for i, collector := range c.Collectors {
		f := root.in("collectors[%d]", i)
		if !collector.Address.IsValid() || collector.Port == 0 {
			f.add("address", "use an address and a port, such as [2001:db8::9]:4739", "%v is not a collector",
				netip.AddrPortFrom(collector.Address, collector.Port))
		}
		if collector.Protocol != ioam.NextHeaderUDP && collector.Protocol != ioam.NextHeaderTCP {
			f.add("address", "use udp, tcp or tls", "protocol %d carries no exports", collector.Protocol)
		}
	}
}
