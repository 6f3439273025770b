// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
)

// unreached warns of tunnels and traces that should end at a node where nothing
// can: removal only happens on interfaces with the ingress role.
func unreached(ends []string) Warning {
	return New(
		DecapUnreached,
		"",
		fmt.Sprintf(
			"%s cannot end here, because no interface of this node has the ingress role: their IOAM is forwarded, or dropped at the edge",
			strings.Join(ends, ", "),
		),
		"add ingress to the role of the interface by which they arrive, under interfaces or with: waymark interface set IF role "+
			"ingress,egress; or remove the configuration that ends them",
	)
}
