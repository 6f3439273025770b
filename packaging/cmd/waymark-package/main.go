// SPDX-License-Identifier: Apache-2.0

// Command waymark-package builds the packages of a release. `make package` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/packaging/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "waymark-package:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o := build.Options{Log: out}
	var epoch int64
	var architectures, programs, kinds string
	flags := flag.NewFlagSet("waymark-package", flag.ContinueOnError)
	flags.StringVar(&o.Root, "root", ".", "the repository")
	flags.StringVar(&o.Output, "output", "build/packages", "the directory of packages")
	flags.StringVar(&o.Work, "work", "build/package-work", "the directory of programs and generated files")
	flags.StringVar(&o.Version, "version", "", "the version")
	flags.StringVar(&o.Commit, "commit", "", "the commit")
	flags.Int64Var(&epoch, "epoch", 0, "the time of the commit, in seconds since 1970")
	flags.StringVar(&architectures, "architectures", strings.Join(build.Architectures, ","), "for which architectures")
	flags.StringVar(&programs, "programs", "", "which programs (default: all)")
	flags.StringVar(&kinds, "kinds", strings.Join(build.Kinds, ","), "which kinds of packages")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.Version == "" || epoch <= 0 {
		return problem.New("--version and --epoch are needed", "run: make package")
	}
	o.Time, o.Architectures, o.Kinds = time.Unix(epoch, 0).UTC(), strings.Split(architectures, ","), strings.Split(kinds, ",")
	if programs != "" {
		o.Programs = strings.Split(programs, ",")
	}
	return build.Run(ctx, o)
}
