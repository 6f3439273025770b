// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/collector/internal/api"
	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/internal/docgen"
)

// pages are those of the reference that are made from this program, besides its commands.
func pages() map[string][]byte {
	return map[string][]byte{
		"collector-configuration.md": slices.Concat([]byte("# The collector's settings\n\n"+
			"The file of `waymark-collector run --config`, in YAML. `waymark-collector config check` reports its errors, and `config "+
			"show` prints it with all defaults. [How to keep and ask](../how-to/run-a-collector.md).\n"),
			settings.Reference(), []byte(docgen.Footer)),
		"collector-api.json": api.Document(),
	}
}

// writeDocs writes the reference of the program.
func writeDocs(directory string, root *cobra.Command) error {
	if err := docgen.WriteCommands(directory, root); err != nil {
		return err
	}
	for name, text := range pages() {
		if err := os.WriteFile(filepath.Join(directory, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
