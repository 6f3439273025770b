// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Packages are of the tree whose version they have, or there are none; and what an earlier build left is taken for
// packages of this version only if all of them are there, as they were written.
func TestPackagesAreOfTheirTree(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	version, shared := script(t, "version.sh"), script(t, "interop/shared.sh")
	const build = `#!/bin/sh
set -e
mkdir -p build/packages
for p in waymark waymark-collector waymark-lab; do
	for a in amd64 arm64; do echo $p >build/packages/$p-$(scripts/version.sh)-linux-$a.tar.gz; done
done
(cd build/packages && sha256sum * >SHA256SUMS)
`
	for _, tt := range []struct{ name, meanwhile, want string }{
		{"the tree stays", "", ""},
		{"a commit meanwhile", "git -c user.name=x -c user.email=x@example.net commit -q --allow-empty -m meanwhile\n", "the tree has changed meanwhile"},
		{"an edit meanwhile", "echo later >docs/new.md\n", "the tree has changed meanwhile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "Makefile", string(makefile))
			write(t, root, "VERSION", "1.2.0\n")
			write(t, root, ".gitignore", "build/\n")
			write(t, root, "scripts/interop/shared.sh", shared)
			executable(t, root, "scripts/version.sh", version)
			executable(t, root, "tools/go", build+tt.meanwhile)
			git(t, root, "init", "-q")
			document(t, root, "of now\n")
			run := func(name string, args ...string) (string, error) {
				cmd := exec.Command(name, args...)
				cmd.Dir, cmd.Env = root, append(os.Environ(), "PATH="+filepath.Join(root, "tools")+":"+os.Getenv("PATH"))
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			out, err := run("make", "package")
			if (err == nil) != (tt.want == "") || !strings.Contains(out, tt.want) {
				t.Fatalf("%v: %s\nwant %q", err, out, tt.want)
			}
			packaged := func() bool {
				_, err := run("bash", "-c", `. scripts/interop/shared.sh; packaged "$(scripts/version.sh)"`)
				return err == nil
			}
			if packaged() != (tt.want == "") {
				t.Errorf("packages are there: %v", packaged())
			}
			if tt.want != "" {
				return
			}
			one, err := filepath.Glob(filepath.Join(root, "build/packages/waymark-lab-*-linux-arm64.tar.gz"))
			if err != nil || len(one) != 1 {
				t.Fatalf("%q, %v", one, err)
			}
			for _, spoil := range []func() error{
				func() error { return os.WriteFile(one[0], []byte("half"), 0o600) },
				func() error { return os.Remove(one[0]) },
				func() error { return os.Remove(filepath.Join(root, "build/packages/SHA256SUMS")) },
			} {
				if err := spoil(); err != nil {
					t.Fatal(err)
				}
				if packaged() {
					t.Error("a part of the packages is taken for all")
				}
			}
		})
	}
}
