// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/demo"
	"github.com/waymark-net/waymark/internal/problem"
)

// addCommands adds the commands of this program, and what its help says.
func addCommands(root *cobra.Command, opts *commandline.Options) {
	name := lab.DefaultName
	loss := newLossCommand(opts, &name)
	root.AddCommand(
		newUpCommand(opts, &name),
		newDownCommand(opts, &name),
		newExecCommand(&name),
		newShowCommand(opts, &name),
		newListCommand(opts),
		newTrafficCommand(opts, &name),
		loss,
		newDelayCommand(opts, &name),
		newReorderCommand(opts, &name),
		newDemoCommand(opts),
	)
	root.Long = `A lab is a topology of nodes, each a network namespace called LAB-NODE, joined
by veth pairs and served by agents. It lasts until it is taken down.

Built-in topologies: ` + strings.Join(lab.BuiltinNames(), ", ") + `.

Every command can also be given as 'waymark lab COMMAND'. Agents run the program
waymark from the directory of this program, else from the PATH.`
	for _, child := range slices.Concat(root.Commands(), loss.Commands()) {
		if child.Name() != "list" && child.Name() != "demo" && child != loss {
			child.Flags().StringVar(&name, "name", lab.DefaultName, "the lab's `NAME`")
			if child.Name() != "up" {
				// It fails only for a flag that the command does not have.
				_ = child.RegisterFlagCompletionFunc("name", completeLabs)
			}
		}
	}
}

func newUpCommand(opts *commandline.Options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "up [TOPOLOGY|FILE]",
		Short: "Raise a topology, with its agents",
		Long: `Raise a built-in topology (default: line) or one from a YAML file: make its
namespaces and links, and start its agents. If anything fails, or the command is
interrupted, it removes everything that it has made.`,
		Args:              commandline.AtMostOne("TOPOLOGY or FILE"),
		ValidArgsFunction: completeTopologies,
		RunE: func(cmd *cobra.Command, args []string) error {
			which := "line"
			if len(args) > 0 {
				which = args[0]
			}
			t, err := lab.Load(which)
			if err != nil {
				return err
			}
			l, err := raiseLab(cmd, t, *name)
			if err != nil {
				return err
			}
			return printLab(cmd.OutOrStdout(), l, opts.JSON)
		},
	}
}

// raiseLab raises a topology; when it is interrupted, it removes everything.
func raiseLab(cmd *cobra.Command, t *lab.Topology, name string) (*lab.Lab, error) {
	program, err := commandline.Sibling("waymark")
	if err != nil {
		return nil, err
	}
	var l *lab.Lab
	err = tidily(cmd, func(ctx context.Context) (err error) {
		l, err = lab.Up(ctx, t, lab.Options{Name: name, Program: program, Log: labLog(cmd)})
		if err == nil && ctx.Err() != nil { // interrupted too late for Up to see it
			err = errors.Join(ctx.Err(), l.Down(ctx))
		}
		return err
	})
	return l, err
}

func newDownCommand(opts *commandline.Options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take a lab down, with all its processes",
		Args:  commandline.OnlyFlag("name"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return opts.Done(cmd.OutOrStdout(), tidily(cmd, l.Down))
		},
	}
}

func newExecCommand(name *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec NODE [--name NAME] [--] [COMMAND [ARGUMENT...]]",
		Short: "Run a command in a node (default: a shell)",
		Long: `Run a command in a node, with this terminal. The exit code is the command's; 126
if it cannot be executed, 127 if it does not exist. Only the network namespace
differs: /sys and the mounts are those of the machine.`,
		Example:               "  waymark lab exec alpha -- ping -c 3 2001:db8:2::2\n  waymark lab exec aramis -- waymark observe",
		Args:                  commandline.SomeArguments("NODE"),
		ValidArgsFunction:     completeNodes(name),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Options may also follow NODE: no command begins with a dash.
			node, command := args[0], args[1:]
			if err := cmd.ParseFlags(command); err != nil {
				return cmd.FlagErrorFunc()(cmd, err)
			}
			if help, err := cmd.Flags().GetBool("help"); err == nil && help {
				return cmd.Help()
			}
			command = cmd.Flags().Args()
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			n := l.Node(node)
			switch {
			case n == nil && l.Topology().Node(node) != nil:
				return problem.New(
					fmt.Sprintf("the network namespace of %s is gone", node),
					fmt.Sprintf("take the lab down (waymark lab down --name %s) and raise it again", *name),
				)
			case n == nil:
				return fmt.Errorf("the lab %s has no node %s; it has %s", *name, node, strings.Join(nodeNames(l), ", "))
			}
			if len(command) == 0 {
				command = []string{shell()}
			}
			err = n.Exec(command)
			var search *exec.Error
			if errors.As(err, &search) {
				return commandError{err}
			}
			return err
		},
	}
	// Everything after NODE belongs to the command, flags too.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func nodeNames(l *lab.Lab) []string {
	var names []string
	for _, n := range l.Topology().Nodes {
		names = append(names, n.Name)
	}
	return names
}

func shell() string {
	if s := os.Getenv("SHELL"); s != "" {
		return s
	}
	return "sh"
}

