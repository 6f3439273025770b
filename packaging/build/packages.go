// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// info describes a package for nfpm.
func (o Options) info(p parcel, arch, kind string) (*nfpm.Info, error) {
	list, err := o.files(p, arch, kind)
	if err != nil {
		return nil, err
	}
	scripts, err := o.writeScripts(p, arch, kind)
	if err != nil {
		return nil, err
	}
	info := &nfpm.Info{
		Name: p.program.name, Arch: arch, Platform: "linux", Version: o.fileVersion(), VersionSchema: "none", Release: "1",
		Section: p.section, Priority: "optional", Maintainer: Maintainer, Vendor: "Waymark", Homepage: homepage, License: "Apache-2.0",
		Description: p.summary + "\n" + p.description, MTime: o.Time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Recommends: named(p.recommends, kind), Suggests: p.suggests, Scripts: scripts,
			Deb: nfpm.Deb{Compression: "gzip"},
			RPM: nfpm.RPM{Summary: p.summary, Compression: "gzip:9", BuildHost: "waymark", Packager: Maintainer, Group: "Applications/System"},
		},
	}
	if slices.Contains(p.program.dynamic, arch) {
		libraries, err := librariesOf(o.binary(p.program.name, arch))
		if err != nil {
			return nil, err
		}
		if info.Depends, err = dependencies(kind, libraries); err != nil {
			return nil, err
		}
	}
	if kind == "rpm" {
		list = append(list, directories(p.program.name, list)...)
	}
	for _, f := range list {
		content := &files.Content{
			Source: f.source, Destination: f.destination,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: o.Time},
		}
		switch {
		case f.source == "":
			content.Type = files.TypeDir
		case f.config:
			content.Type = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, content)
	}
	return nfpm.WithDefaults(info), nil
}

// directories are those with the program's name above its files. RPM removes only directories that a package
// lists; dpkg finds them itself.
func directories(name string, list []file) []file {
	listed := map[string]bool{}
	for _, f := range list {
		listed[f.destination] = true
	}
	var found []file
	for _, f := range list {
		for d := path.Dir(f.destination); strings.Contains(d+"/", "/"+name+"/"); d = path.Dir(d) {
			if !listed[d] {
				listed[d] = true
				found = append(found, file{destination: d, mode: 0o755})
			}
		}
	}
	return found
}

// named are packages by the names that distributions with RPM have for those of Debian.
func named(packages []string, kind string) []string {
	if kind != "rpm" {
		return packages
	}
	list := slices.Clone(packages)
	for i, name := range list {
		list[i] = cmp.Or(map[string]string{"iproute2": "iproute", "iputils-ping": "iputils"}[name], name)
	}
	return list
}

