// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// sequenceUnjoined warns of Sequence Numbers that nothing tells the flow of: they
// begin at 0 in each (RFC 9326 §3.2), so that one number stands for packets of
// many flows.
func sequenceUnjoined(encapsulation, iface string) Warning {
	return New(SequenceUnjoined, iface,
		fmt.Sprintf("encapsulation %s numbers the packets of each flow but does not carry the Flow-ID: collectors cannot join what nodes export of one packet", encapsulation),
		"set extension-flags: [flow-id, sequence] in its dex")
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
		"this node exports for "+noun+strings.Join(words, ", ")+", but has no exporter: only 'waymark observe' gets the postcards and flows",
		"add an exporter under export in the configuration file, or set export: none in the namespace")
}

// collectorsUnknown warns of a node that cannot tell exports from other packets:
// it MUST NOT push a Direct Export into those it can identify (RFC 9326 §3.1.2).
func collectorsUnknown() Warning {
	return New(CollectorsUnknown, "",
		"this node inserts Direct Exports and knows no collector: packets with which other nodes of the domain export get one too where they match, and each of them causes more (RFC 9326 section 3.1.2)",
		"name the domain's collectors under collectors in the configuration file; [] when nodes export to none")
}

// CollectorUnspared warns of a collector that is configured and whose address
// is not known.
func CollectorUnspared(collector, cause string) Warning {
	return New(CollectorsUnknown, "",
		fmt.Sprintf("packets to the collector %s may get a Direct Export, and each of them causes more (RFC 9326 section 3.1.2): %s", collector, cause),
		"name it by its IPv6 address, or leave it out when it has none; names are looked up again every ten seconds")
}

// exportsUnsecured tells of collectors whose records others can read and forge.
func exportsUnsecured(collectors []string) Warning {
	return New(ExportsUnsecured, "",
		"records go to "+strings.Join(collectors, " and ")+" without encryption: whoever is on the way can read and forge them, which RFC 9326 section 6 does not allow for Direct Export",
		"use tls:// with certificates of both sides; nothing is to be done where the way is protected otherwise, as by IPsec or a network of its own")
}

// exportsUnselective tells of Direct Exports in all that goes to a prefix.
func exportsUnselective(encapsulation, iface string) Warning {
	return New(ExportsUnselective, iface,
		fmt.Sprintf("encapsulation %s inserts a Direct Export into every packet to a prefix, and this node makes a postcard of each (export: every), as far as its limits allow: RFC 9326 section 3.1.1 asks for a subset of the packets, 1 in more than 100", encapsulation),
		"set flows: 1/N or frequency: 1/N in the encapsulation, match what is of interest, or set export: aggregate or sample in the namespace")
}
