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
