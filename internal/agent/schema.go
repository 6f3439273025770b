// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The file has a schema inside each namespace that uses it; iproute2's grammar
// has schemas on their own, bound to a namespace later. Here, the schemas are
// those that the API added and those that namespaces of the file use.

// schemaList is every schema, by id, with the namespaces that use it.
func (s *state) schemaList() []api.Schema {
	byID := map[ioam.SchemaID]*api.Schema{}
	for id, data := range s.schemas {
		byID[id] = &api.Schema{ID: id, Data: data}
	}
	for _, ns := range s.config.Namespaces {
		if ns.Schema == nil {
			continue
		}
		if byID[ns.Schema.ID] == nil {
			byID[ns.Schema.ID] = &api.Schema{ID: ns.Schema.ID, Data: ns.Schema.Data}
		}
		byID[ns.Schema.ID].Namespaces = append(byID[ns.Schema.ID].Namespaces, ns.ID)
	}
	list := make([]api.Schema, 0, len(byID))
	for _, schema := range byID {
		list = append(list, *schema)
	}
	slices.SortFunc(list, func(a, b api.Schema) int { return int(a.ID) - int(b.ID) })
	return list
}

func (s *state) schema(id ioam.SchemaID) (api.Schema, error) {
	for _, schema := range s.schemaList() {
		if schema.ID == id {
			return schema, nil
		}
	}
	return api.Schema{}, refusef("there is no schema %d; list them with: waymark ioam schema show, add it with: waymark ioam schema add %d DATA", id, id)
}

// refusal is an edit that does not fit the running configuration.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

func refusef(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// Bounds of a schema added by the API, which no namespace uses yet.
const (
	maxSchemas    = model.MaxNamespaces
	maxSchemaData = model.MaxTraceDataSize - 4 // the most that a trace option can carry
)

func (a *Agent) addSchema(schema api.Schema) error {
	switch n := len(schema.Data); {
	case schema.ID >= ioam.SchemaIDNone:
		return refusef("schema id %#x: want a number from 0 to 0xfffffe", uint32(schema.ID))
	case n == 0 || n > maxSchemaData:
		return refusef("the data of schema %d have %d bytes; want 1 to %d", schema.ID, n, maxSchemaData)
	}
	return a.edit(func(s *state) (*state, error) {
		if _, err := s.schema(schema.ID); err == nil {
			return nil, refusef("schema %d already exists; remove it first with: waymark ioam schema del %d, or use another id", schema.ID, schema.ID)
		}
		if len(s.schemas) >= maxSchemas {
			return nil, refusef("there are %d schemas, the maximum; remove one first with: waymark ioam schema del ID", maxSchemas)
		}
		next := s.with(s.config)
		next.schemas[schema.ID] = schema.Data
		return next, nil
	})
}

func (a *Agent) removeSchema(id ioam.SchemaID) error {
	return a.edit(func(s *state) (*state, error) {
		schema, err := s.schema(id)
		if err != nil {
			return nil, err
		}
		c := s.config
		for _, ns := range schema.Namespaces {
			if c, err = c.SetSchema(ns, nil); err != nil {
				return nil, err
			}
		}
		next := s.with(c)
		delete(next.schemas, id)
		return next, nil
	})
}

// bindSchema sets a namespace's schema; nil is none.
func (a *Agent) bindSchema(namespace ioam.NamespaceID, id *ioam.SchemaID) error {
	return a.edit(func(s *state) (*state, error) {
		var binding *config.Schema
		next := s.with(s.config)
		if id != nil {
			schema, err := s.schema(*id)
			if err != nil {
				return nil, err
			}
			binding = &config.Schema{ID: schema.ID, Data: schema.Data}
			next.schemas[schema.ID] = schema.Data // the schema outlives the binding
		}
		next.keepSchemaOf(namespace)
		c, err := s.config.SetSchema(namespace, binding)
		if err != nil {
			return nil, err
		}
		next.config = c
		return next, nil
	})
}

// keepSchemaOf keeps the schema that a namespace uses for others, as the kernel
// does, when it is unbound or the namespace goes.
func (s *state) keepSchemaOf(namespace ioam.NamespaceID) {
	for _, ns := range s.config.Namespaces {
		if ns.ID == namespace && ns.Schema != nil {
			s.schemas[ns.Schema.ID] = ns.Schema.Data
		}
	}
}

func (a *Agent) removeNamespace(id ioam.NamespaceID) error {
	return a.edit(func(s *state) (*state, error) {
		c, err := s.config.RemoveNamespace(id)
		if err != nil {
			return nil, err
		}
		next := s.with(s.config)
		next.keepSchemaOf(id)
		next.config = c
		return next, nil
	})
}
