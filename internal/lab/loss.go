// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"

	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/problem"
)

// Loss is a rule by which a link loses packets in one direction. Its JSON names are a
// contract.
type Loss struct {
	Node      string `json:"node"` // that sends into the link
	Interface string `json:"interface"`
	Peer      string `json:"peer"` // NODE:INTERFACE, the link's other end
	linkloss.Active
}

// AddLoss makes a link lose packets that the node sends by an interface.
func (l *Lab) AddLoss(node, device string, rule linkloss.Rule) (Loss, error) {
	var added Loss
	err := l.atLink("losses", node, device, func(s Loss) error {
		var err error
		s.Rule = rule
		s.Number, err = linkloss.Add(device, rule)
		added = s
		return err
	})
	return added, err
}

// RemoveLoss removes such a rule, and returns what it lost.
func (l *Lab) RemoveLoss(node, device string, number int) (Loss, error) {
	var removed Loss
	err := l.atLink("losses", node, device, func(s Loss) error {
		var err error
		s.Active, err = linkloss.Remove(device, number)
		removed = s
		return err
	})
	return removed, err
}

// Losses lists these rules of the whole lab.
func (l *Lab) Losses() ([]Loss, error) {
	list := []Loss{}
	var faults []error
	for _, link := range l.topology.Links {
		for _, end := range link.Ends {
			faults = append(faults, l.atLink("losses", end.Node, end.Interface, func(s Loss) error {
				rules, err := linkloss.List(s.Interface)
				for _, s.Active = range rules {
					list = append(list, s)
				}
				return err
			}))
		}
	}
	return list, errors.Join(faults...)
}

// CountBlocks has the rules of an end of a link count by block, too.
func (l *Lab) CountBlocks(node, device string, c linkloss.Colours) error {
	return l.atLink("losses", node, device, func(Loss) error { return linkloss.CountBlocks(device, c) })
}

// LostBlocks are the blocks that the rules of an end of a link counted, and the packets that
// are in none.
func (l *Lab) LostBlocks(node, device string) (list []linkloss.Block, unplaced uint64, err error) {
	err = l.atLink("losses", node, device, func(Loss) (err error) {
		list, unplaced, err = linkloss.Blocks(device)
		return err
	})
	return list, unplaced, err
}

// atLink calls f in the namespace of the node at one end of a link, while no other
// process changes the lab; what is in its error.
func (l *Lab) atLink(what, node, device string, f func(Loss) error) error {
	at, err := l.place(node, device)
	if err != nil {
		return err
	}
	held, err := lock(l.directory)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := l.nodes[node].Do(func() error { return f(at) }); err != nil {
		return fmt.Errorf("%s at %s %s: %w", what, node, device, err)
	}
	return nil
}

// place finds an end of a link.
func (l *Lab) place(node, device string) (Loss, error) {
	for _, link := range l.topology.Links {
		for i, end := range link.Ends {
			if end.Node != node || end.Interface != device {
				continue
			}
			if l.nodes[node] == nil {
				return Loss{}, problem.New(fmt.Sprintf("the network namespace of %s is gone", node), "take the lab down and raise it again")
			}
			other := link.Ends[1-i]
			return Loss{Node: node, Interface: device, Peer: other.Node + ":" + other.Interface}, nil
		}
	}
	return Loss{}, problem.New(
		fmt.Sprintf("no link of the lab begins at %s %s", node, device),
		fmt.Sprintf("list them with: waymark lab show --name %s", l.name),
	)
}
