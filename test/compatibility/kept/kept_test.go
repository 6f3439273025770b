// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestMissing(t *testing.T) {
	tree := func(text string) (v any) {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct {
		now  string
		want []string
	}{
		{`{"a":1,"b":[{"c":"x"}]}`, nil},
		{`{"a":1,"b":[{"c":"x","new":2}],"new":3}`, nil},
		{`{"b":[{"c":"y"}]}`, []string{".a is gone, was 1", ".b[0].c is y, was x"}},
		{`{"a":1,"b":[]}`, []string{".b is [], was [map[c:x]]"}},
	} {
		if got := Missing("", tree(`{"a":1,"b":[{"c":"x"}]}`), tree(tt.now)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.now, got, tt.want)
		}
	}
}
