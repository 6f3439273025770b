// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/iproute2"
	"github.com/waymark-net/waymark/internal/model"
)

const routeHelp = `Change which packets get an IOAM header, in the words of 'ip -6 route … encap
ioam6' and 'ip rule'. A "route" here is an encapsulation by destination prefix:
packets to PREFIX that leave by IF get the header. The kernel's routes stay as
they are and still decide where packets go. Changes are in force at once and last
until the next reload.

  route {add|append|change|replace} PREFIX [CRITERIA] encap ioam6
        [freq K/N] [flows 1/N] [mode inline|encap|auto] [tunsrc ADDR]
        [tundst ADDR]
        OPTION... [via ADDR] [metric NUMBER] dev IF [name NAME]
  route del {PREFIX|name NAME} [CRITERIA] [dev IF]
  route show [PREFIX] [CRITERIA] [dev IF] [name NAME]

  CRITERIA := [from PREFIX] [tos NUMBER] [ipproto PROTOCOL]
              [sport PORT[-PORT]] [dport PORT[-PORT]] [flowlabel NUMBER]
  OPTION   := trace prealloc type 0xNNNNNN ns ID size BYTES
            | dex ns ID trace-type 0xNNNNNN [ext-flags 0x80|0x40|0xc0]
              [flow-id hash|flow-label|NUMBER] [option-type 0x11|0x31]

PREFIX may be an address, or default. Defaults are iproute2's: freq 1/1, mode
inline, which is for hosts: on a node that forwards, a line on standard error
says so. Without tunsrc, the address from which the kernel would send to tundst,
also after addresses and routes changed. flows 1/N takes all packets of one flow
in N. dex is Direct Export (RFC 9326): ext-flags 0x80 puts a Flow-ID in, 0x40 a
Sequence Number, 0xc0 both; what nodes do then, their namespace says. Where the
node knows no collector, a line on standard error says that exports of others may
get it, too. dev says where packets leave. via, metric, proto, pref, onlink and
table main are taken, so that lines for 'ip -6 route' paste: they are the kernel's
own, a line on standard error says so, and the rule acts on all that leaves by IF.

NAME is the encapsulation's name, made of what it selects by when absent.

What show prints, add and replace take, and del takes it too. replace overwrites
the rule of that NAME; without NAME, the one with the same PREFIX, CRITERIA and
IF; when there is none, it adds one, where change fails. append is add. del
removes one rule: where its words mean several, it names them and removes none.`

func newRouteCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:     "route [show | add PREFIX … encap ioam6 … dev IF | change … | replace … | del PREFIX …]",
		Aliases: abbreviations("route"),
		Short:   "Change the encapsulations of the running agent, in the words of 'ip -6 route … encap ioam6'",
		Long:    routeHelp,
		Example: `  waymark route add 2001:db8:2::/64 encap ioam6 freq 1/100 \
      mode encap tundst 2001:db8:ff::3 \
      trace prealloc type 0x800000 ns 123 size 12 dev eth1
  waymark route replace 2001:db8:2::/64 dport 443 encap ioam6 \
      trace prealloc type 0xf00000 ns 123 size 32 dev eth1
  waymark route add 2001:db8:2::/64 encap ioam6 flows 1/64 mode encap \
      tundst 2001:db8:ff::3 dex ns 123 trace-type 0xc00000 \
      ext-flags 0xc0 dev eth1
  waymark route del 2001:db8:2::/64 dev eth1`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeFirst("show", "add", "append", "change", "replace", "del"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asksHelp(args) {
				return cmd.Help()
			}
			words, err := iproute2.ParseRoute(args)
			if err != nil {
				return commandline.Usagef("route: %w; see '%s --help'", err, cmd.CommandPath())
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			if len(words.Kernels) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "waymark: hint: %s: the kernel's routes stay as they are and decide it; this rule acts on all that leaves by %s\n",
					strings.Join(words.Kernels, ", "), cmp.Or(words.Rule.Interface, "its interface"))
			}
			switch ctx := cmd.Context(); words.Verb {
			case iproute2.Add, iproute2.Append:
				return opts.Done(cmd.OutOrStdout(), advise(ctx, cmd.ErrOrStderr(), c, words.Rule, c.AddEncapsulation(ctx, words.Rule)))
			case iproute2.Change, iproute2.Replace:
				rule, err := replaceRule(ctx, c, words)
				return opts.Done(cmd.OutOrStdout(), advise(ctx, cmd.ErrOrStderr(), c, rule, err))
			case iproute2.Del:
				return opts.Done(cmd.OutOrStdout(), deleteRule(ctx, c, words))
			}
			rules, err := c.Encapsulations(cmd.Context())
			if err != nil {
				return err
			}
			return showRules(cmd.OutOrStdout(), rules, words, opts.JSON)
		},
	}
}

