// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/lab/consoledemo"
	"github.com/waymark-net/waymark/internal/problem"
)

// consoleFlags are those of the demo with the console.
type consoleFlags struct {
	console bool
	port    uint16
	move    time.Duration
}

func (f *consoleFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.console, "console", false, "raise a network to see in the collector's console, and stay until Ctrl-C")
	cmd.Flags().Uint16Var(&f.port, "port", consoledemo.DefaultPort, "of --console: the `PORT` of [::1] where the console is; 0 is a free one")
	cmd.Flags().DurationVar(&f.move, "move", time.Minute, "of --console: the `TIME` after which packets take the other path, such as 1m")
}

// check refuses flags that do not belong together; other is one of the demo without the console.
func (f *consoleFlags) check(cmd *cobra.Command, other bool) error {
	switch {
	case f.console && other:
		return commandline.Usage(problem.New("--console prints no packets", "remove --packets and --json"))
	case !f.console && (cmd.Flags().Changed("port") || cmd.Flags().Changed("move")):
		return commandline.Usage(problem.New("--port and --move are for --console", "add it"))
	case f.move < time.Second || f.move > time.Hour:
		return commandline.Usagef("--move %v: want a time from 1s to 1h", f.move)
	}
	return nil
}

// run raises the network, and removes it when it is interrupted.
func (f *consoleFlags) run(cmd *cobra.Command, name, program string) error {
	collector, err := commandline.Sibling("waymark-collector")
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGPIPE) // a browser that leaves is no end: its connection, or the output, has an error
	return tidilyOn(cmd, func(ctx context.Context) error {
		return consoledemo.Run(ctx, consoledemo.Options{
			Program: program, Collector: collector, Name: name, Port: f.port, Move: f.move, Out: cmd.OutOrStdout(), Log: labLog(cmd),
		})
	}, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
}
