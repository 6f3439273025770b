// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// agentPatience is how long a running agent may take to accept a connection.
var agentPatience = patience.Of(time.Second)

// Status lists the parts of a lab. Its JSON names are a contract.
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
	Up        bool              `json:"up"` // false: its namespace was removed by another program
	Links     []InterfaceStatus `json:"interfaces"`
	Agent     string            `json:"agent,omitempty"`     // the socket of its API
	AgentRuns bool              `json:"agent_running"`       // the agent accepts connections
	AgentLog  string            `json:"agent_log,omitempty"` // log of the lab's own agent of this node
}

// InterfaceStatus is one end of a link, or the loopback interface.
type InterfaceStatus struct {
	Name      string         `json:"name"`
	Peer      string         `json:"peer,omitempty"` // NODE:INTERFACE
	Addresses []netip.Prefix `json:"addresses"`
}

// ProcessStatus is a process that was started in the lab and still runs.
type ProcessStatus struct {
	PID     int    `json:"pid"`
	Node    string `json:"node"`
	Command string `json:"command"`
}

// Status lists the current parts of the lab.
func (l *Lab) Status() (Status, error) {
	s, err := readState(l.directory)
	if err != nil {
		return Status{}, err
	}
	status := Status{Name: l.name, Topology: l.topology.Name, Directory: l.directory, Nodes: []NodeStatus{}, Processes: []ProcessStatus{}}
	started := map[string]bool{}
	for _, a := range s.Agents {
		started[a.Node] = true
	}
	for _, spec := range l.topology.Nodes {
		n := NodeStatus{Name: spec.Name, Namespace: l.namespace(spec.Name), Links: []InterfaceStatus{}}
		if started[spec.Name] {
			n.AgentLog = l.agentLog(spec.Name)
		}
		if node := l.nodes[spec.Name]; node != nil {
			n.Up = true
			if instance, err := node.Instance(); err == nil {
				n.AgentRuns = listens(instance.Socket())
				if n.AgentRuns || started[spec.Name] {
					n.Agent = instance.Socket()
				}
			}
		}
		if len(spec.Addresses) > 0 {
			n.Links = append(n.Links, InterfaceStatus{Name: "lo", Addresses: spec.Addresses})
		}
		for _, link := range l.topology.Links {
			for i, end := range link.Ends {
				if end.Node == spec.Name {
					peer := link.Ends[1-i]
					n.Links = append(
						n.Links,
						InterfaceStatus{Name: end.Interface, Peer: peer.Node + ":" + peer.Interface, Addresses: append([]netip.Prefix{}, end.Addresses...)},
					)
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

// listens reports whether a process accepts connections on a Unix socket.
func listens(socket string) bool {
	c, err := net.DialTimeout("unix", socket, agentPatience)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
