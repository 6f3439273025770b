// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"

	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// Export is one sink of records: the settings of its kind.
type Export struct {
	Kind  ExportKind `key:"kind" required:"true" doc:"jsonl writes one JSON object per line. ipfix sends IPFIX (RFC 7011) to a collector."`
	JSONL JSONL      `of:"jsonl"`
	IPFIX IPFIX      `of:"ipfix"`
}

// ExportKind is a kind of sinks: jsonl or ipfix.
type ExportKind string

// The kinds of sinks.
const (
	ExportJSONL ExportKind = "jsonl"
	ExportIPFIX ExportKind = "ipfix"
)

// exportKinds are all of them, in the order of the reference.
var exportKinds = []ExportKind{ExportJSONL, ExportIPFIX}

// sinkSettings are what a kind of sinks has of its own.
type sinkSettings interface {
	// setDefaults writes out what the file leaves to the program, as far as one is
	// known without a host: node is nil when it may be the kernel's id.
	setDefaults(node *ioam.NodeID)
	// place is where it writes to, and the key that says so; no two may write to
	// one place.
	place() (text, key string)
	// rules lists what is wrong with the keys together.
	rules(path string, add func(path, problem, cure string))
	// files lists what is wrong with files that it reads.
	files() []fileFault
	// remote is the host that it sends to, and whether it does so in clear text.
	remote() (to CollectorAddress, clear, ok bool)
	// open makes the sink, at a node of that id.
	open(node ioam.NodeID, env sink.Environment) (sink.Sink, error)
	// depends reports whether the sink is another one at another node.
	depends() bool
}

// fileFault is what is wrong with a file that a key names.
type fileFault struct {
	key           string
	unread        bool // it cannot be read on this machine
	problem, cure string
}

// sinkKinds are all kinds: an entry is all that the rest of the configuration and
// the agent need of a new one.
var sinkKinds = map[ExportKind]func(*Export) sinkSettings{
	ExportJSONL: func(e *Export) sinkSettings { return &e.JSONL },
	ExportIPFIX: func(e *Export) sinkSettings { return &e.IPFIX },
}

// settings are those of its kind. Where the kind could not be read, which is an
// error of its own, they are the ones of which nothing can be wrong.
func (e *Export) settings() sinkSettings {
	if of, ok := sinkKinds[e.Kind]; ok {
		return of(e)
	}
	return &JSONL{}
}

// Open makes the sink, at a node of that id. Nothing is written before it runs.
func (e *Export) Open(node ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	return e.settings().open(node, env)
}

// Same reports whether a sink that runs is the one that is wanted. The nodes are
// those of both.
func (e *Export) Same(wanted *Export, node, wantedNode ioam.NodeID) bool {
	return reflect.DeepEqual(e, wanted) && (node == wantedNode || !e.settings().depends())
}

// Remote is the host that records go to over the network, and whether they do so in
// clear text.
func (e *Export) Remote() (to CollectorAddress, clear, ok bool) { return e.settings().remote() }

// setDefaults writes out what the file leaves to the program.
func (e *Export) setDefaults(node *ioam.NodeID) { e.settings().setDefaults(node) }

// exportRules lists what is wrong with the sinks.
func (c *Config) exportRules(add func(path, problem, cure string)) {
	places := map[string]int{}
	for i := range c.Export {
		e := &c.Export[i]
		path := fmt.Sprintf("export[%d]", i)
		e.foreignKeys(path, add)
		s := e.settings()
		s.rules(path, add)
		text, key := s.place()
		place := string(e.Kind) + text
		if j, twice := places[place]; twice {
			add(path+"."+key, fmt.Sprintf("export[%d] writes to %s too", j, text), "remove one, or give it another "+key)
		}
		places[place] = i
	}
}

// foreignKeys lists the keys of other kinds.
func (e *Export) foreignKeys(path string, add func(path, problem, cure string)) {
	v := reflect.ValueOf(e).Elem()
	for _, f := range fields(v.Type()) {
		if f.of != "" && f.of != string(e.Kind) && !v.FieldByIndex(f.index).IsZero() {
			add(path+"."+f.key, string(e.Kind)+" does not know it", "leave it out, or set kind: "+f.of)
		}
	}
}

// files lists what is wrong with the files that sinks read, apart those that
// cannot be read on this machine.
func (d *decoder) files(c *Config) (wrong, unread Faults) {
	for i := range c.Export {
		for _, f := range c.Export[i].settings().files() {
			path := fmt.Sprintf("export[%d].%s", i, f.key)
			if d.followsFrom(path) {
				continue
			}
			fault := c.source.fault(path, path+": "+f.problem, f.cure)
			if f.unread {
				unread = append(unread, fault)
			} else {
				wrong = append(wrong, fault)
			}
		}
	}
	return wrong, unread
}
