// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

// component is something that others wrote and a program contains.
type component struct {
	id       string // an identifier of SPDX
	name     string
	version  string
	license  string // an expression of SPDX; "": not known
	locator  string // its package URL
	licences []text
}

// text is a file with a licence.
type text struct{ name, content string }

// components lists what a program contains of others: Go's library, Go's modules, DuckDB, the libraries of the
// console, and C's libraries where they are linked statically. What a module or DuckDB contains in its turn is a
// part of it.
func (o Options) components(ctx context.Context, p program, arch string, info *buildinfo.BuildInfo) ([]component, error) {
	list, err := o.goComponents(ctx, p.source, arch, info)
	if err != nil {
		return nil, err
	}
	if p.libraries != "" {
		libraries, err := o.scripts(p.libraries)
		if err != nil {
			return nil, err
		}
		list = append(list, libraries...)
	}
	if p.cgo && !slices.Contains(p.dynamic, arch) {
		libraries, err := o.cLibraries(ctx, arch)
		if err != nil {
			return nil, err
		}
		list = append(list, libraries...)
	}
	return list, nil
}

// goComponents are Go's library and the modules that Go's linker noted in the program.
func (o Options) goComponents(ctx context.Context, source, arch string, info *buildinfo.BuildInfo) ([]component, error) {
	directories, err := o.run(ctx, []string{"GOARCH=" + arch, "CGO_ENABLED=1"},
		"go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", source)
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
	where["stdlib"] = strings.TrimSpace(string(goroot))
	var list []component
	add := func(path, version string) error {
		licences, err := licencesIn(where[path])
		list = append(list, component{
			id: "Go-" + path, name: path, version: version, licences: licences,
			locator: fmt.Sprintf("pkg:golang/%s@%s", path, url.QueryEscape(version)),
		})
		if err != nil {
			return fmt.Errorf("%s %s: %w", path, version, err)
		}
		return nil
	}
	if err := add("stdlib", strings.TrimPrefix(info.GoVersion, "go")); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "github.com/waymark-net/") { // the program itself
			continue
		}
		if err := add(m.Path, m.Version); err != nil {
			return nil, err
		}
		if strings.HasPrefix(m.Path, duckdbLibraries) {
			version, err := duckdbVersion(m.Version)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Path, err)
			}
			list = append(list, component{
				id: "DuckDB", name: "duckdb", version: version, license: "MIT", licences: list[len(list)-1].licences,
				locator: "pkg:github/duckdb/duckdb@v" + version,
			})
		}
	}
	return list, nil
}

// duckdbLibraries begins the names of the modules that have DuckDB itself, compiled for a system. Reports of
// vulnerabilities name DuckDB and its version, which those of the modules only contain.
const duckdbLibraries = "github.com/duckdb/duckdb-go-bindings/lib/"

// duckdbVersion is the version of DuckDB in a version of these modules: 0.10506.0 has 1.5.6, as the module's README
// says.
func duckdbVersion(module string) (string, error) {
	_, rest, _ := strings.Cut(module, ".")
	digits, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 10500 {
		return "", fmt.Errorf("the version %s does not contain that of DuckDB as of 1.5.0 and later", module)
	}
	return fmt.Sprintf("%d.%d.%d", n/10000, n/100%100, n%100), nil
}

// licencesIn reads the files of a directory that say a licence.
func licencesIn(dir string) ([]text, error) {
	var list []text
	for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if stat, err := os.Stat(name); err != nil || stat.IsDir() {
				continue
			}
			content, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			list = append(list, text{filepath.Base(name), string(content)})
		}
	}
	if dir == "" || len(list) == 0 {
		return nil, fmt.Errorf("no file with its licence in %q", dir)
	}
	slices.SortFunc(list, func(a, b text) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// scripts reads the list of npm's packages that the build of the console writes.
func (o Options) scripts(name string) ([]component, error) {
	data, err := os.ReadFile(filepath.Join(o.Root, name))
	if err != nil {
		return nil, problem.Wrap(err, "run: make console-assets")
	}
	var packages []struct{ Name, Version, License, Text string }
	if err := json.Unmarshal(data, &packages); err != nil {
		return nil, problem.Wrap(fmt.Errorf("%s: %w", name, err), "run: make console-assets")
	}
	var list []component
	for _, p := range packages {
		list = append(list, component{
			id: "Npm-" + p.Name, name: p.Name, version: p.Version, license: p.License,
			locator: fmt.Sprintf("pkg:npm/%s@%s", strings.Replace(p.Name, "@", "%40", 1), p.Version), licences: []text{{"LICENSE", p.Text}},
		})
	}
	return list, nil
}

// staticLibraries are those of C that a static program with C++ contains, with their licences.
var staticLibraries = []struct{ file, name, license string }{
	{"libc.a", "glibc", lgpl}, {"libgcc.a", "libgcc", exception}, {"libstdc++.a", "libstdc++", exception},
}

// Licences of C's libraries.
const (
	lgpl      = "LGPL-2.1-or-later"
	exception = "GPL-3.0-or-later WITH GCC-exception-3.1"
)

// cLibraries asks the compiler and Debian's packages for them.
func (o Options) cLibraries(ctx context.Context, arch string) ([]component, error) {
	compiler := "gcc"
	if arch != runtime.GOARCH {
		compiler = crossCompilers[arch]
	}
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("what C's libraries are is not known: %w", err),
			"build the packages on Debian",
		)
	}
	var list []component
	for _, l := range staticLibraries {
		file, err := o.run(ctx, nil, compiler, "-print-file-name="+l.file)
		if err != nil {
			return nil, err
		}
		owner, err := o.run(ctx, nil, "dpkg-query", "--search", filepath.Clean(strings.TrimSpace(string(file))))
		if err != nil {
			return nil, err
		}
		installed, _, _ := bytes.Cut(owner, []byte(": "))
		source, err := o.run(ctx, nil, "dpkg-query", "--show", "--showformat", "${source:Package} ${source:Version}", string(installed))
		if err != nil {
			return nil, err
		}
		from, version, _ := strings.Cut(string(source), " ")
		named, _, _ := strings.Cut(string(installed), ":")
		content, err := os.ReadFile(path.Join("/usr/share/doc", named, "copyright"))
		if err != nil {
			return nil, err
		}
		one, err := ofDebian(l.name, l.license, from, version, string(content))
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// commonLicences are the texts, in /usr/share/common-licenses, that the copyright files of Debian's packages refer to.
var commonLicences = map[string]string{lgpl: "LGPL-2.1", exception: "GPL-3"}

// ofDebian is a component of a source package of Debian.
func ofDebian(name, license, source, version, copyright string) (component, error) {
	of := commonLicences[license]
	common, err := os.ReadFile(path.Join("/usr/share/common-licenses", of))
	return component{
		id: "Debian-" + name, name: name, version: version, license: license,
		locator:  fmt.Sprintf("pkg:deb/debian/%s@%s?arch=source", source, url.QueryEscape(version)),
		licences: []text{{"copyright", copyright}, {of, string(common)}},
	}, err
}

// licencesOf are the texts of the licences of components.
func licencesOf(list []component) []byte {
	var b bytes.Buffer
	for _, c := range list {
		for _, t := range c.licences {
			fmt.Fprintf(&b, "==== %s %s: %s\n\n%s\n", c.name, c.version, t.name, strings.TrimSpace(t.content))
		}
	}
	return b.Bytes()
}
