// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// publication is what papers report of the experiments that are repeated here.
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
	// Figures are titles of figures that are drawn by themselves, by number.
	Figures map[string]string `json:"figures,omitempty"`
}

// published is a value of a paper beside one of our curves.
type published struct {
	Experiment string `json:"experiment"`
	// Beside is our variant.
	Beside Dimensions `json:"beside"`
	X      []float64  `json:"x"`
	// One ratio for each x, or one for all, to the paper's kernel without IOAM.
	Ratios []float64 `json:"ratios"`
	PPS    float64   `json:"pps,omitempty"`
	Series string    `json:"series,omitempty"` // as its figure has it, where that is not our name
	Paper  string    `json:"paper"`
	Figure string    `json:"figure"`         // empty: it is in the text alone
	Page   int       `json:"page,omitempty"` // where the source at hand has pages
	Read   string    `json:"read"`           // from where: the text, or a curve
}

// unpublished is a figure without values that could be taken.
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

// of are the values of an experiment.
func (p publication) of(experiment string) []published {
	var list []published
	for _, v := range p.Values {
		if v.Experiment == experiment {
			list = append(list, v)
		}
	}
	return list
}

// ratio is that at the i-th x.
func (v published) ratio(i int) float64 { return v.Ratios[min(i, len(v.Ratios)-1)] }

// label is the name in a figure.
func (v published) label() string {
	if v.Series != "" {
		return v.Series
	}
	return v.Beside.name()
}

// source names where a value is from.
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
