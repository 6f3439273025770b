// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// consoleManifest is what the build of the console writes beside the assets.
const consoleManifest = "collector/internal/console/assets/manifest.json"

// consoleSources are the files that decide about the assets, besides all in src; collector/console/build.mjs
// lists the same.
var consoleSources = []string{"build.mjs", "index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"}

// Console reports whether the console's assets are those that the build made of its sources, by the hashes of both that
// the build noted: that needs neither Node nor npm.
func Console(root string) ([]Finding, error) {
	data, err := os.ReadFile(filepath.Join(root, consoleManifest))
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Sources string
		Files   []struct{ File, Hash string }
	}
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
	hashes := map[string]string{filepath.Base(consoleManifest): ""}
	for _, f := range manifest.Files {
		hashes[f.File] = f.Hash
	}
	return consoleAssets(root, hashes)
}

// consoleAssets compares the assets with the hashes that the build noted, by their names. Those of sources say nothing of
// an asset that was changed by hand, or by a merge.
func consoleAssets(root string, hashes map[string]string) (findings []Finding, err error) {
	directory := path.Dir(consoleManifest)
	list, err := os.ReadDir(filepath.Join(root, directory))
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		hash, known := hashes[entry.Name()]
		delete(hashes, entry.Name())
		same := hash == ""
		if known && !same {
			if same, err = unpackedIs(filepath.Join(root, directory, entry.Name()), hash); err != nil {
				return nil, err
			}
		}
		if !known || !same {
			findings = append(findings, Finding{path.Join(directory, entry.Name()), 1, "it is not what the build made; run: make console-assets"})
		}
	}
	for name := range hashes {
		findings = append(findings, Finding{consoleManifest, 1, name + " is missing; run: make console-assets"})
	}
	return findings, nil
}

// unpackedIs reports whether a file's content has a hash that begins so. One that cannot be unpacked has another.
func unpackedIs(file, hash string) (bool, error) {
	packed, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	from, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return false, nil
	}
	content, err := io.ReadAll(from)
	return err == nil && strings.HasPrefix(fmt.Sprintf("%x", sha256.Sum256(content)), hash), nil
}
