// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// consoleManifest is what the build of the console writes beside the assets.
const consoleManifest = "collector/internal/console/assets/manifest.json"

// consoleSources are the files that decide about the assets, besides all in src; collector/console/build.mjs
// lists the same.
var consoleSources = []string{"build.mjs", "index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"}

// Console reports whether the console's assets are those of its sources, by the hash of these that the build
// noted: that needs neither Node nor npm.
func Console(root string) ([]Finding, error) {
	data, err := os.ReadFile(filepath.Join(root, consoleManifest))
	if err != nil {
		return nil, err
	}
	var manifest struct{ Sources string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		return []Finding{{consoleManifest, 1, err.Error() + "; run: make console-assets"}}, nil
	}
	base := filepath.Join(root, "collector", "console")
	list := slices.Clone(consoleSources)
	err = filepath.WalkDir(filepath.Join(base, "src"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.Contains(entry.Name(), ".test.") {
			return err
		}
		name, err := filepath.Rel(base, file)
		list = append(list, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(list)
	whole := sha256.New()
	for _, name := range list {
		content, err := os.ReadFile(filepath.Join(base, name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(whole, "%x  %s\n", sha256.Sum256(content), name)
	}
	if sum := fmt.Sprintf("%x", whole.Sum(nil)); sum != manifest.Sources {
		return []Finding{{consoleManifest, 1, "the assets are not those of collector/console; run: make console-assets"}}, nil
	}
	return nil, nil
}
