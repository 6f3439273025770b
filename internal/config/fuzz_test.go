// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"testing"
)

// FuzzParse: no input makes the parser panic, every error has a place in the
// file, and what is accepted reads the same when it is written as YAML or JSON.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(twoInterfaces))
	f.Add([]byte("collectors: []"))
	f.Add([]byte(filtering))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("F", data)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("not config.Faults: %v", err)
			}
			for _, fault := range faults {
				if fault.Line < 1 || fault.Column < 1 || fault.Problem == "" {
					t.Fatalf("incomplete: %+v", fault)
				}
			}
			return
		}
		again, err := Parse("YAML", c.Marshal())
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Marshal())
		}
		if !same(c, again) {
			t.Fatalf("YAML differs:\n%s\n%s", c.Marshal(), again.Marshal())
		}
		text, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err = Parse("JSON", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !same(c, again) {
			t.Fatalf("JSON differs:\n%s\n%s", text, again.Marshal())
		}
	})
}
