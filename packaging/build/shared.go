// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/packaging/image"
)

// A cLibrary is a file of C's libraries, and whose it is.
type cLibrary struct{ file, name, license string }

// Licences of C's libraries.
const (
	lgpl      = "LGPL-2.1-or-later"
	exception = "GPL-3.0-or-later WITH GCC-exception-3.1"
)

// sharedLibraries are those that a program with C++ may load when it starts, and their loader.
var sharedLibraries = []cLibrary{
	{"libc.so.6", "glibc", lgpl}, {"libm.so.6", "glibc", lgpl}, {"libpthread.so.0", "glibc", lgpl}, {"libdl.so.2", "glibc", lgpl},
	{"librt.so.1", "glibc", lgpl}, {"ld-linux-aarch64.so.1", "glibc", lgpl}, {"ld-linux-x86-64.so.2", "glibc", lgpl},
	{"libgcc_s.so.1", "libgcc", exception}, {"libstdc++.so.6", "libstdc++", exception},
}

// A loaded is a library that a program loads.
type loaded struct {
	cLibrary
	source, destination string
}

// loadedBy finds what a program loads when it starts: its loader, the libraries that it names, and those that these name.
// They are the compiler's, and are found in an image where the loader looks for them.
func (o Options) loadedBy(ctx context.Context, program, arch string) ([]loaded, error) {
	triple := strings.TrimSuffix(crossCompilers[arch], "-gcc")
	var list []loaded
	add := func(name, destination string) error {
		if slices.ContainsFunc(list, func(l loaded) bool { return l.file == name }) {
			return nil
		}
		known := slices.IndexFunc(sharedLibraries, func(l cLibrary) bool { return l.file == name })
		if known < 0 {
			return fmt.Errorf("%s is none of the libraries that an image has", name)
		}
		source, err := o.libraryFile(ctx, arch, name)
		if err == nil {
			list = append(list, loaded{sharedLibraries[known], source, destination})
		}
		return err
	}
	loader, names, err := needs(program)
	if err != nil {
		return nil, err
	}
	if err := add(path.Base(loader), loader); err != nil {
		return nil, err
	}
	for len(names) > 0 {
		before := len(list)
		for _, name := range names {
			if err := add(name, path.Join("/usr/lib", triple, name)); err != nil {
				return nil, err
			}
		}
		names = nil
		for _, l := range list[before:] {
			_, more, err := needs(l.source)
			if err != nil {
				return nil, err
			}
			names = append(names, more...)
		}
	}
	return list, nil
}

// needs are the loader of a program, and the libraries that a program or a library names.
func needs(file string) (loader string, names []string, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, p.Filesz)
			if _, err := p.ReadAt(text, 0); err != nil {
				return "", nil, err
			}
			loader = strings.TrimRight(string(text), "\x00")
		}
	}
	names, err = f.ImportedLibraries()
	return loader, names, err
}

// libraryFile is where the compiler for an architecture finds a library.
func (o Options) libraryFile(ctx context.Context, arch, name string) (string, error) {
	compiler := "gcc"
	if arch != runtime.GOARCH {
		compiler = crossCompilers[arch]
	}
	found, err := o.run(ctx, nil, compiler, "-print-file-name="+name)
	file := filepath.Clean(strings.TrimSpace(string(found)))
	if err == nil && !filepath.IsAbs(file) { // it gives the name back
		err = fmt.Errorf("%s does not find %s", compiler, name)
	}
	return file, err
}

// withLibraries are the libraries of a program that loads some, for its image, and the documents that have these, too.
func (o Options) withLibraries(ctx context.Context, p parcel, arch string) (files []image.File, licences, sbom string, err error) {
	list, err := o.loadedBy(ctx, o.binary(p.program.name, arch), arch)
	if err != nil {
		return nil, "", "", err
	}
	info, err := buildinfo.ReadFile(o.binary(p.program.name, arch))
	if err != nil {
		return nil, "", "", err
	}
	contained, err := o.components(ctx, p.program, arch, info)
	if err != nil {
		return nil, "", "", err
	}
	var first []cLibrary // of each name
	for _, l := range list {
		files = append(files, image.File{Source: l.source, Destination: l.destination, Mode: 0o755})
		if !slices.ContainsFunc(first, func(f cLibrary) bool { return f.name == l.name }) {
			first = append(first, l.cLibrary)
		}
	}
	libraries, err := o.cLibraries(ctx, arch, first)
	if err != nil {
		return nil, "", "", err
	}
	contained = append(contained, libraries...)
	licences, sbom = p.program.name+".image.licenses.gz", p.program.name+".image.spdx.json"
	if err := writeGzip(filepath.Join(o.generated(arch), licences), licencesOf(contained)); err != nil {
		return nil, "", "", err
	}
	return files, licences, sbom, o.writeSBOM(p, arch, sbom, contained)
}
