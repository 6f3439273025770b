// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/secretfile"
)

func newPotCommand(opts *options) *cobra.Command {
	return commandline.Group("pot", "Make the keys of a proof of transit", newPotGenerateCommand(opts))
}

func newPotGenerateCommand(opts *options) *cobra.Command {
	var nodes int
	dir := "."
	cmd := &cobra.Command{
		Use:   "generate --nodes N",
		Short: "Make a key for each node of a path",
		Long: `Make the keys of a proof of transit (RFC 9197, POT-Type 0): a file for each node
that the packets must pass, in the order of the path. Node 1 encapsulates, the
last one verifies. Only this user can read the files; files are never replaced.
Copy each to its node by a safe way, and delete it here.

Make new keys for each path, and from time to time: who can compare packets
before and after a node learns what that node adds.`,
		Example: `  waymark pot generate --nodes 4 --dir keys`,
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nodes < pot.MinNodes || nodes > pot.MaxNodes {
				return commandline.Usage(problem.New(
					fmt.Sprintf("--nodes %d is not possible", nodes),
					fmt.Sprintf("give the number of nodes that packets must pass, %d to %d", pot.MinNodes, pot.MaxNodes),
				))
			}
			keys, err := pot.Generate(nodes, nil)
			if err != nil {
				return err
			}
			files, err := writeKeys(dir, keys)
			if err != nil {
				return err
			}
			if opts.JSON {
				return commandline.PrintJSON(cmd.OutOrStdout(), files)
			}
			return files.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 0, "`NUMBER` of nodes that packets must pass, both ends included")
	cmd.Flags().StringVar(&dir, "dir", dir, "`DIRECTORY` of the files; made with mode 0700 if there is none")
	return cmd
}

// keyFiles is what pot generate wrote.
type keyFiles struct {
	Profile string    `json:"profile"`
	Keys    []keyFile `json:"keys"` // in the order of the path
}

type keyFile struct {
	Node int    `json:"node"`
	Role string `json:"role"` // encapsulating, transit or verifying
	File string `json:"file"`
}

// writeKeys writes all keys, or none.
func writeKeys(dir string, keys []*pot.Key) (files keyFiles, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return files, problem.Wrap(fmt.Errorf("make the directory of the keys: %w", err), "choose another one with --dir")
	}
	files.Profile = fmt.Sprintf("0x%016x", keys[0].Profile)
	for _, k := range keys {
		name := filepath.Join(dir, fmt.Sprintf("pot-node-%d.key", k.Node))
		if err := secretfile.Write(name, k.Append(nil)); err != nil {
			for _, written := range files.Keys {
				err = errors.Join(err, os.Remove(written.File))
			}
			return keyFiles{}, err
		}
		files.Keys = append(files.Keys, keyFile{Node: k.Node, Role: k.Role(), File: name})
	}
	return files, nil
}

// write says where to put the files, and what to configure.
func (f keyFiles) write(w io.Writer) error {
	var text []byte
	text = fmt.Appendf(text, "profile %s: copy each file to its node (mode 0600), then delete it here\n", f.Profile)
	for _, k := range f.Keys {
		text = fmt.Appendf(text, "  node %d  %-13s  %s\n", k.Node, k.Role, k.File)
	}
	text = append(text, `configure at every node, with its own file:
  namespaces:
    - {id: 1, pot: {key-file: FILE}}
at node 1, which inserts the option:
  encapsulations:
    - {…, options: [{pot: {namespace: 1}}]}
at the last node, to drop packets whose proof is wrong:
  namespaces:
    - {id: 1, pot: {key-file: FILE, drop-rejected: true}}
`...)
	_, err := w.Write(text)
	return err
}
