// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A program with C++ runs where there is nothing but it and what an image would have: its loader and its libraries.
func TestLoaded(t *testing.T) {
	work := t.TempDir()
	source, program, root := filepath.Join(work, "one.cc"), filepath.Join(work, "one"), filepath.Join(work, "root")
	text := "#include <cmath>\n#include <iostream>\n" +
		"int main(int n, char **) { try { throw n; } catch (int i) { std::cout << std::cos(i - 1.0) << std::endl; } }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("g++", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list, err := Options{Root: "."}.loadedBy(t.Context(), program, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	files := []loaded{{source: program, destination: "/one"}}
	for _, f := range append(files, list...) {
		content, err := os.ReadFile(f.source)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, f.destination)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("/one")
	run.Dir, run.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root}
	if out, err := run.CombinedOutput(); err != nil || string(out) != "1\n" {
		t.Errorf("%v: %q", err, out)
	}
	libraries, err := Options{Root: "."}.cLibraries(t.Context(), runtime.GOARCH, []cLibrary{list[0].cLibrary})
	if err != nil || len(libraries) != 1 || libraries[0].name != "glibc" || libraries[0].version == "" ||
		!strings.Contains(libraries[0].licences[0].content, "Lesser General Public License") {
		t.Errorf("%v, %v", err, libraries)
	}
}

// What a program loads that no image has is an error, and is named.
func TestLoadedUnknown(t *testing.T) {
	work := t.TempDir()
	source, program := filepath.Join(work, "one.c"), filepath.Join(work, "one")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-o", program, source, "-Wl,--no-as-needed", "-lresolv").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, err := Options{Root: "."}.loadedBy(t.Context(), program, runtime.GOARCH)
	if err == nil || !strings.Contains(err.Error(), "libresolv.so.2") {
		t.Errorf("%v", err)
	}
}
