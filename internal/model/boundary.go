// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"github.com/waymark-net/waymark/ioam"
)

// PolicyOf is what happens at the domain's edge to IOAM of a namespace.
func (i Interface) PolicyOf(id ioam.NamespaceID) Boundary {
	for _, p := range i.Policies {
		if p.Namespace == id {
			return p.Boundary
		}
	}
	return i.Boundary
}

// Strictest is the strictest of an interface's policies at the domain's edge.
func (i Interface) Strictest() Boundary {
	strictest := i.Boundary
	for _, p := range i.Policies {
		strictest = min(strictest, p.Boundary)
	}
	return strictest
}

// Strips reports whether some policy of an interface at the domain's edge is to remove IOAM.
func (i Interface) Strips() bool {
	strips := i.Boundary == BoundaryStrip
	for _, p := range i.Policies {
		strips = strips || p.Boundary == BoundaryStrip
	}
	return strips
}

// Filters reports whether the edge of the domain filters packets at an interface, in one
// direction: it has no role there, and a policy that drops or removes IOAM.
func (i Interface) Filters(ingress bool) bool {
	role := RoleEgress
	if ingress {
		role = RoleIngress
	}
	return i.Roles&role == 0 && i.Strictest() != BoundaryIgnore
}

// validateBoundary checks the policies of an interface at the domain's edge.
func (i Interface) validateBoundary(f faults) {
	const cure = "use drop, strip or ignore"
	if i.Boundary > BoundaryIgnore {
		f.add("boundary", cure, "unknown policy %d", i.Boundary)
	}
	namespaces := map[ioam.NamespaceID]int{}
	for k, p := range i.Policies {
		key := fmt.Sprintf("boundary.namespaces.%d", p.Namespace)
		if p.Boundary > BoundaryIgnore {
			f.add(key, cure, "unknown policy %d", p.Boundary)
		}
		if _, dup := seen(namespaces, p.Namespace, k); dup {
			f.add(key, "give each namespace one policy", "namespace %d has two policies", p.Namespace)
		}
	}
}
