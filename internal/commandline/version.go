// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the version of this tree, set by the build with the commit.
func Version() string { return version }

// version and commit are set by the linker.
var version, commit = "devel", ""

// BuiltFrom is the commit, or what Go knows of it where make did not build;
// empty when unknown.
func BuiltFrom() string {
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

func newVersionCommand(opts *Options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return opts.printVersion(cmd.OutOrStdout())
		},
	}
}

func (o *Options) printVersion(w io.Writer) error {
	if o.JSON {
		return PrintJSON(w, map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintln(w, o.program, version)
	return err
}
