// SPDX-License-Identifier: Apache-2.0

// Package check holds the project's own rules on its source, those that no
// general linter knows: licence lines, sizes, exits, unfinished marks and
// links between documents. Its tests apply them to the whole tree.
package check

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Finding is one broken rule.
type Finding struct {
	File string // relative to the root, with slashes
	Line int
	Text string
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// Sizes that a file or a function stays below, in lines.
const (
	fileLimit     = 500
	bpfEntryLimit = 300 // bpf/<hook>.bpf.c
	functionLimit = 80
)

const (
	licenceGo  = "SPDX-License-Identifier: Apache-2.0"
	licenceBPF = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"
)

// Spelt in parts, so that this file passes its own rule.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

// Tree applies every rule to the files below root.
func Tree(root string) ([]Finding, error) {
	var findings []Finding
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			return intoDirectory(name)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		found, err := checkFile(root, name)
		findings = append(findings, found...)
		return err
	})
	return findings, err
}

// intoDirectory says whether a walk goes into a directory: what git, builds and
// tests put there is not looked at.
func intoDirectory(name string) error {
	if name == ".git" || name == "bin" || name == "build" || path.Base(name) == "testdata" {
		return filepath.SkipDir
	}
	return nil
}

func checkFile(root, name string) ([]Finding, error) {
	kind := kindOf(name)
	if kind == kindOther {
		return nil, nil
	}
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	if kind == kindMarkdown {
		return links(root, name, content)
	}
	findings := append(licence(name, kind, content), marks(name, content)...)
	findings = append(findings, fileLength(name, kind, content)...)
	switch kind {
	case kindGo:
		found, err := goRules(name, content)
		return append(findings, found...), err
	case kindBPF:
		findings = append(findings, cFunctions(name, content)...)
	}
	return findings, nil
}

type kind int

const (
	kindOther kind = iota
	kindGo
	kindBPF
	kindShell
	kindMarkdown
)

func kindOf(name string) kind {
	switch {
	case strings.HasSuffix(name, "_bpfel.go"), strings.HasSuffix(name, "_bpfeb.go"):
		return kindOther // written by bpf2go
	case strings.HasSuffix(name, ".go"):
		return kindGo
	case strings.HasSuffix(name, ".c"), strings.HasSuffix(name, ".h"):
		return kindBPF
	case strings.HasSuffix(name, ".sh"), name == ".ci/run", name == "Makefile":
		return kindShell
	case strings.HasSuffix(name, ".md"):
		return kindMarkdown
	}
	return kindOther
}

// licence wants the SPDX line first, or second below an interpreter line.
func licence(name string, kind kind, content []byte) []Finding {
	want := "// " + licenceGo
	switch kind {
	case kindBPF:
		want = "// " + licenceBPF
	case kindShell:
		want = "# " + licenceGo
	}
	line := 1
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if bytes.HasPrefix(first, []byte("#!")) {
		line = 2
		first, _, _ = bytes.Cut(rest, []byte("\n"))
	}
	if string(first) == want {
		return nil
	}
	return []Finding{{name, line, "no licence line; write: " + want}}
}

func marks(name string, content []byte) []Finding {
	var findings []Finding
	for number, line := range bytes.Split(content, []byte("\n")) {
		if mark := unfinished.Find(line); mark != nil {
			findings = append(findings, Finding{name, number + 1,
				fmt.Sprintf("unfinished mark %s; finish it, or open an issue and delete the mark", mark)})
		}
	}
	return findings
}

func fileLength(name string, kind kind, content []byte) []Finding {
	limit := fileLimit
	if kind == kindBPF && strings.HasSuffix(name, ".bpf.c") {
		limit = bpfEntryLimit
	}
	if lines := bytes.Count(content, []byte("\n")); lines >= limit {
		return []Finding{{name, lines, fmt.Sprintf("%d lines, the limit is below %d; split it by subject", lines, limit)}}
	}
	return nil
}
