// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/iproute2"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

func newInterfaceCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "interface [show [IF] | set IF [role ROLES] [boundary BOUNDARY]]",
		SuggestFor: []string{"role", "roles", "boundary", "boundaries", "link", "links"},
		Short:      "Show and change roles and boundaries of the running agent's interfaces",
		Long: `Show and change the roles of the running agent's interfaces, and what happens to
IOAM at those that are the domain's edge. Changes are in force at once and last
until the next reload; to keep them, write them into the file.

  interface set IF [role ROLES] [boundary BOUNDARY]
  interface show [IF]

  ROLES    := none | ingress | egress | ingress,egress
  BOUNDARY := POLICY [ns ID POLICY]...
  POLICY   := drop | strip | ignore

A setting that is not named does not change. Both change at once. boundary sets
the default policy and those of namespaces; a namespace that is not named has
the default. set accepts the words that show prints. 'waymark status' shows an
interface's state and counters.`,
		Example: `  waymark interface set eth0 role none boundary strip
  waymark interface set eth0 boundary drop ns 123 ignore
  waymark interface set eth1 role ingress,egress
  waymark interface show`,
	}
	cmd.ValidArgsFunction = completeInterfaceWords(opts)
	return inWords(opts, cmd, "interface", iproute2.ParseInterface,
		func(cmd *cobra.Command, c *api.Client, words iproute2.InterfaceCommand) error {
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
				done, err := c.SetInterface(cmd.Context(), words.Name, change)
				return opts.changed(cmd, done, err)
			}
			list, err := c.Interfaces(cmd.Context())
			if err != nil {
				return err
			}
			chosen := slices.DeleteFunc(list, func(in config.Interface) bool { return words.Name != "" && in.Name != words.Name })
			if words.Name != "" && len(chosen) == 0 {
				return problem.New(
					fmt.Sprintf("interface show: %q is not an interface that this node serves", words.Name),
					"list them with: waymark interface show",
				)
			}
			return commandline.PrintList(&opts.Options, cmd.OutOrStdout(), chosen, iproute2.FormatInterface)
		})
}

// completeInterfaceWords offers the command's words, and the agent's interfaces.
func completeInterfaceWords(opts *options) cobra.CompletionFunc {
	return commandline.Completing(func(cmd *cobra.Command, args []string) []cobra.Completion {
		switch last := len(args) - 1; {
		case last < 0:
			return []cobra.Completion{"show", "set"}
		case last == 0:
			return named(opts, cmd, (*api.Client).Interfaces, func(in config.Interface) string { return in.Name })
		case args[0] != "set":
		case args[last] == "role":
			return []cobra.Completion{"none", "ingress", "egress", "ingress,egress"}
		case args[last] == "boundary", args[last-1] == "ns":
			return []cobra.Completion{"drop", "strip", "ignore"}
		case args[last-1] == "boundary", last > 2 && args[last-2] == "ns":
			return []cobra.Completion{"ns", "role"}
		case last == 1, args[last-1] == "role":
			return []cobra.Completion{"role", "boundary"}
		}
		return nil
	})
}