// writePackage writes a .deb or an .rpm, and returns the name of the file.
func (o Options) writePackage(p parcel, arch, kind string) (name string, err error) {
	info, err := o.info(p, arch, kind)
	if err != nil {
		return "", err
	}
	if err := nfpm.PrepareForPackager(info, kind); err != nil {
		return "", err
	}
	packager, err := nfpm.Get(kind)
	if err != nil {
		return "", err
	}
	name = packager.ConventionalFileName(info)
	f, err := os.Create(filepath.Join(o.Output, name))
	if err != nil {
		return "", err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return name, packager.Package(info, f)
}

// script is a script of a package.
type script struct {
	name  string
	lines []string
}

// writeScripts writes the scripts of a package.
func (o Options) writeScripts(p parcel, arch, kind string) (nfpm.Scripts, error) {
	var s nfpm.Scripts
	if len(p.units) == 0 {
		return s, nil
	}
	body := rpmScripts(p)
	if kind == "deb" {
		body = debScripts(p)
	}
	dir := filepath.Join(o.generated(arch), "scripts", p.program.name+"."+kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return s, err
	}
	for field, one := range map[*string]script{
		&s.PostInstall: {"postinst", body.postInstall}, &s.PreRemove: {"prerm", body.preRemove}, &s.PostRemove: {"postrm", body.postRemove},
	} {
		*field = filepath.Join(dir, one.name)
		text := strings.Join(one.lines, "\n") + "\n"
		if kind == "deb" {
			text = "#!/bin/sh\nset -e\n" + text
		}
		if err := os.WriteFile(*field, []byte(text), 0o755); err != nil {
			return s, err
		}
	}
	return s, nil
}

// bodies are the lines of scripts.
type bodies struct{ postInstall, preRemove, postRemove []string }

// debScripts are those of Debian's policy (chapter 6), with what dh_installsystemd writes for
// --no-enable --no-start: the operator writes the configuration first. An upgrade does not stop
// the service, but restarts it when the new program is there.
func debScripts(p parcel) bodies {
	var b bodies
	in := func(lines *[]string, text string) { *lines = append(*lines, text) }
	in(&b.postInstall, `case "$1" in configure|abort-upgrade|abort-deconfigure|abort-remove) ;; *) exit 0 ;; esac`)
	if p.group != "" {
		in(&b.postInstall, p.makeGroup())
	}
	if p.makesDirectories() {
		in(&b.postInstall, `if [ "$1" = configure ] && command -v systemd-tmpfiles >/dev/null; then`)
		in(&b.postInstall, "	systemd-tmpfiles --create "+p.program.name+".conf || true\nfi")
	}
	if p.install != "" {
		in(&b.postInstall, strings.TrimSuffix(unindented(p.install), "\n"))
	}
	in(&b.postInstall, `if [ -d /run/systemd/system ]; then systemctl --system daemon-reload >/dev/null || true; fi`)
	in(&b.preRemove, `[ "$1" = remove ] || exit 0`)
	in(&b.postRemove, `if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl --system daemon-reload >/dev/null || true; fi`)
	in(&b.postRemove, `[ "$1" = purge ] || exit 0`)
	for _, u := range p.units {
		if !u.restart {
			continue
		}
		in(&b.postInstall, fmt.Sprintf("if deb-systemd-helper debian-installed %[1]s; then\n"+
			"	deb-systemd-helper unmask %[1]s >/dev/null || true\n"+
			"	if deb-systemd-helper --quiet was-enabled %[1]s; then deb-systemd-helper enable %[1]s >/dev/null || true; fi\nfi\n"+
			"deb-systemd-helper update-state %[1]s >/dev/null || true\n"+
			"if [ -n \"$2\" ] && [ -d /run/systemd/system ]; then deb-systemd-invoke try-restart %[1]s || true; fi", u.name))
		in(&b.preRemove, fmt.Sprintf("if [ -d /run/systemd/system ]; then deb-systemd-invoke stop %s || true; fi", u.name))
		in(
			&b.postRemove,
			fmt.Sprintf("if command -v deb-systemd-helper >/dev/null; then deb-systemd-helper purge %s >/dev/null || true; fi", u.name),
		)
	}
	if p.remove != "" {
		in(&b.preRemove, strings.TrimSuffix(unindented(p.remove), "\n"))
	}
	for _, dir := range p.state {
		in(&b.postRemove, "rm -rf "+dir)
	}
	return b
}

// makesDirectories reports whether the package has a file for systemd-tmpfiles.
func (p parcel) makesDirectories() bool {
	name := "/usr/lib/tmpfiles.d/" + p.program.name + ".conf"
	return slices.ContainsFunc(p.files, func(f file) bool { return f.destination == name })
}

// makeGroup makes the group, also where systemd is not. A removal leaves it, because files may belong to it.
func (p parcel) makeGroup() string {
	return fmt.Sprintf("if command -v systemd-sysusers >/dev/null; then systemd-sysusers %s.conf || true\n"+
		"else getent group %[2]s >/dev/null || groupadd --system %[2]s || true; fi", p.program.name, p.group)
}

// rpmScripts are those of RPM: $1 is how many versions are there afterwards.
func rpmScripts(p parcel) bodies {
	var b bodies
	var restarted []string
	for _, u := range p.units {
		if u.restart {
			restarted = append(restarted, u.name)
		}
	}
	daemonReload := "if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi"
	if p.group != "" {
		b.postInstall = append(b.postInstall, p.makeGroup())
	}
	if p.makesDirectories() {
		b.postInstall = append(b.postInstall,
			"if command -v systemd-tmpfiles >/dev/null; then systemd-tmpfiles --create "+p.program.name+".conf || :; fi")
	}
	b.postInstall = append(b.postInstall, daemonReload,
		`if [ "$1" -eq 1 ] && command -v systemctl >/dev/null; then systemctl --no-reload preset `+strings.Join(restarted, " ")+" || :; fi",
	)
	if p.install != "" {
		b.postInstall = append(b.postInstall, strings.TrimSuffix(unindented(p.install), "\n"))
	}
	b.preRemove = []string{
		`[ "$1" -eq 0 ] || exit 0`,
		"if [ -d /run/systemd/system ]; then systemctl --no-reload disable --now " + strings.Join(restarted, " ") + " || :; fi",
	}
	if p.remove != "" {
		b.preRemove = append(b.preRemove, strings.TrimSuffix(unindented(p.remove), "\n"))
	}
	b.postRemove = []string{
		daemonReload,
		`if [ "$1" -ge 1 ] && [ -d /run/systemd/system ]; then systemctl try-restart ` + strings.Join(restarted, " ") + " || :; fi",
	}
	return b
}

// unindented is a block of lines without the tab before each.
func unindented(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "\t"), "\n\t", "\n")
}
