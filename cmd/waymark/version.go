// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the build.
var version, commit = "devel", ""

// builtFrom is the commit, or what Go knows of it where make did not build;
// empty when nobody knows.
func builtFrom() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	known := make(map[string]string)
	for _, s := range info.Settings {
		known[s.Key] = s.Value
	}
	revision := known["vcs.revision"]
	if revision != "" && known["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return revision
}

func newVersionCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersion(cmd.OutOrStdout(), opts.json)
		},
	}
}

func printVersion(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintln(w, "waymark", version)
	return err
}
