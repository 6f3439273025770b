// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/record"
)

// errDamaged is the error of a store that cannot be read as a whole.
var errDamaged = errors.New(
	"the store has files that cannot be read; the collector moves them aside when it needs them, and keeps the others",
)

// storePlace are the flags that say which store is meant.
type storePlace struct{ config, directory string }

func (p *storePlace) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.config, "config", "", "`FILE` of the collector's settings (default: none, all have their defaults)")
	cmd.Flags().StringVar(&p.directory, "directory", "", "`DIR` of the store (default: that of the settings)")
}

// find is the directory of the store, and the memory for the database.
func (p *storePlace) find() (directory string, memory int64, err error) {
	s, err := settings.Read(p.config)
	if err != nil {
		return "", 0, err
	}
	if directory = p.directory; directory == "" {
		directory = s.Store.Directory
	}
	return directory, int64(s.Store.Memory), nil
}

func newStoreCommand(opts *commandline.Options) *cobra.Command {
	return commandline.Group(
		"store",
		"Check, compact and export what the collector keeps",
		newStoreCheckCommand(opts),
		newStoreCompactCommand(opts),
		newStoreExportCommand(opts),
	)
}

// checkedFile is a file of the store in JSON.
type checkedFile struct {
	File    string      `json:"file"`
	State   store.State `json:"state"`
	OK      bool        `json:"ok"`
	Packets uint64      `json:"packets"`
	Records uint64      `json:"records"`
	Bytes   int64       `json:"bytes"`
	Error   string      `json:"error,omitempty"`
}

func newStoreCheckCommand(opts *commandline.Options) *cobra.Command {
	var place storePlace
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read everything in the store, and report what cannot be read",
		Long: `Read every value in every file of the store, compare rollups with packets, and
report files that are damaged. Nothing is changed. While a collector runs, the
file that it writes is left out.

Exit codes: 0 all files are sound; 1 some are not, or the store cannot be read.`,
		Example: "  waymark-collector store check\n  waymark-collector store check --directory /var/lib/waymark --json",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			directory, memory, err := place.find()
			if err != nil {
				return err
			}
			checked, written, err := store.Check(cmd.Context(), directory, memory)
			if err != nil {
				return err
			}
			list, sound := []checkedFile{}, true
			for _, c := range checked {
				f := checkedFile{c.Name, c.State, c.Fault == nil, c.Packets, c.Records, c.Bytes, ""}
				if c.Fault != nil {
					f.Error, _, _ = strings.Cut(c.Fault.Error(), "\n")
					sound = false
				}
				list = append(list, f)
			}
			err = commandline.PrintList(opts, cmd.OutOrStdout(), list, func(f checkedFile) string {
				state := "sound"
				if !f.OK {
					state = "DAMAGED: " + record.Printable(f.Error)
				}
				return fmt.Sprintf("%-16s %10d packets %8d records %6d MB  %s", f.File, f.Packets, f.Records, f.Bytes/1e6, state)
			})
			noteFiles(opts, cmd, len(list), "checked", written)
			switch {
			case err != nil || sound:
				return err
			case opts.JSON:
				return commandline.ErrReported
			}
			return errDamaged
		},
	}
	place.add(cmd)
	return cmd
}

// noteFiles says how many files were done, and which were left out, because a list may be empty.
func noteFiles(opts *commandline.Options, cmd *cobra.Command, n int, done string, written []string) {
	if opts.JSON {
		return
	}
	left := ""
	if len(written) > 0 {
		left = "; " + strings.Join(written, ", ") + " is being written, and left out"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "waymark-collector: %s %s%s\n", columns.Counted(n, "file"), done, left)
}

// compactedFile is a file that was made of others, in JSON.
type compactedFile struct {
	File        string   `json:"file"`
	From        []string `json:"from"`
	BytesBefore int64    `json:"bytes_before"`
	Bytes       int64    `json:"bytes"`
	Rows        uint64   `json:"rows"`
}

