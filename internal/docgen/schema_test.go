// SPDX-License-Identifier: Apache-2.0

package docgen

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waymark-net/waymark/internal/record"
)

func compiled(t *testing.T, strict bool) *jsonschema.Schema {
	t.Helper()
	of, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(strict)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.AssertContent()
	if err := c.AddResource("records.schema.json", of); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("records.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, line []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return s.Validate(value)
}

// Golden records of agents and of the collector are valid, and have no key that the schema lacks. Without a
// key that every record has, or with a value of another type, they are not valid.
func TestSchemaOfRecords(t *testing.T) {
	strict, lenient := compiled(t, true), compiled(t, false)
	seen := map[string]bool{}
	for _, path := range []string{"../record/testdata/records.jsonl", "../collect/testdata/collected.jsonl"} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			var of map[string]any
			if err := json.Unmarshal(line, &of); err != nil {
				t.Fatal(err)
			}
			kind := of["kind"].(string)
			seen[kind] = true
			for _, s := range []*jsonschema.Schema{strict, lenient} {
				if err := valid(t, s, line); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
			for _, k := range record.Kinds() {
				if k.Name == kind && kind != record.KindOther {
					mutate(t, lenient, of, k)
				}
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("golden records of only %d kinds", len(seen))
	}
	for line, want := range map[string]bool{
		`{"kind":"tomorrow","any":1}`: true, `{"any":1}`: false, `[]`: false, `{"kind":1}`: false, `{"kind":"lost","count":3,"more":[]}`: true,
		`{"kind":"lost","count":"3"}`: false, `{"kind":"lost"}`: false,
		`{"kind":"statistics","counts":{"a":1},"paths":{},"malformed":{},"impossible":{},"waiting":0}`: true, `{"kind":"statistics","counts":{"a":"b"},"paths":{},"malformed":{},"impossible":{},"waiting":0}`: false,
	} {
		if err := valid(t, lenient, []byte(line)); (err == nil) != want {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := valid(t, strict, []byte(`{"kind":"lost","count":3,"more":[]}`)); err == nil || !strings.Contains(err.Error(), "more") {
		t.Errorf("an unknown key: %v", err)
	}
}

// mutate takes a key away, or gives it a value of another type.
func mutate(t *testing.T, s *jsonschema.Schema, of map[string]any, k record.KindFormat) {
	t.Helper()
	check := func(what string) {
		t.Helper()
		line, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		if valid(t, s, line) == nil {
			t.Errorf("%s: %s is valid", what, line)
		}
	}
	for _, c := range k.Columns {
		value, has := of[c.Key]
		if !has {
			continue
		}
		if !c.Optional {
			delete(of, c.Key)
			check("without " + c.Key)
		}
		switch value.(type) {
		case string, nil:
			of[c.Key] = []any{true}
		default:
			of[c.Key] = "x"
		}
		check("another " + c.Key)
		of[c.Key] = value
	}
}
