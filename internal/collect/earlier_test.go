// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/compatibility/kept"
)

// The octets that exporters of earlier versions sent are records with all that their own collector made
// of them. They are frozen with each version (scripts/freeze.sh).
func TestEarlierVersions(t *testing.T) {
	versions, err := filepath.Glob("../../test/compatibility/testdata/*/ipfix.txt")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no versions: %v", err)
	}
	for _, file := range versions {
		c, out, send := offline(t, Config{Raw: true}, ipfix.UDP)
		for _, m := range exported(t, file) {
			if !send(m) {
				t.Errorf("%s: not understood: %x", file, m)
			}
		}
		c.change(func() { c.expireTraces(time.Now(), 0) })
		text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "collected.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		now, then := written(t, out), strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(now) != len(then) {
			t.Fatalf("%s: %d records, were %d", file, len(now), len(then))
		}
		for i := range then {
			for _, lost := range kept.MissingJSON([]byte(then[i]), []byte(now[i])) {
				t.Errorf("%s, record %d: %s", file, i+1, lost)
			}
		}
	}
}
