// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRepository(t *testing.T) {
	findings, err := Tree("../..")
	if err != nil {
		t.Fatal(err)
	}
	dependencies, err := Dependencies("../..")
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := Changelog("../..")
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := Outcomes("../..")
	if err != nil {
		t.Fatal(err)
	}
	console, err := Console("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range slices.Concat(findings, dependencies, changelog, outcomes, console) {
		t.Error(finding)
	}
}

func TestOutcomes(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("docs/data-plane/a.md", "# A\n\n`not_a`\n\n## B\n\n`good`, `unlisted`, `elsewhere`\n")
	write(outcomesIndex, "| A | [`good`](a.md#b), [`elsewhere`](a.md#a), [`not_a`](a.md#b), [`no_heading`](a.md#c) |\n")
	row := func(name, anchor string) string {
		return "| 1 | [`" + name + "`](../data-plane/a.md#" + anchor + ") | x |\n"
	}
	tests := []struct{ name, row, want string }{
		{"good", row("good", "b"), ""},
		{"without a section", "| 1 | `good` | x |\n", "outcome good has no section of docs/data-plane"},
		{"under another heading", row("not_a", "b"), "outcome not_a is not explained in docs/data-plane/a.md#b"},
		{"without a heading", row("no_heading", "c"), "outcome no_heading is not explained in docs/data-plane/a.md#c"},
		{"not in the index", row("unlisted", "b"), "outcome unlisted is not in the index"},
		{"elsewhere in the index", row("elsewhere", "b"), "outcome elsewhere is not in the index"},
	}
	for _, test := range tests {
		write(outcomesReference, "| number | outcome | meaning |\n|---|---|---|\n"+test.row)
		findings, err := Outcomes(root)
		if err != nil {
			t.Fatal(err)
		}
		if test.want == "" && len(findings) == 0 {
			continue
		}
		if len(findings) != 1 || test.want == "" || !strings.HasPrefix(findings[0].Text, test.want) {
			t.Errorf("%s: findings %v, want one starting with %q", test.name, findings, test.want)
		}
	}
}

