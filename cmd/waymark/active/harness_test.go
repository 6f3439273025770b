// SPDX-License-Identifier: Apache-2.0

package active

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
)

// run executes one command line of a program that has these commands and no agent.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts := &commandline.Options{}
	root := opts.NewRoot("waymark", "Measure")
	withoutAgent := func() (*api.Client, error) { return nil, api.ErrNoAgent }
	root.AddCommand(NewStampCommand(opts), NewTraceCommand(opts, withoutAgent))
	opts.Finish(root)
	return opts.Execute(ctx, root, args, stdin, stdout, stderr)
}

func runCLI(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}
