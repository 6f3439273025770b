// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
)

// kept is a sink that keeps what it gets.
type kept struct {
	Sink
	kinds   []string
	reports int
}

func (k *kept) Offer(records ...record.Record) {
	for _, r := range records {
		k.kinds = append(k.kinds, r.Kind())
	}
}

func (k *kept) Report(Report) { k.reports++ }

// A sink gets only the kinds that it wants, and no report about postcards without them.
func TestOnly(t *testing.T) {
	all := []record.Record{&record.Loss{}, &record.Postcard{}, &record.Delay{}, &record.Postcard{}, &record.Trace{}}
	for _, tt := range []struct {
		kinds, want []string
		reports     int
	}{
		{[]string{"loss", "delay"}, []string{"loss", "delay"}, 0},
		{[]string{"postcard"}, []string{"postcard", "postcard"}, 1},
		{[]string{"flow"}, nil, 0},
		{[]string{"loss", "postcard", "delay", "trace"}, []string{"loss", "postcard", "delay", "postcard", "trace"}, 1},
	} {
		k := &kept{}
		s := Only(k, tt.kinds...)
		offered := slices.Clone(all)
		for _, offer := range Offers([]Sink{s}) {
			offer(offered...)
		}
		s.(Reporter).Report(Report{})
		if !slices.Equal(k.kinds, tt.want) || k.reports != tt.reports || !slices.Equal(offered, all) {
			t.Errorf("%v: got %v, %d reports", tt.kinds, k.kinds, k.reports)
		}
	}
}
