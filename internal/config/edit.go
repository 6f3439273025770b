// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The edits below return a changed copy, checked like a file; c does not change.

// edit applies change to a copy of c and checks it.
func (c *Config) edit(change func(*Config)) (*Config, error) {
	next := *c
	next.source = nil
	next.Interfaces = slices.Clone(c.Interfaces)
	next.Namespaces = slices.Clone(c.Namespaces)
	next.Encapsulations = slices.Clone(c.Encapsulations)
	next.Decapsulations = slices.Clone(c.Decapsulations)
	next.Flows = slices.Clone(c.Flows)
	change(&next)
	if err := next.atRuntime(next.check()).Err(); err != nil {
		return nil, err
	}
	return &next, nil
}

// AddNamespace adds a namespace.
func (c *Config) AddNamespace(ns Namespace) (*Config, error) {
	if c.namespace(ns.ID) >= 0 {
		return nil, refuse(
			"namespaces",
			fmt.Sprintf("namespace %d exists already", ns.ID),
			fmt.Sprintf(
				"remove it first with: waymark ioam namespace del %d, or change it with: waymark ioam namespace set %d, or take another id",
				ns.ID,
				ns.ID,
			),
		)
	}
	return c.edit(func(next *Config) { next.Namespaces = append(next.Namespaces, ns) })
}

// RemoveNamespace removes a namespace, as the kernel does also one that encapsulations use: their traces
// then leave without this node's data. A proof needs the namespace's key, so it stays.
func (c *Config) RemoveNamespace(id ioam.NamespaceID) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, "list them with: waymark ioam namespace show")
	}
	if err := c.needed(id); err != nil {
		return nil, err
	}
	return c.edit(func(next *Config) { next.Namespaces = slices.Delete(next.Namespaces, i, i+1) })
}

// SetSchema gives a namespace its snapshot; nil removes it.
func (c *Config) SetSchema(id ioam.NamespaceID, schema *Schema) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, fmt.Sprintf("add it with: waymark ioam namespace add %d", id))
	}
	return c.edit(func(next *Config) { next.Namespaces[i].Schema = schema })
}

// SetExport sets what this node does with the Direct Exports of a namespace; n is for
// [model.ExportSample].
func (c *Config) SetExport(id ioam.NamespaceID, mode model.ExportMode, n Sample) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, fmt.Sprintf("add it with: waymark ioam namespace add %d", id))
	}
	return c.edit(func(next *Config) { next.Namespaces[i].Export, next.Namespaces[i].Sample = mode, n })
}

// NamespaceChange says what this node does with the options of a namespace; nil leaves a
// setting as it is.
type NamespaceChange struct {
	Remove          *bool `json:"remove,omitempty"`
	EdgeToEdge      *bool `json:"e2e,omitempty"`
	Incremental     *bool `json:"incremental,omitempty"`
	Loopback        *bool `json:"loopback,omitempty"`
	TerminateActive *bool `json:"terminate_active,omitempty"`

	Proof ProofChange `json:"pot,omitzero"`
}

// ProofChange is what becomes of a namespace's proof of transit; nil leaves it.
type ProofChange struct {
	KeyFile      *string `json:"key_file,omitempty"` // "" ends it
	DropRejected *bool   `json:"drop_rejected,omitempty"`
}

// SetNamespace changes settings of a namespace.
func (c *Config) SetNamespace(id ioam.NamespaceID, change NamespaceChange) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, fmt.Sprintf("add it with: waymark ioam namespace add %d", id))
	}
	ns := c.Namespaces[i]
	if err := change.Apply(&ns); err != nil {
		return nil, err
	}
	return c.edit(func(next *Config) { next.Namespaces[i] = ns })
}

// Apply changes a namespace.
func (change NamespaceChange) Apply(ns *Namespace) error {
	for _, one := range []struct {
		is     *bool
		wanted *bool
	}{
		{&ns.Remove, change.Remove}, {&ns.EdgeToEdge, change.EdgeToEdge}, {&ns.Incremental, change.Incremental},
		{&ns.Loopback, change.Loopback}, {&ns.TerminateActive, change.TerminateActive},
	} {
		if one.wanted != nil {
			*one.is = *one.wanted
		}
	}
	return change.Proof.apply(ns)
}

