// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
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
Comment: The programs contain these compiled to BPF. The licences of what
 else they contain, which the list *.spdx.json names, are in
 third-party-licenses.gz. waymark-collector for amd64 contains parts of glibc
 (LGPL-2.1 or later): the sources and "make build" link it with another one.
 Its image for arm64 has glibc as files, which can be replaced by others.

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
	contained, err := o.components(ctx, p.program, arch, info)
	if err != nil {
		return err
	}
	if err := writeGzip(filepath.Join(dir, name+".licenses.gz"), licencesOf(contained)); err != nil {
		return err
	}
	return o.writeSBOM(p, arch, name+".spdx.json", contained)
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
