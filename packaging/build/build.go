// SPDX-License-Identifier: Apache-2.0

// Package build makes the packages of a release: .deb and .rpm by nfpm, tarballs, checksums, and
// a list of what each program is made of (SPDX). The same commit gives the same bytes.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say what is built, and from what.
type Options struct {
	Root          string    // of the repository
	Output        string    // the directory of packages; what else is there stays
	Work          string    // the directory of programs and generated files
	Version       string    // such as 0.1.0 or 0.1.0+20261128.abcdef123456
	Commit        string    // shown by --version
	Time          time.Time // of the commit: every time in a package is this one
	Architectures []string
	Programs      []string // nil is all
	Kinds         []string // deb, rpm, tar, oci
	Log           io.Writer
}

// Architectures are those that packages are built for, by Go's names, and what others call them.
var Architectures = []string{"amd64", "arm64"}

// Kinds are the kinds of packages.
var Kinds = []string{"deb", "rpm", "tar", "oci"}

// Run builds the packages.
func Run(ctx context.Context, o Options) error {
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	for _, dir := range []string{o.Output, o.Work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	var written []string
	for _, arch := range o.Architectures {
		for _, p := range chosen {
			names, err := o.build(ctx, p, arch)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", p.program.name, arch, err)
			}
			written = append(written, names...)
		}
	}
	for _, p := range chosen {
		if p.container == nil || !slices.Contains(o.Kinds, "oci") {
			continue
		}
		name, err := o.writeImage(ctx, p)
		if err != nil {
			return fmt.Errorf("image of %s: %w", p.program.name, err)
		}
		fmt.Fprintln(o.Log, filepath.Join(o.Output, name))
		written = append(written, name)
	}
	return o.checksums(written)
}

func (o Options) chosen() ([]parcel, error) {
	all := parcels()
	if o.Programs == nil {
		return all, nil
	}
	var list []parcel
	for _, name := range o.Programs {
		at := slices.IndexFunc(all, func(p parcel) bool { return p.program.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no package %q", name)
		}
		list = append(list, all[at])
	}
	return list, nil
}

// build makes one program's packages for one architecture, and returns the names of the files.
func (o Options) build(ctx context.Context, p parcel, arch string) ([]string, error) {
	if err := o.compile(ctx, p.program, arch); err != nil {
		return nil, err
	}
	if err := o.generate(ctx, p, arch); err != nil {
		return nil, err
	}
	var written []string
	for _, kind := range o.Kinds {
		if kind == "oci" { // one for all architectures
			continue
		}
		write := o.writePackage
		if kind == "tar" {
			write = o.writeTarball
		}
		name, err := write(p, arch, kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		fmt.Fprintln(o.Log, filepath.Join(o.Output, name))
		written = append(written, name)
	}
	sbom := fmt.Sprintf("%s_%s_%s.spdx.json", p.program.name, o.fileVersion(), arch)
	from, err := os.ReadFile(filepath.Join(o.generated(arch), p.program.name+".spdx.json"))
	if err != nil {
		return nil, err
	}
	return append(written, sbom), os.WriteFile(filepath.Join(o.Output, sbom), from, 0o644)
}

// fileVersion is the version as packages have it: neither Debian nor RPM has a hyphen in it.
func (o Options) fileVersion() string { return strings.ReplaceAll(o.Version, "-", ".") }

// generated is the directory of what is written for the packages of an architecture.
func (o Options) generated(arch string) string { return filepath.Join(o.Work, arch) }

// binary is where a program is compiled to.
func (o Options) binary(name, arch string) string { return filepath.Join(o.Work, arch, "bin", name) }

// files are all files of a package of a kind, globs expanded, in the order of their destinations.
func (o Options) files(p parcel, arch, kind string) ([]file, error) {
	list := []file{{source: filepath.Join("bin", p.program.name), destination: "/usr/bin/" + p.program.name, mode: 0o755, generated: true}}
	pages, err := filepath.Glob(filepath.Join(o.generated(arch), "man", p.program.name, "*.gz"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		name := filepath.Base(page)
		// `waymark lab` has a page, and the program waymark-lab one of the same name.
		if owner := strings.TrimSuffix(name, ".1.gz"); owner != p.program.name &&
			slices.ContainsFunc(parcels(), func(o parcel) bool { return o.program.name == owner }) {
			continue
		}
		list = append(list, file{source: filepath.Join("man", p.program.name, name), destination: "/usr/share/man/man1/" + name, generated: true})
	}
	for _, f := range slices.Concat(p.shared(), p.files) {
		if f.only != "" && f.only != kind {
			continue
		}
		expanded, err := o.expand(f)
		if err != nil {
			return nil, err
		}
		list = append(list, expanded...)
	}
	for i := range list {
		f := &list[i]
		if f.source != "" && f.generated {
			f.source = filepath.Join(o.generated(arch), f.source)
		} else if f.source != "" {
			f.source = filepath.Join(o.Root, f.source)
		}
		if f.mode == 0 {
			f.mode = 0o644
		}
	}
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.destination, b.destination) })
	return list, nil
}

// expand replaces a pattern by the files that match it; a directory is then their destination.
func (o Options) expand(f file) ([]file, error) {
	if !strings.ContainsAny(f.source, "*?[") {
		return []file{f}, nil
	}
	names, err := filepath.Glob(filepath.Join(o.Root, f.source))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no file matches %s: %w", f.source, err)
	}
	var list []file
	for _, name := range names {
		one := f
		one.source, one.destination = filepath.Join(
			filepath.Dir(f.source),
			filepath.Base(name),
		), filepath.Join(
			f.destination,
			filepath.Base(name),
		)
		list = append(list, one)
	}
	return list, nil
}

// checksums writes the file SHA256SUMS, which `sha256sum --check` reads.
func (o Options) checksums(names []string) error {
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		sum, err := digest(filepath.Join(o.Output, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(o.Output, "SHA256SUMS"), []byte(b.String()), 0o644)
}

// digest is the SHA-256 of a file, in hexadecimal.
func digest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
