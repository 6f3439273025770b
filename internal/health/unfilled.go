// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// unfilledBy is the beginning of the text about an encapsulation.
func unfilledBy(encapsulation string) string {
	return fmt.Sprintf("encapsulation %s inserts ", encapsulation)
}

// IsUnfilled reports whether a warning is about what an encapsulation inserts
// without this node's data.
func IsUnfilled(w Warning, encapsulation string) bool {
	return (w.Code == NamespaceUnfilled || w.Code == TraceTooSmall) && strings.HasPrefix(w.Text, unfilledBy(encapsulation))
}

// unfilled lists the options that an encapsulation inserts without this node's
// data. This is right where a host only starts traces, and otherwise most likely
// a mistake.
func unfilled(e Encapsulation) []Warning {
	var ws []Warning
	if len(e.Unknown) > 0 {
		text := unfilledBy(e.Name) + fmt.Sprintf("options of %s, not configured here: such traces leave without this node's data, for other nodes to fill (encap_unfilled), and this node exports nothing for such Direct Exports",
			namespaceList(e.Unknown))
		if !e.Inline {
			text += "; the end of a tunnel refuses its packets, and they are lost, if it knows none of their namespaces either (decap_refused_bare) and takes no bare tunnels"
		}
		ws = append(ws, New(NamespaceUnfilled, e.Interface, text,
			fmt.Sprintf("correct the namespace if it is mistyped; if this node should fill them, add it under namespaces, or: waymark ioam namespace add %d", e.Unknown[0])))
	}
	if len(e.TooSmall) > 0 {
		ws = append(ws, New(TraceTooSmall, e.Interface,
			unfilledBy(e.Name)+fmt.Sprintf("traces of %s that are too small for this node's own data: they leave with the overflow flag (encap_overflow), and no node writes into them",
				namespaceList(e.TooSmall)),
			"raise their size to the data of one node, times the nodes of the path; or use fewer bits of the type, or a shorter schema"))
	}
	return ws
}

func namespaceList(ids []ioam.NamespaceID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = fmt.Sprint(id)
	}
	if len(ids) == 1 {
		return "namespace " + words[0]
	}
	return "namespaces " + strings.Join(words, ", ")
}
