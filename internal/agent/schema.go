// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

// The file has a schema inside each namespace that uses it; iproute2's grammar
// has schemas on their own, bound to a namespace later. Here, the schemas are
// those that the API added and those that namespaces of the file use.

// schemaList is every schema, by id, with the namespaces that use it.
func schemaList(s *service.State) []api.Schema {
	byID := map[ioam.SchemaID]*api.Schema{}
	for id, data := range s.Schemas {
		byID[id] = &api.Schema{ID: id, Data: data}
	}
	for _, ns := range s.Config.Namespaces {
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

func findSchema(s *service.State, id ioam.SchemaID) (api.Schema, error) {
	for _, schema := range schemaList(s) {
		if schema.ID == id {
			return schema, nil
		}
	}
	return api.Schema{}, service.Refused(problem.New(
		fmt.Sprintf("there is no schema %d", id),
		fmt.Sprintf("list them with: waymark ioam schema show, add it with: waymark ioam schema add %d DATA", id),
	))
}

// Bounds of a schema added by the API, which no namespace uses yet.
const (
	maxSchemas    = model.MaxNamespaces
	maxSchemaData = model.MaxTraceDataSize - 4 // the most that a trace option can carry
)

func (a *Agent) addSchema(schema api.Schema) error {
	switch n := len(schema.Data); {
	case schema.ID >= ioam.SchemaIDNone:
		return service.Refused(fmt.Errorf("schema id %#x: want a number from 0 to 0xfffffe", uint32(schema.ID)))
	case n == 0 || n > maxSchemaData:
		return service.Refused(problem.New(
			fmt.Sprintf("the data of schema %d have %d bytes", schema.ID, n),
			fmt.Sprintf("want 1 to %d", maxSchemaData),
		))
	}
	return a.edit(func(s *service.State) (*service.State, error) {
		if _, err := findSchema(s, schema.ID); err == nil {
			return nil, service.Refused(problem.New(
				fmt.Sprintf("schema %d already exists", schema.ID),
				fmt.Sprintf("remove it first with: waymark ioam schema del %d, or use another id", schema.ID),
			))
		}
		if len(s.Schemas) >= maxSchemas {
			return nil, service.Refused(problem.New(
				fmt.Sprintf("there are %d schemas, the maximum", maxSchemas),
				"remove one first with: waymark ioam schema del ID",
			))
		}
		next := s.With(s.Config)
		next.Schemas[schema.ID] = schema.Data
		return next, nil
	})
}

func (a *Agent) removeSchema(id ioam.SchemaID) error {
	return a.edit(func(s *service.State) (*service.State, error) {
		schema, err := findSchema(s, id)
		if err != nil {
			return nil, err
		}
		c := s.Config
		for _, ns := range schema.Namespaces {
			if c, err = c.SetSchema(ns, nil); err != nil {
				return nil, err
			}
		}
		next := s.With(c)
		delete(next.Schemas, id)
		return next, nil
	})
}

// bindSchema sets a namespace's schema; nil is none.
func (a *Agent) bindSchema(namespace ioam.NamespaceID, id *ioam.SchemaID) error {
	return a.edit(func(s *service.State) (*service.State, error) {
		var binding *config.Schema
		next := s.With(s.Config)
		if id != nil {
			schema, err := findSchema(s, *id)
			if err != nil {
				return nil, err
			}
			binding = &config.Schema{ID: schema.ID, Data: schema.Data}
			next.Schemas[schema.ID] = schema.Data // the schema outlives the binding
		}
		keepSchemaOf(next, namespace)
		c, err := s.Config.SetSchema(namespace, binding)
		if err != nil {
			return nil, err
		}
		next.Config = c
		return next, nil
	})
}

// keepSchemaOf keeps the schema that a namespace uses for others, as the kernel
// does, when it is unbound or the namespace goes.
func keepSchemaOf(s *service.State, namespace ioam.NamespaceID) {
	for _, ns := range s.Config.Namespaces {
		if ns.ID == namespace && ns.Schema != nil {
			s.Schemas[ns.Schema.ID] = ns.Schema.Data
		}
	}
}

func (a *Agent) removeNamespace(id ioam.NamespaceID) error {
	return a.edit(func(s *service.State) (*service.State, error) {
		c, err := s.Config.RemoveNamespace(id)
		if err != nil {
			return nil, err
		}
		next := s.With(s.Config)
		keepSchemaOf(next, id)
		next.Config = c
		return next, nil
	})
}
