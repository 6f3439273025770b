// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/iproute2"
	"github.com/waymark-net/waymark/internal/model"
)

func newInterfaceCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "interface [show [IF] | set IF [role ROLES] [boundary POLICY]]",
		Short: "Show and change roles and boundaries of the running agent's interfaces",
		Long: `Show and change the roles of the running agent's interfaces, and what happens to
IOAM at those that are the domain's edge. Changes are in force at once and last
until the next reload; to keep them, write them into the file.

  interface set IF [role ROLES] [boundary POLICY]
  interface show [IF]

  ROLES  := none | ingress | egress | ingress,egress
  POLICY := drop | strip | ignore

A setting that is not named stays. Both change at once. set takes the words that
show prints. 'waymark status' has what an interface does and counts.`,
		Example: `  waymark interface set eth0 role none boundary strip
  waymark interface set eth1 role ingress,egress
  waymark interface show`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asksHelp(args) {
				return cmd.Help()
			}
			words, err := iproute2.ParseInterface(args)
			if err != nil {
				return commandline.Usagef("interface: %w; see '%s --help'", err, cmd.CommandPath())
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			if words.Verb == iproute2.Set {
				change := api.InterfaceChange{Boundary: words.Boundary}
				if words.Role != nil {
					change.Role = &[]model.Role{}
					for _, role := range []model.Role{model.RoleIngress, model.RoleEgress} {
						if *words.Role&role != 0 {
							*change.Role = append(*change.Role, role)
						}
					}
				}
				return opts.Done(cmd.OutOrStdout(), adviseEnds(cmd.Context(), cmd.ErrOrStderr(), c, c.SetInterface(cmd.Context(), words.Name, change)))
			}
			list, err := c.Interfaces(cmd.Context())
			if err != nil {
				return err
			}
			return showInterfaces(cmd.OutOrStdout(), list, words.Name, opts.JSON)
		},
	}
	cmd.ValidArgsFunction = completeInterfaceWords(opts)
	return cmd
}

func showInterfaces(w io.Writer, list []config.Interface, name string, asJSON bool) error {
	chosen := slices.DeleteFunc(list, func(in config.Interface) bool { return name != "" && in.Name != name })
	if name != "" && len(chosen) == 0 {
		return fmt.Errorf("interface show: %q is not an interface that this node serves; list them with: waymark interface show", name)
	}
	if asJSON {
		return commandline.PrintJSON(w, append([]config.Interface{}, chosen...)) // [] rather than null
	}
	for _, in := range chosen {
		if _, err := fmt.Fprintln(w, iproute2.FormatInterface(in)); err != nil {
			return err
		}
	}
	return nil
}

func newDecapsulationCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "decapsulation [show | add ADDR [source PREFIX]... [bare] | del ADDR]",
		Aliases: []string{"decap"},
		Short:   "Show, add and remove the tunnels that end at this node",
		Long: `Show, add and remove the tunnels that end at the running agent's node: ADDR is the
destination of their outer header. Packets are decapsulated on interfaces with the
role ingress. Changes are in force at once and last until the next reload; to keep
them, write them into the file.

Without more words, packets are taken that carry IOAM of a namespace of the node.
With source, those of these outer sources alone are taken, whether they carry IOAM
or not; nobare asks for IOAM as well. bare takes packets without IOAM.

Where nodes still tunnel to an address that is removed, their traced packets are
lost: remove their encapsulations first.`,
		Example: `  waymark decapsulation add 2001:db8:ff::3
  waymark decapsulation add 2001:db8:ff::3 source 2001:db8:ff::/64
  waymark decapsulation show
  waymark decapsulation del 2001:db8:ff::3`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asksHelp(args) {
				return cmd.Help()
			}
			words, err := iproute2.ParseDecapsulation(args)
			if err != nil {
				return commandline.Usagef("decapsulation: %w; see '%s --help'", err, cmd.CommandPath())
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			switch ctx := cmd.Context(); words.Verb {
			case iproute2.Add:
				return opts.Done(cmd.OutOrStdout(), adviseEnds(ctx, cmd.ErrOrStderr(), c, c.AddDecapsulation(ctx, words.Decapsulation)))
			case iproute2.Del:
				ended := words.Decapsulation.TunnelDestination
				if err := c.RemoveDecapsulation(ctx, ended); err != nil {
					return err
				}
				for _, w := range health.RemovedTunnelEnds([]netip.Addr{ended}, nil) {
					fmt.Fprintf(cmd.ErrOrStderr(), "waymark: %s: %s\n", w.Severity, w.Text)
				}
				return opts.Done(cmd.OutOrStdout(), nil)
			}
			list, err := c.Decapsulations(cmd.Context())
			if err != nil {
				return err
			}
			if opts.JSON {
				return commandline.PrintJSON(cmd.OutOrStdout(), list)
			}
			for _, d := range list {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), iproute2.FormatDecapsulation(d)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = completeDecapsulationWords(opts)
	return cmd
}

// adviseEnds says when nothing can end at the node after a change that is in
// force now.
func adviseEnds(ctx context.Context, notes io.Writer, c *api.Client, err error) error {
	if err != nil {
		return err
	}
	ws, err := c.Warnings(ctx)
	if err != nil {
		return nil // the change is in force, which is what was asked for
	}
	for _, w := range ws {
		if w.Code == health.DecapUnreached {
			fmt.Fprintf(notes, "waymark: %s: %s; %s\n", w.Severity, w.Text, w.Cure)
		}
	}
	return nil
}

// completeInterfaceWords offers the command's words, and the agent's interfaces.
func completeInterfaceWords(opts *options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var words []cobra.Completion
		switch last := len(args) - 1; {
		case last < 0:
			words = []cobra.Completion{"show", "set"}
		case last == 0:
			if c, err := opts.client(); err == nil {
				list, _ := c.Interfaces(cmd.Context()) // without an agent there are none
				for _, in := range list {
					words = append(words, in.Name)
				}
			}
		case args[0] != "set":
		case args[last] == "role":
			words = []cobra.Completion{"none", "ingress", "egress", "ingress,egress"}
		case args[last] == "boundary":
			words = []cobra.Completion{"drop", "strip", "ignore"}
		case len(args)%2 == 0:
			words = []cobra.Completion{"role", "boundary"}
		}
		return beginning(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeDecapsulationWords offers the command's words, and what del can mean.
func completeDecapsulationWords(opts *options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var words []cobra.Completion
		switch {
		case len(args) == 0:
			words = []cobra.Completion{"show", "add", "del"}
		case len(args) >= 2 && args[0] == "add" && args[len(args)-1] != "source":
			words = []cobra.Completion{"source", "bare", "nobare"}
		case len(args) == 1 && args[0] == "del":
			if c, err := opts.client(); err == nil {
				list, _ := c.Decapsulations(cmd.Context()) // without an agent there are none
				for _, d := range list {
					words = append(words, d.TunnelDestination.String())
				}
			}
		}
		return beginning(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}
