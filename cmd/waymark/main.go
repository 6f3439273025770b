// SPDX-License-Identifier: Apache-2.0

// Command waymark tells, for live IPv6 traffic, which way packets went and how
// long each hop held them: it runs the node agent and is the tool that talks
// to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
