// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// publication holds what papers report on the experiments that are repeated here.
type publication struct {
	Papers  map[string]paper `json:"papers"`
	Values  []published      `json:"values"`
	Missing []unpublished    `json:"missing"`
}

// paper is a source of values.
type paper struct {
	Title   string `json:"title"`
	Authors string `json:"authors"`
	Setup   string `json:"setup"`
	// Figures are the titles of figures that are drawn separately, by number.
	Figures map[string]string `json:"figures,omitempty"`
}

// published holds values of a paper next to one of our curves.
type published struct {
	Experiment string `json:"experiment"`
	// Beside is our variant.
	Beside Dimensions `json:"beside"`
	X      []float64  `json:"x"`
	// Ratios to the paper's kernel without IOAM: one for each x, or one for all.
	Ratios []float64 `json:"ratios"`
	PPS    float64   `json:"pps,omitempty"`
	Series string    `json:"series,omitempty"` // name in the paper's figure, if it is not ours
	Paper  string    `json:"paper"`
	Figure string    `json:"figure"`         // empty: only in the text
	Page   int       `json:"page,omitempty"` // if the source has pages
	Read   string    `json:"read"`           // read from the text, or from a curve
}

// unpublished is a figure whose values could not be read.
type unpublished struct {
	Experiment string `json:"experiment"`
	Paper      string `json:"paper"`
	Figure     string `json:"figure"`
	Page       int    `json:"page,omitempty"`
	Why        string `json:"why"`
}

//go:embed published.json
var publishedJSON []byte

// papersValues reads the embedded file, once.
var papersValues = sync.OnceValues(func() (publication, error) {
	var p publication
	if err := json.Unmarshal(publishedJSON, &p); err != nil {
		return publication{}, fmt.Errorf("bench/report/published.json: %w", err)
	}
	return p, nil
})

// of returns the values of an experiment.
func (p publication) of(experiment string) []published {
	var list []published
	for _, v := range p.Values {
		if v.Experiment == experiment {
			list = append(list, v)
		}
	}
	return list
}

// Published lists the points of ours that papers have values for.
func Published() ([]Reference, error) {
	p, err := papersValues()
	if err != nil {
		return nil, err
	}
	var list []Reference
	for _, v := range p.Values {
		for _, x := range v.X {
			list = append(list, Reference{Benchmark: v.Experiment, Variant: v.Beside, X: x})
		}
	}
	return list, nil
}

// ratio is the ratio at the i-th x.
func (v published) ratio(i int) float64 { return v.Ratios[min(i, len(v.Ratios)-1)] }

// label is the name in the figure.
func (v published) label() string {
	if v.Series != "" {
		return v.Series
	}
	return v.Beside.name()
}

// source names the source of a value.
func (v published) source() string {
	where := "text"
	if v.Figure != "" {
		where = "figure " + v.Figure
	}
	if v.Page > 0 {
		where += fmt.Sprintf(", page %d", v.Page)
	}
	return v.Paper + ", " + where
}
