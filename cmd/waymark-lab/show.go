// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/waymark-net/waymark/internal/lab"
)

// printLab prints a lab as it is now.
func printLab(w io.Writer, l *lab.Lab, asJSON bool) error {
	status, err := l.Status()
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w).Encode(status)
	}
	return printLabText(w, status)
}

func printLabText(w io.Writer, status lab.Status) error {
	var b strings.Builder
	fmt.Fprintf(&b, "lab %s, topology %s\n", status.Name, status.Topology)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tNAMESPACE\tAGENT\tINTERFACE\tPEER\tADDRESSES")
	for _, n := range status.Nodes {
		agent := "-"
		switch {
		case n.AgentRuns:
			agent = "runs"
		case n.Agent != "":
			agent = "ended"
		}
		namespace := n.Namespace
		if !n.Up {
			namespace += " (gone)"
		}
		if len(n.Links) == 0 {
			fmt.Fprintf(table, "%s\t%s\t%s\t-\t-\t\n", n.Name, namespace, agent)
		}
		for _, i := range n.Links {
			peer := cmp.Or(i.Peer, "-")
			var addresses []string
			for _, a := range i.Addresses {
				addresses = append(addresses, a.String())
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, namespace, agent, i.Name, peer, strings.Join(addresses, " "))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, n := range status.Nodes {
		if n.Up && n.Agent != "" && !n.AgentRuns {
			fmt.Fprintf(&b, "the agent of %s has ended; its log is %s\n", n.Name, n.AgentLog)
		}
	}
	for _, p := range status.Processes {
		fmt.Fprintf(&b, "process %d in %s: %s\n", p.PID, p.Node, p.Command)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
