// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/config"
)

// A node accepts every complete configuration that a document shows.
func TestConfigurationsInDocuments(t *testing.T) {
	const root = "../.."
	shown := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for number, block := range yamlBlocks(content) {
			if !bytes.Contains(block, []byte("interfaces:")) {
				continue // only a part of a configuration
			}
			shown++
			name := fmt.Sprintf("%s, configuration %d", strings.TrimPrefix(path, root+"/"), number+1)
			if _, err := config.Parse(name, block); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if shown == 0 {
		t.Fatal("no document shows a configuration; has the README lost its example?")
	}
}

func yamlBlocks(content []byte) [][]byte {
	var blocks [][]byte
	for {
		_, rest, found := bytes.Cut(content, []byte("```yaml\n"))
		if !found {
			return blocks
		}
		block, after, found := bytes.Cut(rest, []byte("```"))
		if !found {
			return blocks
		}
		blocks, content = append(blocks, block), after
	}
}
