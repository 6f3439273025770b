// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"
)

// A warning keeps the time of its first look while its numbers change, and gets a new one when it
// has ended and comes again.
func TestOnsets(t *testing.T) {
	begin := time.Date(2026, 11, 27, 12, 3, 0, 0, time.UTC)
	var o Onsets
	look := func(minute int, ws ...Warning) []int {
		o.Look(ws, begin.Add(time.Duration(minute)*time.Minute))
		var minutes []int
		for _, w := range ws {
			minutes = append(minutes, int(w.Since.Sub(begin)/time.Minute))
		}
		return minutes
	}
	lost := func(text string) Warning { return New(RecordsLost, "", text, "read them") }
	missing := func(name string) Warning { return New(InterfaceMissing, name, "it is missing", "make it") }
	for i, tt := range []struct {
		ws   []Warning
		want []int
	}{
		{[]Warning{lost("3 records")}, []int{0}},
		{[]Warning{lost("4 records"), missing("eth1")}, []int{0, 1}},
		{[]Warning{missing("eth0"), missing("eth1"), lost("4 records")}, []int{2, 1, 0}},
		{[]Warning{missing("eth1")}, []int{1}},
		{[]Warning{lost("4 records"), missing("eth1")}, []int{4, 1}},
		// A second one in front of the first does not take its time.
		{[]Warning{lost("of another"), lost("4 records")}, []int{5, 4}},
		{[]Warning{lost("of another"), lost("5 records")}, []int{5, 4}},
		{nil, nil},
		{[]Warning{missing("eth1")}, []int{8}},
	} {
		got := look(i, tt.ws...)
		if len(got) != len(tt.want) {
			t.Fatal(got)
		}
		for k, minute := range got {
			if minute != tt.want[k] {
				t.Errorf("look %d, warning %d: since minute %d, want %d", i, k, minute, tt.want[k])
			}
		}
	}
}
