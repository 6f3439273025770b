// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/commandlinetest"
	"github.com/waymark-net/waymark/internal/docgen"
)

var program = commandlinetest.Program{Name: "waymark-lab", Run: run, Root: func() *cobra.Command { return newRoot(newOptions()) }}

func TestCommandsAreDocumented(t *testing.T) {
	program.Documented(t)
	program.Reference(t, "../../docs/reference", map[string][]byte{"waymark-lab.md": docgen.Commands(program.Root())})
}

func TestHelpInJSON(t *testing.T) { program.HelpInJSON(t) }

func TestWrongValuesOfFlags(t *testing.T) {
	program.WrongValues(t, "bool", "uint32", "duration", "string")
}

func TestErrorsInJSON(t *testing.T) {
	dir := t.TempDir()
	none, bad := filepath.Join(dir, "none"), filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: x\nnodes: [{name: x, color: red}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program.ErrorsInJSON(t, bad, []commandlinetest.Failing{
		{Command: "up", Args: none + ".yaml", Code: commandline.ExitFailure},
		{Command: "up", Args: bad, Code: commandline.ExitFailure, Faults: 1},
		{Command: "down", Args: "--name nosuchlab", Code: commandline.ExitFailure},
		{Command: "exec", Args: "--name nosuchlab node", Code: commandline.ExitFailure},
		{Command: "show", Args: "--name nosuchlab", Code: commandline.ExitFailure},
		{Command: "list", Args: "x", Code: commandline.ExitUsage},
		{Command: "traffic", Args: "--name nosuchlab", Code: commandline.ExitFailure},
		{Command: "loss add", Args: "north1 eth1", Code: commandline.ExitUsage},
		{Command: "loss del", Args: "north1 eth1 1 --name nosuchlab", Code: commandline.ExitFailure},
		{Command: "loss show", Args: "--name nosuchlab", Code: commandline.ExitFailure},
		{Command: "delay", Args: "north1 eth1 10ms --name nosuchlab", Code: commandline.ExitFailure},
		{Command: "reorder", Args: "north1 eth1 --every 3 --by 3", Code: commandline.ExitUsage},
		{Command: "demo", Args: "x", Code: commandline.ExitUsage},
		{Command: "completion", Args: "bash", Code: commandline.ExitUsage, Speaks: true},
		{Command: "completion", Args: "ksh", Code: commandline.ExitUsage, Speaks: true},
		{Command: "man", Args: bad + "/x", Code: commandline.ExitFailure},
		{Command: "docs", Args: bad + "/x", Code: commandline.ExitFailure},
		{Command: "version", Args: "x", Code: commandline.ExitUsage},
		{Command: "help", Args: "nosuch", Code: commandline.ExitUsage},
		{Command: "", Args: "nosuch --json", Code: commandline.ExitUsage},
		{Command: "", Args: "--nosuch --json", Code: commandline.ExitUsage}, // --json was not read when this was found
	})
}
