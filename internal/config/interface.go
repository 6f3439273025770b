// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Interface is one interface that the node serves.
type Interface struct {
	Name        string                `key:"name" required:"true"`
	Description string                `key:"description" optional:"true"`
	ID          *ioam.InterfaceID     `key:"id" optional:"true"`
	IDWide      *ioam.InterfaceIDWide `key:"id-wide" optional:"true"`
	Role        []model.Role          `key:"role" default:"[]"`
	Boundary    Boundary              `key:"boundary" default:"drop"`
	Attach      Attach                `key:"attach" default:"auto"`
	Place       model.Place           `key:"place" default:"first"`
	Forwarding  Forwarding            `key:"forwarding" default:"stack"`
}

// interfaceTexts say what the keys of interfaces mean.
var interfaceTexts = yamlfile.KeyTexts{
	"name":                "The interface's name.",
	"description":         "What the interface is for. Collectors get it with the name.",
	"description, absent": "the kernel's ifalias",
	"id":                  "Interface id of trace field 1 (RFC 9197 §4.4.2.2).",
	"id, absent":          "the kernel's net.ipv6.conf.NAME.ioam6_id, followed when it changes",
	"id-wide":             "Interface id of trace field 9 (RFC 9197 §4.4.2.10).",
	"id-wide, absent":     "the kernel's net.ipv6.conf.NAME.ioam6_id_wide, followed when it changes",
	"role": "The directions in which the interface belongs to the IOAM domain: ingress accepts IOAM from the link, " +
		"egress sends it to the link. Without either, the interface is the domain's edge.",
	"boundary": "What happens to IOAM in a direction that is not in role, in Hop-by-Hop and Destination Options " +
		"headers: drop drops the packet (and one that cannot be read far enough to prove that it has none), strip " +
		"removes the IOAM, and the header if it holds nothing else, ignore forwards the packet untouched. A mapping " +
		"has policies for single namespaces, too: {default: drop, namespaces: {123: ignore}}.",
	"attach": "The hook for arriving packets; auto is the first that kernel and driver support of tcx, clsact, xdp " +
		"where traces are filled for the stack, of veths that do not forward fast, and, before Linux 6.3, of " +
		"interfaces that do, else of xdp, tcx, clsact.",
	"place": `Where the programs stand among those of others in tcx or clsact, at both hooks: first, last, "before ` +
		`NAME" or "after NAME" with the name of a BPF program as bpftool shows it. While no program has this name, ` +
		"they are first. When another program takes this place, the agent takes it again, after a longer wait each " +
		"time.",
	"forwarding": "How arriving packets are forwarded: stack is the kernel's network stack. fast forwards ordinary " +
		"packets before the stack sees them, past netfilter, traffic control and IPsec policies; all others go to " +
		"the stack. In XDP the queue depth is not known, so compatibility: mainline needs attach: tcx or clsact " +
		"with it.",
}

// Attach is the hook that takes arriving packets: auto, xdp, tcx or clsact.
type Attach string

// Forwarding is how packets are forwarded.
type Forwarding string

// The ways to forward.
const (
	ForwardingStack Forwarding = "stack"
	ForwardingFast  Forwarding = "fast"
)

// SetInterface sets an interface's roles and all its policies at the domain's edge; nil
// leaves either as it is.
func (c *Config) SetInterface(name string, roles *model.Role, boundary *Boundary) (*Config, error) {
	i := slices.IndexFunc(c.Interfaces, func(in Interface) bool { return in.Name == name })
	if i < 0 {
		return nil, refuse("interfaces", fmt.Sprintf("%q is not an interface that this node serves", name),
			"add it to interfaces in the configuration file, then: waymark agent reload")
	}
	return c.edit(func(next *Config) {
		if roles != nil && *roles != next.Interfaces[i].roles() {
			next.Interfaces[i].Role = nil
			for _, role := range []model.Role{model.RoleIngress, model.RoleEgress} {
				if *roles&role != 0 {
					next.Interfaces[i].Role = append(next.Interfaces[i].Role, role)
				}
			}
		}
		if boundary != nil {
			next.Interfaces[i].Boundary = *boundary
		}
	})
}

// roles is the union of the interface's roles.
func (in Interface) roles() (all model.Role) {
	for _, role := range in.Role {
		all |= role
	}
	return all
}

// passesQueues reports whether packets that arrive here may bypass the queue of the
// departure interface, as they do in XDP.
func (in Interface) passesQueues() bool {
	return in.Forwarding == ForwardingFast && in.Attach != "tcx" && in.Attach != "clsact"
}

// validInterfaceName is the kernel's own rule (dev_valid_name).
func validInterfaceName(name string) bool {
	return len(name) >= 1 && len(name) <= 15 && name != "." && name != ".." && !strings.ContainsAny(name, "/:") &&
		!strings.ContainsFunc(name, unicode.IsSpace)
}

func (in Interface) identify(link *model.Interface) {
	if in.ID != nil {
		link.ID = *in.ID
	}
	if in.IDWide != nil {
		link.IDWide = *in.IDWide
	}
}

// MarshalJSON writes the interface with the keys of the file.
func (in Interface) MarshalJSON() ([]byte, error) { return marshalJSON(&in) }

// UnmarshalJSON reads an interface as strictly as the file.
func (in *Interface) UnmarshalJSON(data []byte) error { return decodeFragment(data, in) }
