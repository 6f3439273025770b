// SPDX-License-Identifier: Apache-2.0

// Package names lists what programs and people call by name, from the generated reference and from the types of the
// API: what a later version must still have.
package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Kinds are those of Read.
var Kinds = []string{"metrics", "warnings", "outcomes", "commands", "exit-codes", "settings", "api", "collector-settings", "collector-api"}

// Read lists the names of a kind from the directory of the reference (docs/reference), sorted and each once:
//
//	metrics             NAME, and NAME{LABEL} for each of its labels
//	warnings, outcomes  CODE
//	commands            COMMAND, and COMMAND --FLAG for each of its flags
//	exit-codes          COMMAND: NUMBER MEANING
//	settings            KEY of a node's configuration, within its section: node.name
//	api                 METHOD.KEY TYPE, for the answers to each method of the client of the agent's API
//	collector-settings  KEY, within its section: store.age
//	collector-api       METHOD PATH, the same with each parameter, and the properties of schemas
func Read(directory, kind string) ([]string, error) {
	read := func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(directory, name))
		return string(text), err
	}
	var list []string
	var err error
	switch kind {
	case "metrics":
		list, err = from(read, metrics, "metrics.md")
	case "warnings":
		list, err = from(read, codes, "warnings.md")
	case "outcomes":
		list, err = from(read, codes, "outcomes.md")
	case "commands":
		list, err = from(read, commands, "cli.md", "waymark-collector.md")
	case "exit-codes":
		list, err = from(read, exitCodes, "cli.md", "waymark-collector.md")
	case "settings":
		list, err = from(read, settings, "configuration.md")
	case "api":
		list, err = answers()
	case "collector-settings":
		list, err = from(read, settings, "collector-configuration.md")
	case "collector-api":
		list, err = from(read, openAPI, "collector-api.json")
	default:
		err = errors.New("there is no such kind of names: " + kind)
	}
	slices.Sort(list)
	return slices.Compact(list), err
}

func from(read func(string) (string, error), find func(string) ([]string, error), files ...string) (list []string, err error) {
	for _, name := range files {
		text, err := read(name)
		if err != nil {
			return nil, err
		}
		found, err := find(text)
		if err == nil && len(found) == 0 {
			err = errors.New("it has no names; its layout may have changed")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, found...)
	}
	return list, nil
}

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `(waymark_[a-z0-9_]+)` \\| ([^|]*) \\|")
	word       = regexp.MustCompile("`([^`]+)`")
	codeRow    = regexp.MustCompile("(?m)^\\| (?:[0-9]+ \\| )?\\[?`([a-z0-9_]+)`")
	flagLine   = regexp.MustCompile(`^(?:  -[a-zA-Z], | {6})--([a-z0-9-]+)`) // deeper, a description goes on
	settingRow = regexp.MustCompile("^\\| `([a-z0-9-]+)` \\|")
)

func metrics(text string) (list []string, _ error) {
	for _, row := range metricRow.FindAllStringSubmatch(text, -1) {
		list = append(list, row[1])
		for _, label := range word.FindAllStringSubmatch(row[2], -1) {
			list = append(list, row[1]+"{"+label[1]+"}")
		}
	}
	return list, nil
}

func codes(text string) (list []string, _ error) {
	for _, row := range codeRow.FindAllStringSubmatch(text, -1) {
		list = append(list, row[1])
	}
	return list, nil
}

// commands finds the headings of commands, and the flags in the block after "Flags:". The flags of every
// command stand first, under the program's name.
func commands(text string) (list []string, _ error) {
	command, flags, begun := "", false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# Commands of "):
			command = strings.TrimPrefix(line, "# Commands of ")
			list = append(list, command)
		case line == "## Flags of every command":
			flags, begun = true, false
		case strings.HasPrefix(line, "## "):
			command, flags = strings.TrimPrefix(line, "## "), false
			list = append(list, command)
		case line == "Flags:":
			flags, begun = true, false
		case flags && line == "```":
			flags, begun = !begun, true
		case flags && begun:
			if flag := flagLine.FindStringSubmatch(line); flag != nil {
				list = append(list, command+" --"+flag[1])
			}
		}
	}
	return list, nil
}

// exitCodes finds the paragraphs "Exit codes:" of the program and of its commands. A sentence after the codes is not one.
func exitCodes(text string) (list []string, _ error) {
	command := ""
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		for _, mark := range []string{"# Commands of ", "## "} {
			if heading, ok := strings.CutPrefix(strings.TrimSpace(paragraph), mark); ok {
				command, _, _ = strings.Cut(heading, "\n")
			}
		}
		codes, ok := strings.CutPrefix(strings.TrimSpace(paragraph), "Exit codes: ")
		if !ok {
			continue
		}
		codes, _, _ = strings.Cut(strings.Join(strings.Fields(codes), " "), ". ")
		for code := range strings.SplitSeq(strings.TrimSuffix(codes, "."), "; ") {
			list = append(list, command+": "+code)
		}
	}
	return list, nil
}

// settings finds keys in the tables below the headings of their sections: "Top level", or the section's path.
func settings(text string) (list []string, _ error) {
	section := ""
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = ""
			if name := word.FindStringSubmatch(heading); name != nil {
				section = name[1] + "."
			}
		} else if key := settingRow.FindStringSubmatch(line); key != nil {
			list = append(list, section+key[1])
		}
	}
	return list, nil
}

// openAPI lists what a document of OpenAPI offers.
func openAPI(text string) (list []string, _ error) {
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name string `json:"name"`
			} `json:"parameters"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]object `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		return nil, err
	}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			name := strings.ToUpper(method) + " " + path
			list = append(list, name)
			for _, parameter := range operation.Parameters {
				list = append(list, name+" "+parameter.Name)
			}
		}
	}
	for name, schema := range document.Components.Schemas {
		for property := range maps.Keys(schema.Properties) {
			list = append(list, "schema "+name+"."+property)
		}
	}
	return list, nil
}
