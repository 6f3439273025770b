// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strconv"
	"strings"
)

// quantiles are the value of a summary's series.
type quantiles struct {
	count uint64
	sum   float64
	list  []struct{ quantile, value float64 }
}

// parseText reads the text format as the library of process metrics writes it: types before their
// samples, and no times. What it does not understand is left out.
func parseText(text string) (list []*family) {
	var f *family
	help := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if words, ok := strings.CutPrefix(line, "# HELP "); ok {
			_, help, _ = strings.Cut(words, " ")
			continue
		}
		if words, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kindName, _ := strings.Cut(words, " ")
			k := kind(slices.Index(kindNames[:], kindName))
			if k < 0 {
				k = untyped
			}
			f = &family{Desc: &Desc{Name: name, Help: help}, typed: &k}
			list, help = append(list, f), ""
			continue
		}
		if name, pairs, value, ok := parseSample(line); ok && f != nil {
			f.addSample(name, pairs, value)
		}
	}
	return list
}

// addSample adds a sample to the family, whose name may be followed by the part of a histogram or summary.
func (f *family) addSample(name string, pairs []pair, value float64) {
	part, ok := strings.CutPrefix(name, f.Name)
	if !ok {
		return
	}
	special := -1 // the pair that is no label of the series
	switch f.kind() {
	case histogram:
		special = slices.IndexFunc(pairs, func(p pair) bool { return p.name == "le" })
	case summary:
		special = slices.IndexFunc(pairs, func(p pair) bool { return p.name == "quantile" })
	}
	at := 0.0
	if special >= 0 {
		at, _ = strconv.ParseFloat(pairs[special].value, 64)
		pairs = slices.Delete(pairs, special, special+1)
	}
	if last := len(f.series) - 1; last < 0 || !slices.Equal(f.series[last].pairs, pairs) || part == "" && special < 0 {
		f.series = append(f.series, f.begin(pairs))
	}
	s := &f.series[len(f.series)-1]
	switch {
	case s.histogram != nil && part == "_bucket" && !isInfinite(at):
		if i := len(s.histogram.cumulative); i == len(f.Bounds) {
			f.Bounds = append(f.Bounds, at)
		}
		s.histogram.cumulative = append(s.histogram.cumulative, uint64(value))
	case s.histogram != nil && part == "_sum":
		s.histogram.sum = value
	case s.histogram != nil && part == "_count":
		s.histogram.count = uint64(value)
	case s.quantiles != nil && part == "_sum":
		s.quantiles.sum = value
	case s.quantiles != nil && part == "_count":
		s.quantiles.count = uint64(value)
	case s.quantiles != nil && part == "":
		s.quantiles.list = append(s.quantiles.list, struct{ quantile, value float64 }{at, value})
	case part == "":
		s.value = value
	}
}

// begin is a series of the family without a value.
func (f *family) begin(pairs []pair) series {
	s := series{pairs: pairs}
	switch f.kind() {
	case histogram:
		s.histogram = &prepared{}
	case summary:
		s.quantiles = &quantiles{}
	}
	return s
}

func isInfinite(v float64) bool { return v > 1e308 }

// parseSample reads one line, such as name{label="value"} 1.
func parseSample(line string) (name string, pairs []pair, value float64, ok bool) {
	end := strings.IndexAny(line, "{ ")
	if end <= 0 || line[0] == '#' {
		return "", nil, 0, false
	}
	name, rest := line[:end], line[end:]
	for rest[0] == '{' || rest[0] == ',' {
		label, after, found := strings.Cut(strings.TrimSpace(rest[1:]), "=")
		text, err := strconv.QuotedPrefix(after)
		if !found || err != nil {
			return "", nil, 0, false
		}
		v, err := strconv.Unquote(text)
		if err != nil {
			return "", nil, 0, false
		}
		pairs = append(pairs, pair{label, v})
		if rest = strings.TrimSpace(after[len(text):]); rest == "" {
			return "", nil, 0, false
		}
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(rest, "}")), 64)
	return name, pairs, value, err == nil
}
