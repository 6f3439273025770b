// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Maintainer is who the packages name; the project has no address of its own.
const Maintainer = "Waymark <waymark@users.noreply.github.com>"

const homepage = "https://github.com/waymark-net/waymark"

// copyright is Debian's machine-readable file of licences.
const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Waymark
Source: ` + homepage + `

Files: *
Copyright: The Waymark authors
License: Apache-2.0

Files: bpf/* bench/bpf/*
Copyright: The Waymark authors
License: GPL-2.0-only or BSD-2-Clause
Comment: The programs contain these compiled to BPF. The licences of the Go
 modules that they link are in third-party-licenses.gz.

License: Apache-2.0
 On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.

License: GPL-2.0-only
 On Debian systems, the text is in /usr/share/common-licenses/GPL-2.

License: BSD-2-Clause
`

// documents writes the documents of a package.
func (o Options) documents(ctx context.Context, p parcel, arch string) error {
	dir, name := o.generated(arch), p.program.name
	bsd, err := os.ReadFile(filepath.Join(o.Root, "LICENSES", "BSD-2-Clause.txt"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "copyright"), []byte(copyright+indented(string(bsd))), 0o644); err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(o.Root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if err := writeGzip(filepath.Join(dir, "changelog.gz"), changes); err != nil {
		return err
	}
	debian := fmt.Sprintf("%s (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n",
		name, o.fileVersion(), Maintainer, o.Time.UTC().Format(time.RFC1123Z))
	if err := writeGzip(filepath.Join(dir, name+".changelog.Debian.gz"), []byte(debian)); err != nil {
		return err
	}
	overrides, err := os.ReadFile(filepath.Join(o.Root, "packaging", "lintian", name))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".lintian"), overrides, 0o644); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(o.binary(name, arch))
	if err != nil {
		return err
	}
	licences, err := o.licences(ctx, p.program.source, arch, info)
	if err != nil {
		return err
	}
	if err := writeGzip(filepath.Join(dir, name+".licenses.gz"), licences); err != nil {
		return err
	}
	return o.writeSBOM(p, arch, info)
}

// indented is a text as a field of a control file.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line == "" {
			line = "."
		}
		b.WriteString(" " + line + "\n")
	}
	return b.String()
}

// licences are the texts of the licences of all modules that a program links, and of Go.
func (o Options) licences(ctx context.Context, source, arch string, info *buildinfo.BuildInfo) ([]byte, error) {
	directories, err := o.run(
		ctx,
		[]string{"GOARCH=" + arch, "CGO_ENABLED=1"},
		"go",
		"list",
		"-deps",
		"-f",
		"{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}",
		source,
	)
	if err != nil {
		return nil, err
	}
	where := map[string]string{}
	for line := range strings.Lines(string(directories)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			where[path] = dir
		}
	}
	goroot, err := o.run(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := appendLicence(&b, "Go "+info.GoVersion, strings.TrimSpace(string(goroot))); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "github.com/waymark-net/") {
			continue
		}
		if err := appendLicence(&b, m.Path+" "+m.Version, where[m.Path]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func appendLicence(b *bytes.Buffer, name, dir string) error {
	var found []string
	for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		found = append(found, names...)
	}
	if dir == "" || len(found) == 0 {
		return fmt.Errorf("%s has no file with its licence in %q", name, dir)
	}
	slices.Sort(found)
	for _, file := range found {
		if stat, err := os.Stat(file); err != nil || stat.IsDir() {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "==== %s: %s\n\n%s\n", name, filepath.Base(file), bytes.TrimSpace(text))
	}
	return nil
}
