// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/internal/sink/jsonl"
	"github.com/waymark-net/waymark/internal/sink/otlpsink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Sink is one sink of records: the settings of its kind.
type Sink struct {
	Kind    SinkKind           `key:"kind" required:"true"`
	Records []RecordKind       `key:"records" optional:"true"`
	JSONL   jsonl.Settings     `of:"jsonl"`
	IPFIX   ipfixsink.Settings `of:"ipfix"`
	OTLP    otlpsink.Settings  `of:"otlp"`
}

// sinkTexts say what the keys of export mean that sinks of all kinds have.
var sinkTexts = yamlfile.KeyTexts{
	"kind": "jsonl writes one JSON object per line. ipfix sends IPFIX (RFC 7011) to a collector. otlp sends paths as " +
		"traces, events as logs and metrics to OpenTelemetry.",
	"records": "Only records of these kinds. Others count nowhere in this sink. Without postcard, a collector cannot know of a path " +
		"whether its packet was lost.",
	"records, absent": "all",
}

// RecordKind is a kind of records that an agent makes, by its name in JSON.
type RecordKind string

// recordKinds are all of them: those that a sink of JSON lines writes.
func recordKinds() (kinds []RecordKind) {
	for _, name := range record.MadeBy("jsonl") {
		kinds = append(kinds, RecordKind(name))
	}
	return kinds
}

// SinkKind is a kind of sinks.
type SinkKind string

// The kinds of sinks.
const (
	SinkJSONL SinkKind = "jsonl"
	SinkIPFIX SinkKind = "ipfix"
	SinkOTLP  SinkKind = "otlp"
)

// kindsOfSinks are all of them, in the order of the reference.
var kindsOfSinks = []SinkKind{SinkJSONL, SinkIPFIX, SinkOTLP}

// sinkKinds has all kinds: the rest of the configuration and the agent need only an
// entry here for a new one.
var sinkKinds = map[SinkKind]func(*Sink) sink.Kind{
	SinkJSONL: func(e *Sink) sink.Kind { return &e.JSONL },
	SinkIPFIX: func(e *Sink) sink.Kind { return &e.IPFIX },
	SinkOTLP:  func(e *Sink) sink.Kind { return &e.OTLP },
}

// settings are those of the sink's kind. If the kind could not be read, which is
// reported elsewhere, they are settings that are always valid.
func (e *Sink) settings() sink.Kind {
	if of, ok := sinkKinds[e.Kind]; ok {
		return of(e)
	}
	return &jsonl.Settings{}
}

// Open makes the sink for the node with that id. Nothing is written before it runs.
func (e *Sink) Open(node ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	opened, err := e.settings().Open(node, env)
	if err != nil || len(e.Records) == 0 {
		return opened, err
	}
	kinds := make([]string, len(e.Records))
	for i, kind := range e.Records {
		kinds[i] = string(kind)
	}
	return sink.Only(opened, kinds...), nil
}

// Same reports whether the running sink e, made for node, is the one wanted for
// wantedNode.
func (e *Sink) Same(wanted *Sink, node, wantedNode ioam.NodeID) bool {
	return reflect.DeepEqual(e, wanted) && (node == wantedNode || !e.settings().DependsOnNode())
}

// Remote is where records are sent over the network; nil: nowhere.
func (e *Sink) Remote() *sink.Remote { return e.settings().Remote() }

func (e *Sink) setDefaults(node *ioam.NodeID) { e.settings().SetDefaults(node) }

// sinkRules adds the errors in the sinks.
func (c *Config) sinkRules(add func(path, problem, cure string)) {
	places := map[string]int{}
	for i := range c.Sinks {
		e := &c.Sinks[i]
		path := fmt.Sprintf("export[%d]", i)
		e.foreignKeys(path, add)
		if e.Records != nil && len(e.Records) == 0 {
			add(path+".records", "no record is of no kind", "list kinds, or remove it for all")
		}
		s := e.settings()
		s.Check(path, add)
		text, key := s.Place()
		place := string(e.Kind) + text
		if j, twice := places[place]; twice {
			add(path+"."+key, fmt.Sprintf("export[%d] also writes to %s", j, text), "remove one, or give it another "+key)
		}
		places[place] = i
	}
}

// foreignKeys refuses keys of other kinds.
func (e *Sink) foreignKeys(path string, add func(path, problem, cure string)) {
	v := reflect.ValueOf(e).Elem()
	for _, f := range yamlfile.Fields(v.Type()) {
		if f.Of != "" && f.Of != string(e.Kind) && !v.FieldByIndex(f.Index).IsZero() {
			add(path+"."+f.Key, string(e.Kind)+" does not have this key", "remove it, or set kind: "+f.Of)
		}
	}
}

// files lists the errors in the files that sinks read.
func (d *decoder) files(c *Config) (unusable []unusableFile) {
	for i := range c.Sinks {
		for _, f := range c.Sinks[i].settings().Files() {
			path := fmt.Sprintf("export[%d].%s", i, f.Key)
			if d.followsFrom(path) {
				continue
			}
			unusable = append(unusable, unusableFile{c.source.Fault(path, path+": "+f.Problem, f.Cure), f.Unread})
		}
	}
	return unusable
}

// unusableFile is an error in a file that the configuration names.
type unusableFile struct {
	fault  *Fault
	unread error // why it cannot be read; nil: it can
}

// mayBeUsable reports whether an agent may use the file nevertheless: one that runs as root,
// or on another machine.
func (f *unusableFile) mayBeUsable(elsewhere bool) bool {
	return errors.Is(f.unread, fs.ErrPermission) && os.Geteuid() != 0 || elsewhere && errors.Is(f.unread, fs.ErrNotExist)
}
