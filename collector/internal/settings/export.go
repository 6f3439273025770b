// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/jsonl"
	"github.com/waymark-net/waymark/internal/sink/otlpsink"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// Metrics is what /metrics has of joined paths.
type Metrics struct {
	Series Count `key:"series" default:"100"`
}

// metricsTexts say what the keys of metrics mean.
var metricsTexts = yamlfile.KeyTexts{
	"series": "How many paths, and how many segments, have series of their own: the busiest. All others are added up as " +
		"other.",
}

// Export is something else that gets what the store gets: the settings of its kind.
type Export struct {
	Kind    ExportKind        `key:"kind" required:"true"`
	Records []ExportRecord    `key:"records" optional:"true"`
	JSONL   jsonl.Settings    `of:"jsonl"`
	OTLP    otlpsink.Settings `of:"otlp"`
}

// exportTexts say what the keys of export mean that exports of all kinds have.
var exportTexts = yamlfile.KeyTexts{
	"kind": "otlp sends joined paths as traces, events as logs, and metrics to OpenTelemetry. jsonl writes one JSON " +
		"object per line.",
	"records": "Only records of these kinds: path, trace, postcard, flow, edge-flow, loss, delay, block, event, " +
		"warning. Of blocks, which are compared here, there is one of each node in ten seconds.",
	"records, absent": "all",
}

// Words of an export.
type (
	ExportKind   string
	ExportRecord string
)

var exportKinds = map[ExportKind]func(*Export) sink.Kind{
	"otlp":  func(e *Export) sink.Kind { return &e.OTLP },
	"jsonl": func(e *Export) sink.Kind { return &e.JSONL },
}

// exportRecords are the kinds of records that a collector gives out.
var exportRecords = []ExportRecord{
	record.KindPath,
	record.KindTrace,
	record.KindPostcard,
	record.KindFlow,
	record.KindEdgeFlow,
	record.KindLoss,
	record.KindDelay,
	record.KindBlock,
	record.KindEvent,
	record.KindWarning,
}

// exportScalars read and write the types of exports.
var exportScalars = otlpsink.Scalars.With(yamlfile.Scalars{
	reflect.TypeFor[ExportKind]():      yamlfile.Words(yamlfile.NamedWords([]ExportKind{"otlp", "jsonl"})...),
	reflect.TypeFor[ExportRecord]():    yamlfile.Words(yamlfile.NamedWords(exportRecords)...),
	reflect.TypeFor[yamlfile.Period](): yamlfile.Periods,
})

// settings are those of the export's kind.
func (e *Export) settings() sink.Kind {
	if of, ok := exportKinds[e.Kind]; ok {
		return of(e)
	}
	return &jsonl.Settings{} // the kind could not be read, which is reported elsewhere
}

// Open makes the sink. Nothing is written before it runs.
func (e *Export) Open(env sink.Environment) (sink.Sink, error) {
	s := e.settings()
	s.SetDefaults(nil)
	opened, err := s.Open(0, env)
	if err != nil {
		return nil, err
	}
	if len(e.Records) == 0 {
		return sink.Except(opened, record.KindStatistics), nil
	}
	var kinds []string
	for _, kind := range e.Records {
		kinds = append(kinds, string(kind))
	}
	return sink.Only(opened, kinds...), nil
}

// checkExports adds the errors of exports.
func (s *Settings) checkExports(add func(path, problem, cure string)) {
	var places []string
	for i := range s.Export {
		e := &s.Export[i]
		path := fmt.Sprintf("export[%d]", i)
		v := reflect.ValueOf(e).Elem()
		for _, f := range yamlfile.Fields(v.Type()) {
			if f.Of != "" && f.Of != string(e.Kind) && !v.FieldByIndex(f.Index).IsZero() {
				add(path+"."+f.Key, string(e.Kind)+" does not have this key", "remove it, or set kind: "+f.Of)
			}
		}
		if e.Records != nil && len(e.Records) == 0 {
			add(path+".records", "no record is of no kind", "list kinds, or remove it for all")
		}
		of := e.settings()
		of.Check(path, add)
		for _, f := range of.Files() {
			add(path+"."+f.Key, f.Problem, f.Cure)
		}
		text, key := of.Place()
		if place := string(e.Kind) + text; slices.Contains(places, place) {
			add(path+"."+key, "another export also writes to "+text, "remove one, or give it another "+key)
		} else {
			places = append(places, place)
		}
	}
}
