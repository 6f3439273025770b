// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waymark-net/waymark/internal/commandline"
)

// A surplus argument, or a word without its group, gives an error that says what to
// type.
func TestMisplacedArguments(t *testing.T) {
	for args, want := range map[string]string{
		"lab down newc1":                "waymark lab down takes no argument; use --name newc1",
		"lab show newc1":                "waymark lab show takes no argument; use --name newc1",
		"lab demo newc1":                "waymark lab demo takes no argument; use --name newc1",
		"lab down newc1 --name x":       `waymark lab down takes no argument, but got "newc1"; see 'waymark lab down --help'`,
		"agent run node.yaml":           "waymark agent run takes no argument; use --config node.yaml",
		"agent run node.yaml -c x.yaml": `waymark agent run takes no argument, but got "node.yaml"; see 'waymark agent run --help'`,
		"config node.yaml":              `"node.yaml" is not a command of "waymark config"; use 'waymark config check node.yaml'`,
		"config chek":                   `unknown command "chek" for "waymark config"; did you mean check?`,
		"reload":                        `unknown command "reload" for "waymark"; did you mean 'waymark agent reload'?`,
		"stop":                          `unknown command "stop" for "waymark"; did you mean 'waymark agent stop'?`,
		"check node.yaml":               `unknown command "check" for "waymark"; did you mean 'waymark config check'?`,
		"run":                           `unknown command "run" for "waymark"; did you mean 'waymark agent run'?`,
		"collect --wait 5":              `--wait "5": want a time with its unit, such as 5s, 200ms or 1m`,
		"status foo":                    `waymark status takes no argument, but got "foo"; see 'waymark status --help'`,
		"observe eth0":                  `waymark observe takes no argument, but got "eth0"; see 'waymark observe --help'`,
		"agent stop now":                `waymark agent stop takes no argument, but got "now"; see 'waymark agent stop --help'`,
		"config check a b":              "waymark config check takes one FILE, but got 2: a b; see 'waymark config check --help'",
		"config check":                  "FILE is missing; see 'waymark config check --help'",
		"decode":                        "FILE is missing; see 'waymark decode --help'",
		"lab exec":                      "NODE is missing; see 'waymark lab exec --help'",
		"lab loss add ingress":          "INTERFACE is missing; see 'waymark lab loss add --help'",
		"lab loss add a eth0":           "which frames are lost? Give one of --every, --burst and --random; see 'waymark lab loss add --help'",
		"lab loss add a b --random 2":   `--random "2": want a probability above 0, at most 1; see 'waymark lab loss add --help'`,
		"lab loss add a b --burst 5/4":  `"5/4" is not a number of frames: want --every N, or --burst B/N with B at most N; see 'waymark lab loss add --help'`,
		"lab loss del a eth0 1 2":       "waymark lab loss del takes NODE INTERFACE NUMBER, but got 4 arguments; see 'waymark lab loss del --help'",
		"lab up a b":                    "waymark lab up takes one TOPOLOGY or FILE, but got 2: a b; see 'waymark lab up --help'",
		"completion ksh":                `there is no completion for "ksh"; write one of bash, zsh, fish`,
	} {
		code, stdout, stderr := runCLI(t, "", strings.Fields(args)...)
		if code != commandline.ExitUsage || stdout != "" || stderr != "waymark: "+want+"\n" {
			t.Errorf("waymark %s: code %d, stdout %q, stderr\n%swant\nwaymark: %s", args, code, stdout, stderr, want)
		}
	}
}

func TestCommandExitCodes(t *testing.T) {
	text := write(t, "text", "")
	for name, want := range map[string]int{"waymark-no-such-command": exitNotFound, text + ".none": exitNotFound, text: exitNoExec} {
		_, err := exec.LookPath(name)
		if got := (commandError{err}).ExitCode(); err == nil || got != want {
			t.Errorf("%s: %v, code %d, want %d", name, err, got, want)
		}
	}
}

// TestEmptyValues gives every flag that takes text an empty value: it is refused
// before anything happens, and the error says what to do.
func TestEmptyValues(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel() // a command that was not refused ends soon
	cli := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(interrupted, args, strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	tried := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if !cmd.Runnable() {
			return
		}
		cmd.InitDefaultHelpFlag()
		visit := func(f *pflag.Flag) {
			if kind := f.Value.Type(); kind != "string" && kind != "stringArray" && kind != "stringSlice" {
				return
			}
			tried++
			args := append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name, "")
			for _, arguments := range [][]string{nil, {"x"}, {"x", "y"}, {"x", "y", "z"}} { // one of them is the right number
				code, stdout, stderr := cli(append(args, arguments...)...)
				if code != commandline.ExitUsage || stdout != "" {
					t.Errorf("waymark %q: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
				}
				if strings.Contains(stderr, "--"+f.Name+" has an empty value; give one, or remove --"+f.Name) {
					return
				}
			}
			t.Errorf("waymark %q: no error says that --%s is empty", args, f.Name)
		}
		cmd.LocalFlags().VisitAll(visit)
	}
	walk(newRoot(newOptions()))
	if tried < 20 {
		t.Errorf("%d flags were tried", tried)
	}
	_, _, stderr := cli("lab", "up", "--name", "", "line")
	if want := "waymark: --name has an empty value; give one, or remove --name for waymark\n"; stderr != want {
		t.Errorf("%q, want %q", stderr, want)
	}
}
