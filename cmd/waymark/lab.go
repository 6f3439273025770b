// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/demo"
)

func newLabCommand(opts *options) *cobra.Command {
	name := lab.DefaultName
	cmd := newGroup("lab", "Raise networks of namespaces on this machine and try things out in them",
		newLabUpCommand(opts, &name),
		newLabDownCommand(&name),
		newLabExecCommand(&name),
		newLabShowCommand(opts, &name),
		newLabListCommand(opts),
		newLabTrafficCommand(opts, &name),
		newLabDemoCommand(),
	)
	cmd.Long = `A lab is a topology of nodes, each a network namespace called LAB-NODE, joined
by veth pairs and served by agents. It lasts until it is taken down.

Built-in topologies: ` + strings.Join(lab.BuiltinNames(), ", ") + `.`
	for _, child := range cmd.Commands() {
		if child.Name() != "list" && child.Name() != "demo" {
			child.Flags().StringVar(&name, "name", lab.DefaultName, "the lab's `NAME`")
		}
	}
	return cmd
}

func newLabUpCommand(opts *options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "up [TOPOLOGY|FILE]",
		Short: "Raise a topology, with its agents",
		Long: `Raise a built-in topology (default: line) or the one in a YAML file: make its
namespaces and links, and start its agents. When anything fails, or the command
is interrupted, everything it has made is removed.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			which := "line"
			if len(args) > 0 {
				which = args[0]
			}
			t, err := lab.Load(which)
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			l, err := lab.Up(ctx, t, lab.Options{Name: *name, Program: program, Log: labLog(cmd)})
			if err != nil {
				return err
			}
			return printLab(cmd.OutOrStdout(), l, opts.json)
		},
	}
}

func newLabDownCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take a lab down, with all that runs in it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return l.Down(cmd.Context())
		},
	}
}

func newLabExecCommand(name *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec NODE [--] [COMMAND [ARGUMENT...]]",
		Short: "Run a command in a node (default: a shell)",
		Long: `Run a command in a node, with this terminal. The exit code is the command's. Only
the network namespace changes: /sys and the mounts are those of the machine.`,
		Example: "  waymark lab exec alpha -- ping -c 3 2001:db8:2::2\n  waymark lab exec aramis -- waymark observe",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			node := l.Node(args[0])
			if node == nil {
				var known []string
				for _, n := range l.Topology().Nodes {
					known = append(known, n.Name)
				}
				return fmt.Errorf("the lab %s has no node %s; it has %s", *name, args[0], strings.Join(known, ", "))
			}
			command := args[1:]
			if len(command) > 0 && command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				command = []string{shell()}
			}
			return node.Exec(command)
		},
	}
	// What follows NODE is the command's, flags too.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func shell() string {
	if s := os.Getenv("SHELL"); s != "" {
		return s
	}
	return "sh"
}

func newLabShowCommand(opts *options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the nodes, links and processes of a lab",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return printLab(cmd.OutOrStdout(), l, opts.json)
		},
	}
}

func newLabListCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the labs that are up, and the built-in topologies",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := lab.List()
			if err != nil {
				return err
			}
			list := struct {
				Labs       []string `json:"labs"`
				Topologies []string `json:"topologies"`
			}{append([]string{}, names...), lab.BuiltinNames()}
			if opts.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
			}
			for _, n := range list.Labs {
				fmt.Fprintf(cmd.OutOrStdout(), "lab\t%s\n", n)
			}
			for _, n := range list.Topologies {
				t, err := lab.Builtin(n)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "topology\t%s\t%s\n", n, t.Description)
			}
			return nil
		},
	}
}

func newLabTrafficCommand(opts *options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "traffic [NAME...]",
		Short: "Send the topology's traffic (default: all of it)",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return sendTraffic(cmd, l, args, opts.json)
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
			return usagef("the topology has no traffic called %s; it has %s", w, strings.Join(all, ", "))
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

func newLabDemoCommand() *cobra.Command {
	name := demo.DefaultName
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch packets cross a five-node IOAM domain, then tidy up",
		Long: `Raise the topology line, send ping, UDP and TCP traffic from alpha to beta, print
the way of every traced packet as it is reported, and prove that what beta
received carries no IOAM. It ends by itself and leaves nothing behind.

On a terminal each packet is a small block; otherwise one line, and the last line
is "demo: traced=N delivered=N ioam_bytes_at_beta=0". The exit code is 0 only when
packets were traced, all of them arrived, and no byte of IOAM did.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			terminal := isTerminal(cmd.OutOrStdout())
			return demo.Run(ctx, demo.Options{
				Program: program, Name: name, Out: cmd.OutOrStdout(), Log: labLog(cmd),
				Terminal: terminal, Colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", demo.DefaultName, "the `NAME` of the demo's lab")
	return cmd
}

// untilHangup ends the context, too, when the terminal or the reader of the
// output goes away: either would end the program with half a lab left.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, unix.SIGHUP, unix.SIGPIPE)
}

// labLog reports only what went wrong without stopping the command.
func labLog(cmd *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func printLab(w io.Writer, l *lab.Lab, asJSON bool) error {
	status, err := l.Status()
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w).Encode(status)
	}
	fmt.Fprintf(w, "lab %s, topology %s\n", status.Name, status.Topology)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tNAMESPACE\tAGENT\tINTERFACE\tPEER\tADDRESSES")
	for _, n := range status.Nodes {
		agent := "-"
		if n.Agent != "" {
			agent = "yes"
		}
		namespace := n.Namespace
		if !n.Up {
			namespace += " (gone)"
		}
		for _, i := range n.Links {
			var addresses []string
			for _, a := range i.Addresses {
				addresses = append(addresses, a.String())
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, namespace, agent, i.Name, i.Peer, strings.Join(addresses, " "))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range status.Processes {
		fmt.Fprintf(w, "process %d in %s: %s\n", p.PID, p.Node, p.Command)
	}
	return nil
}
