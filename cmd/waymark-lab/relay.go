// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/lab/linkrelay"
	"github.com/waymark-net/waymark/internal/problem"
)

// relayText is what both commands do.
const relayText = `
The command runs until it is interrupted, or for the time of --for, and then
prints what it did. Packets that it holds then still go on. The node's own agent
has counted a packet before it is held; the link's other end gets it later.
Losses (lab loss) come first. The kernel cuts offloaded frames into packets
before they are held.`

func newDelayCommand(opts *commandline.Options, name *string) *cobra.Command {
	var selection selectionFlags
	var jitter, runFor time.Duration
	var seed uint64
	cmd := &cobra.Command{
		Use:   "delay NODE INTERFACE TIME",
		Short: "Delay packets that a node sends by an interface",
		Long: `Delay packets that a node sends by an interface, by a time such as 10ms, and
with --jitter by a random time more or less. Packets overtake each other where
the jitter is larger than the time between them.
` + relayText,
		Example: `  waymark lab delay north1 eth1 10ms
  waymark lab delay ingress eth2 20ms --jitter 5ms --last-sid fc00:3::d6`,
		Args:              exactly("NODE", "INTERFACE", "TIME"),
		ValidArgsFunction: completeEnds(name),
		RunE: func(cmd *cobra.Command, args []string) error {
			delay, err := time.ParseDuration(args[2])
			if err != nil {
				return commandline.Usagef("%q is not a time with a unit, such as 10ms", args[2])
			}
			return relay(cmd, opts, *name, args, linkrelay.Rule{Delay: delay, Jitter: jitter, Seed: seed}, selection, runFor)
		},
	}
	cmd.Flags().DurationVar(&jitter, "jitter", 0, "more or less by at most this `TIME`")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of --jitter: the seed `S`")
	cmd.Flags().DurationVar(&runFor, "for", 0, "end after this `TIME`")
	selection.add(cmd)
	return cmd
}

func newReorderCommand(opts *commandline.Options, name *string) *cobra.Command {
	var selection selectionFlags
	rule, runFor := linkrelay.Rule{Hold: linkrelay.DefaultHold}, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "reorder NODE INTERFACE --every N --by M",
		Short: "Reorder packets that a node sends by an interface",
		Long: `Reorder packets that a node sends by an interface: each N-th is held until M
later ones have overtaken it, or for the time of --hold if too few follow.
` + relayText,
		Example:           "  waymark lab reorder north1 eth1 --every 10 --by 3",
		Args:              exactly("NODE", "INTERFACE"),
		ValidArgsFunction: completeEnds(name),
		RunE: func(cmd *cobra.Command, args []string) error {
			return relay(cmd, opts, *name, args, rule, selection, runFor)
		},
	}
	cmd.Flags().Uint32Var(&rule.Every, "every", 0, "hold each `N`-th packet")
	cmd.Flags().Uint32Var(&rule.By, "by", 1, "until `M` later ones, fewer than N, have overtaken it")
	cmd.Flags().DurationVar(&rule.Hold, "hold", linkrelay.DefaultHold, "but no longer than this `TIME`")
	cmd.Flags().DurationVar(&runFor, "for", 0, "end after this `TIME`")
	selection.add(cmd)
	return cmd
}

// relay runs a rule until the command is interrupted.
func relay(
	cmd *cobra.Command,
	opts *commandline.Options,
	name string,
	args []string,
	rule linkrelay.Rule,
	flags selectionFlags,
	runFor time.Duration,
) error {
	var err error
	if rule.Selection, err = flags.selection(); err == nil {
		err = rule.Validate()
	}
	if err == nil && runFor < 0 {
		err = fmt.Errorf("--for %v: want a time above 0", runFor)
	}
	if err != nil {
		return commandline.Usage(problem.Append(err, fmt.Sprintf("see '%s --help'", cmd.CommandPath())))
	}
	l, err := lab.Open(name)
	if err != nil {
		return err
	}
	r, err := l.StartRelay(args[0], args[1], rule)
	if err != nil {
		return err
	}
	var end <-chan time.Time
	if runFor > 0 {
		end = time.After(runFor)
	}
	for failed := false; !failed && cmd.Context().Err() == nil; {
		select {
		case <-end:
			failed = true
		case <-cmd.Context().Done():
		case <-time.After(100 * time.Millisecond):
			failed = r.Failed()
		}
	}
	done, err := r.Stop()
	if err != nil {
		return err
	}
	if err := commandline.PrintList(opts, cmd.OutOrStdout(), []lab.Relayed{done}, formatRelayed); err != nil {
		return err
	}
	return cmd.Context().Err()
}

// formatRelayed is a rule, and below it what it did.
func formatRelayed(r lab.Relayed) string {
	text := fmt.Sprintf("%s %s to %s: ", r.Node, r.Interface, r.Peer)
	if r.Every > 0 {
		text += fmt.Sprintf("every %d by %d hold %v", r.Every, r.By, r.Hold)
	} else {
		text += fmt.Sprintf("delay %v", r.Delay)
		if r.Jitter > 0 {
			text += fmt.Sprintf(" jitter %v seed %d", r.Jitter, r.Seed)
		}
	}
	text += formatSelection(r.Selection)
	text += fmt.Sprintf("\n    %d packets, in %d frames: %d sent on, held for %v to %v, %v on average", r.Packets, r.Frames, r.Sent,
		time.Duration(r.ShortestNS), time.Duration(r.LongestNS), time.Duration(r.MeanNS))
	if r.Every > 0 {
		text += fmt.Sprintf("; %d were overtaken, %d waited too long", r.Overtaken, r.OutOfTime)
	}
	if r.NotRead+r.NotSent > 0 {
		text += fmt.Sprintf("; LOST: %d came too fast, %d were not taken by the link", r.NotRead, r.NotSent)
	}
	return text
}

// formatSelection is the words of the packets that a rule is about.
func formatSelection(s linkloss.Selection) (text string) {
	for _, each := range []struct {
		word   string
		prefix netip.Prefix
	}{{"source", s.Source}, {"destination", s.Destination}, {"first-sid", s.FirstSID}, {"last-sid", s.LastSID}} {
		if each.prefix.IsValid() {
			text += fmt.Sprintf(" %s %v", each.word, each.prefix)
		}
	}
	return text
}

// selectionFlags are the words of the packets that a rule is about.
type selectionFlags struct{ source, destination, firstSID, lastSID string }

func (f *selectionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.source, "source", "", "only with this outer source: `PREFIX` or address")
	cmd.Flags().StringVar(&f.destination, "destination", "", "only with this outer destination: `PREFIX` or address")
	cmd.Flags().StringVar(&f.firstSID, "first-sid", "", "only with this first SID: `PREFIX` or address")
	cmd.Flags().StringVar(&f.lastSID, "last-sid", "", "only with this last SID: `PREFIX` or address")
}

func (f *selectionFlags) selection() (s linkloss.Selection, err error) {
	for _, each := range []struct {
		flag, text string
		to         *netip.Prefix
	}{
		{"source", f.source, &s.Source}, {"destination", f.destination, &s.Destination},
		{"first-sid", f.firstSID, &s.FirstSID}, {"last-sid", f.lastSID, &s.LastSID},
	} {
		if each.text == "" {
			continue
		}
		p, err := netip.ParsePrefix(each.text)
		if a, aerr := netip.ParseAddr(each.text); aerr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || !p.Addr().Is6() || p != p.Masked() {
			return s, fmt.Errorf("--%s %q: want an IPv6 address or prefix, such as fc00:1::/32", each.flag, each.text)
		}
		*each.to = p
	}
	return s, nil
}