// apply changes the proof of transit, which other copies of the namespace may share.
func (change ProofChange) apply(ns *Namespace) error {
	if change == (ProofChange{}) {
		return nil
	}
	proof := Proof{Difference: BlockLength(model.DefaultClockDifference)}
	if ns.Proof != nil {
		proof = *ns.Proof
	}
	if change.KeyFile != nil {
		proof.KeyFile = *change.KeyFile
	}
	if change.DropRejected != nil {
		proof.DropRejected = *change.DropRejected
	}
	switch {
	case proof.KeyFile != "":
		ns.Proof = &proof
	case change.DropRejected != nil && *change.DropRejected:
		return refuse("namespaces", fmt.Sprintf("namespace %d has no proof of transit whose packets could be dropped", ns.ID),
			"name the file with this node's key, too: pot FILE drop-rejected on")
	default:
		ns.Proof = nil
	}
	return nil
}

// AddEncapsulation adds a rule after the others.
func (c *Config) AddEncapsulation(e Encapsulation) (*Config, error) {
	if c.encapsulation(e.Name) >= 0 {
		return nil, refuse("encapsulations", fmt.Sprintf("encapsulation %q exists already", e.Name),
			"overwrite it with: waymark route replace, or give the new one another name")
	}
	e.setDefaults()
	return c.edit(func(next *Config) { next.Encapsulations = append(next.Encapsulations, e) })
}

// ReplaceEncapsulation replaces the rule with the same name, or
// adds it after the others.
func (c *Config) ReplaceEncapsulation(e Encapsulation) (*Config, error) {
	i := c.encapsulation(e.Name)
	if i < 0 {
		return c.AddEncapsulation(e)
	}
	e.setDefaults()
	return c.edit(func(next *Config) { next.Encapsulations[i] = e })
}

// setDefaults fills in what a rule that does not come from a file may lack.
func (e *Encapsulation) setDefaults() {
	if e.Frequency == (model.Frequency{}) {
		e.Frequency = model.Frequency{K: 1, N: 1}
	}
	e.Flows = max(e.Flows, 1)
}

// RemoveEncapsulation removes the rule of that name.
func (c *Config) RemoveEncapsulation(name string) (*Config, error) {
	i := c.encapsulation(name)
	if i < 0 {
		return nil, refuse("encapsulations", fmt.Sprintf("there is no encapsulation %q", name), "list them with: waymark route show")
	}
	return c.edit(func(next *Config) { next.Encapsulations = slices.Delete(next.Encapsulations, i, i+1) })
}

// HasEncapsulation reports whether there is a rule of that name.
func (c *Config) HasEncapsulation(name string) bool { return c.encapsulation(name) >= 0 }

func (c *Config) encapsulation(name string) int {
	return slices.IndexFunc(c.Encapsulations, func(e Encapsulation) bool { return e.Name == name })
}

func (c *Config) namespace(id ioam.NamespaceID) int {
	return slices.IndexFunc(c.Namespaces, func(ns Namespace) bool { return ns.ID == id })
}

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

// AddDecapsulation adds a tunnel that ends at this node.
func (c *Config) AddDecapsulation(d Decapsulation) (*Config, error) {
	if c.decapsulation(d.TunnelDestination) >= 0 {
		return nil, refuse("decapsulations", fmt.Sprintf("decapsulation %s exists already", d.TunnelDestination),
			fmt.Sprintf("to change it, remove it first with: waymark decapsulation del %s", d.TunnelDestination))
	}
	return c.edit(func(next *Config) { next.Decapsulations = append(next.Decapsulations, d) })
}

// RemoveDecapsulation removes a tunnel that ends at this node.
func (c *Config) RemoveDecapsulation(destination netip.Addr) (*Config, error) {
	i := c.decapsulation(destination)
	if i < 0 {
		return nil, refuse(
			"decapsulations",
			fmt.Sprintf("there is no decapsulation %s", destination),
			"list them with: waymark decapsulation show",
		)
	}
	return c.edit(func(next *Config) { next.Decapsulations = slices.Delete(next.Decapsulations, i, i+1) })
}

func (c *Config) decapsulation(destination netip.Addr) int {
	return slices.IndexFunc(c.Decapsulations, func(d Decapsulation) bool { return d.TunnelDestination == destination })
}
