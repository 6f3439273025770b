// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/waymark-net/waymark/internal/yamlfile"
)

// walkKeys calls see for every key of a decoded document.
func walkKeys(v any, see func(key string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			see(key)
			walkKeys(inner, see)
		}
	case []any:
		for _, inner := range v {
			walkKeys(inner, see)
		}
	}
}

var (
	jsonSpelling = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	yamlSpelling = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// Keys have underscores in JSON and hyphens in YAML, whatever a configuration
// holds.
func TestOneSpellingOfKeys(t *testing.T) {
	texts := []string{full}
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	seen := map[string]bool{}
	for _, text := range texts {
		c := mustParse(t, text)
		asJSON, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var inJSON, inYAML any
		if err := json.Unmarshal(asJSON, &inJSON); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(c.Marshal(), &inYAML); err != nil {
			t.Fatal(err)
		}
		walkKeys(inJSON, func(key string) {
			seen[key] = true
			if !jsonSpelling.MatchString(key) {
				t.Errorf("a key in JSON is %q", key)
			}
		})
		walkKeys(inYAML, func(key string) {
			if !yamlSpelling.MatchString(key) {
				t.Errorf("a key in YAML is %q", key)
			}
		})
	}
	for _, key := range []string{"id_wide", "data_wide", "tunnel_destination", "next_header", "extension_flags", "flow_id"} {
		if !seen[key] {
			t.Errorf("no document has the key %q", key)
		}
	}
}

// Requests with the file's spelling, which JSON once had, are accepted; a key in both
// spellings is a duplicate.
func TestSpellingsInJSON(t *testing.T) {
	for _, tt := range []struct{ text, fault string }{
		{`{"id":5,"data_wide":"0x1"}`, ""},
		{`{"id":5,"data-wide":"0x1"}`, ""},
		{`{"id":5,"data-wide":"0x1","data_wide":"0x1"}`, "is already"},
		{`{"id":5,"data_wides":"0x1"}`, `unknown key "data_wides"`},
		{`{id: 5, data_wide: 0x1}`, `did you mean "data-wide"?`}, // YAML
	} {
		var ns Namespace
		err := ns.UnmarshalJSON([]byte(tt.text))
		switch {
		case tt.fault == "" && (err != nil || ns.DataWide != 1):
			t.Errorf("%s: %+v, %v", tt.text, ns, err)
		case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)):
			t.Errorf("%s: %v, want %s", tt.text, err, tt.fault)
		}
	}
}

// The tags that all documents are made from have hyphens.
func TestSpellingOfTags(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for _, f := range yamlfile.Fields(typ) {
			if !yamlSpelling.MatchString(f.Key) {
				t.Errorf("%s has the key %q", typ, f.Key)
			}
			inner := typ.FieldByIndex(f.Index).Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if _, scalar := codecs[inner]; !scalar {
				walk(inner)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}
