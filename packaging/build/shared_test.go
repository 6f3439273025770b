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

	"github.com/waymark-net/waymark/packaging/image"
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
	list, err := loadedBy(program, runtime.GOARCH, "/")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(list, image.File{Source: program, Destination: "/one"}) {
		content, err := os.ReadFile(f.Source)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, f.Destination)
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
}

// What a program loads that no package has is an error, and is named.
func TestLoadedUnknown(t *testing.T) {
	work := t.TempDir()
	source, program := filepath.Join(work, "one.c"), filepath.Join(work, "one")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-o", program, source, "-Wl,--no-as-needed", "-lresolv").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := t.TempDir()
	loader, _, err := needs(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{loader, "/lib/" + triple(runtime.GOARCH) + "/libc.so.6"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(program, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = loadedBy(program, runtime.GOARCH, root)
	if err == nil || !strings.Contains(err.Error(), "one loads libresolv.so.2, ") {
		t.Errorf("%v", err)
	}
}
