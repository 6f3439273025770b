// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	spdx "github.com/spdx/tools-golang/json"
)

// The list of what a program is made of names all modules that Go's linker noted, the console's
// libraries, and C's; each has the text of its licence.
func TestComponents(t *testing.T) {
	const source = "./packaging/cmd/waymark-package" // smaller than the collector, and with other modules
	o := Options{Root: "../..", Output: t.TempDir(), Work: t.TempDir(), Version: "1.2.3", Time: time.Unix(1795000000, 0), Log: io.Discard}
	p := collectorPackage()
	p.program.source = source
	program := filepath.Join(o.Work, "program")
	if _, err := o.run(t.Context(), nil, "go", "build", "-o", program, source); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	list, err := o.components(t.Context(), p.program, "amd64", info)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]component{}
	for _, c := range list {
		if c.version == "" || len(c.licences) == 0 {
			t.Errorf("%s has version %q and %d licences", c.name, c.version, len(c.licences))
		}
		names[c.name] = c
	}
	expected := []string{
		"stdlib", "github.com/spdx/tools-golang", "github.com/goreleaser/nfpm/v2", "preact", "@dagrejs/dagre", "glibc", "libstdc++",
	}
	for _, name := range expected {
		if _, found := names[name]; !found {
			t.Errorf("%s is not among the components", name)
		}
	}
	for _, m := range info.Deps {
		if _, found := names[m.Path]; !found && !strings.HasPrefix(m.Path, "github.com/waymark-net/") {
			t.Errorf("the module %s is not among the components", m.Path)
		}
	}
	if !strings.Contains(string(licencesOf(list)), "Lesser General Public License") {
		t.Error("glibc's licence is missing")
	}
	sbomOf(t, o, p, list)
}

// The version of DuckDB is read from that of its module.
func TestVersionOfDuckDB(t *testing.T) {
	for module, want := range map[string]string{
		"v0.10500.0": "1.5.0", "v0.10506.3": "1.5.6", "v0.11012.0": "1.10.12", "v0.3.5": "", "v1": "",
	} {
		if got, err := duckdbVersion(module); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", module, got, err, want)
		}
	}
	list, err := Options{Root: "../.."}.goComponents(t.Context(), "./collector/cmd/waymark-collector", "amd64", &buildinfo.BuildInfo{
		GoVersion: "go1.26.0", Deps: []*debug.Module{{Path: duckdbLibraries + "linux-amd64", Version: "v0.10506.0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	is := func(c component) bool { return c.name == "duckdb" && c.version == "1.5.6" && len(c.licences) > 0 }
	if !slices.ContainsFunc(list, is) {
		t.Errorf("DuckDB is not among %+v", list)
	}
}

// sbomOf writes the document, and reads it with the library of SPDX.
func sbomOf(t *testing.T, o Options, p parcel, list []component) {
	t.Helper()
	binary := o.binary(p.program.name, runtime.GOARCH)
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.writeSBOM(p, runtime.GOARCH, p.program.name+".spdx.json", list); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(o.generated(runtime.GOARCH), p.program.name+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdx.Read(bytes.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, c := range doc.Packages {
		if ids[string(c.PackageSPDXIdentifier)] {
			t.Errorf("two packages have the identifier %s", c.PackageSPDXIdentifier)
		}
		ids[string(c.PackageSPDXIdentifier)] = true
	}
	for _, r := range doc.Relationships {
		if r.RefA.DocumentRefID != "" || r.RefB.DocumentRefID != "" || !ids[string(r.RefB.ElementRefID)] {
			t.Errorf("the relationship %v is not one of this document", r)
		}
	}
	if len(doc.Packages) != len(list)+1 || len(doc.Relationships) != len(list)+1 {
		t.Errorf("%d packages and %d relationships, of %d components", len(doc.Packages), len(doc.Relationships), len(list))
	}
}

// The console's libraries are those that npm installs for it.
func TestLibrariesAreCurrent(t *testing.T) {
	o := Options{Root: "../.."}
	list, err := o.scripts(collectorPackage().program.libraries)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../collector/console/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for path, p := range lock.Packages {
		if path != "" && !p.Dev {
			want = append(want, strings.TrimPrefix(path, "node_modules/")+" "+p.Version+" "+p.License)
		}
	}
	for _, c := range list {
		got = append(got, c.name+" "+c.version+" "+c.license)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("the list has %q, npm installs %q; run: make console-assets", got, want)
	}
}
