// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/internal/yamlfile"
)

// MaxFileSize bounds a file in bytes: 65,536 measured flows with 16 segments each need 25 MB.
const MaxFileSize = yamlfile.MaxFileSize

// Read returns the text of the file at path, or as much as [Parse] needs to refuse it.
func Read(path string) ([]byte, error) { return yamlfile.Read(path) }

// Fault is one error in a configuration and how to fix it.
type Fault = yamlfile.Fault

// Faults are all the errors in a configuration, in the file's order.
type Faults = yamlfile.Faults

// decoder reads a configuration, and knows what its errors cause.
type decoder struct{ *yamlfile.Reader }

// Parse reads a configuration; name stands for the file in errors. The error is Faults:
// all errors, in the file's order.
func Parse(name string, data []byte) (*Config, error) { return parse(name, data, nil) }

// ParseFor is Parse for a given host. It also reports interfaces that a strict file
// names and the host lacks, errors in files for TLS and of keys and, when the file itself is valid,
// what does not suit the host.
//
// The result does not know where in the file its values are: of many flows, that is more than
// their configuration, and the host has been asked.
func ParseFor(h Host, name string, data []byte) (*Config, error) {
	c, err := parse(name, data, func(d *decoder, c *Config) {
		if d.Sound() {
			d.unsuited(c, h)
		} else {
			d.missing(c, h)
		}
		for _, f := range slices.Concat(d.files(c), d.messageKeys(c), d.namesFiles(c)) {
			d.Add(f.fault)
		}
	})
	if err == nil {
		c.source = yamlfile.NewSource(name)
	}
	return c, err
}

// Check is Parse that also checks the files for TLS and of keys, as an agent does that starts.
// Those that this user may not read are reported separately, because the agent may; with
// elsewhere, the configuration is for another machine, and so are those that are not here. So are
// keys that have the name that they had before.
func Check(name string, data []byte, elsewhere bool) (c *Config, unread Faults, err error) {
	c, err = parse(name, data, func(d *decoder, c *Config) {
		for _, f := range slices.Concat(d.files(c), d.keyFiles(c), d.messageKeys(c), d.namesFiles(c)) {
			if f.mayBeUsable(elsewhere) {
				unread = append(unread, f.fault)
			} else {
				d.Add(f.fault)
			}
		}
	})
	if err == nil {
		unread = append(unread, c.Renamed()...)
	}
	return c, unread, err
}

// parse reads a configuration; look, unless nil, checks it against its surroundings.
func parse(name string, data []byte, look func(*decoder, *Config)) (*Config, error) {
	c, _, err := read(name, data, look)
	return c, err
}

// read is parse that also returns the reader, which knows how the file is written.
func read(name string, data []byte, look func(*decoder, *Config)) (*Config, *yamlfile.Reader, error) {
	d := &decoder{nodeFile.NewReader(name)}
	c := &Config{}
	switch node, ok := d.Document(data, c); {
	case !ok:
	case isTopology(node):
		d.Fault(node.Position(), "", "this is a lab topology, not an agent's configuration",
			fmt.Sprintf("start it with 'waymark lab up %s', which checks it, its agents' configurations included", name))
	default:
		d.Decode(node, c)
		c.source, c.renamed = d.Source(), d.Renamed()
		if d.Full() {
			break
		}
		d.semantics(c)
		if look != nil {
			look(d, c)
		}
	}
	if err := d.Err(); err != nil {
		return nil, nil, err
	}
	for i := range c.Sinks {
		c.Sinks[i].setDefaults(c.Node.ID)
	}
	return c, d.Reader, nil
}

// isTopology reports whether a file has a list of nodes, as topologies of labs do.
func isTopology(node yamlfile.Node) bool {
	pairs, _ := node.Pairs()
	return slices.ContainsFunc(pairs, func(p yamlfile.Pair) bool { return p.Value.IsList() && p.Key.Text() == "nodes" })
}

// decodeFragment reads one value of a configuration, such as a namespace that
// came through the API.
func decodeFragment(data []byte, v any) error { return nodeFile.Fragment(data, v) }

func marshalJSON(v any) ([]byte, error) { return nodeFile.JSON(v) }
