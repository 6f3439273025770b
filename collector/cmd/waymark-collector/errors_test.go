// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/commandlinetest"
	"github.com/waymark-net/waymark/internal/docgen"
)

var program = commandlinetest.Program{
	Name: "waymark-collector",
	Run:  run,
	Root: func() *cobra.Command { return newRoot(&commandline.Options{}) },
}

func TestCommandsAreDocumented(t *testing.T) {
	program.Documented(t)
	reference := pages()
	reference["waymark-collector.md"] = docgen.Commands(program.Root())
	program.Reference(t, "../../../docs/reference", reference)
}

func TestMisplacedArguments(t *testing.T) {
	program.Usage(t, map[string]string{"collect --wait 5": `--wait "5": want a time with its unit, such as 5s, 200ms or 1m`})
}

func TestEmptyValues(t *testing.T) { program.EmptyValues(t, 8) }

func TestHelpInJSON(t *testing.T) { program.HelpInJSON(t) }

func TestWrongValuesOfFlags(t *testing.T) {
	program.WrongValues(t, "bool", "int", "uint32", "duration", "string", "stringArray")
}

func TestErrorsInJSON(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	program.ErrorsInJSON(t, none, []commandlinetest.Failing{
		{Command: "collect", Args: "--listen udp://127.0.0.1:0 --output " + none + "/x", Code: commandline.ExitFailure},
		{Command: "run", Args: "--config " + none, Code: commandline.ExitFailure},
		{Command: "config check", Args: none, Code: commandline.ExitFailure},
		{Command: "config show", Args: none, Code: commandline.ExitFailure},
		{Command: "store check", Args: "--directory " + none, Code: commandline.ExitFailure},
		{Command: "store compact", Args: "--directory " + none, Code: commandline.ExitFailure},
		{Command: "store export", Args: "--directory " + none + " /dev/null/x", Code: commandline.ExitFailure},
		{Command: "status", Args: "--collector http://[::1]:1", Code: commandline.ExitFailure},
		{Command: "doctor", Args: "--config " + none, Code: commandline.ExitFailure},
		{Command: "completion", Args: "bash", Code: commandline.ExitUsage, Speaks: true},
		{Command: "completion", Args: "ksh", Code: commandline.ExitUsage, Speaks: true},
		{Command: "man", Args: "/dev/null/x", Code: commandline.ExitFailure},
		{Command: "docs", Args: "/dev/null/x", Code: commandline.ExitFailure},
		{Command: "version", Args: "x", Code: commandline.ExitUsage},
		{Command: "help", Args: "nosuch", Code: commandline.ExitUsage},
		{Command: "", Args: "nosuch --json", Code: commandline.ExitUsage},
		{Command: "", Args: "--nosuch --json", Code: commandline.ExitUsage}, // --json was not read when this was found
	})
}
