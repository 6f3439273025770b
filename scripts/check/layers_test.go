// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLayers(t *testing.T) {
	findings, err := Layers("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		t.Error(finding)
	}
}

// The program of routers has nothing of the other programs, their modules and what these need.
func TestRouterProgram(t *testing.T) {
	command := exec.Command("go", "list", "-deps", "./cmd/waymark")
	command.Dir = "../.."
	list, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(list))
	others := []string{"gonum.org", "github.com/duckdb"}
	for _, own := range []string{"bench", "collector", "packaging", "internal/lab", "internal/collect"} {
		others = append(others, module+own)
	}
	if !slices.Contains(packages, module+"internal/agent") {
		t.Fatalf("%d packages, and none is the agent", len(packages))
	}
	for _, path := range packages {
		for _, other := range others {
			if path == other || strings.HasPrefix(path, other+"/") {
				t.Errorf("cmd/waymark has %s", path)
			}
		}
	}
}

// A wrong import is reported, and a right one is not.
func TestWrongImports(t *testing.T) {
	for _, tt := range []struct{ file, imported, want string }{
		{"ioam/a.go", "errors", ""},
		{"ioam/a.go", module + "ipfix", "ioam may not import ipfix; scripts/check/layers.go says who may import whom"},
		{"internal/model/a.go", module + "ioam", ""},
		{"internal/model/a.go", module + "internal/datapath", "internal/model may not import internal/datapath"},
		{"internal/reference/a.go", module + "internal/datapath", "internal/reference may not import internal/datapath"},
		{"internal/datapath/a.go", "github.com/cilium/ebpf/link", ""},
		{"internal/datapath/a.go", module + "internal/sink", "internal/datapath may not import internal/sink"},
		{"internal/sink/a.go", module + "internal/datapath", "internal/sink may not import internal/datapath"},
		{"internal/agent/a.go", "github.com/cilium/ebpf", "internal/agent may not import github.com/cilium/ebpf; scripts/check/layers.go says who may"},
		{"internal/agent/a.go", "github.com/cilium/ebpfother", ""},
		{"internal/agent/a.go", module + "internal/pintest", "internal/pintest is for tests alone"},
		{"internal/agent/a_test.go", module + "internal/pintest", ""},
		{"internal/pintest/a.go", module + "internal/agent", ""},
		{"cmd/waymark/a.go", module + "internal/lab/demo", "cmd/waymark may not import internal/lab/demo"},
		{"cmd/waymark/a.go", module + "internal/collect", "cmd/waymark may not import internal/collect"},
		{"cmd/waymark-lab/a.go", module + "internal/lab/demo", ""},
		{"internal/agent/a.go", module + "collector/store", "internal/agent may not import collector/store"},
		{"cmd/waymark/a.go", module + "bench", "cmd/waymark may not import bench"},
		{"cmd/waymark/a.go", module + "internal/pintest", "internal/pintest is for tests alone"},
		{"cmd/waymark/a.go", "gonum.org/v1/plot/vg", "cmd/waymark may not import gonum.org/v1/plot"},
		{"internal/unknown/a.go", "errors", "internal/unknown has no line in scripts/check/layers.go"},
	} {
		root := t.TempDir()
		file := filepath.Join(root, filepath.FromSlash(tt.file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		content := "// SPDX-License-Identifier: Apache-2.0\n\npackage p\n\nimport _ \"" + tt.imported + "\"\n"
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		findings, err := Layers(root)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range findings {
			if f.File != layersFile { // packages of the table that do not exist in this tree
				found = append(found, f.Text)
			}
		}
		if got := strings.Join(found, "|"); tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s imports %s: %q, want %q", tt.file, tt.imported, got, tt.want)
		}
	}
}

// A line of the table whose package does not exist is reported.
func TestLayersOfNothing(t *testing.T) {
	findings, err := Layers(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != len(layers) || !strings.Contains(findings[0].Text, "is no package; delete its line") {
		t.Errorf("%d findings, %d lines", len(findings), len(layers))
	}
}