func showRules(w io.Writer, rules []config.Encapsulation, words iproute2.RouteCommand, asJSON bool) error {
	chosen := slices.DeleteFunc(rules, func(e config.Encapsulation) bool { return !words.Selects(e) })
	if asJSON {
		return commandline.PrintJSON(w, append([]config.Encapsulation{}, chosen...)) // [] rather than null
	}
	for _, e := range chosen {
		if _, err := fmt.Fprintln(w, iproute2.FormatRoute(e)); err != nil {
			return err
		}
	}
	return nil
}

// advise says, a line each, what the agent has against a rule that is in force
// now: its mode, for inline is iproute2's default and not made for routers; its
// Direct Exports, where they would be inserted into exports; and what it inserts
// without this node's data.
func advise(ctx context.Context, notes io.Writer, c *api.Client, rule config.Encapsulation, err error) error {
	exporting := slices.ContainsFunc(rule.Options, func(o config.Option) bool { return o.DirectExport != nil })
	if err != nil {
		return err
	}
	ws, err := c.Warnings(ctx)
	if err != nil {
		return nil // the rule is in force, which is what was asked for
	}
	for _, w := range ws {
		inline := rule.Mode == model.ModeInline && w == health.InlineOnRouter(rule.Name, rule.Interface)
		if exporting && w.Code == health.CollectorsUnknown || inline || health.IsUnfilled(w, rule.Name) {
			fmt.Fprintf(notes, "waymark: %s: %s; %s\n", w.Severity, w.Text, w.Cure)
		}
	}
	return nil
}

var errNothingToChange = errors.New("route change: no such route; list them with: waymark route show, add it with: waymark route add")

// replaceRule overwrites the rule that the words mean; where there is none,
// replace adds it, and change fails, as iproute2's. The agent decides that, also
// when the rule has gone since its name was looked up. It gives the rule that is
// in force then.
func replaceRule(ctx context.Context, c *api.Client, words iproute2.RouteCommand) (config.Encapsulation, error) {
	rule := words.Rule
	put := c.ReplaceEncapsulation
	if words.Verb == iproute2.Change {
		put = func(ctx context.Context, rule config.Encapsulation) error {
			err := c.ChangeEncapsulation(ctx, rule)
			if answer := (*api.Error)(nil); errors.As(err, &answer) && answer.Status == http.StatusNotFound {
				return errNothingToChange
			}
			return err
		}
	}
	if words.Named {
		return rule, put(ctx, rule)
	}
	rules, err := c.Encapsulations(ctx)
	if err != nil {
		return rule, err
	}
	same := slices.DeleteFunc(rules, func(e config.Encapsulation) bool {
		return !iproute2.SameKey(e, rule)
	})
	switch len(same) {
	case 0:
		if words.Verb == iproute2.Change {
			return rule, errNothingToChange
		}
		return rule, c.AddEncapsulation(ctx, rule)
	case 1:
		rule.Name = same[0].Name
		return rule, put(ctx, rule)
	}
	return rule, ambiguous(string(words.Verb), same, "name the one you mean")
}

func deleteRule(ctx context.Context, c *api.Client, words iproute2.RouteCommand) error {
	rules, err := c.Encapsulations(ctx)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(rules, func(e config.Encapsulation) bool { return !words.Selects(e) })
	switch len(chosen) {
	case 0:
		return errors.New("route del: no such route; list them with: waymark route show")
	case 1:
		return c.RemoveEncapsulation(ctx, chosen[0].Name)
	}
	return ambiguous("del", chosen, "say which by one of these")
}

// ambiguous lists the rules that a command may mean.
func ambiguous(verb string, rules []config.Encapsulation, cure string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "route %s: %d routes fit, and nothing was changed; %s:", verb, len(rules), cure)
	for _, e := range rules {
		b.WriteString("\n  " + iproute2.FormatSelection(e))
	}
	return errors.New(b.String())
}
