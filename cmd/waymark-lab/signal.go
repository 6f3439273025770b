// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
)

// interrupted is context.Canceled with the message of a command that made or removed a
// lab.
type interrupted string

func (e interrupted) Error() string { return string(e) }
func (interrupted) Unwrap() error   { return context.Canceled }

// tidily runs a command that must not leave half a lab. The first signal ends do's
// context: Ctrl-C and the like, and the loss of the terminal or of the output's reader.
// Later signals are ignored while do cleans up.
func tidily(cmd *cobra.Command, do func(context.Context) error) error {
	return tidilyOn(cmd, do, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
}

// tidilyOn does the same with other signals.
func tidilyOn(cmd *cobra.Command, do func(context.Context) error, which ...os.Signal) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, which...)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-signals:
			cancel()
			fmt.Fprintln(cmd.ErrOrStderr(), "waymark-lab: tidying up; further signals are ignored until that is done")
		case <-done:
		}
	}()
	err := do(ctx)
	close(done)
	<-watched
	if ctx.Err() == nil {
		signal.Stop(signals)
	}
	var left *lab.LeftError
	switch {
	case !errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &left):
		return errors.Join(interrupted("interrupted"), left)
	default:
		return interrupted("interrupted; everything was removed")
	}
}
