// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/problem"
)

func newLossCommand(opts *commandline.Options, name *string) *cobra.Command {
	cmd := commandline.Group("loss", "Lose packets on a lab's links, and count what was lost",
		newLossAddCommand(opts, name),
		newLossDelCommand(opts, name),
		newLossShowCommand(opts, name),
	)
	cmd.Long = `Lose packets on a lab's links. A rule loses packets that a node sends by one
interface: after the node's own agent has counted them, and before any program
of the link's other end sees them. It lasts until it is deleted, or the lab is
down.

Rules choose frames, as the interface gets them. An offloaded frame is many
packets: all are lost or none, and the counters have the number of each. The
rules of an interface apply in the order of their numbers, each to what those
before it left. Frames that XDP forwards (forwarding: fast) pass by them.`
	return cmd
}

// lossFlags are the words of a rule.
type lossFlags struct {
	every, burst, random string
	seed                 uint64
	twice                bool
	selectionFlags
}

func newLossAddCommand(opts *commandline.Options, name *string) *cobra.Command {
	var flags lossFlags
	cmd := &cobra.Command{
		Use:   "add NODE INTERFACE {--every N | --burst B/N | --random P}",
		Short: "Lose packets that a node sends by an interface",
		Long: `Lose packets that a node sends by an interface: the last of every N frames, the
last B of every N, or each with a probability P, by a sequence of random numbers
that the seed decides. The numbers count only the frames that the rule is about:
all IPv6 frames, or those with the addresses and SIDs that are given. With
--twice, these frames are sent twice instead of lost, as on a link that
duplicates.

Without a segment routing header, the destination is the first and the last SID.
Mode encap.red leaves the first SID out of the header: name it as the
destination, or name the second one.`,
		Example: `  waymark lab loss add north1 eth1 --every 100
  waymark lab loss add ingress eth2 --random 0.01 --last-sid fc00:3::d6
  waymark lab loss add south eth1 --burst 5/1000 --source 2001:db8:ff::1
  waymark lab loss add north2 eth1 --every 500 --twice`,
		Args:              exactly("NODE", "INTERFACE"),
		ValidArgsFunction: completeEnds(name),
		RunE: func(cmd *cobra.Command, args []string) error {
			rule, err := flags.rule()
			if err != nil {
				return commandline.Usage(problem.Append(err, fmt.Sprintf("see '%s --help'", cmd.CommandPath())))
			}
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			added, err := l.AddLoss(args[0], args[1], rule)
			if err != nil {
				return err
			}
			return commandline.PrintList(opts, cmd.OutOrStdout(), []lab.Loss{added}, formatLoss)
		},
	}
	cmd.Flags().StringVar(&flags.every, "every", "", "lose the last of every `N` frames")
	cmd.Flags().StringVar(&flags.burst, "burst", "", "lose the last B of every N frames: `B/N`")
	cmd.Flags().StringVar(&flags.random, "random", "", "lose each frame with the probability `P`, such as 0.01")
	cmd.Flags().Uint64Var(&flags.seed, "seed", 1, "of --random: the seed `S`")
	cmd.Flags().BoolVar(&flags.twice, "twice", false, "send these frames twice, instead of losing them")
	flags.selectionFlags.add(cmd)
	return cmd
}

// rule reads the flags.
func (f lossFlags) rule() (linkloss.Rule, error) {
	var r linkloss.Rule
	patterns := 0
	for _, p := range []string{f.every, f.burst, f.random} {
		if p != "" {
			patterns++
		}
	}
	if patterns != 1 {
		return r, fmt.Errorf("which frames are lost? Give one of --every, --burst and --random")
	}
	if f.random != "" {
		p, err := strconv.ParseFloat(f.random, 64)
		if err != nil || !(p > 0 && p <= 1) {
			return r, fmt.Errorf("--random %q: want a probability above 0, at most 1", f.random)
		}
		r.Probability, r.Seed = p, f.seed
	} else {
		burst, every, _ := strings.Cut(f.burst, "/")
		if f.every != "" {
			burst, every = "1", f.every
		}
		b, err := strconv.ParseUint(burst, 10, 32)
		n, err2 := strconv.ParseUint(every, 10, 32)
		if err != nil || err2 != nil || b < 1 || b > n {
			return r, fmt.Errorf("%q is not a number of frames: want --every N, or --burst B/N with B at most N", f.every+f.burst)
		}
		r.Burst, r.Every = uint32(b), uint32(n)
	}
	selected, err := f.selection()
	if err != nil {
		return r, err
	}
	r.Twice = f.twice
	r.Source, r.Destination, r.FirstSID, r.LastSID = selected.Source, selected.Destination, selected.FirstSID, selected.LastSID
	return r, r.Validate()
}

func newLossDelCommand(opts *commandline.Options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:               "del NODE INTERFACE NUMBER",
		Short:             "Delete a rule, and print what it lost",
		Args:              exactly("NODE", "INTERFACE", "NUMBER"),
		ValidArgsFunction: completeEnds(name),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.Atoi(args[2])
			if err != nil {
				return commandline.Usage(problem.New(fmt.Sprintf("%q is not the number of a rule", args[2]), "list them with: waymark lab loss show"))
			}
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			removed, err := l.RemoveLoss(args[0], args[1], number)
			if err != nil {
				return err
			}
			return commandline.PrintList(opts, cmd.OutOrStdout(), []lab.Loss{removed}, formatLoss)
		},
	}
}

func newLossShowCommand(opts *commandline.Options, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the rules, and what each has lost",
		Args:  commandline.OnlyFlag("name"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			losses, err := l.Losses()
			if err != nil {
				return err
			}
			return commandline.PrintList(opts, cmd.OutOrStdout(), losses, formatLoss)
		},
	}
}

// formatLoss is a rule, and below it what it lost.
func formatLoss(s lab.Loss) string {
	text := fmt.Sprintf("%s %s %d to %s: ", s.Node, s.Interface, s.Number, s.Peer)
	switch {
	case s.Probability > 0:
		text += fmt.Sprintf("random %v seed %d", s.Probability, s.Seed)
	case s.Burst == 1:
		text += fmt.Sprintf("every %d", s.Every)
	default:
		text += fmt.Sprintf("burst %d/%d", s.Burst, s.Every)
	}
	text += formatSelection(linkloss.Selection{Source: s.Source, Destination: s.Destination, FirstSID: s.FirstSID, LastSID: s.LastSID})
	done := "lost"
	if s.Twice {
		text, done = text+" twice", "sent twice"
	}
	return text + fmt.Sprintf("\n    %s %d of %d packets, in %d of %d frames", done, s.LostPackets, s.Packets, s.LostFrames, s.Frames)
}

// exactly wants arguments of these names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return commandline.Usage(problem.New(
				fmt.Sprintf("%s is missing", names[len(args)]),
				fmt.Sprintf("see '%s --help'", cmd.CommandPath()),
			))
		case len(args) > len(names):
			return commandline.Usage(problem.New(
				fmt.Sprintf("%s takes %s, but got %d arguments", cmd.CommandPath(), strings.Join(names, " "), len(args)),
				fmt.Sprintf("see '%s --help'", cmd.CommandPath()),
			))
		}
		return nil
	}
}
