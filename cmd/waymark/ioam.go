// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/iproute2"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

func newIOAMCommand(opts *options) *cobra.Command {
	cmd := commandline.Group("ioam", "Change namespaces and schemas of the running agent, and monitor traces, in the words of 'ip ioam'",
		newNamespaceCommand(opts), newSchemaCommand(opts), newMonitorCommand(opts))
	cmd.Long = `Change IOAM namespaces and schemas of the running agent. The words, their
abbreviations and defaults are those of 'ip ioam'. Changes are in force at once
and last until the next reload; to keep them, write them into the file.`
	cmd.Aliases = abbreviations("ioam")
	return cmd
}

func newNamespaceCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace [show | add ID [data DATA32] [wide DATA64] [export WAY] [pot FILE] [SETTING {on|off}]... | del ID | set " +
			"ID schema {ID|none} | set ID export WAY | set ID [pot {FILE|none}] [SETTING {on|off}]...]",
		Aliases: append(abbreviations("namespace"), "ns"),
		Short:   "Show, add and remove IOAM namespaces, and change their settings",
		Long: `Show, add and remove IOAM namespaces, and set their schema and export, in the
words of 'ip ioam namespace'. WAY, which iproute2 does not have, sets what this
node exports for packets with a Direct Export option of the namespace: none (the
default), every (a postcard for every packet), aggregate (flows), or sample N
(flows, and a postcard for every N-th packet).

SETTING, which iproute2 does not have either, is a key of the configuration that
says what this node does with the options of the namespace. All are off
by default: ` + strings.Join(iproute2.SettingWords(), ", ") + `.

A namespace can be removed while encapsulations insert it, as in the kernel:
their traces then leave without this node's data, and a warning on standard
error says so.

In add, a second data is wide, as in the syntax of the Direct Export patches.

pot names the file with this node's key for proofs of transit, which 'waymark
pot generate' makes; none ends them. The agent reads the file. With
drop-rejected, the verifying node drops packets whose proof is wrong.`,
		Example: `  waymark ioam namespace add 123 data 0xdeadbeef wide 0xcafec0caf00dc0de
  waymark ioam namespace add 124 export sample 100
  waymark ioam namespace add 125 remove on terminate-active on
  waymark ioam namespace set 123 schema 777
  waymark ioam namespace set 123 loopback on incremental off
  waymark ioam namespace set 123 pot /etc/waymark/pot-node-3.key
  waymark ioam namespace show`,
		ValidArgsFunction: completeNamespace,
	}
	return inWords(opts, cmd, "ioam namespace", iproute2.ParseNamespace,
		func(cmd *cobra.Command, c *api.Client, words iproute2.NamespaceCommand) error {
			if err := absoluteKeyFile(&words); err != nil {
				return err
			}
			switch ctx := cmd.Context(); words.Verb {
			case iproute2.Add:
				done, err := c.AddNamespace(ctx, words.Namespace)
				return opts.changed(cmd, done, err)
			case iproute2.Del:
				done, err := c.RemoveNamespace(ctx, words.Namespace.ID)
				return opts.changed(cmd, done, err)
			case iproute2.Set:
				if words.Change != nil {
					return opts.Done(cmd.OutOrStdout(), c.SetNamespace(ctx, words.Namespace.ID, *words.Change))
				}
				if ns := words.Namespace; words.SetExport {
					done, err := c.SetExport(ctx, ns.ID, api.NamespaceExport{Export: ns.Export, Sample: uint32(ns.Sample)})
					return opts.changed(cmd, done, err)
				}
				return opts.Done(cmd.OutOrStdout(), c.SetSchema(ctx, words.Namespace.ID, words.Schema))
			}
			list, err := c.Namespaces(cmd.Context())
			if err != nil {
				return err
			}
			if opts.JSON {
				return commandline.PrintJSON(cmd.OutOrStdout(), list)
			}
			return printNamespaces(cmd.OutOrStdout(), list)
		})
}

// absoluteKeyFile makes the path of a key absolute: the agent, which reads the file, has another
// working directory.
func absoluteKeyFile(words *iproute2.NamespaceCommand) (err error) {
	var file *string
	switch {
	case words.Namespace.Proof != nil:
		file = &words.Namespace.Proof.KeyFile
	case words.Change != nil && words.Change.Proof.KeyFile != nil && *words.Change.Proof.KeyFile != "":
		file = words.Change.Proof.KeyFile
	default:
		return nil
	}
	if *file, err = filepath.Abs(*file); err != nil {
		return problem.Wrap(fmt.Errorf("pot: %w", err), "give an absolute path")
	}
	return nil
}

