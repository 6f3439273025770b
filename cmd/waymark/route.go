// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/waymark-net/waymark/internal/problem"
)

const routeHelp = `Change which packets get an IOAM header, in the words of 'ip -6 route … encap
ioam6' and 'ip rule'. A "route" here is an encapsulation by destination prefix:
packets to PREFIX that leave by IF get the header. The kernel's routes do not
change and still decide where packets go. Changes are in force at once and last
until the next reload.

  route {add|append|change|replace} PREFIX [CRITERIA] encap ioam6
        [freq K/N] [flows 1/N] [budget SHARES] [mode inline|encap|auto]
        [nested] [tunsrc ADDR] [tundst ADDR]
        OPTION... [via ADDR] [metric NUMBER] [dev IF] [name NAME] [force]
  route del {PREFIX|name NAME} [CRITERIA] [dev IF]
  route show [PREFIX] [CRITERIA] [dev IF] [name NAME]

  CRITERIA := [from PREFIX] [tos NUMBER] [ipproto PROTOCOL]
              [sport PORT[-PORT]] [dport PORT[-PORT]] [flowlabel NUMBER]
  SHARES   := [packets PERCENT%] [octets PERCENT%]
  OPTION   := trace {prealloc|incremental} type 0xNNNNNN ns ID size BYTES
              [loopback 1/N]
            | dex ns ID type 0xNNNNNN [ext-flags 0x80|0x40|0xc0]
              [flow-id hash|flow-label|NUMBER] [option-type 0x11|0x31]
            | pot ns ID
            | e2e ns ID type 0xNNNN

PREFIX may be an address, or default. Defaults are iproute2's: freq 1/1, mode
inline, which is for hosts: a node that forwards refuses it, unless the rule is
only for its own packets, or with force. Without tunsrc, the kernel chooses the
address from which it would send to tundst, and the rule follows changes of
addresses and routes. flows 1/N selects all packets of one flow in N. budget
limits the packets that get the header, and the octets that it adds, to shares
of what leaves by IF. nested also takes packets that arrive with IOAM, of
another domain. loopback 1/N asks the nodes of the path for copies of one packet
in N (RFC 9322); the type is 0x800000. An incremental trace grows up to size;
its namespace has incremental: true. dex is Direct Export (RFC 9326): ext-flags
0x80 inserts a Flow-ID, 0x40 a Sequence Number, 0xc0 both; the namespace of each
node sets what it exports. If the node knows no collector, a warning on standard
error says that exports of others may get the option, too. pot is a proof of
transit, for which the namespace has a key (waymark ioam namespace set ID pot
FILE). e2e is Edge-to-Edge (RFC 9197): type 0x4000 numbers the packets of each
flow with 32 bits, 0x8000 with 64 bits, and 0x3000 adds a timestamp; 0x7000 does
both. dev is the interface by which packets leave; without it, that by which the
kernel reaches the neighbour ADDR of via. type of dex may be written trace-type.
via, metric, proto, pref, onlink and table main are accepted, so that lines for
'ip -6 route' can be pasted; they belong to the kernel's route, a hint says so,
and the rule acts on all packets that leave by IF.

NAME is the encapsulation's name, by default made of its criteria.

add, replace and del accept the words that show prints. replace overwrites the
rule of that NAME; without NAME, the one with the same PREFIX, CRITERIA and IF.
If there is none, replace adds one, and change fails. append is add. del removes
one rule: if its words match several, it lists them and removes none.`

func newRouteCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "route [show | add PREFIX … encap ioam6 … dev IF | change … | replace … | del PREFIX …]",
		Aliases:    abbreviations("route"),
		SuggestFor: []string{"encapsulation", "encapsulations", "encap"},
		Short:      "Change the encapsulations of the running agent, in the words of 'ip -6 route … encap ioam6'",
		Long:       routeHelp,
		Example: `  waymark route add 2001:db8:2::/64 encap ioam6 freq 1/100 \
      mode encap tundst 2001:db8:ff::3 \
      trace prealloc type 0x800000 ns 123 size 12 dev eth1
  waymark route replace 2001:db8:2::/64 dport 443 encap ioam6 \
      trace prealloc type 0xf00000 ns 123 size 32 dev eth1
  waymark route add 2001:db8:2::/64 encap ioam6 flows 1/64 mode encap \
      tundst 2001:db8:ff::3 dex ns 123 trace-type 0xc00000 \
      ext-flags 0xc0 dev eth1
  waymark route del 2001:db8:2::/64 dev eth1`,
		ValidArgsFunction: commandline.CompleteFirst("show", "add", "append", "change", "replace", "del"),
	}
	return inWords(opts, cmd, "route", iproute2.ParseRoute, func(cmd *cobra.Command, c *api.Client, words iproute2.RouteCommand) error {
		if words.Via.IsValid() && words.Verb != iproute2.Show && words.Verb != iproute2.Del {
			if opts.socket != "" {
				return commandline.Usage(problem.New(
					fmt.Sprintf("route: dev is missing: with --socket, the interface to %s is not known here", words.Via),
					"name it: dev IF",
				))
			}
			through, err := health.InterfaceTo(words.Via)
			if err != nil {
				return fmt.Errorf("route %s: %w", words.Verb, err)
			}
			words.Through(through)
		}
		if len(words.Kernels) > 0 {
			fmt.Fprintf(
				cmd.ErrOrStderr(),
				"waymark: hint: %s: the kernel's routes do not change and decide it; this rule acts on all packets that leave by %s\n",
				strings.Join(words.Kernels, ", "),
				cmp.Or(words.Rule.Interface, "its interface"),
			)
		}
		if words.Verb != iproute2.Show {
			done, err := changeRule(cmd.Context(), c, words)
			return opts.changed(cmd, done, ofRules(err, words.Verb))
		}
		rules, err := c.Encapsulations(cmd.Context())
		if err != nil {
			return err
		}
		selects := words.Selection().Selects
		chosen := slices.DeleteFunc(rules, func(e config.Encapsulation) bool { return !selects(e) })
		return commandline.PrintList(&opts.Options, cmd.OutOrStdout(), chosen, iproute2.FormatRoute)
	})
}

// changeRule sends the request of a command; the agent finds the rule that the words
// select.
func changeRule(ctx context.Context, c *api.Client, words iproute2.RouteCommand) (api.Changed, error) {
	if words.Rule.Mode == model.ModeInline && !words.Force {
		c = c.RefusingInline()
	}
	switch rule, existing := words.Rule, words.Verb == iproute2.Change; {
	case words.Verb == iproute2.Del:
		return c.RemoveSelectedEncapsulation(ctx, words.Selection())
	case words.Verb == iproute2.Add || words.Verb == iproute2.Append:
		return c.AddEncapsulation(ctx, rule)
	case words.Named:
		return c.ReplaceEncapsulation(ctx, rule, existing)
	default:
		return c.ReplaceSameEncapsulation(ctx, rule, existing)
	}
}

// ofRules turns the error that no rule fits, or that several do, into iproute2's words.
func ofRules(err error, verb iproute2.Verb) error {
	var answer *api.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch {
	case answer.Status == http.StatusNotFound && verb == iproute2.Change:
		return problem.New("route change: no such route", "list them with: waymark route show, add it with: waymark route add")
	case answer.Status == http.StatusNotFound && verb == iproute2.Del:
		return problem.New("route del: no such route", "list them with: waymark route show")
	case answer.Status != http.StatusConflict || len(answer.Encapsulations) == 0:
		return err
	}
	cure := "name the one you mean"
	if verb == iproute2.Del {
		cure = "say which by one of these"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "route %s: %d routes fit, and nothing was changed; %s:", verb, len(answer.Encapsulations), cure)
	for _, e := range answer.Encapsulations {
		b.WriteString("\n  " + iproute2.FormatSelection(e))
	}
	return errors.New(b.String())
}