func newStoreCompactCommand(opts *commandline.Options) *cobra.Command {
	var place storePlace
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Make one file of those of a day, and pack all, while no collector runs",
		Long: `Make one file of the files of each day that is over, as long as they have less
than 1 GB together. What many files have, such as paths and addresses, is then
there once, and questions about long times open fewer files. It and all other
closed files are packed, as a running collector does by itself: they have the
same, and take less of the disk. No collector may run meanwhile. If the command
is interrupted or killed, nothing is missing or there twice.`,
		Example: "  systemctl stop waymark-collector\n  waymark-collector store compact\n  systemctl start waymark-collector",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			directory, memory, err := place.find()
			if err != nil {
				return err
			}
			done, err := store.Compact(cmd.Context(), directory, memory, time.Now())
			if err != nil {
				return err
			}
			if len(done) == 0 && !opts.JSON {
				fmt.Fprintln(cmd.ErrOrStderr(),
					"waymark-collector: nothing to do: files of a day become one when it is over, and closed files are packed")
			}
			list := []compactedFile{}
			for _, c := range done {
				if c.Warning != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "waymark-collector: %s\n", c.Warning)
				}
				list = append(list, compactedFile{c.Into, c.From, c.Before, c.After, c.Rows})
			}
			return commandline.PrintList(opts, cmd.OutOrStdout(), list, func(f compactedFile) string {
				return fmt.Sprintf("%-16s of %s: %d MB, before %d MB", f.File, columns.Counted(len(f.From), "file"), f.Bytes/1e6, f.BytesBefore/1e6)
			})
		},
	}
	place.add(cmd)
	return cmd
}

// exportedFile is a file that was written, in JSON.
type exportedFile struct {
	File string `json:"file"`
	Rows int64  `json:"rows"`
}

func newStoreExportCommand(opts *commandline.Options) *cobra.Command {
	var place storePlace
	var from, until string
	var tables []string
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write what the collector keeps as Parquet files",
		Long: `Write the tables of the store as Parquet files into a directory, which is made:
DIR/FILE/TABLE.parquet. Nothing in the store is changed. While a collector runs,
the file that it writes is left out. Files are whole: those that have something
of the time that is asked for are written with all that they have.`,
		Example: "  waymark-collector store export /tmp/out\n  waymark-collector store export /tmp/out --table packets --table keys",
		Args:    commandline.OneArgument("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			begin, end := time.Unix(0, 0), time.Unix(1<<33, 0)
			for _, t := range []struct {
				name, text string
				into       *time.Time
			}{{"--from", from, &begin}, {"--until", until, &end}} {
				if t.text == "" {
					continue
				}
				var err error
				if *t.into, err = time.Parse(time.RFC3339Nano, t.text); err != nil {
					return commandline.Usagef("%s %q: want a time in RFC 3339, such as %s", t.name, t.text, "2026-11-21T03:00:00Z")
				}
			}
			for _, name := range tables {
				if !slices.Contains(store.Tables(), name) {
					return commandline.Usagef("--table %q: want one of %s", name, strings.Join(store.Tables(), ", "))
				}
			}
			directory, memory, err := place.find()
			if err != nil {
				return err
			}
			list := []exportedFile{}
			written, err := store.Export(
				cmd.Context(),
				directory,
				args[0],
				begin,
				end,
				tables,
				memory,
				func(file string, rows int64) { list = append(list, exportedFile{file, rows}) },
			)
			if err != nil {
				return err
			}
			noteFiles(opts, cmd, len(list), "written", written)
			return commandline.PrintList(
				opts,
				cmd.OutOrStdout(),
				list,
				func(f exportedFile) string { return fmt.Sprintf("%s: %d rows", f.File, f.Rows) },
			)
		},
	}
	place.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "only files that have something from this `TIME` on, in RFC 3339")
	cmd.Flags().StringVar(&until, "until", "", "only files that have something before this `TIME`, in RFC 3339")
	cmd.Flags().StringArrayVar(&tables, "table", nil, "only this `TABLE`; may be repeated (default: all that are not empty)")
	return cmd
}