func TestDependencies(t *testing.T) {
	root := t.TempDir()
	module := "module m\n\nrequire example.net/a v1.0.0\n\nrequire (\n\texample.net/b v1.0.0\n" +
		"\texample.net/c v1.0.0 // indirect\n\texample.net/d v1.0.0\n)\n\ntool (\n\texample.net/e\n)\n"
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte(module), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(want ...string) {
		t.Helper()
		findings, err := Dependencies(root)
		if err != nil {
			t.Fatal(err)
		}
		if len(findings) != len(want) {
			t.Fatalf("findings %v, want %q", findings, want)
		}
		for i, finding := range findings {
			if !strings.HasPrefix(finding.String(), want[i]) {
				t.Errorf("finding %q, want one starting with %q", finding, want[i])
			}
		}
	}
	check("go.mod:3: example.net/a ", "go.mod:6: example.net/b ", "go.mod:8: example.net/d ")

	if err := os.Mkdir(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	document := "| `example.net/a` | x |\n| `example.net/d` | y |\n"
	if err := os.WriteFile(filepath.Join(root, "docs", "dependencies.md"), []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	check("go.mod:6: example.net/b ")

	if err := os.Mkdir(filepath.Join(root, "part"), 0o755); err != nil {
		t.Fatal(err)
	}
	module = "module m/part\n\nrequire (\n\tgithub.com/waymark-net/waymark v0.0.0\n\texample.net/a v1.0.0\n\texample.net/f v1.0.0\n)\n"
	if err := os.WriteFile(filepath.Join(root, "part", "go.mod"), []byte(module), 0o644); err != nil {
		t.Fatal(err)
	}
	check("go.mod:6: example.net/b ", "part/go.mod:6: example.net/f ")
}

// Every rule: one file that breaks only that rule, and the line that says so.
func TestRules(t *testing.T) {
	const goHead = "// SPDX-License-Identifier: Apache-2.0\n\npackage p\n"
	const mainHead = "// SPDX-License-Identifier: Apache-2.0\n\npackage main\n"
	const cHead = "// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n"
	lines := func(n int) string { return strings.Repeat("\n", n) }
	mark := "TO" + "DO"

	tests := []struct {
		name, file, content string
		want                string // empty: no finding
	}{
		{"good go", "a.go", goHead, ""},
		{"go licence", "a.go", "package p\n", "a.go:1: no licence line; write: // SPDX-License-Identifier: Apache-2.0"},
		{"bpf licence", "bpf/a.h", goHead, "bpf/a.h:1: no licence line; write: // SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"},
		{"good bpf", "bpf/a.h", cHead, ""},
		{"shell licence", "a.sh", "#!/bin/sh\necho\n", "a.sh:2: no licence line; write: # SPDX-License-Identifier: Apache-2.0"},
		{"good shell", "a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n", ""},
		{"generated bindings", "a_bpfel.go", "package p\n" + lines(600), ""},
		{"script licence", "a.mjs", "let a\n", "a.mjs:1: no licence line; write: // SPDX-License-Identifier: Apache-2.0"},
		{"script length", "a.tsx", "// SPDX-License-Identifier: Apache-2.0\n" + lines(fileLimit-1), "a.tsx:500: 500 lines"},
		{"generated types", "a.ts", "// SPDX-License-Identifier: Apache-2.0\n" + generatedScript + lines(600), ""},
		{"testdata", "testdata/a.go", "package p\n", ""},
		{"longest file", "a.go", goHead + lines(fileLimit-4), ""},
		{"file length", "a.go", goHead + lines(fileLimit-3), "a.go:500: 500 lines"},
		{"entry length", "bpf/a.bpf.c", cHead + lines(bpfEntryLimit-1), "bpf/a.bpf.c:300: 300 lines"},
		{"longest function", "a.go", goHead + "func f() {" + lines(functionLimit-2) + "}\n", ""},
		{"function length", "a.go", goHead + "func f() {" + lines(functionLimit-1) + "}\n", "a.go:4: f has 80 lines"},
		{"C function length", "bpf/a.h", cHead + "int f(void)\n{" + lines(functionLimit-1) + "}\n", "bpf/a.h:3: int f(void) has 80 lines"},
		{"mark", "a.go", goHead + "// " + mark + ": more\n", "a.go:4: unfinished mark " + mark},
		{"panic", "a.go", goHead + "func f() { panic(1) }\n", "a.go:4: panic outside func main"},
		{"panic in a value", "a.go", goHead + "var f = func() { panic(1) }\n", "a.go:4: panic outside func main"},
		{"panic in a test", "a_test.go", goHead + "func f() { panic(1) }\n", ""},
		{"panic in main", "a.go", mainHead + "func main() { panic(1) }\n", "a.go:4: panic outside func main"},
		{"exit", "a.go", mainHead + "func f() { os.Exit(1) }\n", "a.go:4: os.Exit outside func main"},
		{"exit in main", "a.go", mainHead + "func main() { os.Exit(1) }\n", ""},
		{"exit in a library's main", "a.go", goHead + "func main() { os.Exit(1) }\n", "a.go:4: os.Exit outside func main"},
		{"fatal", "a.go", mainHead + "func main() { log.Fatalf(\"\") }\n", "a.go:4: log.Fatalf outside func main"},
		{"key in JSON", "a.go", goHead + "type t struct {\n\tA int `json:\"data-wide\"`\n}\n", "a.go:5: key \"data-wide\" in JSON"},
		{"time in JSON", "a.go", goHead + "type t struct {\n\tA *time.Time `json:\"a,omitempty\"`\n}\n", "a.go:5: time.Time in JSON"},
		{"good JSON", "a.go", goHead + "type t struct {\n\tA instant.Time `json:\"data_wide\"`\n\tB time.Time `json:\"-\"`\n\tC time.Time\n}\n", ""},
		{"foreign JSON", "a_test.go", goHead + "type t struct {\n\tA int `json:\"dataWide\"`\n}\n", ""},
		{"good links", "docs/a.md", "# A b, `c`!\n[x](a.md#a-b-c) [y](../docs) [z](https://example.net/no) `[n](no.md)`\n", ""},
		{"link", "docs/a.md", "[x](b.md)\n", "docs/a.md:1: link to docs/b.md, which does not exist"},
		{"heading", "a.md", "# A\n\n[x](#b)\n", "a.md:3: link to heading #b of a.md"},
		{"document", "a.go", goHead + "// See docs/b.md.\n", "a.go:4: link to docs/b.md, which does not exist"},
		{"document in a test", "a_test.go", goHead + "// See docs/b.md.\n", ""},
		{"document of BPF", "bpf/a.h", cHead + "/* docs/b.md */\n", "bpf/a.h:2: link to docs/b.md, which does not exist"},
		{"word", "a.md", "Nobody `knows`.\n", "a.md:1: \"nobody\": name the person"},
		{"word in code", "a.md", "`nobody` is a user; nothing is left behind.\n", ""},
		{"heading in code", "a.md", "```\n# B\n```\n[x](#b)\n", "a.md:4: link to heading #b of a.md"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { onlyFinding(t, test.file, test.content, test.want) })
	}
}

// onlyFinding checks that a tree of one file has one finding, which starts with a text, or none if that is empty.
func onlyFinding(t *testing.T, file, content, want string) {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	findings, err := Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	if want == "" {
		if len(findings) != 0 {
			t.Fatalf("findings %v, want none", findings)
		}
		return
	}
	if len(findings) != 1 || !strings.HasPrefix(findings[0].String(), want) {
		t.Fatalf("findings %v, want one starting with %q", findings, want)
	}
}

func TestUnparsableGo(t *testing.T) {
	root := t.TempDir()
	content := "// SPDX-License-Identifier: Apache-2.0\n\npackage\n"
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Tree(root); err == nil {
		t.Fatal("Tree accepted a Go file that does not parse")
	}
}
