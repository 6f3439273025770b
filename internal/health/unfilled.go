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
		text := unfilledBy(e.Name) + fmt.Sprintf(
			"options of %s, not configured here: they leave without this node's data (encap_unfilled), and cause no exports here",
			namespaceList(e.Unknown),
		)
		if !e.Inline {
			text += "; a tunnel's end that knows none of their namespaces and takes no bare tunnels loses the packets (decap_refused_bare)"
		}
		ws = append(ws, New(NamespaceUnfilled, e.Interface, text,
			fmt.Sprintf("correct the namespace, or add it under namespaces or with: waymark ioam namespace add %d", e.Unknown[0])))
	}
	if len(e.TooSmall) > 0 {
		ws = append(ws, New(
			TraceTooSmall,
			e.Interface,
			unfilledBy(e.Name)+fmt.Sprintf(
				"traces of %s that are too small for this node's own data: they leave with the overflow flag (encap_overflow), and no "+
					"node writes into them",
				namespaceList(e.TooSmall),
			),
			"raise their size to the data of one node, times the nodes of the path; or use fewer bits of the type, or a shorter schema",
		))
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
