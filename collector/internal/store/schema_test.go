// SPDX-License-Identifier: Apache-2.0

package store

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateSchema = flag.Bool("update", false, "write the list of this version's tables")

// The tables of a version are those of the list of it: a column that is added, renamed or removed, also by a field of a
// record, needs a new Version, as files of this one do not have it and are not written any more.
func TestSchemaOfVersion(t *testing.T) {
	var b strings.Builder
	for _, table := range tables() {
		fmt.Fprintln(&b, table.name)
		for _, c := range table.columns {
			fmt.Fprintf(&b, "  %s %s\n", c.name, c.kind)
		}
	}
	path := filepath.Join("testdata", fmt.Sprintf("schema-%d.txt", Version))
	if _, err := os.Stat(path); *updateSchema && os.IsNotExist(err) { // a list that is there never changes
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write the list of a new version with -update", err)
	}
	got, then := strings.SplitAfter(b.String(), "\n"), strings.SplitAfter(string(want), "\n")
	for i := range max(len(got), len(then)) {
		var is, was string
		if i < len(got) {
			is = got[i]
		}
		if i < len(then) {
			was = then[i]
		}
		if is != was {
			t.Fatalf("%s, line %d: the tables have %q, files of version %d have %q; raise Version, and run this test with -update",
				path, i+1, is, Version, was)
		}
	}
}
