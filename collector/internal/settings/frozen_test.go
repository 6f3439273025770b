// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/test/compatibility/kept"
)

// lost lists what a file of settings meant, by what was shown of it in JSON then, and does not mean now.
func lost(t *testing.T, file string, shown []byte) []string {
	t.Helper()
	s, err := Read(file)
	if err != nil {
		return []string{err.Error()}
	}
	now, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return kept.MissingJSON(shown, now)
}

// The settings that the package of an earlier version had are accepted, and mean the same. Version 0.1.0 had none.
func TestFrozenSettings(t *testing.T) {
	frozen, err := filepath.Glob("../../../test/compatibility/testdata/*/collector/collector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range frozen {
		shown, err := os.ReadFile(filepath.Join(filepath.Dir(file), "shown.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range lost(t, file, shown) {
			t.Errorf("%s: %s", file, one)
		}
	}

	const packaged = "../../../packaging/config/collector.yaml"
	s, err := Read(packaged)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if list := lost(t, packaged, shown); len(list) != 0 {
		t.Errorf("as it is: %q", list)
	}
	text := string(shown)
	for _, other := range []string{strings.Replace(text, `"age":"`, `"age":"1`, 1), strings.Replace(text, "{", `{"former":1,`, 1)} {
		if list := lost(t, packaged, []byte(other)); len(list) != 1 {
			t.Errorf("with another value, or a key that is gone: %q", list)
		}
	}
}
