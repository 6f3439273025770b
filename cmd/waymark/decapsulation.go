// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/iproute2"
)

func newDecapsulationCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "decapsulation [show | add ADDR [source PREFIX]... [bare] | del ADDR]",
		Aliases: []string{"decap"},
		Short:   "Show, add and remove the tunnels that end at this node",
		Long: `Show, add and remove the tunnels that end at the running agent's node: ADDR is
the destination of their outer header. Packets are decapsulated on interfaces
with the role ingress. Changes are in force at once and last until the next
reload; to keep them, write them into the file.

Without more words, packets with IOAM of a namespace of the node are accepted.
With source, only packets from these outer sources are accepted, with or without
IOAM; nobare requires IOAM, too. bare accepts packets without IOAM.

If nodes still tunnel to a removed address, their traced packets are lost:
remove their encapsulations first.`,
		Example: `  waymark decapsulation add 2001:db8:ff::3
  waymark decapsulation add 2001:db8:ff::3 source 2001:db8:ff::/64
  waymark decapsulation show
  waymark decapsulation del 2001:db8:ff::3`,
	}
	cmd.ValidArgsFunction = completeDecapsulationWords(opts)
	return inWords(
		opts,
		cmd,
		"decapsulation",
		iproute2.ParseDecapsulation,
		func(cmd *cobra.Command, c *api.Client, words iproute2.DecapsulationCommand) error {
			switch ctx := cmd.Context(); words.Verb {
			case iproute2.Add:
				done, err := c.AddDecapsulation(ctx, words.Decapsulation)
				return opts.changed(cmd, done, err)
			case iproute2.Del:
				done, err := c.RemoveDecapsulation(ctx, words.Decapsulation.TunnelDestination)
				return opts.changed(cmd, done, err)
			}
			list, err := c.Decapsulations(cmd.Context())
			if err != nil {
				return err
			}
			return commandline.PrintList(&opts.Options, cmd.OutOrStdout(), list, iproute2.FormatDecapsulation)
		},
	)
}

// completeDecapsulationWords offers the command's words, and the addresses that del can
// remove.
func completeDecapsulationWords(opts *options) cobra.CompletionFunc {
	return commandline.Completing(func(cmd *cobra.Command, args []string) []cobra.Completion {
		switch {
		case len(args) == 0:
			return []cobra.Completion{"show", "add", "del"}
		case len(args) >= 2 && args[0] == "add" && args[len(args)-1] != "source":
			return []cobra.Completion{"source", "bare", "nobare"}
		case len(args) == 1 && args[0] == "del":
			return named(opts, cmd, (*api.Client).Decapsulations, func(d config.Decapsulation) string { return d.TunnelDestination.String() })
		}
		return nil
	})
}
