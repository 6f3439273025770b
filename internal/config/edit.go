// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/ioam"
)

// The edits below give a changed copy, checked as a file is; c stays as it is.
// Faults of a copy name the path of the value: it stands in no file.

// edit makes the copy that change changes.
func (c *Config) edit(change func(*Config)) (*Config, error) {
	next := *c
	next.source = nil
	next.Namespaces = slices.Clone(c.Namespaces)
	next.Encapsulations = slices.Clone(c.Encapsulations)
	change(&next)
	if err := next.check().err(); err != nil {
		return nil, err
	}
	return &next, nil
}

// AddNamespace adds a namespace.
func (c *Config) AddNamespace(ns Namespace) (*Config, error) {
	if c.namespace(ns.ID) >= 0 {
		return nil, refuse("namespaces", fmt.Sprintf("namespace %d exists already", ns.ID), "remove it first, or take another id")
	}
	return c.edit(func(next *Config) { next.Namespaces = append(next.Namespaces, ns) })
}

// RemoveNamespace removes a namespace that no encapsulation uses.
func (c *Config) RemoveNamespace(id ioam.NamespaceID) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id)
	}
	return c.edit(func(next *Config) { next.Namespaces = slices.Delete(next.Namespaces, i, i+1) })
}

// SetSchema gives a namespace its snapshot; nil takes it away.
func (c *Config) SetSchema(id ioam.NamespaceID, schema *Schema) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id)
	}
	return c.edit(func(next *Config) { next.Namespaces[i].Schema = schema })
}

// AddEncapsulation adds a rule behind the others.
func (c *Config) AddEncapsulation(e Encapsulation) (*Config, error) {
	if e.Frequency == (ioam.Frequency{}) {
		e.Frequency = ioam.Frequency{K: 1, N: 1}
	}
	return c.edit(func(next *Config) { next.Encapsulations = append(next.Encapsulations, e) })
}

// RemoveEncapsulation removes the rule of that name.
func (c *Config) RemoveEncapsulation(name string) (*Config, error) {
	i := slices.IndexFunc(c.Encapsulations, func(e Encapsulation) bool { return e.Name == name })
	if i < 0 {
		return nil, refuse("encapsulations", fmt.Sprintf("there is no encapsulation %q", name), "list them with: waymark route show")
	}
	return c.edit(func(next *Config) { next.Encapsulations = slices.Delete(next.Encapsulations, i, i+1) })
}

func (c *Config) namespace(id ioam.NamespaceID) int {
	return slices.IndexFunc(c.Namespaces, func(ns Namespace) bool { return ns.ID == id })
}

func noNamespace(id ioam.NamespaceID) error {
	return refuse("namespaces", fmt.Sprintf("there is no namespace %d", id), "list them with: waymark ioam namespace show")
}

func refuse(path, problem, cure string) error {
	return Faults{{Path: path, Problem: problem, Cure: cure}}
}
