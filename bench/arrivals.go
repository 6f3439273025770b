// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"

	"github.com/waymark-net/waymark/ioam"
)

// unchanged wants a packet as it was sent, but for what forwarding changes.
func unchanged(sent, arrived []byte) error {
	const behindHopLimit = ethernetHeader + 8
	compared := min(len(sent), len(arrived), rewritten)
	if len(arrived) != len(sent) || !bytes.Equal(arrived[behindHopLimit:compared], sent[behindHopLimit:compared]) {
		return fmt.Errorf("the packet was changed:\n%x became\n%x", sent, arrived)
	}
	return nil
}

// longer wants a packet that has grown, or shrunk, by so many bytes.
func longer(by int) arrival {
	return func(sent, arrived []byte) error {
		if len(arrived) < len(sent)+by || len(arrived) > len(sent)+by {
			return fmt.Errorf("a packet of %d bytes arrived with %d instead of %d", len(sent), len(arrived), len(sent)+by)
		}
		return nil
	}
}

// sometimesLonger wants a packet that has grown by so many bytes, or not.
func sometimesLonger(by int) arrival {
	return func(sent, arrived []byte) error {
		if len(arrived) == len(sent) {
			return unchanged(sent, arrived)
		}
		return longer(by)(sent, arrived)
	}
}

// filled wants data of node 2 in every trace, behind those of the nodes before.
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

// traces are the node data in a frame's Hop-by-Hop header, by trace.
func traces(frame []byte) ([][]ioam.NodeData, error) {
	const at = ethernetHeader + ipv6Header
	if len(frame) < at+2 || frame[ethernetHeader+6] != nextHBH {
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
