// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"
)

// A table may have rates, memory and times; the aim of a rate is the least, that of others the most.
func TestTableOfAllFigures(t *testing.T) {
	rate, octets, ns := 19_000.0, 45.0, 2_000.0
	all := []Point{
		NewPoint(Dimensions{Treatment: "kept"}, 1),
		NewPoint(Dimensions{Treatment: "disk"}, 1),
		NewPoint(Dimensions{Treatment: "time"}, 1),
	}
	all[0].PPS, all[0].Ratio, all[0].Aim, all[0].Reference = &rate, 0.95, 1, 20_000
	all[1].Bytes, all[1].Ratio, all[1].Aim = &octets, 1, 50
	all[2].NS, all[2].Ratio, all[2].Aim = &ns, 1, 1_000
	var out bytes.Buffer
	if err := (Result{Points: all}).WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"19000 a second", "≥ 100%, missed", "45 bytes", "≤ 50 bytes, met", "2000 ns", "≤ 1000 ns, missed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