func newShowCommand(opts *commandline.Options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the nodes, links and processes of a lab",
		Args:  commandline.OnlyFlag("name"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return printLab(cmd.OutOrStdout(), l, opts.JSON)
		},
	}
}

func newListCommand(opts *commandline.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the labs that are up, and the built-in topologies",
		Args:  commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, unread := lab.List()
			if unread != nil && opts.JSON {
				return unread
			}
			list := struct {
				Labs       []string `json:"labs"`
				Topologies []string `json:"topologies"`
			}{append([]string{}, names...), lab.BuiltinNames()}
			if opts.JSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, n := range list.Labs {
				fmt.Fprintf(table, "lab\t%s\n", n)
			}
			for _, n := range list.Topologies {
				t, err := lab.Builtin(n)
				if err != nil {
					return err
				}
				fmt.Fprintf(table, "topology\t%s\t%s\n", n, t.Description)
			}
			return errors.Join(unread, table.Flush())
		},
	}
}

func newTrafficCommand(opts *commandline.Options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "traffic [NAME...]",
		Short: "Send the topology's traffic (default: all of it)",

		ValidArgsFunction: completeTraffic(name),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return sendTraffic(cmd, l, args, opts.JSON)
		},
	}
}

// sendTraffic sends the named traffic, one after the other.
func sendTraffic(cmd *cobra.Command, l *lab.Lab, wanted []string, asJSON bool) error {
	known, all := map[string]lab.Traffic{}, []string{}
	for _, t := range l.Topology().Traffic {
		known[t.Name] = t
		all = append(all, t.Name)
	}
	if len(wanted) == 0 {
		wanted = all
	}
	for _, w := range wanted {
		if _, ok := known[w]; !ok {
			return commandline.Usagef("the topology has no traffic called %s; it has %s", w, strings.Join(all, ", "))
		}
	}
	var faults []error
	for _, w := range wanted {
		t := known[w]
		r, err := l.Send(cmd.Context(), t)
		if err != nil {
			return err
		}
		if r.Lost() > 0 {
			faults = append(faults, fmt.Errorf("%s: %d of %d packets were lost", t.Name, r.Lost(), r.Sent))
		}
		if asJSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
				"name": t.Name, "kind": t.Kind, "from": t.From, "to": t.To, "sent": r.Sent, "received": r.Received,
				"duplicate": r.Duplicate, "bytes": r.Bytes, "duration_ns": r.Duration.Nanoseconds(),
			})
			if err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s from %s to %s, ", t.Name, t.Kind, t.From, t.To)
		if t.Kind != lab.KindTCP {
			fmt.Fprintf(cmd.OutOrStdout(), "%d sent, %d received, ", r.Sent, r.Received)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d bytes in %.3f s\n", r.Bytes, r.Duration.Seconds())
	}
	return errors.Join(faults...)
}

func newDemoCommand(opts *commandline.Options) *cobra.Command {
	name, every := demo.DefaultName, false
	var console consoleFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch packets cross an IOAM domain and get lost in an SRv6 network",
		Long: `Raise the topology line, send ping, UDP and TCP traffic from alpha to beta,
print the path of the first packet of each kind, and prove that the packets that
beta received carry no IOAM. Then raise the topology srv6, and lose packets of
its two flows on the links. At the end, a table shows for each node how long it
held packets and how long these took to the next node, and another one for each
link how many were lost and how many the agents measured. The demo removes
everything that it made.

With --packets, the path of every packet is printed as it is reported: on a
terminal as a small block, otherwise as one line. Without a terminal, the last
lines are "demo: links=N lost=N measured=N", of the SRv6 flows, "demo:
exported=N joined=N delivered=N", of Direct Exports, and "demo: traced=N
delivered=N ioam_bytes_at_beta=0", of traces. With --json, each packet is a
record, and the last line an object with these numbers. The exit code is 0 only
if packets were traced, all of them arrived, no byte of IOAM did, and each
measured loss is what was lost.

With --console, it raises another network, with two equal paths, a slow queue, a
lossy link, and a pair of hosts whose packets move to the other path every
minute. It runs a collector there, prints the address at which a browser of this
machine sees the console, and stays until it is interrupted.`,
		Example: "  waymark lab demo\n  waymark lab demo --console --port 8080",
		Args:    commandline.OnlyFlag("name"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := console.check(cmd, opts.JSON || every); err != nil {
				return err
			}
			program, err := commandline.Sibling("waymark")
			if err != nil {
				return err
			}
			if console.console {
				return console.run(cmd, name, program)
			}
			terminal := commandline.IsTerminal(cmd.OutOrStdout()) && !opts.JSON
			return tidily(cmd, func(ctx context.Context) error {
				return demo.Run(ctx, demo.Options{
					Program: program, Name: name, Out: cmd.OutOrStdout(), Log: labLog(cmd), JSON: opts.JSON,
					Terminal: terminal, Colour: !opts.JSON && commandline.HasColour(cmd.OutOrStdout()), Every: every, Screen: opts.View(cmd.OutOrStdout()),
				})
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", demo.DefaultName, "the `NAME` of the demo's lab")
	cmd.Flags().BoolVar(&every, "packets", false, "print the path of every packet, not only the first of each kind")
	console.add(cmd)
	return cmd
}

// labLog reports only problems that do not stop the command.
func labLog(cmd *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
