// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/packaging/image"
)

// sharedLibraries are Debian's packages of what a program with C++ loads when it starts. Those that come with a compiler for
// another architecture get no security updates.
var sharedLibraries = []struct{ pkg, name, license string }{
	{"libc6", "glibc", lgpl}, {"libgcc-s1", "libgcc", exception}, {"libstdc++6", "libstdc++", exception},
}

// triple is the name of directories of libraries for an architecture, with which the name of its compiler begins.
func triple(arch string) string { return strings.TrimSuffix(crossCompilers[arch], "-gcc") }

// withLibraries are the libraries of a program that loads some, for its image, and the documents that have these, too.
func (o Options) withLibraries(ctx context.Context, p parcel, arch string) (files []image.File, licences, sbom string, err error) {
	root, libraries, err := o.fetchLibraries(ctx, arch)
	if err != nil {
		return nil, "", "", err
	}
	program := o.binary(p.program.name, arch)
	if files, err = loadedBy(program, arch, root); err != nil {
		return nil, "", "", err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, "", "", err
	}
	contained, err := o.components(ctx, p.program, arch, info)
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

// fetchLibraries gets the packages of libraries for an architecture, as they are now, and unpacks them. apt checks their
// signatures; it has directories of its own, so that the machine stays as it is.
func (o Options) fetchLibraries(ctx context.Context, arch string) (root string, libraries []component, err error) {
	at, err := filepath.Abs(filepath.Join(o.generated(arch), "libraries")) // apt takes others for paths below the root
	if err == nil {
		err = os.RemoveAll(at)
	}
	if err != nil {
		return "", nil, err
	}
	root = filepath.Join(at, "root")
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "root"} {
		if err := os.MkdirAll(filepath.Join(at, dir), 0o755); err != nil {
			return "", nil, err
		}
	}
	options := []string{
		"-qq", "-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch, "-o", "APT::Sandbox::User=root",
		"-o", "Dir::State::lists=" + filepath.Join(at, "lists"), "-o", "Dir::State::status=/dev/null",
		"-o", "Dir::Cache=" + filepath.Join(at, "cache"),
	}
	get := append(slices.Clone(options), "--download-only", "--reinstall", "--no-install-recommends", "-y", "install")
	for _, l := range sharedLibraries {
		get = append(get, l.pkg)
	}
	for _, args := range [][]string{append(options, "update"), get} {
		if _, err := o.run(ctx, nil, "apt-get", args...); err != nil {
			return "", nil, problem.Wrap(err, "build on Debian with a network, or give --kinds without oci")
		}
	}
	// These have others with them, of which one may have the copyright.
	archives, err := filepath.Glob(filepath.Join(at, "cache", "archives", "*.deb"))
	if err != nil {
		return "", nil, err
	}
	for _, file := range archives {
		if _, err := o.run(ctx, nil, "dpkg-deb", "--extract", file, root); err != nil {
			return "", nil, err
		}
	}
	for _, l := range sharedLibraries {
		found, err := filepath.Glob(filepath.Join(at, "cache", "archives", l.pkg+"_*.deb"))
		if err != nil || len(found) != 1 {
			return "", nil, fmt.Errorf("apt-get got %d packages %s", len(found), l.pkg)
		}
		source, err := o.run(ctx, nil, "dpkg-deb", "--show", "--showformat", "${source:Package} ${source:Version}", found[0])
		if err != nil {
			return "", nil, err
		}
		content, err := os.ReadFile(filepath.Join(root, "usr/share/doc", l.pkg, "copyright"))
		if err != nil {
			return "", nil, err
		}
		from, version, _ := strings.Cut(string(source), " ")
		one, err := ofDebian(l.name, l.license, from, version, string(content))
		if err != nil {
			return "", nil, err
		}
		libraries = append(libraries, one)
	}
	return root, libraries, nil
}

// loadedBy finds what a program loads when it starts: its loader, the libraries that it names, and those that these name.
// root is the directory where they are as on a machine of Debian.
func loadedBy(program, arch, root string) (list []image.File, err error) {
	loader, names, err := needs(program)
	if err != nil {
		return nil, err
	}
	add := func(from []string, to string) (string, error) {
		for _, dir := range from {
			source := filepath.Join(root, dir, path.Base(to))
			if _, err := os.Stat(source); err == nil {
				list = append(list, image.File{Source: source, Destination: to, Mode: 0o755})
				return source, nil
			}
		}
		return "", fmt.Errorf("%s loads %s, which none of the packages of libraries has", filepath.Base(program), path.Base(to))
	}
	directories := []string{path.Join("/lib", triple(arch)), path.Join("/usr/lib", triple(arch))}
	if _, err := add(append(directories, path.Dir(loader)), loader); err != nil {
		return nil, err
	}
	for done := map[string]bool{path.Base(loader): true}; len(names) > 0; names = names[1:] {
		if done[names[0]] {
			continue
		}
		done[names[0]] = true
		source, err := add(directories, path.Join(directories[1], names[0]))
		if err != nil {
			return nil, err
		}
		_, more, err := needs(source)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
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
