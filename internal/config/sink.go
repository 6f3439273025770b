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
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Sink is one sink of records: the settings of its kind.
type Sink struct {
	Kind    SinkKind     `key:"kind" required:"true" doc:"jsonl writes one JSON object per line. ipfix sends IPFIX (RFC 7011) to a collector."`
	Records []RecordKind `key:"records" absent:"all" doc:"Only records of these kinds: trace, postcard, flow, loss, delay, block, edge-flow. Others count nowhere in this sink. Without postcard, a collector cannot know of a path whether its packet was lost."`
	JSONL   JSONL        `of:"jsonl"`
	IPFIX   IPFIX        `of:"ipfix"`
}

// RecordKind is a kind of records that an agent makes, by its name in JSON.
type RecordKind string

// recordKinds are all of them.
var recordKinds = []RecordKind{record.KindTrace, record.KindPostcard, record.KindFlow, record.KindLoss, record.KindDelay, record.KindBlock, record.KindEdgeFlow}

// SinkKind is a kind of sinks: jsonl or ipfix.
type SinkKind string

// The kinds of sinks.
const (
	SinkJSONL SinkKind = "jsonl"
	SinkIPFIX SinkKind = "ipfix"
)

// kindsOfSinks are all of them, in the order of the reference.
var kindsOfSinks = []SinkKind{SinkJSONL, SinkIPFIX}

// sinkSettings are the settings of one kind of sink.
type sinkSettings interface {
	// setDefaults fills in the defaults that are known without a host: node is nil when
	// it may be the kernel's id.
	setDefaults(node *ioam.NodeID)
	// place is where the sink writes, and the key that sets it; no two sinks may write
	// to the same place.
	place() (text, key string)
	// rules adds the errors in the settings.
	rules(path string, add func(path, problem, cure string))
	// files lists the errors in the files that the sink reads.
	files() []fileFault
	// remote is the host that the sink sends to, and whether in clear text.
	remote() (to CollectorAddress, clear, ok bool)
	// open makes the sink for the node with that id.
	open(node ioam.NodeID, env sink.Environment) (sink.Sink, error)
	// depends reports whether the sink depends on the node's id.
	depends() bool
}

// fileFault is an error in a file that a key names.
type fileFault struct {
	key           string
	unread        error // why it cannot be read; nil: it can
	problem, cure string
}

// sinkKinds has all kinds: the rest of the configuration and the agent need only an
// entry here for a new one.
var sinkKinds = map[SinkKind]func(*Sink) sinkSettings{
	SinkJSONL: func(e *Sink) sinkSettings { return &e.JSONL },
	SinkIPFIX: func(e *Sink) sinkSettings { return &e.IPFIX },
}

// settings are those of the sink's kind. If the kind could not be read, which is
// reported elsewhere, they are settings that are always valid.
func (e *Sink) settings() sinkSettings {
	if of, ok := sinkKinds[e.Kind]; ok {
		return of(e)
	}
	return &JSONL{}
}

// Open makes the sink for the node with that id. Nothing is written before it runs.
func (e *Sink) Open(node ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	opened, err := e.settings().open(node, env)
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
	return reflect.DeepEqual(e, wanted) && (node == wantedNode || !e.settings().depends())
}

// Remote is the host that records are sent to over the network, and whether in clear
// text.
func (e *Sink) Remote() (to CollectorAddress, clear, ok bool) { return e.settings().remote() }

func (e *Sink) setDefaults(node *ioam.NodeID) { e.settings().setDefaults(node) }

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
		s.rules(path, add)
		text, key := s.place()
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
		for _, f := range c.Sinks[i].settings().files() {
			path := fmt.Sprintf("export[%d].%s", i, f.key)
			if d.followsFrom(path) {
				continue
			}
			unusable = append(unusable, unusableFile{c.source.Fault(path, path+": "+f.problem, f.cure), f.unread})
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
