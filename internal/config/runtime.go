// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

// The values of an edited copy are in no file: an error names the entry instead of a
// path, and suggests a command where one helps.

// codeFlowIDUnused is the code of a Flow-ID that neither the option nor its numbers have.
const codeFlowIDUnused problem.Code = "flow_id_unused"

// commands are the cures of errors at run time that differ from those for a file.
var commands = map[problem.Code]string{
	model.CodeEncapsulations: "remove one with: waymark route del name NAME",
	model.CodeNamespaces:     "remove one with: waymark ioam namespace del ID",
	model.CodeDecapsulations: "remove one with: waymark decapsulation del ADDR",
	model.CodeNoEgressRole: "give it that role with: waymark interface set IF role ROLES; " +
		"or remove the encapsulation with: waymark route del name NAME",
	model.CodeInterfaceUnserved: "give it the role egress under interfaces in the configuration file, then: waymark agent reload",
	model.CodeDestinationOverlap: fmt.Sprintf(
		"remove one of them with: waymark route del name NAME; %d may overlap on one interface",
		model.MaxEncapsulationOverlap,
	),
	codeFlowIDUnused: "add ext-flags 0x80, or remove flow-id",
}

// flowIndex is how the text of an error refers to another flow.
var flowIndex = regexp.MustCompile(`flows\[(\d+)\]`)

// atRuntime rewords errors of c for the author of a runtime change.
func (c *Config) atRuntime(faults Faults) Faults {
	for _, f := range faults {
		f.Problem = strings.TrimPrefix(f.Problem, f.Path+": ")
		f.Cure = cmp.Or(commands[f.Code], f.Cure)
		f.Problem = flowIndex.ReplaceAllStringFunc(f.Problem, func(s string) string {
			return c.entryName("flows", flowIndex.FindStringSubmatch(s)[1])
		})
		list, index, key := splitPath(f.Path)
		switch list {
		case "flows":
			// A flow has many keys, and most are words of "flow add" under another or the same name: an
			// error names the key, too.
			if key != "" {
				f.Problem = c.entryName(list, index) + ": " + key + ": " + f.Problem
			}
		case "interfaces", "namespaces", "encapsulations", "decapsulations":
			f.Problem = strings.TrimPrefix(f.Problem, list+"["+index+"] ")
			f.Problem = c.entryName(list, index) + ": " + f.Problem
		}
	}
	return faults
}

// splitPath are the list, the index and the key within the entry of a path such as flows[1].points[0];
// all are "" for a path of no entry.
func splitPath(path string) (list, index, key string) {
	list, rest, ok := strings.Cut(path, "[")
	if !ok || strings.Contains(list, ".") {
		return "", "", ""
	}
	index, key, _ = strings.Cut(rest, "]")
	return list, index, strings.TrimPrefix(key, ".")
}

// entryName is how messages name the entry of a list.
func (c *Config) entryName(list, index string) string {
	i, err := strconv.Atoi(index)
	switch {
	case err == nil && list == "encapsulations" && i < len(c.Encapsulations):
		return fmt.Sprintf("encapsulation %q", c.Encapsulations[i].Name)
	case err == nil && list == "interfaces" && i < len(c.Interfaces):
		return fmt.Sprintf("interface %s", c.Interfaces[i].Name)
	case err == nil && list == "decapsulations" && i < len(c.Decapsulations):
		return fmt.Sprintf("decapsulation %s", c.Decapsulations[i].TunnelDestination)
	case err == nil && list == "flows" && i < len(c.Flows):
		return fmt.Sprintf("flow %q", c.Flows[i].Name)
	case err == nil && list == "namespaces" && i < len(c.Namespaces):
		return fmt.Sprintf("namespace %d", c.Namespaces[i].ID)
	}
	return list + "[" + index + "]"
}

// needed refuses to remove a namespace without which encapsulations are not possible: their options need
// its key or its settings.
func (c *Config) needed(id ioam.NamespaceID) error {
	var users []string
	for _, e := range c.Encapsulations {
		for _, o := range e.Options {
			plain := o.DirectExport != nil || o.Trace != nil && !o.Trace.Incremental
			if used, ok := o.namespace(); ok && used == id && !plain {
				users = append(users, strconv.Quote(e.Name))
				break
			}
		}
	}
	switch len(users) {
	case 0:
		return nil
	case 1:
		return refuse("namespaces", fmt.Sprintf("namespace %d is needed by encapsulation %s", id, users[0]),
			"first remove that with: waymark route del name "+users[0])
	}
	return refuse("namespaces", fmt.Sprintf("namespace %d is needed by the encapsulations %s", id, strings.Join(users, ", ")),
		"first remove each with: waymark route del name NAME")
}

func noNamespace(id ioam.NamespaceID, cure string) error {
	return refuse("namespaces", fmt.Sprintf("there is no namespace %d", id), cure)
}

func refuse(path, text, cure string) error {
	return Faults{{Path: path, Problem: text, Cure: cure}}
}

// Users are the encapsulations that insert options of a namespace.
func (c *Config) Users(id ioam.NamespaceID) (names []string) {
	for _, e := range c.Encapsulations {
		if e.Uses(id) {
			names = append(names, e.Name)
		}
	}
	return names
}

// Uses reports whether an encapsulation inserts options of a namespace.
func (e Encapsulation) Uses(id ioam.NamespaceID) bool {
	return slices.ContainsFunc(e.Options, func(o Option) bool {
		used, ok := o.namespace()
		return ok && used == id
	})
}
