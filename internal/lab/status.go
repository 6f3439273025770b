// SPDX-License-Identifier: Apache-2.0

package lab

import "net/netip"

// Status is what a lab consists of. Its JSON names are a contract.
type Status struct {
	Name      string          `json:"name"`
	Topology  string          `json:"topology"`
	Directory string          `json:"directory"`
	Nodes     []NodeStatus    `json:"nodes"`
	Processes []ProcessStatus `json:"processes"`
}

// NodeStatus is one node of a lab.
type NodeStatus struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Up        bool              `json:"up"` // false: its namespace has been removed by somebody else
	Links     []InterfaceStatus `json:"interfaces"`
	Agent     string            `json:"agent,omitempty"` // the socket of its API
}

// InterfaceStatus is one end of a link.
type InterfaceStatus struct {
	Name      string         `json:"name"`
	Peer      string         `json:"peer"` // NODE:INTERFACE
	Addresses []netip.Prefix `json:"addresses"`
}

// ProcessStatus is a process that was started in the lab and still runs.
type ProcessStatus struct {
	PID     int    `json:"pid"`
	Node    string `json:"node"`
	Command string `json:"command"`
}

// Status says what the lab consists of now.
func (l *Lab) Status() (Status, error) {
	s, err := readState(l.directory)
	if err != nil {
		return Status{}, err
	}
	status := Status{Name: l.name, Topology: l.topology.Name, Directory: l.directory, Nodes: []NodeStatus{}, Processes: []ProcessStatus{}}
	agents := map[string]bool{}
	for _, a := range s.Agents {
		agents[a.Node] = true
	}
	for _, spec := range l.topology.Nodes {
		n := NodeStatus{Name: spec.Name, Namespace: l.namespace(spec.Name), Links: []InterfaceStatus{}}
		if node := l.nodes[spec.Name]; node != nil {
			n.Up = true
			if place, err := node.Place(); err == nil && agents[spec.Name] {
				n.Agent = place.Socket()
			}
		}
		for _, link := range l.topology.Links {
			for i, end := range link.Ends {
				if end.Node == spec.Name {
					peer := link.Ends[1-i]
					n.Links = append(n.Links, InterfaceStatus{Name: end.Interface, Peer: peer.Node + ":" + peer.Interface, Addresses: end.Addresses})
				}
			}
		}
		status.Nodes = append(status.Nodes, n)
	}
	for _, p := range s.Processes {
		if p.alive() {
			status.Processes = append(status.Processes, ProcessStatus{PID: p.PID, Node: p.Node, Command: p.Command})
		}
	}
	return status, nil
}
