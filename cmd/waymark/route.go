// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/iproute2"
)

func newRouteCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:     "route [show | add PREFIX encap ioam6 … dev IF | del PREFIX [dev IF]]",
		Aliases: abbreviations("route"),
		Short:   "Change the encapsulations of the running agent, in the words of 'ip -6 route … encap ioam6'",
		Long: `Change which packets get an IOAM header, in the words of 'ip -6 route … encap
ioam6'. A "route" here is an encapsulation by destination prefix: packets to
PREFIX that leave by IF get the header. The kernel's routes stay as they are and
still decide where packets go. Changes are in force at once and last until the
next reload.

  route add PREFIX encap ioam6 [freq K/N] [mode inline|encap|auto]
            [tunsrc ADDR] [tundst ADDR]
            trace prealloc type 0xNNNNNN ns ID size BYTES
            dev IF [name NAME]
  route del {PREFIX|name NAME} [dev IF]
  route show [PREFIX] [dev IF] [name NAME]

PREFIX may be an address, or default. Defaults are iproute2's: freq 1/1, mode
inline; without tunsrc, the address from which the kernel would send to tundst.
NAME is the encapsulation's name, made of PREFIX and IF when absent.`,
		Example: `  waymark route add 2001:db8:2::/64 encap ioam6 freq 1/100 mode encap tundst 2001:db8:23::2 trace prealloc type 0x800000 ns 123 size 12 dev eth1
  waymark route del 2001:db8:2::/64`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			words, err := iproute2.ParseRoute(args)
			if err != nil {
				return usagef("route: %w; see '%s --help'", err, cmd.CommandPath())
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			if words.Verb == iproute2.Add {
				return c.AddEncapsulation(cmd.Context(), words.Rule)
			}
			rules, err := c.Encapsulations(cmd.Context())
			if err != nil {
				return err
			}
			chosen := selectRules(rules, words.Rule)
			if words.Verb == iproute2.Del {
				rule, err := theRule(chosen, words.Rule)
				if err != nil {
					return err
				}
				return c.RemoveEncapsulation(cmd.Context(), rule.Name)
			}
			if opts.json {
				return printJSON(cmd.OutOrStdout(), chosen)
			}
			for _, e := range chosen {
				fmt.Fprintln(cmd.OutOrStdout(), iproute2.FormatRoute(e))
			}
			return nil
		},
	}
}

// selectRules is the rules that agree with what was said of them.
func selectRules(rules []config.Encapsulation, by config.Encapsulation) []config.Encapsulation {
	chosen := []config.Encapsulation{}
	for _, e := range rules {
		destination := !by.Match.Destination.IsValid() || by.Match.Destination == e.Match.Destination ||
			by.Match.Destination.Bits() == 0 && !e.Match.Destination.IsValid()
		if destination && (by.Name == "" || by.Name == e.Name) && (by.Interface == "" || by.Interface == e.Interface) {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// theRule is the one rule to delete. A rule with criteria that the words of a
// route cannot say goes only by its name.
func theRule(chosen []config.Encapsulation, by config.Encapsulation) (config.Encapsulation, error) {
	var simple []config.Encapsulation
	var names []string
	for _, e := range chosen {
		names = append(names, e.Name)
		if by.Name != "" || iproute2.DestinationOnly(e.Match) {
			simple = append(simple, e)
		}
	}
	switch {
	case len(simple) == 1:
		return simple[0], nil
	case len(chosen) == 0:
		return config.Encapsulation{}, fmt.Errorf("no such route; list them with 'waymark route show'")
	default:
		return config.Encapsulation{}, fmt.Errorf("this may be several rules (%s); say name NAME", strings.Join(names, ", "))
	}
}