// completeNamespace completes the words after "namespace", and the file of a key.
func completeNamespace(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	words, directive := commandline.Completing(namespaceWords)(cmd, args, typed)
	if n := len(args); n > 2 && args[n-1] == "pot" {
		directive = cobra.ShellCompDirectiveDefault
	}
	return words, directive
}

// namespaceWords completes the words after "namespace".
func namespaceWords(_ *cobra.Command, args []string) []cobra.Completion {
	settings := iproute2.SettingWords()
	some := append(slices.Clip(settings), "pot")
	switch n := len(args); {
	case n == 0:
		return []cobra.Completion{"show", "add", "del", "set"}
	case n < 2 || args[0] != "add" && args[0] != "set":
		return nil
	case slices.Contains(settings, args[n-1]):
		return []cobra.Completion{"on", "off"}
	case args[n-1] == "data" || args[n-1] == "wide" || args[n-1] == "sample":
		return nil
	case args[n-1] == "pot":
		return []cobra.Completion{iproute2.NoProof}
	case args[n-1] == "export":
		return []cobra.Completion{"none", "every", "aggregate", "sample"}
	case args[0] == "add":
		return append(some, "data", "wide", "export")
	case n == 2:
		return append(some, "schema", "export")
	case args[2] == "schema" && n == 3:
		return []cobra.Completion{"none"}
	case slices.Contains(some, args[2]):
		return some
	}
	return nil
}

// printNamespaces writes namespaces like 'ip ioam namespace show', which omits data
// that are "not available".
func printNamespaces(w io.Writer, list []config.Namespace) error {
	var b strings.Builder
	for _, ns := range list {
		fmt.Fprintf(&b, "namespace %d", ns.ID)
		if ns.Schema != nil {
			fmt.Fprintf(&b, " [schema %d]", ns.Schema.ID)
		}
		if uint32(ns.Data) != ioam.DataUnavailable {
			fmt.Fprintf(&b, ", data %#08x", uint32(ns.Data))
		}
		if uint64(ns.DataWide) != ioam.DataWideUnavailable {
			fmt.Fprintf(&b, ", wide %#016x", uint64(ns.DataWide))
		}
		if ns.Remove {
			b.WriteString(", remove")
		}
		if ns.Export != model.ExportNone {
			fmt.Fprintf(&b, ", export %v", ns.Export)
		}
		if ns.Sample != 0 {
			fmt.Fprintf(&b, " %d", ns.Sample)
		}
		if ns.Proof != nil {
			fmt.Fprintf(&b, ", pot %s", ns.Proof.KeyFile)
		}
		if ns.Proof != nil && ns.Proof.DropRejected {
			b.WriteString(" drop-rejected")
		}
		for _, setting := range iproute2.NamespaceSettings {
			if setting.IsOn(&ns) && !slices.Contains([]string{"remove", "drop-rejected"}, setting.Word) { // shown above
				b.WriteString(", " + setting.Word)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func newSchemaCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schema [show | add ID DATA | del ID]",
		Aliases: abbreviations("schema"),
		Short:   "Show, add and remove schemas: the opaque state snapshots of namespaces",
		Long: `Show, add and remove schemas, the opaque state snapshots of namespaces, in the
words of 'ip ioam schema'. show prints the octets in hex, padded with zeros as
they are on the wire; --json gives the text that was added.`,
		Example: `  waymark ioam schema add 777 "rack 7"
  waymark ioam schema show`,
		ValidArgsFunction: commandline.CompleteFirst("show", "add", "del"),
	}
	return inWords(opts, cmd, "ioam schema", iproute2.ParseSchema,
		func(cmd *cobra.Command, c *api.Client, words iproute2.SchemaCommand) error {
			switch ctx := cmd.Context(); words.Verb {
			case iproute2.Add:
				return opts.Done(cmd.OutOrStdout(), c.AddSchema(ctx, api.Schema{ID: words.Schema.ID, Data: words.Schema.Data}))
			case iproute2.Del:
				return opts.Done(cmd.OutOrStdout(), c.RemoveSchema(ctx, words.Schema.ID))
			}
			list, err := c.Schemas(cmd.Context())
			if err != nil {
				return err
			}
			if opts.JSON {
				return commandline.PrintJSON(cmd.OutOrStdout(), list)
			}
			return printSchemas(cmd.OutOrStdout(), list)
		})
}

// printSchemas writes schemas like 'ip ioam schema show': the octets as on the wire,
// padded with zeros to a multiple of 4.
func printSchemas(w io.Writer, list []api.Schema) error {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "schema %d", s.ID)
		for _, ns := range s.Namespaces {
			fmt.Fprintf(&b, " [namespace %d]", ns)
		}
		padding := strings.Repeat("\x00", (4-len(s.Data)%4)%4)
		fmt.Fprintf(&b, ", data: % x\n", s.Data+padding)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
