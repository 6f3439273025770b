// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"fmt"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/ioam"
)

// unchanged checks that a packet arrived as sent, except for what forwarding
// changes.
func unchanged(sent, arrived []byte) error {
	const behindHopLimit = harness.EthernetHeader + 8
	compared := min(len(sent), len(arrived), harness.Rewritten)
	if len(arrived) != len(sent) || !bytes.Equal(arrived[behindHopLimit:compared], sent[behindHopLimit:compared]) {
		return fmt.Errorf("the packet was changed:\n%x became\n%x", sent, arrived)
	}
	return nil
}

// longer checks that a packet has grown by this many bytes, or shrunk if
// negative.
func longer(by int) harness.Arrival {
	return func(sent, arrived []byte) error {
		if len(arrived) < len(sent)+by || len(arrived) > len(sent)+by {
			return fmt.Errorf("a packet of %d bytes arrived with %d instead of %d", len(sent), len(arrived), len(sent)+by)
		}
		return nil
	}
}

// sometimesLonger checks that a packet has grown by this many bytes, or not at
// all.
func sometimesLonger(by int) harness.Arrival {
	return func(sent, arrived []byte) error {
		if len(arrived) == len(sent) {
			return unchanged(sent, arrived)
		}
		return longer(by)(sent, arrived)
	}
}

// filled checks that every trace has data of node 2 after those of the nodes
// before.
func filled(sent, arrived []byte) error {
	before, err := traces(sent)
	if err != nil {
		return err
	}
	after, err := traces(arrived)
	if err != nil {
		return err
	}
	if len(arrived) != len(sent) || len(before) == 0 || len(after) != len(before) {
		return fmt.Errorf("%d traces in %d bytes became %d in %d", len(before), len(sent), len(after), len(arrived))
	}
	for i, nodes := range after {
		if len(nodes) != len(before[i])+1 {
			return fmt.Errorf("trace %d holds the data of %d nodes instead of %d: %x", i+1, len(nodes), len(before[i])+1, arrived)
		}
		own := nodes[len(nodes)-1]
		if id, ok := own.NodeID(); ok && id != 2 {
			return fmt.Errorf("trace %d does not hold this node's id: %x", i+1, arrived)
		}
		in, ok := own.IngressID()
		if out, _ := own.EgressID(); ok && (in != 201 || out != 202) {
			return fmt.Errorf("trace %d does not hold the ids of both interfaces: %x", i+1, arrived)
		}
	}
	return nil
}

// traces returns the node data in a frame's Hop-by-Hop header, by trace.
func traces(frame []byte) ([][]ioam.NodeData, error) {
	const at = harness.EthernetHeader + harness.IPv6Header
	if len(frame) < at+2 || frame[harness.EthernetHeader+6] != harness.NextHBH {
		return nil, fmt.Errorf("no Hop-by-Hop header in %x", frame)
	}
	header, err := ioam.DecodeExtensionHeader(frame[at:])
	if err != nil {
		return nil, err
	}
	var list [][]ioam.NodeData
	for option, err := range header.Options() {
		if err != nil {
			return nil, err
		}
		if !option.IsIOAM() {
			continue
		}
		carried, err := option.IOAM()
		if err != nil {
			return nil, err
		}
		trace, err := carried.Trace()
		if err != nil {
			return nil, err
		}
		nodes, err := trace.Nodes()
		if err != nil {
			return nil, err
		}
		list = append(list, nodes)
	}
	return list, nil
}
