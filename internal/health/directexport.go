// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// sequenceUnjoined warns of Sequence Numbers without Flow-IDs: they begin at 0 in
// each flow (RFC 9326 §3.2), so one number appears in packets of many flows.
func sequenceUnjoined(encapsulation, iface string) Warning {
	return New(
		SequenceUnjoined,
		iface,
		fmt.Sprintf(
			"encapsulation %s numbers the packets of each flow, but does not send the Flow-ID: collectors cannot join the exports of one packet",
			encapsulation,
		),
		"set extension-flags: [flow-id, sequence] in its dex",
	)
}

// exportsUnsent warns of exports that only observers get.
func exportsUnsent(namespaces []ioam.NamespaceID) Warning {
	words := make([]string, len(namespaces))
	for i, id := range namespaces {
		words[i] = fmt.Sprint(id)
	}
	noun := "namespace "
	if len(words) > 1 {
		noun = "namespaces "
	}
	return New(ExportsUnsent, "",
		"this node exports for "+noun+strings.Join(words, ", ")+", but has no sink: only 'waymark observe' receives the postcards and flows",
		"add a sink under export in the configuration file, or set export: none in the namespace")
}

// collectorsUnknown warns of a node that cannot distinguish exports from other packets:
// it MUST NOT push a Direct Export into those it can identify (RFC 9326 §3.1.2).
func collectorsUnknown() Warning {
	return New(CollectorsUnknown, "",
		"this node inserts Direct Exports and knows no collector: exports of other nodes get one, too, if they match, and each of "+
			"these causes more exports (RFC 9326 section 3.1.2)",
		"list the domain's collectors under collectors in the configuration file; use [] if nodes export to none")
}

// CollectorUnspared warns of a configured collector whose address is unknown.
func CollectorUnspared(collector, cause string) Warning {
	return New(
		CollectorsUnknown,
		"",
		fmt.Sprintf(
			"packets to the collector %s may get a Direct Export, and each of these causes more exports (RFC 9326 section 3.1.2): %s",
			collector,
			cause,
		),
		"use its IPv6 address, or remove it from the list if it has none; names are looked up again every ten seconds",
	)
}

// exportsUnsecured warns of collectors whose records others can read and forge.
func exportsUnsecured(collectors []string) Warning {
	return New(
		ExportsUnsecured,
		"",
		"records go to "+strings.Join(
			collectors,
			" and ",
		)+" without encryption: others on the path can read and forge them, which RFC 9326 section 6 does not allow for Direct Export",
		"use tls:// with certificates on both sides; no change is needed if the path is protected in another way, for example by "+
			"IPsec or a separate network",
	)
}

// exportsUnselective warns of Direct Exports in all packets to a prefix.
func exportsUnselective(encapsulation, iface string) Warning {
	return New(
		ExportsUnselective,
		iface,
		fmt.Sprintf(
			"encapsulation %s inserts a Direct Export into every packet to a prefix, and this node makes a postcard for each (export: "+
				"every), within its limits: RFC 9326 section 3.1.1 requires a subset, 1 in more than 100",
			encapsulation,
		),
		"set flows: 1/N or frequency: 1/N in the encapsulation, narrow the match, or set export: aggregate or sample in the namespace",
	)
}

// exportsLimited says that a namespace that exports every packet does not.
func exportsLimited(namespaces []ioam.NamespaceID, limit uint32) Warning {
	list, which := make([]string, len(namespaces)), "namespace"
	for i, ns := range namespaces {
		list[i] = fmt.Sprint(ns)
	}
	if len(list) > 1 {
		which = "namespaces"
	}
	return New(
		ExportsLimited,
		"",
		fmt.Sprintf(
			"%s %s has export: every, but node.export-limit: 1/%d allows each interface one postcard for %d packets that it sees "+
				"(%.3g%%), after the first 64 of each CPU: "+
				"where other packets are few, most packets make no postcard, and a collector cannot tell which are lost",
			which,
			strings.Join(list, " and "),
			limit,
			limit,
			100/float64(limit),
		),
		"set node.export-limit: 1/1 if links and collectors can take a postcard of each packet, or export: aggregate, or export: "+
			"sample, or mark fewer packets at the encapsulating nodes (flows, frequency)",
	)
}
