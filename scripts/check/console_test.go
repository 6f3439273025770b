// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"testing"
)

// A source that is changed, added or removed after the build is found.
func TestConsole(t *testing.T) {
	root := t.TempDir()
	for _, directory := range []string{"collector/console", "collector/internal/console/assets"} {
		if err := os.CopyFS(filepath.Join(root, directory, "src"), os.DirFS("../../collector/console/src")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range consoleSources {
		copyFile(t, "../../collector/console/"+name, filepath.Join(root, "collector/console", name))
	}
	copyFile(t, "../../"+consoleManifest, filepath.Join(root, consoleManifest))
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
