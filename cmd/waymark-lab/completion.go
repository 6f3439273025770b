// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/lab"
)

// completeTopologies offers the built-in topologies, and files.
func completeTopologies(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []cobra.Completion
	for _, name := range lab.BuiltinNames() {
		if t, err := lab.Builtin(name); err == nil {
			words = append(words, cobra.CompletionWithDesc(name, t.Description))
		}
	}
	return commandline.Beginning(words, typed), cobra.ShellCompDirectiveDefault
}

// completeLabs offers the labs that are up.
func completeLabs(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, err := lab.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return commandline.Beginning(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// completeNodes offers the nodes of a lab; a command follows the node.
func completeNodes(name *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		l, err := lab.Open(*name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return commandline.Beginning(nodeNames(l), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeEnds offers the nodes of a lab, then the interfaces of the one that was given.
func completeEnds(name *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completeNodes(name)(cmd, args, typed)
		}
		l, err := lab.Open(*name)
		if err != nil || len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []cobra.Completion
		for _, end := range l.Topology().Ends(args[0]) {
			words = append(words, end.Interface)
		}
		return commandline.Beginning(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTraffic offers the traffic of a lab's topology.
func completeTraffic(name *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		l, err := lab.Open(*name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []cobra.Completion
		for _, t := range l.Topology().Traffic {
			words = append(words, cobra.CompletionWithDesc(t.Name, t.Kind+" from "+t.From+" to "+t.To))
		}
		return commandline.Beginning(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}
