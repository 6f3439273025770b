// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"

	"github.com/waymark-net/waymark/internal/lab/linkrelay"
)

// Relayed is a rule by which a link delays or reorders packets in one direction, and what
// it did. Its JSON names are a contract.
type Relayed struct {
	Node      string `json:"node"` // that sends into the link
	Interface string `json:"interface"`
	Peer      string `json:"peer"` // NODE:INTERFACE, the link's other end
	linkrelay.Rule
	linkrelay.Counts
}

// Relay delays or reorders packets of a link while this process runs.
type Relay struct {
	lab   *Lab
	node  *Node
	about Relayed
	relay *linkrelay.Relay
}

// StartRelay makes a link delay or reorder packets that the node sends by an interface.
// The process is the lab's from then on: Down of another process ends it.
func (l *Lab) StartRelay(node, device string, rule linkrelay.Rule) (*Relay, error) {
	r := &Relay{lab: l}
	err := l.atLink("relay", node, device, func(at Loss) (err error) {
		r.node, r.about = l.nodes[node], Relayed{Node: at.Node, Interface: at.Interface, Peer: at.Peer, Rule: rule}
		r.relay, err = linkrelay.Start(device, rule)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.node.record(os.Getpid(), os.Args, false); err != nil {
		_, serr := r.Stop()
		return nil, fmt.Errorf("note the process of a relay: %w (%v)", err, serr)
	}
	return r, nil
}

// Failed reports whether the relay has ended by itself; Stop says why.
func (r *Relay) Failed() bool { return r.relay.Failed() }

// Stop lets packets take the link as before, and waits until those that are held have
// gone on.
func (r *Relay) Stop() (Relayed, error) {
	var err error
	r.about.Counts, err = r.relay.Stop()
	// Not while a rule of losses is added: the filter is both's.
	held, lerr := lock(r.lab.directory)
	if lerr == nil {
		defer held.Close()
	} // else the lab is gone
	if err = errors.Join(err, r.node.Do(r.relay.Close)); err != nil {
		err = fmt.Errorf("relay at %s %s: %w", r.about.Node, r.about.Interface, err)
	}
	return r.about, err
}
