// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A source or an asset that is changed, added or removed after the build is found.
func TestConsole(t *testing.T) {
	root := t.TempDir()
	assets := filepath.Dir(consoleManifest)
	for _, directory := range []string{"collector/console/src", assets} {
		if err := os.CopyFS(filepath.Join(root, directory), os.DirFS(filepath.Join("../..", directory))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range consoleSources {
		copyFile(t, "../../collector/console/"+name, filepath.Join(root, "collector/console", name))
	}
	found := func() int {
		findings, err := Console(root)
		if err != nil {
			t.Fatal(err)
		}
		return len(findings)
	}
	if n := found(); n != 0 {
		t.Fatalf("%d findings about current assets; run: make console-assets", n)
	}
	script := filepath.Join(root, assets, "console.js.gz")
	built, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string][]byte{"altered": packedText(t, "other()"), "cut": built[:len(built)/2], "empty": {}} {
		if err := os.WriteFile(script, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if found() != 1 {
			t.Errorf("an asset that is %s is not noticed", what)
		}
	}
	if err := os.Rename(script, filepath.Join(root, assets, "more.js.gz")); err != nil {
		t.Fatal(err)
	}
	if found() != 2 {
		t.Error("an asset that is missing, and one that is added, are not noticed")
	}
	if err := errors.Join(os.Remove(filepath.Join(root, assets, "more.js.gz")), os.WriteFile(script, built, 0o644)); err != nil {
		t.Fatal(err)
	}
	more := filepath.Join(root, "collector/console/src/screens/more.tsx")
	if err := os.WriteFile(more, []byte("export default 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if found() != 1 {
		t.Error("a new screen is not noticed")
	}
	if err := os.Rename(more, filepath.Join(root, "collector/console/src/more.test.ts")); err != nil {
		t.Fatal(err)
	}
	if found() != 0 {
		t.Error("a test counts as a source")
	}
	if err := os.WriteFile(filepath.Join(root, "collector/console/src/main.tsx"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if found() != 1 {
		t.Error("a changed source is not noticed")
	}
}

func packedText(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
